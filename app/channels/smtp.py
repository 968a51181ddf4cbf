"""Kind `smtp`: a mail in the thread that is answered, one recipient a message, handed to a mail server of yours.

Message-ID, Date and every byte are the same in all attempts, so that what arrives twice may be shown once; no server
promises that, and none can be asked. A mail is delivered when the server has taken it after the last dot.
"""

import re
from typing import ClassVar, Final, Self

from pydantic import Field, model_validator

from app.channels import (
    Address,
    Draft,
    Facts,
    Limits,
    NoLookup,
    Options,
    Outgoing,
    Probed,
    Reply,
    Secrets,
    Wire,
    read_draft,
    unreached,
)
from app.domain.content import read_content
from app.domain.errors import InvalidContent, Problem
from app.domain.mail import REFERENCES_MAX, Mail, build_mail, is_address, is_message_id, is_one_line
from app.domain.outcome import Answer, Delivered, Outcome, Rejected, RetryLater, Unknown
from app.wire.asking import password_of
from app.wire.excerpt import login_texts, safe_excerpt
from app.wire.exchange import Cut, NotSent
from app.wire.json_answer import list_inside, text_inside
from app.wire.judging import unanswered, unauthorized
from app.wire.pointer import Pointer
from app.wire.smtp import Envelope, MailServer, Replied, Security, hand_over
from app.wire.target import InvalidTarget, parse_target

TEXT_MAX: Final = 1_000_000
SUBJECT_MAX: Final = 250

_PORTS: Final = {"starttls": 587, "tls": 465, "none": 25}
_ENHANCED: Final = re.compile(rb"([245]\.[0-9]{1,3}\.[0-9]{1,3})(?:\s|$)")
# What a server says of everything that we send, and not of this mail.
_LOGIN_CODES: Final = frozenset({530, 534, 535, 538})
_TOO_LARGE: Final = 552


class SmtpConfig(Options):
    """`from` is one address. `security = "none"` is for a server on this machine or in this network: no login then."""

    host: str
    port: int | None = Field(default=None, ge=1, le=65_535)
    security: Security = "starttls"
    username: str | None = Field(default=None, min_length=1, max_length=255)
    password: Pointer | None = None
    from_: str = Field(alias="from")
    from_name: str | None = Field(default=None, max_length=100)
    to: str | None = None
    subject: str | None = Field(default=None, min_length=1, max_length=SUBJECT_MAX)
    message_id_domain: str | None = None
    hello: str | None = None

    @model_validator(mode="after")
    def _has_forms(self) -> Self:
        domain = self.message_id_domain or self.from_.rpartition("@")[2]
        for host in (self.host, domain, self.hello or domain):
            try:
                known = parse_target(f"http://{host}/").host == host.lower()
            except InvalidTarget:
                known = False
            if not known:
                raise ValueError("host, message_id_domain and hello are names of hosts")
        if not all(is_address(one) for one in (self.from_, self.to or self.from_)):
            raise ValueError("from and to are one address each, as in help@acme.example")
        if not all(is_one_line(one) for one in (self.from_name or "", self.subject or "")):
            raise ValueError("from_name and subject are one line each")
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password come together")
        if self.username is not None and self.security == "none":
            raise ValueError("a password is not sent in the clear: security is starttls or tls")
        return self

    @property
    def domain(self) -> str:
        """What every Message-ID ends in."""
        return self.message_id_domain or self.from_.rpartition("@")[2]


class Smtp(NoLookup):
    """A mail server that takes what we send."""

    kind: ClassVar = "smtp"
    Config = SmtpConfig
    limits: ClassVar = Limits(concurrency_max=4, rate_per_second=5, timeout_seconds=120)
    answers: ClassVar = frozenset({"mailgun", "postmark", "sendgrid"})
    facts: ClassVar = Facts(
        key="in the Message-ID, with a Date that stays; mail programs may show a repeat once",
        lookup="no: SMTP cannot be asked",
        receipt="the Message-ID; the server's words are in the attempt",
    )

    def secrets(self, config: SmtpConfig) -> tuple[str, ...]:
        """The password, where there is a login."""
        return () if config.password is None else (config.password,)

    def check(self, draft: Draft, *, reply: Reply | None, config: SmtpConfig) -> Address:
        """A recipient, a subject, and the thread before it; raises `InvalidContent`."""
        parts = _thread(draft, reply, config)
        reading = read_draft(draft)
        reading.only({"text", "html", "subject"})
        reading.text("text", most=TEXT_MAX, required=True)
        reading.text("html", most=TEXT_MAX)
        subject = reading.text("subject", most=SUBJECT_MAX) or parts.get("subject")
        if subject is None and not reading.problems:
            reading.refuse("subject", "required", "neither the thread nor the destination has one")
        elif subject is not None and not is_one_line(subject):
            reading.refuse("subject", "text_invalid", "one line")
        reading.check()
        return Address(parts | {"subject": subject or ""})

    async def send(
        self, message: Outgoing, *, config: SmtpConfig, secrets: Secrets, wire: Wire
    ) -> Outcome:
        """Hand it over once."""
        server = _server(config, secrets)
        if isinstance(server, RetryLater):
            return server
        mail = _mail(message, config)
        envelope = Envelope(config.from_, mail.recipient, build_mail(mail))
        ended = await hand_over(wire.http, server, envelope, timeout_seconds=wire.timeout_seconds)
        return _judged(ended, _hidden(wire, server), receipt=mail.message_id)

    async def probe(self, *, config: SmtpConfig, secrets: Secrets, wire: Wire) -> Probed:
        """Greet the server and log in, and hand nothing over."""
        server = _server(config, secrets)
        if isinstance(server, RetryLater):
            return Probed(good=False, words="its password holds what no password does")
        ended = await hand_over(wire.http, server, None, timeout_seconds=wire.timeout_seconds)
        if not isinstance(ended, Replied):
            return unreached(unanswered(ended))
        if ended.is_accepted:
            how = "took our login" if server.login else "wants no login for a greeting"
            words = f"the mail server answers ({config.security}) and {how}"
            return Probed(good=True, words=words)
        said = safe_excerpt(ended.text, hidden=_hidden(wire, server))
        words = f"the mail server refused us at the {ended.stage} with {ended.code}: {said}"
        return Probed(good=False, words=words)


def _thread(draft: Draft, reply: Reply | None, config: SmtpConfig) -> dict[str, str]:
    """Where it goes; and what it continues, where that is the mail that is answered."""
    parts: dict[str, str] = {}
    sender = None
    if reply is not None:
        told = reply.capability
        sender = text_inside(told, "to", most=254)
        named = (text_inside(told, "references", most=20_000) or "").split()
        named += [str(one) for one in list_inside(told, "references")]
        root = f"<{reply.parts[1]}>" if len(reply.parts) > 1 else ""
        chain = [*(named or [root]), text_inside(told, "message_id") or ""]
        known = list(dict.fromkeys(one for one in chain if is_message_id(one)))
        if known:
            # The first tells the thread, the last ones its end.
            kept = [*known[:1], *known[1:][-(REFERENCES_MAX - 1) :]]
            parts["references"] = " ".join(kept)
        subject = (text_inside(told, "subject", most=1000) or "").strip()
        if subject:
            again = subject if subject[:3].lower() == "re:" else f"Re: {subject}"
            parts["subject"] = again[:SUBJECT_MAX]
    recipient = draft.recipient or config.to or sender
    if (recipient or "").lower() != (sender or "").lower():
        # It goes to somebody else, who has not seen that thread.
        parts = {}
    if recipient is None:
        raise InvalidContent(Problem("/to", "to_missing"))
    if not is_address(recipient):
        raise InvalidContent(Problem("/to", "to_invalid", "one plain address"))
    subject_of_all = {} if config.subject is None else {"subject": config.subject}
    return subject_of_all | parts | {"to": recipient}


def _mail(message: Outgoing, config: SmtpConfig) -> Mail:
    content = read_content(message.content_type, message.body)
    html = content.get("html")
    return Mail(
        message_id=f"<{message.key}@{config.domain}>",
        sender=config.from_,
        sender_name=config.from_name,
        recipient=message.at("to"),
        subject=message.at("subject"),
        text=str(content.get("text", "")),
        html=None if html is None else str(html),
        parents=message.address.get("references", "").split(),
        date=message.sealed_at,
    )


def _server(config: SmtpConfig, secrets: Secrets) -> MailServer | RetryLater:
    login = None
    if config.username is not None:
        password = password_of(secrets[0])
        if isinstance(password, RetryLater):
            return password
        login = (config.username, password)
    return MailServer(
        host=config.host,
        port=config.port or _PORTS[config.security],
        security=config.security,
        hello=config.hello or config.domain,
        login=login,
    )


def _hidden(wire: Wire, server: MailServer) -> list[str]:
    """What a server may repeat of us and nobody else may read."""
    return [*wire.hidden, *(login_texts(*server.login) if server.login else ())]


def _judged(ended: Replied | NotSent | Cut, hidden: list[str], *, receipt: str) -> Outcome:
    if not isinstance(ended, Replied):
        return unanswered(ended)
    answer = Answer(ended.code, safe_excerpt(ended.text, hidden=hidden))
    if ended.is_accepted:
        return Delivered(receipt, answer)
    enhanced = _ENHANCED.match(ended.text)
    reason = f"smtp_{ended.code}" + (f" {enhanced[1].decode()}" if enhanced else "")
    if ended.code // 100 != 5:  # noqa: PLR2004
        # It said so itself, so nothing was taken; grey lists mean one recipient.
        return RetryLater(reason, answer=answer) if ended.code >= 400 else Unknown(reason, answer)  # noqa: PLR2004
    sender_refused = ended.stage == "sender" and ended.code != _TOO_LARGE
    if ended.code in _LOGIN_CODES or ended.stage == "login" or sender_refused:
        return unauthorized(reason, answer)
    if ended.stage in {"greeting", "hello", "tls"}:
        return RetryLater(reason, answer=answer)
    return Rejected(reason, answer)


channel = Smtp()
