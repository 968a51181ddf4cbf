"""GitHub: issues, comments, reviews, pushes, forms, pings, what an App did itself; and the vectors of its own pages."""

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from app.domain.webhook import Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
FORM = "application/x-www-form-urlencoded"
GUID = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
REPOSITORY = {"id": 1, "full_name": "octo/hello"}
TIME = "2026-11-30T12:00:00Z"


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:
    del now
    digest = hmac.new(secrets.active[0], request.body, hashlib.sha256).hexdigest()
    return with_headers(request, x_hub_signature_256=f"sha256={digest}")


def event(action: str, *, sender: str = "ann", **fields: object) -> bytes:
    told = {"action": action, "repository": REPOSITORY, "sender": {"login": sender}, **fields}
    return json.dumps(told).encode()


def named(name: str) -> dict[str, str]:
    return {"x-github-event": name, "x-github-delivery": GUID, "x-github-hook-id": "1"}


def keys(body: bytes) -> tuple[str, str]:
    return GUID, f"sha256:{hashlib.sha256(body).hexdigest()}"


COMMENT = event(
    "created",
    issue={"number": 5, "title": "Waffles", "body": "Do you have any?"},
    comment={
        "id": 9,
        "body": "a waffle maker?",
        "html_url": "https://g.example/9",
        "updated_at": TIME,
    },
)
OPENED = event("opened", issue={"number": 6, "title": "Waffles", "body": None, "updated_at": TIME})
REVIEW = event(
    "submitted",
    pull_request={"number": 7, "title": "Add waffles", "body": ""},
    review={"body": "Nice", "submitted_at": TIME},
)
DISCUSSED = event(
    "created",
    discussion={"number": 8, "title": "Waffles", "body": "Which?"},
    comment={"body": "Belgian ones.", "updated_at": TIME},
)
CHECKED = event("completed", check_run={"name": "bake", "head_sha": "c0ffee"})
PUSH = json.dumps(
    {"ref": "refs/heads/main", "repository": REPOSITORY, "head_commit": {"message": "Add waffles"}}
).encode()
OWN = event("created", sender="Waffle-app[bot]", issue={"number": 5}, comment={"body": "We have."})
FORM_BODY = urlencode({"payload": COMMENT.decode()}).encode()


def told(
    name: str,
    body: bytes,
    kind: str,
    *about: str,
    content_type: str = "application/json",
    sender: str = "ann",
    raw: bytes | None = None,
    **read: Any,
) -> Sample:
    """A request of one event, and what is to be read of it: `about` is what it is about in its repository."""
    expected = Expected(
        keys=keys(body),
        event=kind,
        conversation=("octo/hello", *about) if about else (),
        sender=sender,
        body=raw,
        **read,
    )
    headers = named(kind.partition(".")[0])
    return Sample(
        name=name, body=body, content_type=content_type, headers=headers, items=(expected,)
    )


def vector(name: str, source: str, secret: bytes, body: bytes, digest: str) -> Vector:
    return Vector(
        name=name,
        source=source,
        request=Request(
            method="POST",
            public_url=URL,
            headers={"x-hub-signature-256": f"sha256={digest}"},
            body=body,
        ),
        secrets=Secrets((secret,)),
        now=NOW,
    )


CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"It's a Secret to Everybody",)),
        other=Secrets((b"mysecret",)),
        now=NOW,
        options={"own_logins": ["waffle-app[bot]"]},
        samples=(
            told(
                "a-comment",
                COMMENT,
                "issue_comment.created",
                "5",
                text="a waffle maker?",
                attachments=1,
                raw=COMMENT,
                dated=NOW,
            ),
            told(
                "the-same-as-a-form",
                FORM_BODY,
                "issue_comment.created",
                "5",
                content_type=FORM,
                text="a waffle maker?",
                attachments=1,
                raw=FORM_BODY,
            ),
            told("not-json", b"Hello, World!", "push", sender="", raw=b"Hello, World!"),
            told(
                "a-comment-in-a-discussion",
                DISCUSSED,
                "discussion_comment.created",
                "discussion",
                "8",
                text="Belgian ones.",
                dated=NOW,
            ),
            told("a-check-of-a-commit", CHECKED, "check_run.completed", "commit", "c0ffee"),
            told(
                "an-issue-without-a-text", OPENED, "issues.opened", "6", text="Waffles", dated=NOW
            ),
            told("a-review", REVIEW, "pull_request_review.submitted", "7", text="Nice", dated=NOW),
            told("a-push", PUSH, "push", sender="", text="Add waffles"),
            told(
                "our-own-comment",
                OWN,
                "issue_comment.created",
                "5",
                text="We have.",
                sender="Waffle-app[bot]",
                is_echo=True,
            ),
            Sample(
                name="a-ping",
                body=b'{"zen": "Keep it logically awesome.", "hook_id": 1}',
                headers=named("ping"),
                ignored={"ping": 1},
            ),
        ),
        vectors=(
            vector(
                "its-page",
                "docs.github.com, validating webhook deliveries",
                b"It's a Secret to Everybody",
                b"Hello, World!",
                "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
            ),
            vector(
                "its-library",
                "octokit/webhooks-methods, tests",
                b"mysecret",
                b'{"foo":"bar"}',
                "4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3",
            ),
        ),
    ),
)
