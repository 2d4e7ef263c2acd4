"""The event types: their names, their numbers in the entry header, and which roles may author them.

One list for the journal's door (which knows numbers and roles, never meaning), for the codec (which demands that the
header's number and the payload's tag agree, ruling 3) and for the folds (which check the signer's role again).
A number is never reused. Types without a row here are unknown: kept, counted, never folded; only `harness` and
`control` may author them (a newer writer of ours).
"""

from typing import Final, Literal, NamedTuple

Role = Literal["root", "control", "grant", "harness", "edge", "importer", "log", "projector", "query"]
ROLES: Final[tuple[Role, ...]] = (
    "root", "control", "grant", "harness", "edge", "importer", "log", "projector", "query",
)  # fmt: skip


class EventType(NamedTuple):
    """One row of the vocabulary: `kind` is the payload's tag, `code` the header's number."""

    kind: str
    code: int
    roles: frozenset[str]


def _type(kind: str, code: int, *roles: Role) -> EventType:
    return EventType(kind, code, frozenset(roles))


EVENT_TYPES: Final[tuple[EventType, ...]] = (
    # the frame of a conversation
    _type("conversation_opened", 1, "control", "importer"),
    _type("dispatch_intent", 2, "control"),
    _type("turn_start", 3, "control", "importer"),
    _type("turn_complete", 4, "control", "importer"),
    _type("session_updated", 5, "control", "harness", "importer"),
    _type("session_link", 6, "control", "importer"),
    _type("superseded", 7, "control", "importer"),
    # what a harness says
    _type("message", 16, "harness", "importer", "control"),
    _type("model_call", 17, "harness", "importer"),
    _type("usage", 18, "harness", "importer"),
    _type("tool_call", 19, "harness", "importer", "edge"),
    _type("tool_result", 20, "harness", "importer", "edge"),
    _type("context_snapshot", 21, "harness", "importer"),
    # what an edge says
    _type("approval_requested", 32, "edge", "importer"),
    _type("approval_decided", 33, "edge", "control", "importer"),
    _type("payment_required", 34, "edge"),
    _type("payment_receipt", 35, "edge", "importer"),
    _type("refusal", 36, "edge", "control", "importer"),
    _type("message_withheld", 37, "edge", "control"),
    _type("identity_asserted", 38, "edge"),
    _type("wallet_link", 39, "edge", "control"),
    # personas and participation
    _type("persona_recorded", 48, "control"),
    _type("participant_joined", 49, "control"),
    _type("participant_left", 50, "control"),
    # budgets, reservations, prices
    _type("budget_set", 56, "control"),
    _type("spend_reserved", 57, "control"),
    _type("spend_released", 58, "control"),
    _type("price_set", 59, "control"),
    # routines
    _type("routine_recorded", 64, "control"),
    _type("routine_run", 65, "control"),
    _type("routine_step", 66, "control"),
    # keys and credentials
    _type("key_added", 80, "root"),
    _type("key_revoked", 81, "root"),
    _type("credential", 82, "control"),
    # query audit
    _type("query_intent", 96, "query"),
    _type("query_outcome", 97, "query"),
    # the journal's honest records
    _type("gap", 112, "control"),
    _type("recovery", 113, "control"),
    _type("erased", 114, "control"),
    # imports
    _type("import_quarantined", 128, "importer"),
    # the user tier
    _type("assertion", 144, "control", "harness"),
    _type("session_tag", 145, "control"),
)

BY_KIND: Final[dict[str, EventType]] = {row.kind: row for row in EVENT_TYPES}
BY_CODE: Final[dict[int, EventType]] = {row.code: row for row in EVENT_TYPES}
assert len(BY_KIND) == len(EVENT_TYPES)
assert len(BY_CODE) == len(EVENT_TYPES)

UNKNOWN_TYPE_ROLES: Final = frozenset({"harness", "control"})

# Which partitions a role may write to, by prefix; "conv-imp-" is the importer's alone together with control's
# participation records (rulings 6, 14).
PARTITION_ROLES: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    ("sys-keys", frozenset({"root"})),
    ("query-audit-", frozenset({"query"})),
    ("conv-imp-", frozenset({"importer", "control"})),
    ("conv-", frozenset({"control", "harness", "edge"})),
    ("wallets", frozenset({"control", "edge"})),
    ("imports", frozenset({"importer"})),
    ("", frozenset({"control"})),
)


# Partitions whose events stay readable: without them keys, erasures and what was spent could not be judged any more.
KEPT_PREFIXES: Final = ("sys-keys", "journal-notices", "budgets", "spend-")


def may_author(role: str, *, code: int, partition: str) -> bool:
    """Whether a key of this role may append an event of this type to this partition.

    >>> may_author("harness", code=BY_KIND["turn_complete"].code, partition="conv-a")
    False
    >>> may_author("control", code=BY_KIND["turn_complete"].code, partition="conv-a")
    True
    """
    row = BY_CODE.get(code)
    allowed = UNKNOWN_TYPE_ROLES if row is None else row.roles
    if role not in allowed:
        return False
    for prefix, roles in PARTITION_ROLES:
        if partition.startswith(prefix):
            return role in roles
    return False
