"""Issue comments. https://docs.github.com/en/rest/issues/comments#create-an-issue-comment"""

import re
from typing import Any

from app.channels import Reply
from app.domain.outcome import Delivered, NotThere, Rejected, RetryLater, Unknown
from tests.channels.conformance.fakes import answer
from tests.channels.conformance.sample import CANARY, Case, Sample, shut

KEY = "msg_01m8mm0q26eqsr3g96xejx5fy8"
MARK = f"<!-- sinksweep:{KEY} -->"


def sent(requests: Any) -> None:
    [one] = requests
    assert (one.method, one.path) == ("POST", "/repos/acme/tool.py/issues/12/comments")
    assert one.headers["authorization"] == f"Bearer {CANARY}"
    assert one.headers["accept"] == "application/vnd.github+json"
    assert one.headers["x-github-api-version"] == "2022-11-28"
    assert one.headers["user-agent"]
    assert one.json == {"body": f"Hello, you\n\n{MARK}"}


def key(requests: Any) -> str:
    found = re.search("sinksweep:(.*) -->", requests[0].json["body"])
    assert found is not None
    return found[1]


def failed(status: int, words: str, **headers: str) -> bytes:
    said = {"message": words, "documentation_url": "https://docs.github.com/rest"}
    return answer(status, said, **headers)


def comment(body: str) -> dict[str, object]:
    return {"id": 4242, "body": body, "user": {"login": "helper"}}


def listed(*comments: dict[str, object]) -> bytes:
    return answer(200, list(comments))


SAMPLE = Sample(
    config={"token": "env:GITHUB_TOKEN", "api_url": "http://127.0.0.1:{port}"},
    reply=Reply(kind="github", parts=("acme/tool.py", "12")),
    sent=sent,
    good=answer(201, {"id": 4242, "html_url": "https://github.com/acme/tool.py/issues/12"}),
    receipt="4242",
    key=key,
    refused=(
        ({"payload": {"text": "x" * 65_300}}, "/payload/text", "text_too_long"),
        ({"payload": {"body": " "}}, "/payload/body", "text_empty"),
        ({"payload": {}}, "/payload/text", "required"),
        ({"payload": {"body": "a", "text": "b"}}, "/payload/text", "field_not_allowed"),
        ({"payload": {"body": "a", "in_reply_to": 1}}, "/payload/in_reply_to", "field_not_allowed"),
        ({"headers": {"X-A": "1"}}, "/headers", "header_not_allowed"),
        ({"recipient": "acme/tool"}, "/to", "to_invalid"),
        ({"recipient": "acme/..#1"}, "/to", "to_invalid"),
        ({"recipient": "acme/tool#0"}, "/to", "to_invalid"),
        ({"recipient": "acme/tool#1/../../2"}, "/to", "to_invalid"),
        ({"recipient": "acme/tool?a=b#1"}, "/to", "to_invalid"),
        ({"reply": None}, "/to", "to_missing"),
        ({"reply": Reply(kind="github", parts=())}, "/to", "to_missing"),
        ({"reply": Reply(kind="linear", parts=("acme/tool", "1"))}, "/to", "to_missing"),
    ),
    cases=(
        Case("no such issue", failed(404, "Not Found"), Rejected("not_found")),
        Case(
            "no issues",
            failed(410, "Issues are disabled for this repo"),
            Rejected("issues_disabled"),
        ),
        Case(
            "locked",
            failed(403, "Unable to create comment because issue is locked."),
            Rejected("forbidden"),
        ),
        Case("invalid", failed(422, "Validation Failed"), Rejected("refused")),
        Case("a bad token", failed(401, "Bad credentials"), shut("http_401")),
        Case(
            "no permission",
            failed(403, "Resource not accessible by personal access token"),
            shut("no_right"),
        ),
        Case(
            "the hour is over",
            failed(
                403,
                "API rate limit exceeded for user ID 1.",
                x_ratelimit_remaining="0",
                x_ratelimit_reset="946684890",
            ),
            RetryLater("rate_limited", 90.0, counted=False),
        ),
        Case(
            "too much at once",
            failed(403, "You have exceeded a secondary rate limit.", retry_after="30"),
            RetryLater("rate_limited", 30.0, counted=False),
        ),
        Case(
            "too much at once, with no time named",
            failed(403, "You have exceeded a secondary rate limit. Please wait a few minutes."),
            RetryLater("rate_limited", 60.0, counted=False),
        ),
        Case(
            "too much, by its status",
            failed(429, "Words"),
            RetryLater("rate_limited", 60.0, counted=False),
        ),
        Case("a page of a proxy", answer(403, b"<html>"), Rejected("http_403")),
        Case("broken", answer(500), Unknown("http_500")),
        Case("a gateway", answer(502, b"<html>"), Unknown("http_502")),
        Case("a 201 without an id", answer(201, {}), Unknown("answer_unreadable")),
        Case("a 200", answer(200, {"id": 1}), Unknown("answer_unreadable")),
        Case("moved", answer(301, b""), Rejected("redirect_not_followed")),
    ),
    lookups=(
        Case(
            "there", listed(comment("x"), comment(f"Hello, you\r\n\r\n{MARK}")), Delivered("4242")
        ),
        Case("another", listed(comment("Hello, you\n\n<!-- sinksweep:msg_x -->")), NotThere()),
        Case("quoted", listed(comment(f"> Hello, you\n> {MARK}\n\nThanks")), NotThere()),
        Case("nothing", listed(), NotThere()),
        Case(
            "pages of it",
            listed(*[comment("x")] * 100),
            Unknown("lookup_incomplete", ours=True),
        ),
        Case("no body", listed({"id": 1}), RetryLater("lookup: answer_unreadable")),
        Case("no list", answer(200, {"id": 1}), RetryLater("lookup: answer_unreadable")),
        Case("broken", answer(500), RetryLater("lookup: http_500")),
        Case("not allowed", failed(404, "Not Found"), Unknown("lookup: not_found", ours=True)),
        Case("refused", failed(401, "Bad credentials"), shut("http_401")),
        Case(
            "too much",
            failed(403, "rate limit", retry_after="7"),
            RetryLater("rate_limited", 7.0, counted=False),
        ),
    ),
    probes=(
        (answer(200, {"resources": {"core": {"remaining": 4999}}}), True, "4999"),
        (failed(401, "Bad credentials"), False, "401"),
    ),
)
