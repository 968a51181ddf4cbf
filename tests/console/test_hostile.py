"""Whatever strangers write into whatever is shown, it is text: it runs nothing, fetches nothing, hides nothing."""

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.conftest import Service
from tests.console.browser import Tab
from tests.console.conftest import held, shown

if TYPE_CHECKING:
    from tests.database import Admin

SCRIPT = "<script>window.hacked = 1</script>"
IMAGE = "<img src=https://evil.example/x.png onerror='window.hacked = 1'>"
MARKUP = f"{IMAGE}{SCRIPT}<style>*{{display:none}}</style><base href='https://evil.example/'>"
LINK = "javascript:window.hacked=1//"
TEMPLATE = "{{constructor.constructor('window.hacked=1')()}}${window.hacked=1}"
# What turns text around, hides in it, or ends what is around it.
TURNED = "\u202egpj.exe"
UNSEEN = "pay\u200b\u2066 1\u00ad000"

pytestmark = pytest.mark.timeout(120)


def spelled(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def harmless(service: Service, tab: Tab) -> None:
    """Nothing of it has become part of the page."""
    assert await tab.run("typeof window.hacked") == "undefined"
    made = "main img, main script, main style, main iframe, main a, main object, main svg, base"
    assert await tab.run(f"document.querySelectorAll({json.dumps(made)}).length") == 0
    assert await tab.run("document.baseURI.startsWith(location.origin)")
    assert {url.split("/", 3)[2] for _, url in tab.requests if url.startswith("http")} == {
        service.url.split("/", 3)[2]
    }


@pytest.mark.parametrize("text", [SCRIPT, MARKUP, LINK, TEMPLATE, "'\"><b>", "</pre></div>"])
async def test_markup_in_every_field_is_read_as_text(service: Service, tab: Tab, text: str) -> None:
    await service.accept("k1", queue="support", conversation=text)
    (turn,) = (await service.claim(queue="support", agent=text)).json["turns"]
    first = await service.seal(
        turn,
        [
            {
                "destination": "loopback",
                "to": text,
                "headers": {"x-tag": text} if text.isascii() else {},
                "content_type": "text/html",
                "payload_base64": spelled(text),
            },
            {"destination": "loopback", "payload": {text: [text]}},
        ],
        hold={"note": text},
        follow_ups=[{"payload": text, "key": "k", "delay_seconds": 60}],
    )
    assert first.status == 200, first.body
    sealed = first.json
    body = {
        "decision": "revise",
        "payload_hash": sealed["payload_hash"],
        "by": text,
        "comment": text,
    }
    revised = await service.post(f"/v1/turns/{sealed['turn']}/decision", body, scope="approve")
    assert revised.status == 200, revised.body
    (turn,) = (await service.claim(queue="support", agent=text)).json["turns"]
    said = {"destination": "loopback", "to": text, "content_type": "text/html"}
    again = await service.seal(
        turn, [{**said, "payload_base64": spelled(text)}], hold={"note": text}
    )
    await shown(tab, service, again.json)
    assert (await tab.text("#facts")).count(text) == 2
    assert text in await tab.text("#messages pre")
    assert text in await tab.text("#messages dl")
    assert text in await tab.text("#story")
    await tab.click("#earlier-list summary")
    await tab.until("document.querySelector('#earlier-list pre')")
    assert (await tab.text("#earlier-list")).count(text) >= 3
    await tab.click("#edit")
    assert await tab.run("document.querySelector('#payload-0').value") == text
    await harmless(service, tab)


async def test_what_the_eye_does_not_see_is_named(service: Service, tab: Tab) -> None:
    sealed = await held(
        service,
        [
            {"destination": "loopback", "to": TURNED, "payload": UNSEEN},
            {
                "destination": "loopback",
                "content_type": "text/plain",
                "payload_base64": spelled(f"{TURNED}\x1b[31m\0 ❤️ 👩‍👩‍👧 bare\u200dletters"),
            },
        ],
        hold={"note": TURNED},
    )
    await shown(tab, service, sealed)
    assert (await tab.text("#facts")).startswith("Note\nU+202Egpj.exe")
    first, second = await tab.run(
        "[...document.querySelectorAll('#messages pre')].map(e => e.innerText)"
    )
    assert first == '"payU+200BU+2066 1U+00AD000"'
    assert second == "U+202Egpj.exeU+001B[31mU+0000 ❤️ 👩‍👩‍👧 bareU+200Dletters"
    marks = await tab.run("document.querySelectorAll('#turn mark').length")
    assert marks == 1 + 1 + 3 + 4


async def test_where_a_message_goes_is_shown_as_text(
    service: Service, tab: Tab, admin: "Admin"
) -> None:
    sealed = await held(service, [{"destination": "loopback", "payload": 1}])
    address = {"channel": "C0123ABCD", "thread_ts": f"{MARKUP}{TURNED}"}
    told = "update sink.outbox_payload set address = $1"
    await admin.execute(told, json.dumps(address))
    await shown(tab, service, sealed)
    told = await tab.text("#messages dl")
    assert "channel: C0123ABCD" in told
    assert f"thread_ts: {MARKUP}U+202Egpj.exe" in told
    await harmless(service, tab)
    await admin.execute("update sink.outbox_payload set address = null")


async def test_bytes_that_are_no_text_are_shown_as_bytes_and_leave_as_they_were(
    service: Service, tab: Tab
) -> None:
    raw = bytes(range(256)) * 3
    message: dict[str, Any] = {
        "destination": "loopback",
        "content_type": "image/png",
        "payload_base64": base64.b64encode(raw).decode(),
    }
    other = {"destination": "loopback", "payload": "x"}
    sealed = await held(service, [message, other])
    await shown(tab, service, sealed)
    text = await tab.text("#messages")
    assert "00 01 02 03" in text
    assert "768 bytes that are no text" in text
    await tab.click("#edit")
    await tab.fill("#payload-1", '"y"')
    await tab.fill("#by", "Ada")
    await tab.click("#approve")
    await tab.until("document.querySelector('#sure').open")
    await tab.click("#sure-yes")
    await tab.until("document.querySelector('#status').innerText")
    answer = await service.get(f"/v1/turns/{sealed['turn']}/set")
    bodies = [base64.b64decode(one["payload_base64"]) for one in answer.json["messages"]]
    assert bodies == [raw, b'"y"']


async def test_much_is_shown_too(service: Service, tab: Tab) -> None:
    messages = [{"destination": "loopback", "payload": f"{n} " + "x" * 9_000} for n in range(100)]
    sealed = await held(service, messages)
    await shown(tab, service, sealed)
    assert "Message 100 of 100" in await tab.text("#messages")
    await tab.fill("#by", "Ada")
    await tab.click("#approve")
    await tab.until("document.querySelector('#sure').open")
    assert "100 messages" in await tab.text("#sure")
