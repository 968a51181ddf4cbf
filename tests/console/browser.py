"""A real browser, driven by its own protocol: what is on a page, as it is seen, read aloud and typed into."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
START_SECONDS = 30.0
SECONDS = 15.0
LOOK_SECONDS = 0.02
MESSAGE_BYTES_MAX = 64 << 20

# Nothing of this machine's state, no question to anybody outside, no window.
OPTIONS = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--no-sandbox",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--hide-scrollbars",
    "--lang=en-GB",
    "--mute-audio",
    "--password-store=basic",
)


def find_browser() -> str | None:
    """Where a Chromium is, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass(slots=True)
class Tab:
    """One page. What it logs, asks for and throws is kept."""

    socket: aiohttp.ClientWebSocketResponse
    numbers: "count[int]" = field(default_factory=lambda: count(1))
    answers: dict[int, "asyncio.Future[Any]"] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    paused: list[str] = field(default_factory=list)

    async def listen(self) -> None:
        """Hand what the browser says to whoever waits for it."""
        async for message in self.socket:
            told = json.loads(message.data)
            if "id" in told:
                self.answers.pop(told["id"]).set_result(told)
            else:
                self._note(told["method"], told.get("params", {}))

    def _note(self, method: str, told: Mapping[str, Any]) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.requests.append((told["request"]["method"], told["request"]["url"]))
            case "Fetch.requestPaused":
                self.paused.append(told["requestId"])
            case "Runtime.exceptionThrown":
                self.faults.append(json.dumps(told["exceptionDetails"]))
            case "Log.entryAdded" if told["entry"]["level"] == "error":
                self.faults.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    async def send(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol, and what came of it."""
        number = next(self.numbers)
        self.answers[number] = asyncio.get_running_loop().create_future()
        await self.socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(SECONDS):
            answer = await self.answers[number]
        assert "error" not in answer, answer
        return answer["result"]

    async def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        result = await self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait for something on the page to hold."""
        try:
            async with asyncio.timeout(SECONDS):
                while not await self.run(f"Boolean({condition})"):
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            text = await self.run("document.body.innerText")
            raise AssertionError(f"never held: {condition}\n{text}\n{self.faults}") from None

    async def open(self, url: str) -> None:
        """Go to a page."""
        await self.send("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && document.querySelector('main')")

    async def text(self, selector: str = "main") -> str:
        """What is to be read in a part of the page; nothing where it is hidden."""
        said: str = await self.run(f"document.querySelector({json.dumps(selector)}).innerText")
        return said

    async def press(self, key: str, *, code: int, modifiers: int = 0) -> None:
        """A key on the keyboard."""
        given = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        text = {"text": "\r"} if key == "Enter" else {}
        await self.send("Input.dispatchKeyEvent", type="keyDown", **given, **text)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **given)

    async def tab(self) -> None:
        """On to the next thing that can be used."""
        await self.press("Tab", code=9)

    async def enter(self) -> None:
        """Use it."""
        await self.press("Enter", code=13)

    async def write(self, text: str) -> None:
        """Type where the focus is."""
        await self.send("Input.insertText", text=text)

    async def fill(self, selector: str, text: str) -> None:
        """Put a text into a field, over what was there."""
        await self.run(f"(document.querySelector({json.dumps(selector)})).select()")
        await self.write(text)

    async def click(self, selector: str) -> None:
        """Click in the middle of something that is to be seen."""
        place = await self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const r = e.getBoundingClientRect();"
            "return {x: r.x + r.width / 2, y: r.y + r.height / 2, size: r.width * r.height}; })()"
        )
        assert place["size"] > 0, f"{selector} is not to be seen"
        at = {"x": place["x"], "y": place["y"], "button": "left", "clickCount": 1}
        await self.send("Input.dispatchMouseEvent", type="mousePressed", **at)
        await self.send("Input.dispatchMouseEvent", type="mouseReleased", **at)

    async def look(
        self, *, width: int = 1280, height: int = 900, dark: bool = False, phone: bool = False
    ) -> None:
        """See it as on such a screen."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    async def picture(self, path: Path) -> None:
        """Keep what is to be seen, over its whole length."""
        shot = await self.send("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(shot["data"]))


@dataclass(frozen=True, slots=True)
class Browser:
    """A browser that runs, at its own address."""

    http: aiohttp.ClientSession
    url: str

    @contextlib.asynccontextmanager
    async def page(self) -> AsyncIterator[Tab]:
        """A page of its own, in a session of its own."""
        async with self.http.put(f"{self.url}/json/new?about:blank") as response:
            target = await response.json()
        async with (
            self.http.ws_connect(
                target["webSocketDebuggerUrl"], max_msg_size=MESSAGE_BYTES_MAX
            ) as socket,
            asyncio.TaskGroup() as group,
        ):
            tab = Tab(socket)
            listening = group.create_task(tab.listen())
            for domain in ("Page", "Runtime", "Log", "Network"):
                await tab.send(f"{domain}.enable")
            await tab.send("Emulation.setTimezoneOverride", timezoneId="Europe/Paris")
            await tab.look()
            yield tab
            await self._close(target["id"])
            listening.cancel()

    async def _close(self, target: str) -> None:
        async with self.http.get(f"{self.url}/json/close/{target}") as response:
            await response.read()


@contextlib.asynccontextmanager
async def browsing(program: str) -> AsyncIterator[Browser]:
    """Start a browser, and end it with everything that it started."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        own = {"HOME": folder, "PATH": os.environ["PATH"], "TZ": "UTC"}  # noqa: TID251 - it must be found
        process = await asyncio.create_subprocess_exec(
            program,
            *OPTIONS,
            f"--user-data-dir={folder}/profile",
            env=own,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            port = await _port(Path(folder) / "profile" / "DevToolsActivePort", process)
            async with aiohttp.ClientSession() as http:
                yield Browser(http, f"http://127.0.0.1:{port}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(START_SECONDS):
        while not (file.exists() and file.read_text().count("\n")):
            assert process.returncode is None, "the browser ended at once"
            await asyncio.sleep(LOOK_SECONDS)
    return int(file.read_text().split()[0])
