"""What somebody captured is no new event, however it is cut, and no leave to answer stays in what is kept."""

import json
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

from app.domain.webhook import Batch, Request
from tests.providers.cases import PROVIDERS, cases_of

TWILIO = PROVIDERS["twilio"]
(CASE,) = cases_of("twilio")
FORM = "application/x-www-form-urlencoded"


def _keys(request: Request) -> set[str]:
    read = CASE.receive(TWILIO, request)
    assert isinstance(read, Batch)
    return {key for item in read.items for key in item.keys}


def _signed(name: str) -> Request:
    (sample,) = [one for one in CASE.samples if one.name == name]
    url = sample.url if "?" in sample.url else f"{sample.url}?from=twilio"
    return CASE.sign(replace(sample.request, public_url=url), CASE.secrets, CASE.now)


def test_the_fields_of_a_captured_form_put_into_its_query_are_the_same_request() -> None:
    captured = _signed("a-text")
    fields = sorted(parse_qsl(captured.body.decode(), keep_blank_values=True))
    # As the bytes of a URL come.
    end = "".join(name + value for name, value in fields).encode().decode("latin-1")
    moved = replace(captured, method="GET", body=b"", public_url=captured.public_url + end)
    assert _keys(captured) & _keys(moved)


def test_the_end_of_a_captured_query_put_into_a_form_is_the_same_request() -> None:
    captured = _signed("a-text-by-get")
    url, end = captured.public_url[:-3], captured.public_url[-3:]
    headers = {**captured.headers, "content-type": FORM}
    moved = Request(method="POST", public_url=url, headers=headers, body=f"{end}=".encode())
    assert _keys(captured) & _keys(moved)


def test_each_of_several_response_urls_is_taken_for_leave_to_answer() -> None:
    (case,) = cases_of("slack")
    urls = [f"https://hooks.slack.com/app/T1/{n}/aBcD" for n in range(2)]
    told = {"type": "view_submission", "response_urls": [{"response_url": url} for url in urls]}
    body = urlencode({"payload": json.dumps(told)}).encode()
    (sample,) = [one for one in case.samples if one.name == "a-button"]
    request = case.sign(replace(sample.request, body=body), case.secrets, case.now)
    read = case.receive(PROVIDERS["slack"], request)
    assert isinstance(read, Batch)
    (reply,) = [item.reply for item in read.items]
    assert reply is not None
    assert reply.secrets == {"response_url": urls[0], "response_url_1": urls[1]}
