"""The vendors' libraries for Node take our samples and nothing else, wherever Node and they are installed."""

import base64
import json
import shutil
import subprocess
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from app.domain.webhook import Batch, Refused, Request
from tests.providers.cases import PROVIDERS, cases_of
from tests.providers.samples.discord import NEXT, PUBLIC
from tests.providers.signing_keys import shown_key

JUDGES = Path(__file__).parent / "judges"
PACKAGES = {
    "discord": "discord-interactions",
    "github": "@octokit/webhooks-methods",
    "instagram": "@octokit/webhooks-methods",
    "line": "@line/bot-sdk",
    "linear": "@linear/sdk",
    "messenger": "@octokit/webhooks-methods",
    "sendgrid": "@sendgrid/eventwebhook",
    "shopify": "@shopify/shopify-api",
    "twilio": "twilio",
    "whatsapp": "@octokit/webhooks-methods",
}
# What is verified with a public key: the right one, and another.
PUBLIC_KEYS = {"discord": (PUBLIC, NEXT), "sendgrid": (shown_key(7), shown_key(8))}
# A request or two of each are enough: a process is started for every one.
SAMPLES = 2


def _judged(kind: str, request: Request, secret: str, now: datetime) -> bool:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here, which the vendor's library needs")
    if not (JUDGES / "node_modules" / PACKAGES[kind]).is_dir():
        pytest.skip(f"{PACKAGES[kind]} is not here: npm install --no-package-lock in {JUDGES.name}")
    told = {
        "kind": kind,
        "secret": secret,
        "now": int(now.timestamp() * 1000),
        "url": request.public_url,
        "headers": dict(request.headers),
        "body": base64.b64encode(request.body).decode(),
    }
    done = subprocess.run(
        [node, str(JUDGES / "judge.mjs")],
        input=json.dumps(told).encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    # A library may say something first.
    good: bool = json.loads(done.stdout.decode().splitlines()[-1])["good"]
    return good


def _can_be_judged(request: Request) -> bool:
    """Twilio's library knows no shared keys yet, and SendGrid's reads text alone, and so no mail with files."""
    has_shared_key = "x-twilio-webhooks-signature-settings" in request.headers
    return not has_shared_key and request.content_type != "multipart/form-data"


@pytest.mark.parametrize("kind", sorted(PACKAGES))
def test_its_own_library_takes_our_samples_and_nothing_else(kind: str) -> None:
    case = cases_of(kind)[0]
    named = (case.secrets.active, case.other.active)
    secret, other = PUBLIC_KEYS.get(kind) or (some[0].decode() for some in named)
    posted = (case.signed(one) for one in case.samples if one.method == "POST")
    samples = [one for one in posted if _can_be_judged(one)]
    for request in samples[:SAMPLES]:
        assert _judged(kind, request, secret, case.now)
        assert not _judged(kind, request, other, case.now)
    spoiled = replace(samples[0], body=samples[0].body.replace(b"a", b"b", 1))
    assert not _judged(kind, spoiled, secret, case.now)


def test_linear_s_library_finds_a_request_too_old_when_we_do() -> None:
    case = cases_of("linear")[0]
    secret, request = case.secrets.active[0].decode(), case.signed(case.samples[0])
    for seconds, good in ((60, True), (61, False)):
        now = case.now + timedelta(seconds=seconds)
        assert _judged("linear", request, secret, now) is good
        if good:
            assert isinstance(case.receive(PROVIDERS["linear"], request, now=now), Batch)
        else:
            with pytest.raises(Refused):
                case.receive(PROVIDERS["linear"], request, now=now)
