"""The table of all operations of Control's HTTP face."""

from typing import Any

from pydantic import BaseModel, RootModel

from control.api import (
    approvals,
    conversations,
    edges,
    health,
    payments,
    people,
    query_grants,
    routines,
    tools,
    user_tier,
    wallets,
)
from control.api.openapi import document
from control.api.operation import Call, Operation


class OpenApiAnswer(RootModel[dict[str, Any]]):
    """The document itself."""


def describe(_call: Call) -> BaseModel:
    """This table, as an OpenAPI document."""
    return OpenApiAnswer(document(OPERATIONS))


OPERATIONS: list[Operation] = [
    Operation(
        name="openapi",
        method="GET",
        path="/api/openapi.json",
        access="public",
        summary="This document.",
        answer=OpenApiAnswer,
        handle=describe,
    ),
    *health.OPERATIONS,
    *query_grants.OPERATIONS,
    *people.OPERATIONS,
    *conversations.OPERATIONS,
    *user_tier.OPERATIONS,
    *approvals.OPERATIONS,
    *edges.OPERATIONS,
    *payments.OPERATIONS,
    *tools.OPERATIONS,
    *wallets.OPERATIONS,
    *routines.OPERATIONS,
]
