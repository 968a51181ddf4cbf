"""Mail and its events: replays of what signs no body, retries that are laid out anew, and forms that others make."""

import json
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlencode

import httpx
import pytest
from pydantic import ValidationError

from app.domain.webhook import Batch, Item, Refused, Request, Result, Secrets
from tests.providers.cases import PROVIDERS, URL, Case, cases_of, config_of, with_headers
from tests.providers.samples.mailgun import FORM, MAIL, SIGNED
from tests.providers.samples.sendgrid import HEADERS, sign

MAILGUN, SENDGRID, POSTMARK = (cases_of(kind)[0] for kind in ("mailgun", "sendgrid", "postmark"))


def read(kind: str, case: Case, request: Request) -> Item:
    got = case.receive(PROVIDERS[kind], request)
    assert isinstance(got, Batch)
    (item,) = got.items
    return item


def test_a_signature_with_another_body_is_the_same_inbound() -> None:
    """It signs nothing of the body, so whoever saw it once could send anything with it."""
    first, *_ = MAILGUN.samples
    good = MAILGUN.signed(first)
    forged = replace(good, body=good.body.replace(b"G9Bn5sl1TC6nu79C8C0bwg", b"another"))
    as_form = urlencode({**MAIL, **SIGNED}).encode()
    as_mail = MAILGUN.sign(
        replace(good, headers={"content-type": FORM}, body=as_form), MAILGUN.secrets, MAILGUN.now
    )
    keys = [set(read("mailgun", MAILGUN, one).keys) for one in (good, forged, as_mail)]
    assert len(keys[0] & keys[1] & keys[2]) == 1


def test_a_token_that_is_cut_off_from_its_time_is_refused() -> None:
    """Both are signed as one text: `1796040000` and `1...` are `17960400001` and `...` too."""
    good = MAILGUN.signed(MAILGUN.samples[0])
    for time, token in ((b"1796040000aaa", b"a" * 47), (b"179604000", b"0" + b"a" * 50)):
        body = good.body.replace(b"1796040000", time, 1).replace(b"a" * 50, token)
        with pytest.raises(Refused) as refused:
            MAILGUN.receive(PROVIDERS["mailgun"], replace(good, body=body))
        assert refused.value.result is Result.BAD_SIGNATURE


def test_mailgun_s_retries_of_eight_hours_are_taken() -> None:
    good = MAILGUN.signed(MAILGUN.samples[0])
    provider = PROVIDERS["mailgun"]
    MAILGUN.receive(provider, good, now=MAILGUN.now + timedelta(hours=8, minutes=30))
    with pytest.raises(Refused):
        MAILGUN.receive(provider, good, now=MAILGUN.now + timedelta(hours=9, minutes=1))


def test_the_last_of_fields_that_mail_repeats_are_the_signed_ones() -> None:
    pairs = [("token", "mine"), ("signature", "mine"), *MAIL.items(), *SIGNED.items()]
    request = Request(
        method="POST",
        public_url=URL,
        headers={"content-type": FORM},
        body=urlencode(pairs).encode(),
    )
    item = read("mailgun", MAILGUN, MAILGUN.sign(request, MAILGUN.secrets, MAILGUN.now))
    assert item.view.text == MAIL["stripped-text"]


def test_a_secret_in_the_url_is_demanded_beside_the_signature() -> None:
    case = cases_of("mailgun")[1]
    good = case.signed(case.samples[0])
    without = replace(good, headers={"content-type": "application/json"})
    for wrong in (without, with_headers(good, authorization="Basic d3Jvbmc=")):
        with pytest.raises(Refused) as refused:
            case.receive(PROVIDERS["mailgun"], wrong)
        assert refused.value.result is Result.BAD_SIGNATURE
    with pytest.raises(Refused) as missing:
        case.receive(PROVIDERS["mailgun"], good, secrets=Secrets(case.secrets.active))
    assert missing.value.result is Result.NOT_READY


def test_mail_that_is_cut_into_parts_anew_compares_as_the_same() -> None:
    fields = {"headers": HEADERS, "envelope": b'{"to":["a@b.example"]}', "text": b"a\r\n--x\r\nb"}
    items = []
    for boundary in ("one", "another-one"):
        body = b"".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode()
            + value
            + b"\r\n"
            for name, value in fields.items()
        )
        request = Request(
            method="POST",
            public_url=URL,
            headers={"content-type": f"multipart/form-data; boundary={boundary}"},
            body=body + f"--{boundary}--\r\n".encode(),
        )
        items.append(read("sendgrid", SENDGRID, sign(request, SENDGRID.secrets, SENDGRID.now)))
    first, second = items
    assert first.body != second.body
    assert (first.keys, first.compared) == (second.keys, second.compared)


def test_forms_of_another_maker_are_read() -> None:
    made = httpx.Request(
        "POST",
        URL,
        data={
            "headers": "Message-ID: <1@a.example>\n",
            "from": "Ada <ada@acme.example>",
            "subject": "Waffles \u2615",
            "text": "a red one?",
            "envelope": '{"to":["help@ours.example"],"from":"ada@acme.example"}',
        },
        files={"attachment1": ("gr\u00fc\u00dfe.png", bytes(range(256)) * 40, "image/png")},
    )
    request = Request(
        method="POST",
        public_url=URL,
        headers={"content-type": made.headers["content-type"]},
        body=made.read(),
    )
    item = read("sendgrid", SENDGRID, sign(request, SENDGRID.secrets, SENDGRID.now))
    assert item.view.text == "a red one?"
    assert item.conversation == ("help@ours.example", "1@a.example")
    (file,) = item.view.attachments
    assert (file.name, file.content_type) == ("gr\u00fc\u00dfe.png", "image/png")


def test_a_batch_as_large_as_sendgrid_makes_any_is_taken_whole() -> None:
    # It is posted when it has 768 KB, or after half a minute.
    case = cases_of("sendgrid")[0]
    events = [{"sg_event_id": f"e{n}", "event": "open", "pad": "x" * 40} for n in range(9000)]
    body = json.dumps(events).encode()
    assert len(body) > 768 << 10
    request = case.sign(replace(case.samples[0].request, body=body), case.secrets, case.now)
    read = case.receive(PROVIDERS["sendgrid"], request)
    assert isinstance(read, Batch)
    assert len(read.items) == len(events)


def test_every_event_has_its_own_key_and_slice() -> None:
    got = SENDGRID.receive(PROVIDERS["sendgrid"], SENDGRID.signed(SENDGRID.samples[0]))
    assert isinstance(got, Batch)
    assert len({item.keys for item in got.items}) == len(got.items) == 2


@pytest.mark.parametrize("options", [{}, {"public_keys": []}, {"public_keys": ["no key"]}])
def test_sendgrid_is_never_taken_unverified(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        config_of(PROVIDERS["sendgrid"], options)


def test_a_public_key_that_is_none_is_not_ready() -> None:
    case = replace(SENDGRID, options={"public_keys": ["A" * 80]})
    with pytest.raises(Refused) as refused:
        case.receive(PROVIDERS["sendgrid"], SENDGRID.signed(SENDGRID.samples[0]))
    assert refused.value.result is Result.NOT_READY


def test_both_a_signature_and_a_secret_are_demanded_where_both_are_configured() -> None:
    by_url = cases_of("sendgrid")[1]
    options = {**SENDGRID.options, **by_url.options}
    case = replace(SENDGRID, options=options, secrets=by_url.secrets)
    signed = SENDGRID.signed(SENDGRID.samples[0])
    both = by_url.sign(signed, by_url.secrets, by_url.now)
    case.receive(PROVIDERS["sendgrid"], both)
    for half in (signed, by_url.signed(SENDGRID.samples[0])):
        with pytest.raises(Refused) as refused:
            case.receive(PROVIDERS["sendgrid"], half)
        assert refused.value.result is Result.BAD_SIGNATURE


@pytest.mark.parametrize(
    ("header", "query"),
    [
        ("Bearer cG9zdG1hcms6YSBwYXNzOndvcmQ=", ""),
        ("Basic cG9zdG1hcms6YSBwYXNzOndvcmQ", ""),
        ("Basic", ""),
        ("Basic \xff", ""),
        ("", ""),
        ("", "token=postmark%3Aa+pass%3Aword&token=x"),
        ("", "token="),
        ("", "TOKEN=postmark%3Aa+pass%3Aword"),
        # A header that is wrong is not mended by a query that is right.
        ("Basic eDp5", "token=postmark%3Aa+pass%3Aword"),
    ],
)
def test_a_secret_that_is_not_quite_right_is_refused(header: str, query: str) -> None:
    request = POSTMARK.samples[0].request
    request = replace(request, public_url=f"{URL}?{query}" if query else URL)
    request = with_headers(request, authorization=header) if header else request
    with pytest.raises(Refused) as refused:
        POSTMARK.receive(PROVIDERS["postmark"], request)
    assert refused.value.result is Result.BAD_SIGNATURE


def test_no_answer_makes_postmark_or_mailgun_give_up() -> None:
    for kind in ("postmark", "mailgun", "sendgrid"):
        told = {PROVIDERS[kind].reply(result).status for result in Result}
        assert not told & {403, 406, 410}
        assert PROVIDERS[kind].reply(Result.ACCEPTED).status == 200
