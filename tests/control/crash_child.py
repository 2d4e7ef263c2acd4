"""Runs one turn over the real embedded journal and dies, as by kill -9, at the step it was told.

    python -m tests.control.crash_child ROOT KIND before|after

The process holds Control and the journal's writer at once, so both die; `KIND` is the event type whose append it is.
"""

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from control.approvals import ApprovalDesk
from control.context import ControlContext
from control.edges import append_edge
from control.ports import RedactionPolicy
from control.turn_runner import TurnRunner
from facts.events import Refusal
from journal import boot
from polyc.appending import SignedAppend
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.entry import decode_header
from polyc.ids import SystemIds
from polyc.vocabulary import BY_KIND

POLICY = RedactionPolicy(policy="none", version="0", clean=lambda payloads: payloads)


class Dying:
    """The journal, until the append of one kind of event."""

    def __init__(self, journal, *, kind: str, when: str) -> None:
        self._journal = journal
        self._code = BY_KIND[kind].code
        self._when = when

    def __getattr__(self, name: str):
        return getattr(self._journal, name)

    def append(self, signed: SignedAppend):
        codes = {decode_header(item.header, place="x").event_type for item in signed.entries}
        if self._code in codes and self._when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        ack = self._journal.append(signed)
        if self._code in codes:
            os.kill(os.getpid(), signal.SIGKILL)
        return ack


async def run(context: ControlContext, conversation: str) -> None:
    runner = TurnRunner(context, ApprovalDesk(context), control_url="http://127.0.0.1:1")
    turn = await runner.start(partition=conversation, persona_id="ada", harness="talk", prompt="needle")
    refusal = Refusal(id="r", dispatch_id=turn.dispatch.dispatch_id, request_id="x", stage="policy")
    await asyncio.to_thread(append_edge, context, turn.dispatch, [refusal])
    (context.root.path / "go").touch()
    await turn.task


def main(root: DataRoot, conversation: str, kind: str, when: str) -> None:
    clock, ids = SystemClock(), SystemIds()
    with boot.open_embedded(root, clock=clock, ids=ids) as journal:
        dying = Dying(journal, kind=kind, when=when)
        context = replace(ControlContext.open(dying, root, clock=clock, ids=ids), redaction=POLICY)
        asyncio.run(run(context, conversation))


if __name__ == "__main__":
    main(DataRoot(Path(sys.argv[1])), sys.argv[2], sys.argv[3], sys.argv[4])
