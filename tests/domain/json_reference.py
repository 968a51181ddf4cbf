"""Strict JSON read the slow and obvious way, a character at a time, to compare with."""

import re

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_SHORT_ESCAPES = '"\\/bfnrt'


class _NotStrict(Exception):
    pass


def depth_slowly(body: bytes) -> int:
    """How high opening brackets outside of strings ever stand above closing ones."""
    depth = highest = at = 0
    inside = False
    while at < len(body):
        byte = body[at : at + 1]
        if body[at : at + 2] in (b"\\\\", b'\\"'):
            at += 1
        elif byte == b'"':
            inside = not inside
        elif not inside:
            depth += (byte in b"[{") - (byte in b"]}")
            highest = max(highest, depth)
        at += 1
    return highest


def is_strict_json_slowly(body: bytes) -> bool:
    try:
        text = body.decode("utf-8")
        end = _space(text, _value(text, _space(text, 0), 0))
    except (UnicodeDecodeError, _NotStrict):
        return False
    return end == len(text)


def _space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


def _expect(text: str, at: int, word: str) -> int:
    if text[at : at + len(word)] != word:
        raise _NotStrict
    return at + len(word)


def _value(text: str, at: int, depth: int) -> int:
    match text[at : at + 1]:
        case "{" | "[" as opening:
            if depth == 64:
                raise _NotStrict
            return _container(text, at + 1, depth + 1, named=opening == "{")
        case '"':
            return _string(text, at + 1)
        case "t":
            return _expect(text, at, "true")
        case "f":
            return _expect(text, at, "false")
        case "n":
            return _expect(text, at, "null")
        case _:
            number = _NUMBER.match(text, at)
            if number is None or len(number[0]) > 300:
                raise _NotStrict
            return number.end()


def _container(text: str, at: int, depth: int, *, named: bool) -> int:
    closing = "}" if named else "]"
    at = _space(text, at)
    if text[at : at + 1] == closing:
        return at + 1
    while True:
        if named:
            at = _string(text, _expect(text, at, '"'))
            at = _space(text, _expect(text, _space(text, at), ":"))
        at = _space(text, _value(text, at, depth))
        if text[at : at + 1] == closing:
            return at + 1
        at = _space(text, _expect(text, at, ","))


def _string(text: str, at: int) -> int:
    half: int | None = None
    while True:
        if at >= len(text) or text[at] < " ":
            raise _NotStrict
        unit = ord(text[at])
        if text[at] == '"':
            break
        if text[at] == "\\":
            following = text[at + 1 : at + 2]
            digits = _HEX.match(text, at + 2) if following == "u" else None
            if digits is not None:
                unit, at = int(digits[0], 16), at + 6
            elif following and following in _SHORT_ESCAPES:
                unit, at = ord(following), at + 2
            else:
                raise _NotStrict
        else:
            at += 1
        low = 0xDC00 <= unit < 0xE000
        if low != (half is not None):
            raise _NotStrict
        half = unit if 0xD800 <= unit < 0xDC00 else None
    if half is not None:
        raise _NotStrict
    return at + 1
