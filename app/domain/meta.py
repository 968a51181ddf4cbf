"""What WhatsApp, Messenger and Instagram have in common: signature, handshake, entries, and the messages of a page.

One request holds many things of many accounts, and has no id. Each is taken by itself, as its own slice.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar, Final

from app.domain.authenticity import check_hmac, check_shared, hmac_of
from app.domain.form import read_form, text_of, values_of
from app.domain.json_view import (
    SLICES_MAX,
    Json,
    at,
    list_at,
    name_at,
    read_object,
    slices_at,
    text_at,
    time_at,
)
from app.domain.webhook import (
    TEXT_PLAIN,
    Attachment,
    Batch,
    Item,
    Keys,
    Refused,
    Reply,
    Request,
    Result,
    Secrets,
    Trial,
    View,
    body_key,
)

SIGNATURE: Final = "x-hub-signature-256"
_PREFIX: Final = "sha256="
_CHALLENGE_MAX: Final = 1000

# What a page is told of, the most telling first: some come together.
_KINDS: Final = ("message", "postback", "reaction", "message_edit", "read", "delivery", "referral")
_ABOUT: Final = ("sender", "recipient", "timestamp")
_TEXTS: Final = (
    ("message", "text"),
    ("postback", "payload"),
    ("postback", "title"),
    ("message_edit", "text"),
    ("reaction", "emoji"),
    ("reaction", "reaction"),
    ("referral", "ref"),
)
_COMMENTS: Final = ("comments", "live_comments")


class Webhooks:
    """What a kind of source is that a Meta app calls; its `Config` points at the `verify_tokens`."""

    # The `object` that every request of the kind is about.
    about: ClassVar[str]
    methods: ClassVar = frozenset({"GET", "POST"})
    # A thousand things may come in one request.
    body_bytes_max: ClassVar = 3 << 20
    secret_fields: ClassVar[tuple[str, ...]] = ("verify_tokens",)
    has_echoes: ClassVar = True

    def read(self, body: bytes) -> Batch:
        """Take apart what came and is verified: messages of a page, where a kind knows nothing else."""
        return read_page(body, of=self.about)

    def receive(
        self,
        request: Request,
        *,
        config: object,  # noqa: ARG002
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> Batch | Reply:
        """Answer the handshake, or verify and take apart what came."""
        if request.method == "GET":
            return _answer_handshake(request, secrets.named.get("verify_tokens", ()))
        given = [request.header(SIGNATURE)]
        check_hmac(given, request.body, secrets=secrets.active, prefix=_PREFIX)
        return self.read(request.body)

    def trial(self, *, config: object, secrets: Secrets, now: datetime) -> Trial:  # noqa: ARG002
        """A batch without entries."""
        body = b'{"object":"%b","entry":[]}' % self.about.encode()
        signature = _PREFIX + hmac_of(body, secrets=secrets.active)
        return Trial({"content-type": "application/json", SIGNATURE: signature}, body)


def _answer_handshake(request: Request, tokens: Sequence[bytes]) -> Reply:
    """Say the challenge back to who knows one of the verify tokens; raises `Refused` for everybody else."""
    if request.body:
        raise Refused(Result.BAD_SIGNATURE, "body_not_signed")
    query = read_form(request.query)
    check_shared(b"".join(values_of(query, "hub.verify_token")[-1:]), secrets=tokens)
    challenge = text_of(query, "hub.challenge")
    is_plain = challenge.isascii() and challenge.isprintable()
    if text_of(query, "hub.mode") != "subscribe" or not is_plain or len(challenge) > _CHALLENGE_MAX:
        raise Refused(Result.MALFORMED, "handshake_invalid")
    return Reply(200, challenge.encode(), TEXT_PLAIN)


def read_envelope(body: bytes, *, of: str) -> Json:
    """Read the object that everything is inside of; raises `Refused` for one of another product."""
    envelope = read_object(body)
    if text_at(envelope, "object") != of:
        raise Refused(Result.MALFORMED, "object_unexpected")
    return envelope


def change_key(entry: Json, raw: bytes) -> str:
    """The key of what has no id: whose it is, when it was told, and its bytes, which may well come again."""
    about = f"{name_at(entry, 'id')}\n{name_at(entry, 'time')}\n"
    return body_key(about.encode() + raw)


def batch_of(items: Iterable[Item]) -> Batch:
    """All the items of a request; raises `Refused` for more than one transaction should hold."""
    found = tuple(items)
    if len(found) > SLICES_MAX:
        raise Refused(Result.MALFORMED, "too_many_items")
    return Batch(found, ignored={} if found else {"empty": 1})


def read_page(body: bytes, *, of: str) -> Batch:
    """What pages or accounts are told of: messages with their echoes, and changes of other things."""
    envelope = read_envelope(body, of=of)
    items: list[Item] = []
    for (number,), raw in slices_at(body, "entry", "*"):
        entry = at(envelope, "entry", number)
        inside = [
            _told(entry, at(entry, name, n), one, prefix=prefix)
            for name, prefix in (("messaging", ""), ("standby", "standby."))
            for (n,), one in slices_at(raw, name, "*")
        ]
        inside += [
            _change(entry, at(entry, "changes", n), one)
            for (n,), one in slices_at(raw, "changes", "*")
        ]
        # Some changes stand in their entry itself.
        items += inside or [_change(entry, entry, raw)]
    return batch_of(items)


def _told(entry: Json, one: Json, raw: bytes, *, prefix: str) -> Item:
    kind = _kind(one)
    mid = text_at(one, kind, "mid") if kind in ("message", "postback") else ""
    is_echo = bool(at(one, "message", "is_echo"))
    # What is taken back has the id of what was said.
    is_deleted = bool(at(one, "message", "is_deleted"))
    event = "echo" if is_echo else "message.deleted" if is_deleted else kind
    return Item(
        keys=(mid if mid and not is_deleted else change_key({"id": at(entry, "id")}, raw),),
        body=raw,
        event=f"{prefix}{event}",
        conversation=_conversation(entry, one, is_echo=is_echo),
        view=View(
            text=next((text for path in _TEXTS if (text := text_at(one, *path))), ""),
            sender=name_at(one, "sender", "id"),
            attachments=_attachments(one),
        ),
        dated=time_at(one, "timestamp", per_second=1000),
        is_echo=is_echo,
    )


def _kind(one: Json) -> str:
    names = one if isinstance(one, dict) else ()
    known = next((name for name in _KINDS if name in names), None)
    return known or next((name for name in names if name not in _ABOUT), "event")


def _conversation(entry: Json, one: Json, *, is_echo: bool) -> tuple[str, ...]:
    page, sender = name_at(entry, "id"), name_at(one, "sender", "id")
    user = name_at(one, "recipient", "id") if is_echo or sender == page else sender
    return (page, user) if page and user else ()


def _attachments(one: Json) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(
            kind=text_at(found, "type"),
            id=name_at(found, "payload", "id") or name_at(found, "payload", "sticker_id"),
            url=text_at(found, "payload", "url"),
            name=text_at(found, "payload", "title"),
        )
        for found in list_at(one, "message", "attachments")
    )


def _change(entry: Json, change: Json, raw: bytes) -> Item:
    field, value = text_at(change, "field"), at(change, "value")
    id_ = name_at(value, "id") if field in _COMMENTS else ""
    sender = name_at(value, "from", "id")
    return Item(
        keys=(f"{field}:{id_}" if id_ else change_key(entry, raw),),
        body=raw,
        event=field or "entry",
        view=View(text=text_at(value, "text") or text_at(value, "message"), sender=sender),
        is_echo=sender != "" and sender == name_at(entry, "id"),
    )
