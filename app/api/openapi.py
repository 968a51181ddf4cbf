"""The OpenAPI document: written from the table of calls, so that it cannot say anything else."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.api.calls import Call
from app.api.codes import REQUEST_CODES
from app.api.problems import MEDIA_TYPE
from app.api.schemas import ProblemDocument
from app.domain.lifecycle import TurnState

_REF: Final = "#/components/schemas/{model}"
_INTEGERS: Final = frozenset({"cursor", "limit", "seal"})
EVERYWHERE: Final = (
    "unauthorized",
    "scope_missing",
    "request_timeout",
    "headers_too_large",
    "internal_error",
    "database_unavailable",
    "overloaded",
)

Document = dict[str, Any]


def document(calls: Sequence[Call], *, version: str) -> Document:
    """Write the whole document."""
    models: set[type[BaseModel]] = {ProblemDocument}
    for call in calls:
        models |= {model for model in (call.request, *call.answers.values()) if model}
    in_order = sorted(models, key=lambda model: model.__name__)
    _, schemas = models_json_schema(
        [(model, "validation") for model in in_order], ref_template=_REF
    )
    paths: dict[str, Document] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sinksweep",
            "version": version,
            "description": "A durable inbox and outbox that makes any agent retryable.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(call: Call) -> Document:
    operation: Document = {
        "operationId": call.name,
        "summary": call.summary,
        "parameters": _parameters(call),
        "responses": _responses(call),
    }
    if call.scopes:
        operation["security"] = [{"key": []}]
        operation["x-scopes"] = sorted(call.scopes | {"admin"})
    if call.request is not None:
        operation["requestBody"] = {"required": True, "content": _json(call.request)}
    return operation


def _parameters(call: Call) -> list[Document]:
    parameters: list[Document] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", call.path)
    ]
    for name, words in call.headers.items():
        schema = {"type": "string", "minLength": 1, "maxLength": 255}
        parameters.append(
            {
                "name": name,
                "in": "header",
                "required": True,
                "description": words,
                "schema": schema,
            }
        )
    for name, words in call.query.items():
        schema = {"type": "string"} if name in call.texts else _query_schema(name)
        parameters.append({"name": name, "in": "query", "description": words, "schema": schema})
    return parameters


def _query_schema(name: str) -> Document:
    if name == "wait":
        return {"type": "string", "enum": list(TurnState)}
    return {"type": "integer" if name in _INTEGERS else "number", "minimum": 0}


def _responses(call: Call) -> Document:
    responses: Document = {}
    for status, model in call.answers.items():
        content = {"content": _json(model)} if model else {}
        responses[str(status)] = {"description": call.summary, **content}
    codes = [*call.codes, *(EVERYWHERE if call.scopes else ())]
    if call.may_be_purged:
        codes.append("purged")
    for status in sorted({REQUEST_CODES[code].status for code in codes}):
        named = sorted(code for code in set(codes) if REQUEST_CODES[code].status == status)
        responses.setdefault(
            str(status),
            {
                "description": _described(named),
                "content": {MEDIA_TYPE: {"schema": _reference(ProblemDocument)}},
            },
        )
    return responses


def _described(codes: Iterable[str]) -> str:
    return " ".join(f"`{code}`: {REQUEST_CODES[code].detail}" for code in codes)


def _json(model: type[BaseModel]) -> Document:
    return {"application/json": {"schema": _reference(model)}}


def _reference(model: type[BaseModel]) -> Document:
    return {"$ref": _REF.format(model=model.__name__)}
