"""LINE's and SendGrid's libraries for Node take our samples and nothing else, wherever Node and they are there."""

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from app.domain.webhook import Request
from tests.providers.cases import cases_of
from tests.providers.signing_keys import shown_key

JUDGES = Path(__file__).parent / "judges"
PACKAGES = {"line": "@line/bot-sdk", "sendgrid": "@sendgrid/eventwebhook"}
# What is right, and what is not; SendGrid's library reads text alone, and so no mail with files.
GIVEN = {
    "line": ("channel_secret", "another_secret", ("three-at-once", "the-console-looks")),
    "sendgrid": (shown_key(7), shown_key(8), ("events", "no-events")),
}


def _judged(kind: str, request: Request, secret: str) -> bool:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here, which the vendor's library needs")
    if not (JUDGES / "node_modules" / PACKAGES[kind]).is_dir():
        how = f"npm install --no-package-lock --no-save {PACKAGES[kind]} in {JUDGES.name}"
        pytest.skip(f"{PACKAGES[kind]} is not here: {how}")
    told = {
        "kind": kind,
        "secret": secret,
        "headers": dict(request.headers),
        "body": base64.b64encode(request.body).decode(),
    }
    done = subprocess.run(
        [node, str(JUDGES / "judge_mail.mjs")],
        input=json.dumps(told).encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    good: bool = json.loads(done.stdout.decode().splitlines()[-1])["good"]
    return good


@pytest.mark.parametrize("kind", sorted(PACKAGES))
def test_its_own_library_takes_our_samples_and_nothing_else(kind: str) -> None:
    case = cases_of(kind)[0]
    right, wrong, names = GIVEN[kind]
    for sample in case.samples:
        if sample.name in names:
            request = case.signed(sample)
            assert _judged(kind, request, right)
            assert not _judged(kind, request, wrong)
