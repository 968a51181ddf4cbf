"""libsodium, which Discord's own pages verify with, signs what we take and takes our samples; keys can be rotated."""

import pytest
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from app.domain.webhook import Batch, Refused, Reply, Request, Result, Secrets
from app.providers.discord import provider as discord
from tests.providers.cases import URL, Sample, cases_of, config_of

CASE = cases_of("discord")[0]
PUBLIC = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
OTHER = SigningKey(b"2" * 32)


@pytest.mark.parametrize("sample", CASE.samples, ids=lambda sample: str(sample.name))
def test_libsodium_takes_our_samples(sample: Sample) -> None:
    signed = CASE.signed(sample)
    signature = bytes.fromhex(signed.headers["x-signature-ed25519"])
    told = signed.headers["x-signature-timestamp"].encode() + signed.body
    VerifyKey(bytes.fromhex(PUBLIC)).verify(told, signature)
    with pytest.raises(BadSignatureError):
        VerifyKey(bytes(OTHER.verify_key)).verify(told, signature)


def test_what_libsodium_signs_is_taken_under_either_key_and_refused_without_its_own() -> None:
    body = CASE.samples[0].body
    headers = {
        "x-signature-timestamp": "1796040000",
        "x-signature-ed25519": OTHER.sign(b"1796040000" + body).signature.hex(),
    }
    request = Request(method="POST", public_url=URL, headers=headers, body=body)
    own = bytes(OTHER.verify_key).hex()

    def receive(*public_keys: str) -> Batch | Reply:
        config = config_of(discord, {"public_keys": public_keys})
        return discord.receive(request, config=config, secrets=Secrets(), keys=None, now=CASE.now)

    assert isinstance(receive(own), Batch)
    assert receive(PUBLIC, own) == receive(own, PUBLIC) == receive(own.upper())
    with pytest.raises(Refused) as refused:
        receive(PUBLIC)
    assert refused.value.result is Result.BAD_SIGNATURE
