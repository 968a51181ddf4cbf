"""What a source refuses: told to be what it is, in no words of its own, and stored nowhere."""

import asyncio
import hashlib
import hmac
import json
import time

import pytest

from tests.api.sources.signing import SECRET, Sources, said, update


@pytest.mark.parametrize(
    ("headers", "secret"),
    [
        ({}, b"another secret"),
        ({"x_slack_signature": "v0=00"}, SECRET),
        ({"x_slack_signature": ""}, SECRET),
        ({"x_slack_request_timestamp": "now"}, SECRET),
        ({"now": "1531420618"}, SECRET),
        ({"now": "99999999999"}, SECRET),
    ],
)
async def test_only_a_wrong_signature_is_told_to_be_one_and_stores_nothing(
    sources: Sources, headers: dict[str, str], secret: bytes
) -> None:
    answer = await sources.slack("chat", said("Ev1"), secret=secret, **headers)
    assert (answer.status, answer.code) == (401, "signature_invalid")
    assert await sources.turns() == []


async def test_a_secret_that_leads_to_nothing_is_not_ready_and_named(sources: Sources) -> None:
    token = SECRET.decode()
    answer = await sources.post("absent", update(1), x_telegram_bot_api_secret_token=token)
    assert (answer.status, answer.code) == (503, "source_not_ready")
    assert int(answer.headers["Retry-After"]) > 0
    pointer = f"file:{sources.folder}/nothing"
    assert (await sources.shown("absent"))["missing"] == [pointer]
    ready = await sources.service.get("/readyz", scope=None)
    assert ready.status == 503
    assert ready.json["checks"]["sources"]["absent"] == [pointer]
    # It comes, and nothing needs to be started anew.
    (sources.folder / "nothing").write_bytes(SECRET)
    try:
        again = await sources.post("absent", update(1), x_telegram_bot_api_secret_token=token)
        assert again.status == 200
        assert (await sources.shown("absent"))["missing"] == []
    finally:
        (sources.folder / "nothing").unlink()


async def test_while_a_secret_is_rotated_both_are_taken_and_none_is_called_wrong_that_is_absent(
    sources: Sources,
) -> None:
    assert (await sources.slack("rotating", said("Ev1"))).status == 200
    old = await sources.slack("rotating", said("Ev2"), secret=b"the old one")
    assert (old.status, old.code) == (503, "source_not_ready")
    (sources.folder / "two").write_bytes(b"the old one")
    try:
        assert (await sources.slack("rotating", said("Ev2"), secret=b"the old one")).status == 200
        assert (await sources.slack("rotating", said("Ev3"), secret=b"nobody's")).status == 401
    finally:
        (sources.folder / "two").unlink()


async def test_what_is_no_source_no_method_or_too_large_is_told_so(sources: Sources) -> None:
    unknown = await sources.slack("nobody", said("Ev1"))
    assert (unknown.status, unknown.code) == (404, "not_found")
    assert (await sources.slack("{source}", said("Ev1"))).status == 404
    wrong = await sources.post("chat", b"", method="GET")
    assert (wrong.status, wrong.headers["Allow"]) == (405, "POST")
    token = SECRET.decode()
    large = await sources.post("bot", b"x" * 2049, x_telegram_bot_api_secret_token=token)
    assert (large.status, large.code) == (413, "body_too_large")
    most = update(1, "x" * (2048 - len(update(1, ""))))
    assert len(most) == 2048
    assert (await sources.post("bot", most, x_telegram_bot_api_secret_token=token)).status == 200
    packed = await sources.slack("chat", said("Ev1"), content_encoding="gzip")
    assert packed.status == 400


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"type": 7}', b"[" * 10_000, b"NaN"])
async def test_what_is_signed_and_cannot_be_read_is_refused_and_no_mistake_of_ours(
    sources: Sources, body: bytes
) -> None:
    answer = await sources.slack("chat", body)
    assert (answer.status, answer.code) == (400, "body_unreadable")


async def test_a_body_that_drips_is_to_come_again_over_another_connection(
    sources: Sources,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", sources.service.port)
    writer.write(b"POST /v1/sources/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
    async with asyncio.timeout(10):
        answer = await reader.read()
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.1 503 ")
    assert b"\r\nconnection: close" in head
    assert b"\r\nretry-after: " in head
    writer.close()


async def test_an_event_from_before_its_key_could_be_remembered_is_refused(
    sources: Sources,
) -> None:
    created = int(time.time()) - 31 * 86_400  # noqa: TID251 - as a provider's clock
    for age, status in ((0, 400), (2 * 86_400, 200)):
        body = json.dumps({"id": "evt_1", "type": "a", "created": created + age}).encode()
        now = str(int(time.time()))  # noqa: TID251 - as a provider's clock
        digest = hmac.new(SECRET, f"{now}.".encode() + body, hashlib.sha256).hexdigest()
        answer = await sources.post("money", body, stripe_signature=f"t={now},v1={digest}")
        assert answer.status == status


async def test_a_full_queue_asks_to_come_again_and_knows_what_it_knew(sources: Sources) -> None:
    assert (await sources.plain("full", {"id": "1"})).status == 200
    full = await sources.plain("full", {"id": "2"})
    assert (full.status, full.code) == (503, "source_not_ready")
    assert int(full.headers["Retry-After"]) >= 5
    assert (await sources.plain("full", {"id": "1"})).status == 200


async def test_no_answer_to_a_provider_holds_its_own_words(sources: Sources) -> None:
    for body in (said("Ev1", "c4n4ry"), b"c4n4ry"):
        for secret in (SECRET, b"another"):
            answer = await sources.slack("chat", body, secret=secret)
            assert b"c4n4ry" not in answer.body
