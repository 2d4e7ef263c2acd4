"""What was said in a conversation before, for harnesses that keep no session of their own.

Read through the shared fold, so exactly what the tables show: committed turns alone, nothing withheld.
"""

from control.context import ControlContext
from facts.catalog import TABLES
from facts.partition import open_fold
from facts.trust import Trust
from polyc.limits import HISTORY_MESSAGES_MAX

_ROLES = frozenset({"user", "assistant"})


def history_of(context: ControlContext, partition: str) -> tuple[dict[str, str], ...]:
    """The last messages of people and assistants, oldest first."""
    with context.index.view():
        fold = open_fold(partition, Trust(keys=context.index.keys))
    for record in context.journal.read(partition):
        fold.apply(record)
    names = TABLES["messages"].column_names
    role, kind, text = names.index("role"), names.index("kind"), names.index("text")
    said = [
        {"role": str(row[role]), "text": str(row[text])}
        for row in fold.rows().get("messages", [])
        if row[role] in _ROLES and row[kind] == "text" and row[text]
    ]
    return tuple(said[-HISTORY_MESSAGES_MAX:])
