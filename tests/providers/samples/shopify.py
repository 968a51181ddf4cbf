"""Shopify: orders, products, what has no resource, Events with the new names of headers, and XML."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

from app.domain.webhook import Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ID = "b1234-eefd-4c9e-9520-049845a02082"
SHOP = "waffles.myshopify.com"
GID = "gid://shopify/Order/820982911946154508"


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:
    del now
    digest = hmac.new(secrets.active[0], request.body, hashlib.sha256).digest()
    signature = base64.b64encode(digest).decode()
    # Events have their own name for it.
    if "shopify-topic" in request.headers:
        return with_headers(request, shopify_hmac_sha256=signature)
    return with_headers(request, x_shopify_hmac_sha256=signature)


def named(topic: str, prefix: str = "x-") -> dict[str, str]:
    told = {"topic": topic, "webhook-id": ID, "shop-domain": SHOP, "event-id": "98880550-7158"}
    return {f"{prefix}shopify-{name}": value for name, value in told.items()}


def keys(topic: str, body: bytes) -> tuple[str, str]:
    return ID, f"sha256:{hashlib.sha256(topic.encode() + bytes([10]) + body).hexdigest()}"


ORDER = json.dumps(
    {
        "id": 820982911946154508,
        "admin_graphql_api_id": GID,
        "updated_at": "2026-11-30T13:00:00+01:00",
        "customer": {"id": 7},
    }
).encode()
DELETED = b'{"id": 788032119674292922}'
XML = b"<?xml version='1.0'?><order><id>1</id></order>"


def order(topic: str, dated: datetime | None = None) -> Expected:
    return Expected(
        keys=keys(topic, ORDER),
        event=topic,
        conversation=(SHOP, GID),
        text=topic,
        sender="7",
        body=ORDER,
        dated=dated,
    )


CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"client-secret",)),
        other=Secrets((b"another-client-secret",)),
        now=NOW,
        samples=(
            Sample(
                name="an-order",
                body=ORDER,
                headers=named("orders/create"),
                items=(order("orders/create", dated=NOW),),
            ),
            Sample(
                name="the-same-bytes-under-another-topic-are-another-event",
                body=ORDER,
                headers=named("orders/paid"),
                items=(order("orders/paid"),),
            ),
            Sample(
                name="an-event-with-the-new-names",
                body=ORDER,
                headers=named("orders/paid", ""),
                items=(order("orders/paid"),),
            ),
            Sample(
                name="a-product-that-is-gone",
                body=DELETED,
                headers=named("products/delete"),
                items=(
                    Expected(
                        keys=keys("products/delete", DELETED),
                        event="products/delete",
                        conversation=(SHOP, "788032119674292922"),
                        text="products/delete",
                    ),
                ),
            ),
            Sample(
                name="xml-is-kept-unread",
                body=XML,
                content_type="application/xml",
                headers=named("orders/create"),
                items=(
                    Expected(
                        keys=keys("orders/create", XML),
                        event="orders/create",
                        text="orders/create",
                        body=XML,
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
                        "x-shopify-hmac-sha256": "hMwz33Fu0LBZjwdDfJQGms43MDWHeKWSvWu9FCPREfM="
                    },
                    body=b'{"hello":"world"}',
                ),
                secrets=Secrets((b"test-secret",)),
                now=NOW,
            ),
        ),
    ),
)
