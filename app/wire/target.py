"""The one parser of outgoing URLs: what it returns has one reading, all else is refused."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from app.domain.errors import SinksweepError

URL_CHARACTERS_MAX = 2048
HOST_CHARACTERS_MAX = 253
# There are as many as destinations, and each is sent to many times.
TARGETS_MAX = 1024

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(#.*)?")
_VISIBLE = re.compile(r"[!-~]+")
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(.*))?")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORTS = {"http": 80, "https": 443}
_PORT_MAX = 65535


class InvalidTarget(SinksweepError):
    """The text is no URL that this service would send to. The message is a stable code and never
    shows the URL.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Target:
    """Where one request goes. `host` is lower case and without brackets; `path_and_query` begins
    with a slash.
    """

    scheme: str
    host: str
    port: int
    path_and_query: str


def authority(target: Target) -> str:
    """A target's host and port as a request names them: an address of version 6 in brackets, no usual port."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    return host if target.port == _PORTS[target.scheme] else f"{host}:{target.port}"


@lru_cache(maxsize=TARGETS_MAX)
def parse_target(url: str) -> Target:
    """The target that `url` names; raises `InvalidTarget`.

    Only `http` and `https`, visible ASCII, a plain host without user, trailing dot or percent
    signs, and no fragment. A host that ends in a number must be an IPv4 address in its usual
    spelling. Whether the address may be reached is not decided here but after each resolution.
    """
    if len(url) > URL_CHARACTERS_MAX:
        raise InvalidTarget("url_too_long")
    if _VISIBLE.fullmatch(url) is None or "\\" in url:
        raise InvalidTarget("url_character_invalid")
    parts = _URL.fullmatch(url)
    if parts is None:
        raise InvalidTarget("url_invalid")
    scheme, authority, path_and_query, fragment = parts.groups()
    scheme = scheme.lower()
    if scheme not in _PORTS:
        raise InvalidTarget("scheme_not_supported")
    if fragment is not None:
        raise InvalidTarget("fragment_not_allowed")
    host, port = _split_authority(authority)
    if not path_and_query.startswith("/"):
        path_and_query = "/" + path_and_query
    return Target(scheme, host, port or _PORTS[scheme], path_and_query)


def _split_authority(authority: str) -> tuple[str, int | None]:
    if "@" in authority:
        raise InvalidTarget("userinfo_not_allowed")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise InvalidTarget("host_invalid")
    host, port = parts.groups()
    if port is not None and (_PORT.fullmatch(port) is None or int(port) > _PORT_MAX):
        raise InvalidTarget("port_invalid")
    return _parse_host(host.lower()), None if port is None else int(port)


def _parse_host(host: str) -> str:
    if not host:
        raise InvalidTarget("host_missing")
    try:
        if host.startswith("["):
            # A scope names an interface of this machine, which is nobody's destination.
            if "%" in host:
                raise InvalidTarget("host_invalid")
            return str(IPv6Address(host[1:-1]))
        labels = host.split(".")
        if len(host) > HOST_CHARACTERS_MAX or not all(_LABEL.fullmatch(label) for label in labels):
            raise InvalidTarget("host_invalid")
        # System resolvers read 127.1, 0x7f.1 and 2130706433 as addresses; no public name ends in a
        # number.
        return str(IPv4Address(host)) if _NUMBER.fullmatch(labels[-1]) else host
    except AddressValueError:
        raise InvalidTarget("host_invalid") from None


def target_within(url: str, hosts: Collection[str], *, api_url: str) -> Target | None:
    """The target of a URL that came from outside, if it leads to one of these hosts; None for everything else.

    It is plain HTTP only where the whole API at `api_url` is: at a stand-in.
    """
    try:
        target = parse_target(url)
    except InvalidTarget:
        return None
    is_safe = target.scheme == "https" or api_url.startswith("http:")
    return target if is_safe and target.host in {host.lower() for host in hosts} else None
