"""The kinds of value that a key can hold, each with words for what it refuses."""

import ipaddress
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, PlainValidator
from pydantic_core import PydanticCustomError

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_HEADER: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,255}")
_POINTER: Final = re.compile(r"(env|file):\S+")
NAME_BYTES_MAX: Final = 255

Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("number", "a number is needed, not true or false")
    return value


def _name(value: str) -> str:
    if "/" in value or _CONTROL.search(value):
        raise PydanticCustomError("name", "a name holds neither / nor control characters")
    if not 1 <= len(value.encode()) <= NAME_BYTES_MAX:
        raise PydanticCustomError("name", "a name has 1 to 255 bytes")
    return value


def _header(value: str) -> str:
    if not _HEADER.fullmatch(value):
        raise PydanticCustomError("header", "this is not the name of a header")
    return value.lower()


def _network(value: object) -> Subnet:
    if isinstance(value, str):
        try:
            return ipaddress.ip_network(value)
        except ValueError:
            pass
    raise PydanticCustomError("network", 'a network is needed, as in "10.20.0.0/16"')


def _mask(value: object) -> object:
    """Show what is no secret: numbers, flags and pointers."""
    match value:
        case bool() | int() | float():
            return value
        case str() if _POINTER.fullmatch(value):
            return value
        case list() | tuple():
            return [_mask(item) for item in value]
        case Mapping():
            return {str(key): _mask(item) for key, item in value.items()}
        case _:
            return "***"


Count = Annotated[int, BeforeValidator(_number)]
Seconds = Annotated[float, BeforeValidator(_number)]
Name = Annotated[str, AfterValidator(_name)]
HeaderName = Annotated[str, AfterValidator(_header)]
Options = Annotated[Mapping[str, object], AfterValidator(MappingProxyType), PlainSerializer(_mask)]
Networks = tuple[Annotated[Subnet, PlainValidator(_network), PlainSerializer(str)], ...]
