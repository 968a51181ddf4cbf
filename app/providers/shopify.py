"""Kind `shopify`: webhooks and Events of the shops that have one app.

The id of a delivery is not signed, so topic and body are its second key: one order is told of under several topics with
the same bytes. Eight failures in a row make Shopify forget the subscription.
"""

from datetime import datetime

from app.domain.authenticity import check_hmac
from app.domain.json_view import Json, name_at, read_json, text_at, time_at
from app.domain.webhook import Batch, Item, Keys, Request, Secrets, View, body_key
from app.providers import Options, Provider, Sheet, Signed

_JSON = "application/json"
# What these tell of was changed the moment before.
_FRESH = ("create", "update", "updated")


class ShopifyConfig(Options):
    """Nothing but its secrets."""


class Shopify(Provider[ShopifyConfig]):
    """The shops of one app."""

    kind = "shopify"
    Config = ShopifyConfig
    signed = Signed(headers=("x-shopify-hmac-sha256", "shopify-hmac-sha256"))
    body_bytes_max = 5 << 20
    keeps = tuple(
        f"{prefix}shopify-{name}"
        for prefix in ("x-", "")
        for name in ("topic", "shop-domain", "event-id", "triggered-at", "api-version", "test")
    )
    sheet = Sheet(
        title="Shopify",
        signature="HMAC-SHA256 over the body, `X-Shopify-Hmac-SHA256`",
        key="`X-Shopify-Webhook-Id`, and the hash of topic and body",
        conversation="shop and resource",
        setup="`shopify.app.toml` or `webhookSubscriptionCreate`; the app's client secret is the secret, "
        "the new and the old one for an hour while it is rotated",
    )

    def receive(
        self,
        request: Request,
        *,
        config: ShopifyConfig,  # noqa: ARG002
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> Batch:
        """Verify, and take the delivery; one in XML stays unread."""
        check_hmac(
            [_header(request, "hmac-sha256")],
            request.body,
            secrets=secrets.active,
            encoding="base64",
        )
        content_type = request.content_type or _JSON
        told = read_json(request.body) if content_type == _JSON else None
        topic, id_ = _header(request, "topic"), _header(request, "webhook-id")
        same = body_key(topic.encode() + b"\n" + request.body)
        return Batch(
            (
                Item(
                    keys=(id_, same) if id_ else (same,),
                    body=request.body,
                    content_type=content_type,
                    event=topic or "event",
                    conversation=_conversation(_header(request, "shop-domain"), told),
                    view=View(text=topic, sender=_customer(told)),
                    dated=time_at(told, "updated_at")
                    if topic.rpartition("/")[2] in _FRESH
                    else None,
                ),
            )
        )


def _header(request: Request, name: str) -> str:
    """Webhooks have the old names, and Events the new ones."""
    return request.header(f"x-shopify-{name}") or request.header(f"shopify-{name}")


def _conversation(shop: str, told: Json) -> tuple[str, ...]:
    resource = text_at(told, "admin_graphql_api_id") or name_at(told, "id")
    return (shop, resource) if shop and resource else ()


def _customer(told: Json) -> str:
    return name_at(told, "customer", "id") or text_at(told, "email")


provider = Shopify()
