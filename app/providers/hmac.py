"""Kind `hmac`: everybody else who signs with a shared secret. What is signed, how, and where the ids stand is data.

An id that a configuration finds wrongly would make every event a duplicate of the first: such a source is noticed by
the bodies that differ, and answers that it is not ready.
"""

import re
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from app.domain.authenticity import (
    Algorithm,
    Encoding,
    check_hmac,
    check_time,
    decoded,
    read_seconds,
    usable,
)
from app.domain.form import read_form, text_of
from app.domain.json_view import name_at, path_of, read_json, time_at
from app.domain.public_keys import from_hex
from app.domain.webhook import (
    Batch,
    Item,
    Keys,
    Refused,
    Request,
    Result,
    Secrets,
    View,
    body_key,
)
from app.providers import Options, Provider, Sheet, Signed

_FORM = "application/x-www-form-urlencoded"
_PLACE = re.compile(r"\{(\w+)\}")
_PLACES = frozenset({"body", "id", "method", "timestamp", "url"})

Name = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
Path = Annotated[str, Field(min_length=1, max_length=255)]


class HmacConfig(Options):
    """`signed` is a text with the places {body}, {timestamp}, {id}, {url} and {method}; paths have dots."""

    signature_header: Name
    signature_prefix: Annotated[str, Field(max_length=100)] = ""
    # Where the header is a list of names and values, as in t=1,v1=ab.
    signature_field: Annotated[str, Field(max_length=100)] | None = None
    algorithm: Algorithm = "sha256"
    encoding: Encoding = "hex"
    key_encoding: Literal["text", "hex", "base64"] = "text"
    signed: Annotated[str, Field(min_length=1, max_length=1000)] = "{body}"
    timestamp_header: Name | None = None
    timestamp_field: Annotated[str, Field(max_length=100)] | None = None
    timestamp_unit: Literal["seconds", "milliseconds"] = "seconds"
    tolerance_seconds: Annotated[int, Field(ge=1, le=86_400)] = 300
    id_header: Name | None = None
    id_path: Path | None = None
    conversation_path: Path | None = None
    event_path: Path | None = None
    text_path: Path | None = None
    sender_path: Path | None = None
    date_path: Path | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        places = set(_PLACE.findall(self.signed))
        has_time = bool(self.timestamp_header or self.timestamp_field)
        if places - _PLACES:
            raise ValueError("signed has the places {body}, {timestamp}, {id}, {url} and {method}")
        if "body" not in places:
            raise ValueError("signed needs {body}: what is not signed may be anybody's")
        if ("timestamp" in places) != has_time:
            raise ValueError("{timestamp} in signed and timestamp_header belong together")
        if "id" in places and not self.id_header:
            raise ValueError("{id} in signed needs id_header")
        if self.id_header and self.id_path:
            raise ValueError("id_header or id_path, not both")
        if self.timestamp_field and not self.signature_field:
            raise ValueError("timestamp_field needs signature_field")
        return self


class Hmac(Provider[HmacConfig]):
    """Any sender that signs with HMAC."""

    kind = "hmac"
    Config = HmacConfig
    signed = Signed()
    has_configured_ids = True
    sheet = Sheet(
        title="Any sender with HMAC",
        signature="as configured: header, encoding, algorithm, what is signed, time",
        key="what `id_path` or `id_header` names; the body's hash where there is none, or where it is not signed",
        conversation="what `conversation_path` points at",
        setup="the sender's own settings; the keys of `hmac` say what it signs and how",
    )

    def covers(self, config: HmacConfig) -> Signed:
        """What the template names."""
        places = _PLACE.findall(config.signed)
        headers = [config.signature_header]
        headers += [config.timestamp_header] if config.timestamp_header else []
        headers += [config.id_header] if config.id_header and "id" in places else []
        return Signed(
            url="url" in places,
            time="timestamp" in places,
            headers=tuple(name.lower() for name in headers),
        )

    def receive(
        self,
        request: Request,
        *,
        config: HmacConfig,
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,
    ) -> Batch:
        """Verify as configured, and take the body whole."""
        given, time = _given(request, config)
        id_ = request.header(config.id_header.lower()) if config.id_header else ""
        places = {
            "body": request.body,
            "id": id_.encode("latin-1"),
            "method": request.method.encode(),
            "timestamp": time.encode("latin-1"),
            "url": request.public_url.encode("utf-8", "replace"),
        }
        literals = _PLACE.split(config.signed)
        signed = b"".join(
            places[part] if n % 2 else part.encode() for n, part in enumerate(literals)
        )
        check_hmac(
            given,
            signed,
            secrets=_keys(secrets, config),
            algorithm=config.algorithm,
            encoding=config.encoding,
        )
        if "timestamp" in _PLACE.findall(config.signed):
            seconds = read_seconds(time) / (1000 if config.timestamp_unit == "milliseconds" else 1)
            check_time(seconds, now, tolerance_seconds=config.tolerance_seconds)
        return Batch((_item(request, config, id_),))


def _given(request: Request, config: HmacConfig) -> tuple[list[str], str]:
    """The signatures, and the time as it was sent."""
    header = request.header(config.signature_header.lower())
    time = request.header(config.timestamp_header.lower()) if config.timestamp_header else ""
    if config.signature_field is None:
        signatures = [header]
    else:
        parts = [part.strip().partition("=") for part in header.split(",")]
        signatures = [value for name, _, value in parts if name == config.signature_field]
        if config.timestamp_field:
            times = [value for name, _, value in parts if name == config.timestamp_field]
            time = times[0] if len(times) == 1 else ""
    prefix = config.signature_prefix
    given = [one.removeprefix(prefix) for one in signatures if one.startswith(prefix)]
    return [one.lower() for one in given] if config.encoding == "hex" else given, time


def _keys(secrets: Secrets, config: HmacConfig) -> list[bytes]:
    match config.key_encoding:
        case "text":
            return list(secrets.active)
        case "base64":
            return decoded(secrets.active)
        case "hex":
            keys = [from_hex(one.decode("latin-1").strip()) for one in usable(secrets.active)]
            if not all(keys):
                raise Refused(Result.NOT_READY, "secret_invalid")
            return keys


def _item(request: Request, config: HmacConfig, id_: str) -> Item:
    told = _Told(request)
    if config.id_path:
        id_ = told.at(config.id_path)
        if not id_:
            raise Refused(Result.MALFORMED, "id_missing")
    elif config.id_header and not id_:
        raise Refused(Result.MALFORMED, "id_missing")
    is_signed = bool(config.id_path) or "id" in _PLACE.findall(config.signed)
    whole = () if id_ and is_signed else (body_key(request.body),)
    return Item(
        keys=(*((id_,) if id_ else ()), *whole),
        body=request.body,
        content_type=request.header("content-type") or "application/octet-stream",
        event=told.at(config.event_path),
        conversation=tuple(part for part in (told.at(config.conversation_path),) if part),
        view=View(text=told.at(config.text_path), sender=told.at(config.sender_path)),
        dated=time_at(told.value, *path_of(config.date_path)) if config.date_path else None,
    )


class _Told:
    """A body by its content type: what a path leads to in JSON, or a field of a form."""

    def __init__(self, request: Request) -> None:
        self.fields = read_form(request.body) if request.content_type == _FORM else None
        self.value: Any = None
        if self.fields is None:
            try:
                self.value = read_json(request.body)
            except Refused:
                # It was signed: without JSON it is nothing that a path leads into.
                self.value = None

    def at(self, path: str | None) -> str:
        """The text or number there; "" where there is none."""
        if path is None:
            return ""
        if self.fields is not None:
            return text_of(self.fields, path)
        return name_at(self.value, *path_of(path))


provider = Hmac()
