"""Kind `twilio`: texts and WhatsApp messages that come in, what became of those that went out, and other events.

What is signed is the URL and the fields of the form, without anything between a name and its value. What was signed is
therefore a second key: fields that are cut in another way are the same request. SHA-1 is Twilio's choice, where no
shared key with SHA-256 was set up for the URL.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from app.domain.authenticity import Algorithm, check_hmac, equal
from app.domain.form import Fields, read_form, text_of, values_of
from app.domain.json_view import Json, at, name_at, read_json, slices_at, text_at, time_at
from app.domain.webhook import (
    Attachment,
    Batch,
    Item,
    Keys,
    Refused,
    Reply,
    Request,
    Result,
    Secrets,
    View,
    body_key,
)
from app.providers import Options, Provider, Sheet, Signed

_FORM = "application/x-www-form-urlencoded"
_URL = re.compile(r"(https?)://(\[[^\]/]*\]|[^:/?]*)(:\d+)?(.*)", re.DOTALL)
_PORTS = {"https": ":443", "http": ":80"}
_ALGORITHMS: dict[str, Algorithm] = {"HMAC_SHA1": "sha1", "HMAC_SHA256": "sha256"}
_MEDIA_MAX = 20
# An answer without a message in it: anything else might be sent to the user.
_SILENCE = Reply(
    200, b'<?xml version="1.0" encoding="UTF-8"?><Response/>', "text/xml; charset=utf-8"
)
_INCOMING = ("", "received", "receiving")


class TwilioConfig(Options):
    """Nothing but its secrets."""


class Twilio(Provider[TwilioConfig]):
    """The numbers of one Twilio account."""

    kind = "twilio"
    Config = TwilioConfig
    signed = Signed(url=True, headers=("x-twilio-signature",))
    methods = frozenset({"GET", "POST"})
    replies = dict.fromkeys((Result.ACCEPTED, Result.DUPLICATE, Result.IGNORED), _SILENCE)
    # The same in all tries at one request, and no secret, whatever its name.
    keeps = ("i-twilio-idempotency-token",)
    sheet = Sheet(
        title="Twilio (SMS, MMS, WhatsApp)",
        signature="HMAC-SHA1, or SHA256 with a shared key, over the public URL and the sorted fields",
        key="`MessageSid`, with the status in callbacks; and what was signed",
        conversation="number of ours and number of theirs",
        setup="the number's or service's webhook URL, with `#rc=5&rp=all` behind it so that Twilio tries again; "
        "the auth token, or the shared key, is the secret",
    )

    def receive(
        self,
        request: Request,
        *,
        config: TwilioConfig,  # noqa: ARG002
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> Batch:
        """Verify the public URL with the fields, or with the hash of a body that is no form."""
        is_get = request.method == "GET"
        if is_get and request.body:
            raise Refused(Result.BAD_SIGNATURE, "body_not_signed")
        hashes = values_of(read_form(request.query), "bodySHA256")
        has_fields = request.content_type == _FORM if request.body else not hashes
        is_form = has_fields and not is_get
        fields = read_form(request.body) if is_form else ()
        signed = b"".join(_sorted(fields))
        _check_signature(request, signed, secrets.active)
        if is_get:
            # The query is all that came.
            return Batch((_told(read_form(request.query), request.query, request, signed),))
        if is_form:
            return Batch((_told(fields, request.body, request, signed),))
        _check_hash(hashes, request.body)
        return _events(request.body)


def _sorted(fields: Fields) -> Iterator[bytes]:
    """Each name with each of its values, sorted, none of them twice."""
    for name, value in sorted(set(fields)):
        yield name + value


def _check_signature(request: Request, signed: bytes, secrets: Sequence[bytes]) -> None:
    algorithm = _algorithm(request.header("x-twilio-webhooks-signature-settings"))
    spelled = _spellings(request.public_url)
    for n, url in enumerate(spelled, 1):
        try:
            check_hmac(
                [request.header("x-twilio-signature")],
                url.encode("latin-1", "replace") + signed,
                secrets=secrets,
                algorithm=algorithm,
                encoding="base64",
            )
        except Refused as refused:
            if refused.result is not Result.BAD_SIGNATURE or n == len(spelled):
                raise
        else:
            return


def _algorithm(settings: str) -> Algorithm:
    """What a shared key signs with is said beside the signature; an auth token signs with SHA-1."""
    told = dict(part.strip().partition("=")[::2] for part in settings.split(","))
    algorithm = _ALGORITHMS.get(told.get("algorithm", "HMAC_SHA1"))
    if algorithm is None:
        raise Refused(Result.BAD_SIGNATURE, "algorithm_unknown")
    return algorithm


def _spellings(url: str) -> list[str]:
    """A URL as it is, without its port, and with the usual one: Twilio signs any of them."""
    found = _URL.fullmatch(url)
    if found is None:
        return [url]
    scheme, host, _, rest = found.groups()
    ports = ("", _PORTS[scheme])
    return list(dict.fromkeys((url, *(f"{scheme}://{host}{port}{rest}" for port in ports))))


def _check_hash(hashes: Sequence[bytes], body: bytes) -> None:
    """A body that is no form is signed by its hash, which stands in the signed query."""
    given = b"".join(hashes[-1:])
    if not equal(given.lower(), hashlib.sha256(body).hexdigest().encode()):
        raise Refused(Result.BAD_SIGNATURE, "body_hash_wrong")


def _told(fields: Fields, body: bytes, request: Request, signed: bytes) -> Item:
    if not fields:
        raise Refused(Result.MALFORMED, "fields_missing")
    # As one text: what was captured may come again with its end in the query, or in a form.
    what_was_signed = body_key(request.public_url.encode("latin-1", "replace") + signed)
    sid = text_of(fields, "MessageSid") or text_of(fields, "SmsSid")
    told = text_of(fields, "EventType")
    status = text_of(fields, "MessageStatus") or text_of(fields, "SmsStatus")
    ours, theirs = (
        text_of(fields, "To") or text_of(fields, "MessagingServiceSid"),
        text_of(fields, "From"),
    )
    if told:
        # Of Twilio Conversations.
        key, event = f"{sid}:{told}" if sid else "", told
        ours, theirs = text_of(fields, "ConversationSid"), ""
    elif sid and status in _INCOMING:
        key, event = sid, "message"
    elif sid:
        # Of a message that we sent, from our number to theirs.
        key, event = f"{sid}:{status}", f"status.{status}"
        ours, theirs = theirs or text_of(fields, "MessagingServiceSid"), text_of(fields, "To")
    else:
        key, event = "", "event"
    return Item(
        keys=(key, what_was_signed) if key else (what_was_signed,),
        body=body,
        content_type=_FORM,
        event=event,
        conversation=tuple(part for part in (ours, theirs) if part) if ours else (),
        view=View(
            text=text_of(fields, "Body"),
            sender=text_of(fields, "Author") or text_of(fields, "From"),
            attachments=_attachments(fields),
        ),
    )


def _attachments(fields: Fields) -> tuple[Attachment, ...]:
    urls = ((n, text_of(fields, f"MediaUrl{n}")) for n in range(_MEDIA_MAX))
    return tuple(
        Attachment(kind="media", url=url, content_type=text_of(fields, f"MediaContentType{n}"))
        for n, url in urls
        if url
    )


def _events(body: bytes) -> Batch:
    """Event Streams send a list of events, each with its id."""
    whole = read_json(body)
    if not isinstance(whole, list):
        return Batch((_event(whole, body),))
    items = tuple(_event(at(whole, n), raw) for (n,), raw in slices_at(body, "*"))
    return Batch(items, ignored={} if items else {"empty": 1})


def _event(event: Json, raw: bytes) -> Item:
    ours, theirs = name_at(event, "data", "to"), name_at(event, "data", "from")
    return Item(
        keys=(name_at(event, "id") or body_key(raw),),
        body=raw,
        event=text_at(event, "type") or "event",
        conversation=(ours, theirs) if ours and theirs else (),
        view=View(text=text_at(event, "data", "body"), sender=theirs),
        dated=time_at(event, "time"),
    )


provider = Twilio()
