"""The OpenAPI document, made from the table of operations: what it does not list does not exist."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from control.api.operation import Access, Operation
from polyc.errors import HTTP_STATUS

_REFERENCE: Final = "#/components/schemas/{model}"
_BEARERS: Final[dict[Access, str]] = {
    "persona": "personaSession",
    "admin": "adminSession",
    "session": "session",
    "dispatch": "dispatchCredential",
    "late_dispatch": "dispatchCredential",
}
_ERROR: Final = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {
        "code": {"type": "string", "enum": sorted(HTTP_STATUS)},
        "message": {"type": "string"},
        "hint": {"type": "string"},
    },
}
_REFUSED: Final = ("400", "401", "403", "404", "409", "429", "503")


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """OpenAPI 3.1."""
    models = {item.answer for item in operations} | {item.body for item in operations if item.body is not None}
    _, schemas = models_json_schema(
        [(model, "validation") for model in sorted(models, key=lambda model: model.__name__)],
        ref_template=_REFERENCE,
    )
    paths: dict[str, dict[str, Any]] = {}
    for item in operations:
        paths.setdefault(item.path, {})[item.method.lower()] = _operation(item)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Polychrome Control",
            "version": "1",
            "description": "Sessions, personas, turns, approvals, grants. No operation takes SQL.",
        },
        "paths": paths,
        "components": {
            "schemas": {**schemas.get("$defs", {}), "Error": _ERROR},
            "securitySchemes": {name: {"type": "http", "scheme": "bearer"} for name in sorted(set(_BEARERS.values()))},
        },
    }


def _operation(item: Operation) -> dict[str, Any]:
    media = "application/x-ndjson" if item.streams else "application/json"
    described: dict[str, Any] = {
        "operationId": item.name,
        "summary": item.summary,
        "responses": {
            "200": {
                "description": "Done.",
                "content": {media: {"schema": {"$ref": _REFERENCE.format(model=item.answer.__name__)}}},
            },
            **{
                status: {
                    "description": "Refused.",
                    "content": {"application/json": {"schema": {"$ref": _REFERENCE.format(model="Error")}}},
                }
                for status in _REFUSED
            },
        },
    }
    if item.access != "public":
        described["security"] = [{_BEARERS[item.access]: []}]
    parameters = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for part in item.path.split("/")
        if part.startswith("{")
    ]
    if parameters:
        described["parameters"] = parameters
    if item.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": _REFERENCE.format(model=item.body.__name__)}}},
        }
    return described
