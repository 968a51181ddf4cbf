import ast
import json
import re
from pathlib import Path
from typing import Any, Final, get_args

import pytest

import app
from app.api.calls import Call
from app.api.codes import ALL_CODES, CONTENT_CODES, REQUEST_CODES
from app.api.problems import ClientGone, Refusal, answer_error
from app.api.routes import CALLS
from app.domain import errors
from app.domain.errors import InvalidContent, NotReady, Problem, SinksweepError
from app.domain.lifecycle import MessageState, TurnState
from app.domain.model import (
    AlreadySealed,
    HandedBack,
    LeaseLost,
    NoParkSeconds,
    NoSuchTurn,
    Parked,
    ParksExhausted,
    Renewed,
    Sealed,
)
from app.engine import park, release, renew, seal
from app.engine.transaction import DatabaseUnavailable
from tests.api.conftest import Service

ROOT: Final = Path(app.__file__).parent.parent
OPENAPI: Final = ROOT / "docs" / "openapi.json"
API: Final = ROOT / "docs" / "api.md"


async def served(service: Service) -> dict[str, Any]:
    document: dict[str, Any] = (await service.get("/openapi.json", scope=None)).json
    return document


async def test_the_committed_document_is_the_one_that_is_served(service: Service) -> None:
    written = json.dumps(await served(service), indent=1, sort_keys=True) + "\n"
    # To renew it: `make schema`, and read the difference.
    assert OPENAPI.read_text() == written


async def test_the_document_names_every_state_and_code(service: Service) -> None:
    schemas = (await served(service))["components"]["schemas"]
    assert schemas["TurnState"]["enum"] == list(TurnState)
    assert schemas["MessageState"]["enum"] == list(MessageState)
    assert schemas["ProblemDocument"]["properties"]["code"]["enum"] == list(ALL_CODES)


async def test_every_reference_of_the_document_leads_somewhere(service: Service) -> None:
    document = await served(service)
    names = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document))
    assert set(names) <= set(document["components"]["schemas"])
    ids = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(ids) == len(set(ids))
    secured = {
        path
        for path, verbs in document["paths"].items()
        for one in verbs.values()
        if "security" in one
    }
    assert secured == {call.path for call in CALLS if call.scopes}


# What a provider asks for is its own.
OURS = [call for call in CALLS if call.scopes]


@pytest.mark.parametrize("call", OURS, ids=lambda call: f"{call.method} {call.path}")
async def test_a_parameter_that_a_call_has_not_is_refused(service: Service, call: Call) -> None:
    path = call.path.format(id="turn_0", name="default")
    body: dict[str, object] | None = None if call.request is None else {}
    # Deciding is nobody's beside it, not an administrator's either.
    scope = "approve" if call.scopes == {"approve"} else "admin"
    answer = await service.call(call.method, f"{path}?hold=true", json_body=body, scope=scope)
    assert (answer.status, answer.code) == (422, "unknown_field")
    assert answer.json["errors"][0]["pointer"] == "/hold"


async def test_answers_have_the_documented_members(service: Service) -> None:
    """Every member that is served is documented, and what is required is served."""
    schemas = (await served(service))["components"]["schemas"]
    turn = await service.claimed("k1", conversation="c", metadata={"m": 1})
    message = {"destination": "loopback", "payload": 1}
    sealed = (await service.seal(turn, [message])).json
    answers = {
        "Accepted": (await service.accept("k2")).json,
        "ClaimedTurn": turn,
        "ClaimedInbound": turn["inbound"][0],
        "Sealed": sealed,
        "Turn": (await service.get(f"/v1/turns/{turn['id']}")).json,
        "Inbound": (await service.get(f"/v1/inbound/{turn['inbound'][0]['id']}")).json,
        "Events": (await service.get(f"/v1/turns/{turn['id']}/events")).json,
        "Message": (await service.get(f"/v1/outbox/{sealed['messages'][0]['id']}")).json,
        "Ready": (await service.get("/readyz")).json,
        "ProblemDocument": (await service.get("/v1/nope")).json,
    }
    answers["Event"] = answers["Events"]["items"][0]
    answers["MessageStatus"] = answers["Turn"]["messages"][0]
    for name, answer in answers.items():
        assert set(answer) <= set(schemas[name]["properties"]), name
        assert set(schemas[name].get("required", ())) <= set(answer), name


def written_codes() -> set[str]:
    """Every code that stands in the source as one."""
    codes: set[str] = set()
    places = {"Problem": 1, "Refusal": 0, "refuse": 1, "_problem": 2, "InvalidHeader": 0}
    for path in (ROOT / "app").rglob("*.py"):
        if path.parent.name in ("settings", "dev", "workers"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            at = places.get(name)
            given = [*node.args[at : at + 1]] if at is not None else []
            given += [word.value for word in node.keywords if word.arg == "code"]
            codes |= {
                one.value
                for one in given
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
    return codes


def test_every_code_in_the_source_is_in_the_list() -> None:
    assert not written_codes() - set(ALL_CODES)


def test_no_code_is_in_both_lists() -> None:
    assert not set(REQUEST_CODES) & set(CONTENT_CODES)


def subclasses(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(subclasses(one) for one in kind.__subclasses__()))


def test_every_error_of_the_domain_has_its_status() -> None:
    statuses = {
        type(error): answer_error(error).status_code
        for error in (
            InvalidContent(Problem("", "required")),
            NotReady("database_unavailable", "away"),
            DatabaseUnavailable(),
            Refusal("not_found"),
            ClientGone(),
        )
    }
    assert statuses == {
        InvalidContent: 422,
        NotReady: 503,
        DatabaseUnavailable: 503,
        Refusal: 404,
        ClientGone: 499,
    }
    declared = {
        one
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, SinksweepError)
    }
    assert declared - {SinksweepError} <= set(statuses)
    assert answer_error(SinksweepError()).status_code == 500
    assert answer_error(RuntimeError()).status_code == 500


def test_every_outcome_of_a_lease_is_answered() -> None:
    outcomes = {
        outcome for module in (park, renew, release, seal) for outcome in get_args(module.Outcome)
    }
    given = {Parked, Renewed, HandedBack, Sealed}
    refused = {ParksExhausted, NoParkSeconds, AlreadySealed, LeaseLost, NoSuchTurn}
    assert outcomes == given | refused


@pytest.mark.parametrize("code", REQUEST_CODES)
def test_every_request_code_makes_a_document_of_its_own_status(code: str) -> None:
    answer = answer_error(Refusal(code))
    document = json.loads(bytes(answer.body))
    assert answer.status_code == document["status"] == REQUEST_CODES[code].status
    assert document["code"] == code
    assert document["detail"]
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_the_page_lists_every_code_and_every_call() -> None:
    text = API.read_text()
    told = dict(re.findall(r"^\| `(\w+)` \| (\d{3}) \|", text, re.MULTILINE))
    assert told == {code: str(one.status) for code, one in REQUEST_CODES.items()}
    named = set(re.findall(r"^\| `(\w+)` \| (?!\d{3} \|)", text, re.MULTILINE))
    assert named == set(CONTENT_CODES)
    for call in CALLS:
        assert f"`{call.method} {call.path}`" in text, call.path
