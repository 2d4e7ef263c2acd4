"""`polyc demo`: a journal in a temporary folder, what a query sees of it and what not, and what `verify` says to a lie.

Everything is real: keys, signed appends, projection, grants, the gate, the sealed worker. Only the conversation is
made up. Four laws are shown, each by a statement and its answer.
"""

import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from facts import codec, events
from journal.verify import verify
from polyc.cli.deployment import Deployment, opened
from polyc.cli.output import write_rows
from polyc.cli.projecting import project
from polyc.cli.verifying import lines_of
from polyc.dataroot import DataRoot
from polyc.errors import RefusedError
from polyc.ids import PersonaId, uuid7
from query_plane.local import run_local

CONVERSATION: Final = "conv-demo"
PERSONA: Final = PersonaId("maren")
TRUTH: Final = "The night ferry leaves at 23:40."
LIE: Final = "The night ferry leaves at 22:40."


def run(arguments: Namespace) -> int:
    """Show the four laws."""
    with _folder(arguments.keep) as folder:
        root = DataRoot(folder)
        with opened(root, create=True) as deployment:
            _heading("one committed turn, and one whose program crashed before it ended")
            tell_story(deployment)
            project(deployment)
            _ask(deployment, "SELECT role, text FROM messages ORDER BY position")
            _heading("the same, asked by an admin: an unfinished turn is in no table of any realm")
            _ask(
                deployment,
                "SELECT COUNT(*) AS rows_of_the_crashed_turn FROM messages WHERE text ILIKE '%day ferry%'",
                admin=True,
            )
            _heading("a table outside the caller's realm does not resolve; an admin may name it")
            _ask(deployment, "SELECT role, COUNT(*) AS keys FROM signer_keys GROUP BY role")
            _ask(deployment, "SELECT role, COUNT(*) AS keys FROM signer_keys GROUP BY role ORDER BY role", admin=True)
        _heading("verify, then change one byte of the journal's file, then verify again")
        _verify(root)
        flip_byte(root.journal_file)
        _verify(root)
        if arguments.keep:
            print(f"\nkept in {folder}")
    return 0


def tell_story(deployment: Deployment) -> None:
    """Append two turns as Control and a harness would; the second one never ends."""
    control = deployment.control()
    author, harness = deployment.author("control"), deployment.author("harness")
    now = datetime.fromtimestamp(deployment.clock.now_us() / 1e6, UTC)

    def fresh() -> str:
        return uuid7(deployment.clock, deployment.ids)

    opening = events.ConversationOpened(
        id=fresh(), occurred_at=now, origin="live", conversation_id="demo", title="Ferry desk"
    )
    author.append(CONVERSATION, [codec.encode(opening)])
    control.ensure_persona(PERSONA)
    control.join(CONVERSATION, PERSONA)
    for turn_id, prompt, answer in (
        ("turn-1", "When does the night ferry leave?", TRUTH),
        ("turn-2", "And the day ferry?", "The day ferry leaves at"),
    ):
        turn = events.TurnRef(conversation_id="demo", turn_id=turn_id)
        dispatch = fresh()
        intent = events.DispatchIntent(id=fresh(), occurred_at=now, turn=turn, dispatch_id=dispatch, persona_id=PERSONA)
        start = events.TurnStart(id=fresh(), occurred_at=now, turn=turn, dispatch_id=dispatch, persona_id=PERSONA)
        author.append(CONVERSATION, [codec.encode(intent), codec.encode(start)])
        said = [_message(fresh(), now, turn_id, "user", prompt), _message(fresh(), now, turn_id, "assistant", answer)]
        harness.append(CONVERSATION, [codec.encode(message) for message in said])
        if turn_id == "turn-1":
            end = events.TurnComplete(id=fresh(), occurred_at=now, turn=turn, status="completed")
            author.append(CONVERSATION, [codec.encode(end)])


def flip_byte(journal_file: Path) -> None:
    """Change one digit of what was said, in the file, behind everybody's back."""
    content = journal_file.read_bytes()
    place = content.find(TRUTH.encode())
    assert place > 0, "the journal keeps the author's bytes as they are"
    changed = place + next(offset for offset, (old, new) in enumerate(zip(TRUTH, LIE, strict=True)) if old != new)
    with journal_file.open("r+b") as file:
        file.seek(changed)
        file.write(LIE[changed - place].encode())
    print(f"$ # byte {changed} of {journal_file.name}: {chr(content[changed])!r} becomes {LIE[changed - place]!r}")


def _message(event_id: str, now: datetime, turn_id: str, role: str, text: str) -> events.Message:
    return events.Message(
        id=event_id,
        occurred_at=now,
        turn_id=turn_id,
        message_id=f"{turn_id}-{role}",
        role="user" if role == "user" else "assistant",
        material_origin="human_authored" if role == "user" else "assistant_authored",
        blocks=(events.Block(type="text", text=text),),
    )


def _ask(deployment: Deployment, sql: str, *, admin: bool = False) -> None:
    who = "--admin" if admin else f"--persona {PERSONA}"
    print(f'$ polyc query {who} "{sql}"')
    control = deployment.control()
    token, _ = control.mint_grant(admin=True) if admin else control.mint_grant(persona=PERSONA)
    try:
        answer = run_local(
            deployment.root, token, sql, port=deployment.journal, clock=deployment.clock, ids=deployment.ids
        )
    except RefusedError as error:
        print(f"polyc: error: {error.code}: {error.message}")
        return
    write_rows([column.name for column in answer.columns], answer.rows, form="table")


def _verify(root: DataRoot) -> None:
    print("$ polyc verify")
    report = verify(root)
    print("\n".join(lines_of(report)))


def _heading(text: str) -> None:
    print(f"\n# {text}")


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="polyc-demo-") as name:
            yield Path(name)
        return
    folder = Path(keep)
    if folder.exists():
        raise RefusedError(f"{keep} exists", code="already_exists", hint="name a new folder")
    yield folder
