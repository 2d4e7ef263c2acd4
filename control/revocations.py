"""The signed list of revocations: published with a heartbeat every second, and at once when something was revoked.

The list is a function of the log and the time, so it survives a restart. Several processes may publish (the command
line does when Control is not up): a list already there that knows at least as much of the log and is fresh is left.
"""

import threading
from contextlib import suppress

from control import sessions
from control.context import ControlContext
from polyc import published
from polyc.errors import PolycError
from polyc.limits import REVOCATION_HEARTBEAT_S
from polyc.published import Revocations


def current(context: ControlContext, *, after_sequence: int = 0) -> Revocations:
    """What must be refused now."""
    now_us = context.clock.now_us()
    with context.index.view() as state:
        credential_ids, subjects = state.credentials.live_revocations(now_s=now_us // 1_000_000)
        return Revocations(
            issued_at_s=now_us // 1_000_000,
            sequence=max(now_us, after_sequence + 1),
            size=state.cursor,
            keys_position=len(state.key_payloads),
            credential_ids=credential_ids,
            subjects=subjects,
        )


def publish(context: ControlContext) -> None:
    """Write the list, unless the one that is there says as much and is of this second."""
    with context.publishing:
        there = _published(context)
        listed = current(context, after_sequence=0 if there is None else there.sequence)
        if there is not None and there.size >= listed.size and there.issued_at_s == listed.issued_at_s:
            return
        published.write_revocations(context.published, listed, signer=context.grant_key.current)


def beat(context: ControlContext, *, stop: threading.Event) -> None:
    """Publish every second until told to stop, and put on record which sessions ended by themselves.

    A failed beat (the journal is away, the disk is full) is tried again; edges refuse when none succeeds for 10 s.
    """
    while not stop.wait(REVOCATION_HEARTBEAT_S):
        with suppress(PolycError, OSError):
            publish(context)
            sessions.record_expired(context)


def _published(context: ControlContext) -> Revocations | None:
    """The list that lies there, when it is ours and of now."""
    try:
        bundle = published.KeyBundle(keys=context.index.keys, size=context.journal.size(), position=0)
        return published.load_revocations(context.published, bundle=bundle, now_us=context.clock.now_us())
    except PolycError:
        return None
