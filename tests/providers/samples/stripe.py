"""Stripe: events of an account and of connected ones, snapshot and thin."""

import hashlib
import hmac
import json
from datetime import UTC, datetime

from app.domain.webhook import Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:
    time = str(int(now.timestamp()))
    signed = time.encode() + b"." + request.body
    digest = hmac.new(secrets.active[0], signed, hashlib.sha256).hexdigest()
    return with_headers(request, stripe_signature=f"t={time},v1={digest}")


def event(**fields: object) -> bytes:
    return json.dumps({"object": "event", "created": 1796040000, **fields}, indent=2).encode()


PAID = event(
    id="evt_1",
    type="invoice.paid",
    livemode=False,
    data={"object": {"id": "in_1", "object": "invoice", "customer": "cus_1"}},
)

CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"whsec_test_secret",)),
        other=Secrets((b"whsec_another",)),
        now=NOW,
        samples=(
            Sample(
                name="an-event",
                body=PAID,
                items=(
                    Expected(
                        keys=("evt_1",),
                        event="invoice.paid",
                        conversation=("", "cus_1"),
                        text="invoice.paid",
                        sender="cus_1",
                        body=PAID,
                        dated=NOW,
                    ),
                ),
            ),
            Sample(
                name="of-a-connected-account",
                body=event(
                    id="evt_2",
                    type="customer.created",
                    account="acct_1",
                    data={"object": {"id": "cus_2", "object": "customer"}},
                ),
                items=(
                    Expected(
                        keys=("evt_2",),
                        event="customer.created",
                        conversation=("acct_1", "cus_2"),
                        text="customer.created",
                        sender="cus_2",
                    ),
                ),
            ),
            Sample(
                name="thin",
                body=json.dumps(
                    {
                        "id": "evt_3",
                        "object": "v2.core.event",
                        "type": "v1.billing.meter.error_report_triggered",
                        "created": "2026-11-30T12:00:00.000Z",
                        "related_object": {"id": "mtr_1", "type": "billing.meter"},
                    }
                ).encode(),
                items=(
                    Expected(
                        keys=("evt_3",),
                        event="v1.billing.meter.error_report_triggered",
                        text="v1.billing.meter.error_report_triggered",
                        dated=NOW,
                    ),
                ),
            ),
        ),
        vectors=(
            Vector(
                name="computed",
                source="no published one: computed from the documented scheme",
                request=Request(
                    method="POST",
                    public_url=URL,
                    headers={
                        "stripe-signature": "t=1700000000,v0=ab,"
                        "v1=86748dbec9cc87a9219f8a96632da703271bf5e85aa0afa2b310c37ba059d514"
                    },
                    body=b'{"hello":"world"}',
                ),
                secrets=Secrets((b"whsec_test_secret",)),
                now=datetime.fromtimestamp(1700000000, UTC),
            ),
        ),
    ),
)
