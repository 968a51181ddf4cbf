"""The page on which a person decides: files that are the same for everybody, without a word of data in them.

Whatever is asked for here, nothing is changed by it. The page loads what it shows with the key that its reader types.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

__all__ = ["PAGES"]


def _file(name: str, media_type: str) -> tuple[str, bytes]:
    return f"{media_type}; charset=utf-8", files(__package__).joinpath(name).read_bytes()


# What stands where: the type and the bytes of each.
PAGES: Final[Mapping[str, tuple[str, bytes]]] = {
    "/console/turns/{handle}": _file("decide.html", "text/html"),
    "/console/decide.css": _file("decide.css", "text/css"),
    "/console/decide.js": _file("decide.js", "text/javascript"),
    "/console/reading.js": _file("reading.js", "text/javascript"),
    "/console/service.js": _file("service.js", "text/javascript"),
    "/console/set.js": _file("set.js", "text/javascript"),
}
