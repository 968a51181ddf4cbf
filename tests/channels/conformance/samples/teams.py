"""The Bot Connector. https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-api-reference

One stand-in gives the token and takes the activity; what is answered to the second of them is in `test_teams.py`.
"""

from typing import Any

from app.channels import Reply
from app.domain.outcome import RetryLater
from tests.channels.conformance.fakes import answer
from tests.channels.conformance.sample import CANARY, Case, Sample, shut

CONVERSATION = "19:253b1f341670408fb6fe51050b6e5ceb@thread.tacv2;messageid=1712345678000"
TOKEN = "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.token-that-was-fetched"


def sent(requests: Any) -> None:
    asked, posted = requests
    assert (asked.method, asked.path) == ("POST", "/botframework.com/oauth2/v2.0/token")
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert asked.form == {
        "grant_type": "client_credentials",
        "client_id": "00000000-1111-2222-3333-444444444444",
        "client_secret": CANARY,
        "scope": "https://api.botframework.com/.default",
    }
    place = "19%3A253b1f341670408fb6fe51050b6e5ceb%40thread.tacv2%3Bmessageid%3D1712345678000"
    assert (posted.method, posted.path) == ("POST", f"/emea/v3/conversations/{place}/activities")
    assert posted.headers["authorization"] == f"Bearer {TOKEN}"
    assert posted.headers["content-type"].startswith("application/json")
    assert posted.json == {"type": "message", "text": "Hello, you"}


def failed(status: int, word: str, **headers: str) -> bytes:
    return answer(status, {"error": word, "error_description": "AADSTS: Words"}, **headers)


SAMPLE = Sample(
    config={
        "app_id": "00000000-1111-2222-3333-444444444444",
        "password": "env:TEAMS_PASSWORD",
        "service_hosts": ["127.0.0.1"],
        "api_url": "http://127.0.0.1:{port}/teams",
        "login_url": "http://127.0.0.1:{port}",
    },
    reply=Reply(
        kind="teams_bot",
        parts=(CONVERSATION,),
        capability={"service_url": "http://127.0.0.1:{port}/emea/", "activity_id": "1"},
    ),
    sent=sent,
    good=answer(200, {"access_token": TOKEN, "token_type": "Bearer", "id": "1712345999000"}),
    receipt="1712345999000",
    key=None,
    refused=(
        ({"payload": {"text": "x" * 100_001}}, "/payload/text", "text_too_long"),
        ({"payload": {"text": "ü" * 60_000}}, "/payload/text", "text_too_long"),
        ({"payload": {"text": ""}}, "/payload/text", "text_empty"),
        ({"payload": {}}, "/payload/text", "text_empty"),
        ({"payload": {"text": "a", "type": "typing"}}, "/payload/type", "field_not_allowed"),
        (
            {"payload": {"text": "a", "conversation": {}}},
            "/payload/conversation",
            "field_not_allowed",
        ),
        ({"payload": {"attachments": [{}]}}, "/payload/attachments", "wrong_type"),
        (
            {"payload": {"attachments": [{"contentType": "a"}] * 11}},
            "/payload/attachments",
            "too_many",
        ),
        ({"headers": {"X-A": "1"}}, "/headers", "header_not_allowed"),
        ({"recipient": "a conversation"}, "/to", "to_invalid"),
        ({"reply": None}, "/to", "to_missing"),
        ({"reply": Reply(kind="teams", parts=(CONVERSATION,))}, "/to", "to_missing"),
    ),
    cases=(
        Case("a bad password", failed(401, "invalid_client"), shut("token: invalid_client")),
        Case("no such bot", failed(400, "unauthorized_client"), shut("token: unauthorized_client")),
        Case(
            "too many tokens",
            failed(429, "throttled", retry_after="9"),
            RetryLater("token: http_429", 9.0, counted=False),
        ),
        Case("no token now", answer(500), RetryLater("token: http_500")),
        Case("a gateway", answer(502, b"<html>"), RetryLater("token: http_502")),
        Case(
            "no token for a while",
            failed(400, "temporarily_unavailable"),
            RetryLater("token: temporarily_unavailable"),
        ),
        Case("a 200 without a token", answer(200, {}), RetryLater("token: http_200")),
    ),
    probes=(
        (answer(200, {"access_token": TOKEN}), True, "gives a token"),
        (failed(401, "invalid_client"), False, "invalid_client"),
    ),
)
