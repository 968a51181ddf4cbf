"""gidgethub takes what our samples are signed with; and a delivery under another id is known by its body."""

from dataclasses import replace

import pytest
from gidgethub import ValidationFailure
from gidgethub.sansio import Event, validate_event

from app.domain.webhook import Batch
from app.providers.github import provider as github
from tests.providers.cases import Sample, cases_of

(CASE,) = cases_of("github")


@pytest.mark.parametrize("sample", CASE.samples, ids=lambda sample: str(sample.name))
def test_gidgethub_takes_our_samples_and_no_other_secret(sample: Sample) -> None:
    signed = CASE.signed(sample)
    signature = signed.headers["x-hub-signature-256"]
    validate_event(signed.body, signature=signature, secret=CASE.secrets.active[0].decode())
    with pytest.raises(ValidationFailure):
        validate_event(signed.body, signature=signature, secret=CASE.other.active[0].decode())


def test_we_find_the_event_and_the_delivery_that_gidgethub_finds() -> None:
    signed = CASE.signed(CASE.samples[0])
    event = Event.from_http(signed.headers, signed.body, secret=CASE.secrets.active[0].decode())
    read = CASE.receive(github, signed)
    assert isinstance(read, Batch)
    assert read.items[0].keys[0] == event.delivery_id
    assert read.items[0].event == f"{event.event}.{event.data['action']}"


def test_a_replay_under_a_new_id_has_the_key_of_its_body() -> None:
    signed = CASE.signed(CASE.samples[0])
    again = replace(signed, headers={**signed.headers, "x-github-delivery": "another"})
    read, replayed = CASE.receive(github, signed), CASE.receive(github, again)
    assert isinstance(read, Batch)
    assert isinstance(replayed, Batch)
    assert read.items[0].keys[0] != replayed.items[0].keys[0]
    assert read.items[0].keys[1] == replayed.items[0].keys[1]
