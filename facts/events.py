"""The event vocabulary: one frozen tagged struct a type (data-model.md, "Words").

An event is one JSON object; `type` is its tag. The author's bytes are what is signed, hashed and stored; they are
decoded here and never re-encoded. Unknown fields are ignored (a newer writer's), a missing required field is a fault.

The log records a turn id in three ways, and each struct below carries exactly one of them:
1. markers carry `turn: TurnRef` in the body,      2. harness events carry `turn_id`,
3. edge events carry `dispatch_id`.                 `facts.turns` alone resolves the three.

Texts are UTF-8 without lone surrogates (sources replace them and say so); times are RFC 3339 with an offset, or
null with a `time_flag` when the source's time could not be read; amounts of money are decimal digits in text.
"""

from facts.events_base import (
    EdgeEvent,
    Event,
    HarnessEvent,
    Marker,
    TurnRef,
)
from facts.events_conversation import (
    Action,
    Block,
    BlockType,
    ContextSnapshot,
    ConversationOpened,
    DispatchIntent,
    Evidence,
    MaterialOrigin,
    Message,
    MessageKind,
    ModelCall,
    Redaction,
    Role,
    SessionLink,
    SessionUpdated,
    Superseded,
    ToolCall,
    ToolResult,
    TurnComplete,
    TurnStart,
    TurnStatus,
    Usage,
)
from facts.events_deployment import (
    Assertion,
    BudgetSet,
    Credential,
    Erased,
    Gap,
    ImportQuarantined,
    ParticipantJoined,
    ParticipantLeft,
    PersonaRecorded,
    PriceSet,
    QueryIntent,
    QueryOutcome,
    QueryStatus,
    Recovery,
    RoutineRecorded,
    RoutineRun,
    RoutineStep,
    SessionTag,
    SpendReleased,
    SpendReserved,
    Surface,
)
from facts.events_edge import (
    ApprovalDecided,
    ApprovalRequested,
    IdentityAsserted,
    MessageWithheld,
    PaymentReceipt,
    PaymentRequired,
    Refusal,
    WalletLink,
)
from polyc.keyring import KeyAdded, KeyRevoked

__all__ = [
    "Action",
    "AnyEvent",
    "ApprovalDecided",
    "ApprovalRequested",
    "Assertion",
    "Block",
    "BlockType",
    "BudgetSet",
    "ContextSnapshot",
    "ConversationOpened",
    "Credential",
    "DispatchIntent",
    "EdgeEvent",
    "Erased",
    "Event",
    "Evidence",
    "Gap",
    "HarnessEvent",
    "IdentityAsserted",
    "ImportQuarantined",
    "KeyAdded",
    "KeyRevoked",
    "Marker",
    "MaterialOrigin",
    "Message",
    "MessageKind",
    "MessageWithheld",
    "ModelCall",
    "ParticipantJoined",
    "ParticipantLeft",
    "PaymentReceipt",
    "PaymentRequired",
    "PersonaRecorded",
    "PriceSet",
    "QueryIntent",
    "QueryOutcome",
    "QueryStatus",
    "Recovery",
    "Redaction",
    "Refusal",
    "Role",
    "RoutineRecorded",
    "RoutineRun",
    "RoutineStep",
    "SessionLink",
    "SessionTag",
    "SessionUpdated",
    "SpendReleased",
    "SpendReserved",
    "Superseded",
    "Surface",
    "ToolCall",
    "ToolResult",
    "TurnComplete",
    "TurnRef",
    "TurnStart",
    "TurnStatus",
    "Usage",
    "WalletLink",
]

AnyEvent = (
    ConversationOpened
    | DispatchIntent
    | TurnStart
    | TurnComplete
    | SessionUpdated
    | SessionLink
    | Superseded
    | Message
    | ModelCall
    | Usage
    | ToolCall
    | ToolResult
    | ContextSnapshot
    | ApprovalRequested
    | ApprovalDecided
    | PaymentRequired
    | PaymentReceipt
    | Refusal
    | MessageWithheld
    | IdentityAsserted
    | WalletLink
    | PersonaRecorded
    | ParticipantJoined
    | ParticipantLeft
    | BudgetSet
    | SpendReserved
    | SpendReleased
    | PriceSet
    | RoutineRecorded
    | RoutineRun
    | RoutineStep
    | Credential
    | QueryIntent
    | QueryOutcome
    | Gap
    | Recovery
    | Erased
    | ImportQuarantined
    | Assertion
    | SessionTag
    | KeyAdded
    | KeyRevoked
)
