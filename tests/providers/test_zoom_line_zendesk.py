"""What these three have of their own: a question, batches that are regrouped, and a time of signing in words."""

import base64
import hmac
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.webhook import Batch, Refused, Reply, Result, Secrets
from tests.providers.cases import PROVIDERS, cases_of, with_headers
from tests.providers.samples.zoom import QUESTION

(ZOOM,), (LINE,), (ZENDESK,) = (cases_of(kind) for kind in ("zoom", "line", "zendesk"))


def test_zoom_s_question_is_answered_with_the_secret_that_it_was_signed_with() -> None:
    mine, other = ZOOM.secrets.active[0], ZOOM.other.active[0]
    asked = next(sample for sample in ZOOM.samples if sample.body == QUESTION)
    wanted = hmac.new(mine, b"qgg8vlvZRS6UYooatFL8Aw", "sha256").hexdigest()
    for active in ((mine,), (mine, other), (other, mine)):
        read = ZOOM.receive(PROVIDERS["zoom"], ZOOM.signed(asked), secrets=Secrets(active))
        assert isinstance(read, Reply)
        assert json.loads(read.body)["encryptedToken"] == wanted


def test_zoom_s_question_is_answered_to_nobody_else() -> None:
    asked = next(sample for sample in ZOOM.samples if sample.body == QUESTION).request
    with pytest.raises(Refused) as refused:
        ZOOM.receive(PROVIDERS["zoom"], asked)
    assert refused.value.result is Result.BAD_SIGNATURE


@pytest.mark.parametrize("token", ["", 1, None, "x" * 201])
def test_a_question_without_a_token_is_no_oracle(token: object) -> None:
    body = json.dumps({"event": "endpoint.url_validation", "payload": {"plainToken": token}})
    request = replace(ZOOM.samples[0].request, body=body.encode())
    with pytest.raises(Refused) as refused:
        ZOOM.receive(PROVIDERS["zoom"], ZOOM.sign(request, ZOOM.secrets, ZOOM.now))
    assert refused.value.result is Result.MALFORMED


def test_a_redelivered_event_of_line_compares_as_the_same() -> None:
    first, again = (
        LINE.receive(PROVIDERS["line"], LINE.signed(sample)) for sample in LINE.samples[:2]
    )
    assert isinstance(first, Batch)
    assert isinstance(again, Batch)
    assert first.items[0].body != again.items[0].body
    assert first.items[0].keys == again.items[0].keys
    assert first.items[0].compared == again.items[0].compared


def test_line_s_token_lives_a_minute() -> None:
    read = LINE.receive(PROVIDERS["line"], LINE.signed(LINE.samples[0]))
    assert isinstance(read, Batch)
    reply = read.items[0].reply
    assert reply is not None
    assert reply.expires_at - LINE.now == timedelta(minutes=1)
    assert read.items[2].reply is None


@pytest.mark.parametrize(
    "time", ["1796040000", "2026-11-30", "2026-11-30T12:00:00", "2026-11-30T12:00:00+00:00", "Z"]
)
def test_zendesk_s_time_is_in_its_one_form(time: str) -> None:
    secret = ZENDESK.secrets.active[0]
    request = ZENDESK.samples[0].request
    digest = hmac.new(secret, time.encode() + request.body, "sha256").digest()
    signed = with_headers(
        request,
        x_zendesk_webhook_signature=base64.b64encode(digest).decode(),
        x_zendesk_webhook_signature_timestamp=time,
    )
    with pytest.raises(Refused) as refused:
        ZENDESK.receive(PROVIDERS["zendesk"], signed)
    assert refused.value.result is Result.BAD_SIGNATURE


def test_zendesk_s_replay_under_another_invocation_is_the_same_inbound() -> None:
    sample = next(one for one in ZENDESK.samples if one.name == "a-trigger")
    good = ZENDESK.signed(sample)
    keys = []
    for request in (good, with_headers(good, x_zendesk_webhook_invocation_id="another")):
        read = ZENDESK.receive(PROVIDERS["zendesk"], request)
        assert isinstance(read, Batch)
        keys.append(set(read.items[0].keys))
    assert len(keys[0] & keys[1]) == 1
