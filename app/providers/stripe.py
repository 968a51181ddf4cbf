"""Kind `stripe`: events of an account or of connected accounts, snapshot and thin alike.

The whole text of a secret is the key, `whsec_` included. An event's own time bounds how old a replay may be, since each
try is signed anew.
"""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.authenticity import check_hmac, check_time, hmac_of, read_seconds
from app.domain.json_view import Json, name_at, read_object, text_at, time_at
from app.domain.webhook import Batch, Item, Keys, Refused, Request, Result, Secrets, Trial, View
from app.providers import Options, Provider, Sheet, Signed


class StripeConfig(Options):
    """How far the time of a signature may be from ours."""

    tolerance_seconds: Annotated[int, Field(ge=1, le=86_400)] = 300


class Stripe(Provider[StripeConfig]):
    """Stripe's event destinations."""

    kind = "stripe"
    Config = StripeConfig
    signed = Signed(time=True, headers=("stripe-signature",))
    sheet = Sheet(
        title="Stripe",
        signature="HMAC-SHA256 over time and body, `v1` of `Stripe-Signature`",
        key="the event's `id`",
        conversation="account and customer",
        setup="Developers, Webhooks, Add destination; the signing secret `whsec_…` is the secret",
    )

    def receive(
        self,
        request: Request,
        *,
        config: StripeConfig,
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,
    ) -> Batch:
        """Verify, and take the event."""
        parts = [
            part.strip().partition("=") for part in request.header("stripe-signature").split(",")
        ]
        times = [value for name, _, value in parts if name == "t"]
        if len(times) != 1:
            raise Refused(Result.BAD_SIGNATURE, "timestamp_missing")
        check_hmac(
            (value for name, _, value in parts if name == "v1"),
            times[0].encode("latin-1") + b"." + request.body,
            secrets=secrets.active,
        )
        check_time(read_seconds(times[0]), now, tolerance_seconds=config.tolerance_seconds)
        event = read_object(request.body)
        if not name_at(event, "id"):
            raise Refused(Result.MALFORMED, "id_missing")
        return Batch((_item(event, request.body),))

    def trial(
        self,
        *,
        config: StripeConfig,  # noqa: ARG002
        secrets: Secrets,
        now: datetime,
    ) -> Trial:
        """No event: rightly signed, and refused for what it lacks."""
        time = str(int(now.timestamp()))
        signature = hmac_of(time.encode() + b".{}", secrets=secrets.active)
        return Trial({"stripe-signature": f"t={time},v1={signature}"}, b"{}")


def _item(event: Json, body: bytes) -> Item:
    account = text_at(event, "account") or text_at(event, "context")
    customer = _customer(event)
    return Item(
        keys=(name_at(event, "id"),),
        body=body,
        event=text_at(event, "type"),
        conversation=(account, customer) if customer else (),
        view=View(text=text_at(event, "type"), sender=customer),
        # Seconds in a snapshot event, RFC 3339 in a thin one.
        dated=time_at(event, "created"),
    )


def _customer(event: Json) -> str:
    """Whose event it is: named by its object, which may hold the whole customer, or be it."""
    about = ("data", "object")
    if text_at(event, *about, "object") == "customer":
        return text_at(event, *about, "id")
    return text_at(event, *about, "customer") or text_at(event, *about, "customer", "id")


provider = Stripe()
