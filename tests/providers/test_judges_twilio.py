"""Twilio's own library takes what our samples are signed with, and we take what it signs."""

from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

import pytest
from twilio.request_validator import (  # type: ignore[import-untyped]
    RequestValidator,
    get_signature_algorithm,
)

from app.domain.webhook import Batch, Refused, Request, Result
from app.providers.twilio import provider as twilio
from tests.providers.cases import URL, Case, Sample, cases_of

SETTINGS = "x-twilio-webhooks-signature-settings"
FORM = "application/x-www-form-urlencoded"
(CASE,) = cases_of("twilio")
TOKEN = CASE.secrets.active[0].decode()


def _judged(case: Case, sample: Sample) -> bool:
    signed = case.signed(sample)
    is_form = signed.content_type == FORM
    text = signed.body.decode()
    params = dict(parse_qsl(text, keep_blank_values=True)) if is_form else text or None
    judge = RequestValidator(case.secrets.active[0].decode())
    algorithm = get_signature_algorithm(signed.headers.get(SETTINGS))
    signature = signed.headers["x-twilio-signature"]
    return bool(judge.validate(signed.public_url, params, signature, algorithm))


@pytest.mark.parametrize("sample", CASE.samples, ids=lambda sample: str(sample.name))
def test_its_library_takes_our_samples(sample: Sample) -> None:
    assert _judged(CASE, sample)


@pytest.mark.parametrize("algorithm", ["HMAC_SHA1", "HMAC_SHA256"])
@pytest.mark.parametrize("port", ["", ":443"])
def test_we_take_what_its_library_signs(algorithm: str, port: str) -> None:
    fields = {
        "MessageSid": "SM1",
        "SmsStatus": "received",
        "To": "+1",
        "From": "+2",
        "Body": "é & +",
    }
    url = URL.replace("in.example", f"in.example{port}")
    signature = RequestValidator(TOKEN).compute_signature(url, fields, algorithm)
    headers = {"content-type": FORM, "x-twilio-signature": signature}
    request = Request(
        method="POST",
        public_url=URL,
        headers={**headers, SETTINGS: f"key=k,algorithm={algorithm}"},
        body=urlencode(fields).encode(),
    )
    read = CASE.receive(twilio, request)
    assert isinstance(read, Batch)
    assert read.items[0].view.text == "é & +"
    unknown = replace(request, headers={**headers, SETTINGS: "algorithm=HMAC_MD5"})
    with pytest.raises(Refused) as refused:
        CASE.receive(twilio, unknown)
    assert refused.value.result is Result.BAD_SIGNATURE


def test_a_request_whose_fields_are_cut_in_another_way_is_known_by_what_was_signed() -> None:
    sample = CASE.samples[0]
    good = CASE.signed(sample)
    # Nothing stands between a name and its value: this has the same signature, and another id.
    cut = good.body.replace(b"MessageSid=SM", b"MessageSidSM=")
    read, again = CASE.receive(twilio, good), CASE.receive(twilio, replace(good, body=cut))
    assert isinstance(read, Batch)
    assert isinstance(again, Batch)
    assert read.items[0].keys[-1] == again.items[0].keys[-1]
