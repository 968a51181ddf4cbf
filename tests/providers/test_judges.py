"""The vendors' own libraries sign what we verify, and verify what our samples are signed with."""

import json

import stripe
from slack_sdk.signature import Clock, SignatureVerifier
from standardwebhooks.webhooks import Webhook

from app.domain.webhook import Batch, Request, Secrets
from app.providers.slack import provider as slack
from app.providers.standard import provider as standard
from app.providers.stripe import provider as stripe_
from tests.providers.cases import URL, cases_of, config_of


class At(Clock):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def now(self) -> float:
        return self.seconds


def test_slack_s_library_takes_our_samples_and_we_take_what_it_signs() -> None:
    (case,) = cases_of("slack")
    secret = case.secrets.active[0].decode()
    judge = SignatureVerifier(secret, clock=At(case.now.timestamp()))
    for sample in case.samples:
        signed = case.signed(sample)
        assert judge.is_valid(
            signed.body,
            signed.headers["x-slack-request-timestamp"],
            signed.headers["x-slack-signature"],
        )
    time = str(int(case.now.timestamp()))
    body = case.samples[0].body
    signature = judge.generate_signature(timestamp=time, body=body)
    assert signature is not None
    headers = {"x-slack-request-timestamp": time, "x-slack-signature": signature}
    request = Request(method="POST", public_url=URL, headers=headers, body=body)
    assert isinstance(case.receive(slack, request), Batch)


def test_stripe_s_library_takes_our_samples() -> None:
    (case,) = cases_of("stripe")
    secret = case.secrets.active[0].decode()
    for sample in case.samples:
        signed = case.signed(sample)
        stripe.WebhookSignature.verify_header(
            signed.body.decode(), signed.headers["stripe-signature"], secret
        )
        assert isinstance(case.receive(stripe_, signed), Batch)


def test_standard_webhooks_library_signs_what_we_take() -> None:
    case = cases_of("standard")[0]
    secret = case.secrets.active[0]
    body = json.dumps({"type": "a"})
    signature = Webhook(secret.decode()).sign("msg_1", case.now, body)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(case.now.timestamp())),
        "webhook-signature": signature,
    }
    request = Request(method="POST", public_url=URL, headers=headers, body=body.encode())
    read = standard.receive(
        request,
        config=config_of(standard, {}),
        secrets=Secrets((secret,)),
        keys=None,
        now=case.now,
    )
    assert read.items[0].keys == ("msg_1",)
