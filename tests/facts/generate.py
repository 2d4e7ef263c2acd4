"""Generated journals: few names, so that they collide; hostile authors, markers and spellings among the honest ones."""

from random import Random

from hypothesis import strategies as st

from facts import events as e
from tests.facts.journal import Journal

TURNS, DISPATCHES, NATIVES, MESSAGES = ["t1", "t2", "t3"], ["d1", "d2"], ["x", "y"], ["m", "n"]
KINDS = [
    "message", "message", "model_call", "usage", "usage", "tool_call", "tool_call", "tool_result", "tool_result",
    "approval_requested", "approval_requested", "approval_decided", "approval_decided", "refusal",
]  # fmt: skip


def _marker(journal, step):
    kind, turn, conversation, dispatch, by = step
    ref = journal.ref(turn, conversation)
    if kind == "intent":
        return e.DispatchIntent(id="i", turn=ref, dispatch_id=dispatch or "d1"), by
    if kind == "start":
        return e.TurnStart(id="s", turn=ref, dispatch_id=dispatch), by
    return e.TurnComplete(id="c", turn=ref, status="completed"), by


def _turn_event(journal, step):
    kind, turn, dispatch, native, message, by = step
    number = len(journal.records)
    match kind:
        case "message":
            blocks = (e.Block(type="text", text=f"said at {number}"),)
            return (
                e.Message(
                    id="m",
                    turn_id=turn,
                    message_id=message,
                    role="user",
                    material_origin="human_authored",
                    blocks=blocks,
                ),
                by,
            )
        case "model_call":
            return e.ModelCall(id="c", turn_id=turn, call_id=native), by
        case "usage":
            return e.Usage(id="u", turn_id=turn, call_id=native, input_tokens=number), by
        case "tool_call":
            return e.ToolCall(id="k", turn_id=turn, dispatch_id=dispatch, tool_call_id=native, name="n"), by
        case "tool_result":
            return e.ToolResult(id="r", turn_id=turn, dispatch_id=dispatch, tool_call_id=native), by
        case "approval_requested":
            return e.ApprovalRequested(
                id="a", turn_id=turn, dispatch_id=dispatch, request_id=native, tool_name="n"
            ), "edge"
        case "approval_decided":
            return (
                e.ApprovalDecided(id="b", turn_id=turn, dispatch_id=dispatch, request_id=native, outcome="approved"),
                "edge",
            )
    return e.Refusal(id="f", turn_id=turn, dispatch_id=dispatch, request_id=native, stage="policy"), "edge"


def _one_marker(random, kind):
    """The step of a marker, one in ten of a stranger or of another conversation."""
    conversation = "b" if random.random() < 0.1 else None
    by = random.choice(["harness", "importer", "nobody"]) if random.random() < 0.1 else "control"
    dispatch = random.choice([None, *DISPATCHES])
    return ("marker", kind, random.choice(TURNS), conversation, dispatch, by)


def one_event(random):
    """The step of an event of a turn, one in ten of a stranger, of no turn, or of a dispatch that may be another's."""
    turn = None if random.random() < 0.1 else random.choice(TURNS)
    dispatch = random.choice(DISPATCHES) if random.random() < 0.3 else None
    by = random.choice(["edge", "control", "nobody"]) if random.random() < 0.1 else "harness"
    kind, native, message = random.choice(KINDS), random.choice(NATIVES), random.choice(MESSAGES)
    return ("event", kind, None if dispatch and random.random() < 0.7 else turn, dispatch, native, message, by)


def script(seed, length):
    """Steps in which turns start, live and end, over and over, with all that can go wrong between."""
    random = Random(seed)
    steps = [_one_marker(random, "intent"), _one_marker(random, "start")]
    for _ in range(length):
        draw = random.random()
        if draw < 0.75:
            steps.append(one_event(random))
        else:
            steps.append(_one_marker(random, random.choice(["intent", "start", "start", "end"])))
    ends = [("marker", "end", turn, None, None, "control") for turn in random.sample(TURNS, random.randint(0, 3))]
    return [*steps, *ends]


steps = st.builds(script, st.integers(0, 2**32), st.integers(0, 60))
turn_events = st.integers(0, 2**32).map(lambda seed: one_event(Random(seed)))


def build(chosen, partition="conv-a", origin="live", by="control"):
    """The journal of these steps."""
    journal = Journal(partition).open(origin, by=by)
    for step in chosen:
        add(journal, step)
    return journal


def add(journal, step, *, by=None):
    """One step more."""
    what, *args = step
    event, author = (_marker if what == "marker" else _turn_event)(journal, args)
    if isinstance(event, e.Message | e.ModelCall | e.Usage) and author == "edge":
        author = "harness"
    journal.add(event, by=by or author)
