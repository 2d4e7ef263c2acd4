"""Whatever authors do, in whatever order: the SQLite store and the plain model answer alike and hold the same log."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from journal.verify import verify_file
from polyc import note
from polyc.appending import Head
from polyc.errors import PolycError
from tests.journal.log import FENCE, MESSAGE, ORIGIN, TURN_COMPLETE, Log
from tests.journal.model import MemoryJournal

PARTITIONS = st.sampled_from(["conv-a", "conv-b", "conv-imp-c", "personas"])
ROLES = st.sampled_from(["harness", "control", "importer", "edge"])
APPEND_IDS = st.sampled_from([bytes([i]) * 16 for i in range(12)])
TYPES = st.sampled_from([MESSAGE, TURN_COMPLETE, 48])
PAYLOADS = st.lists(st.sampled_from([b"", b"one", b"two", b"\x00\xff"]), min_size=1, max_size=3)


class Journals(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.log = Log(Path(self._folder.name))
        self.model = MemoryJournal(
            origin=ORIGIN,
            root_public_key=self.log.signers["root"].public_key,
            log_signer=self.log.signers["log"],
            clock=self.log.clock,
        )
        self.log.found(self.model)
        self.store = self.log.open.__func__(_Unfounded(self.log))
        replay(self.model, self.store)

    def teardown(self) -> None:
        self.store.close()
        report = verify_file(self.log.path, policy=self.log.policy, level="V2")
        assert report.ok, report.faults
        self._folder.cleanup()

    @rule(
        partition=PARTITIONS, role=ROLES, append_id=APPEND_IDS, event_type=TYPES, payloads=PAYLOADS,
        fenced=st.booleans(), closes=st.booleans(), stale=st.integers(0, 3), afresh=st.booleans(),
    )  # fmt: skip
    def append(self, *, partition, role, append_id, event_type, payloads, fenced, closes, stale, afresh) -> None:
        head = self.model.head(partition)
        replaces = b""
        if head is None or (afresh and stale == 0):
            replaces = b"" if head is None else head.incarnation
            head = self.log.genesis(partition)
        elif stale == 3:
            head = Head(partition, head.incarnation, max(head.position - 1, 0), bytes(32))
        signed = self.log.sign(
            partition, *payloads, head=head, role=role, append_id=append_id, event_type=event_type,
            closes=closes and fenced, fence=FENCE if fenced else bytes(16), replaces=replaces,
        )  # fmt: skip
        assert answer(self.model, signed) == answer(self.store, signed)

    @rule(seconds=st.integers(-100_000, 100_000))
    def move_the_clock(self, seconds: int) -> None:
        self.log.clock.advance(seconds=seconds)

    @precondition(lambda self: self.model.size() > 8)
    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.log.open()

    @invariant()
    def they_hold_the_same_log(self) -> None:
        assert self.store.size() == self.model.size()
        assert self.store.partitions() == self.model.partitions()
        mine = note.parse_note(self.store.checkpoint(), place="x").text
        assert mine == note.parse_note(self.model.checkpoint(), place="x").text
        for head in self.model.partitions():
            assert list(self.store.read(head.partition)) == list(self.model.read(head.partition))


class _Unfounded:
    """The log without its first key events: the store gets the model's."""

    def __init__(self, log: Log) -> None:
        self.__dict__.update(log.__dict__)

    def found(self, _port) -> None:
        """Leave it empty."""


def replay(model: MemoryJournal, store) -> None:
    """Append to the store what the model holds (one signature covers the first key events)."""
    store.append(model.appended[0])


def answer(port, signed) -> tuple:
    """What an append came to: its place, or the family and code of the refusal."""
    try:
        ack = port.append(signed)
    except PolycError as error:
        return type(error).__name__, error.code, getattr(error, "actual", None)
    return ack.first_index, ack.first_position, ack.last_position, ack.head, ack.repeated


Journals.TestCase.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
TestJournals = Journals.TestCase
