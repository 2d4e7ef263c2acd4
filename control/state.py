"""All that Control remembers, folded from the log record by record; the log alone is the truth.

`State.apply` takes every record once, in log order. It knows which event types matter, demands the role `control` for
them (rulings 2, 3), and hands each to the book that keeps its kind. It is a value that msgspec can write down: the
snapshot is a cache, never evidence.
"""

import hashlib
from typing import Final

import msgspec

from control import credential_book, persona_book, routine_book, turn_book, wallet_book
from control.credential_book import CredentialBook
from control.persona_book import PersonaBook
from control.routine_book import RoutineBook
from control.turn_book import TurnBook
from control.wallet_book import WalletBook
from facts import codec
from facts.events import Credential
from polyc.entry import Record
from polyc.keyring import KEYS_PARTITION, KeyRing
from polyc.vocabulary import BY_KIND

_BOOKS: Final = (persona_book, credential_book, turn_book, routine_book, wallet_book)
_CODES: Final = frozenset(BY_KIND[kind].code for book in _BOOKS for kind in book.CODES)
_OPENED: Final = BY_KIND["conversation_opened"].code
_ERASED: Final = BY_KIND["erased"].code


class State(msgspec.Struct):
    """The books, the key events, and how far the log was read; `fingerprint` is the last record's.

    `erased_index` is where the last erasure stands: what was read before it may hold what must be forgotten.
    `keys_cursor`: key events below it are known already (a state that is folded anew keeps its keys).
    """

    cursor: int = 0
    erased_index: int = -1
    keys_cursor: int = 0
    fingerprint: bytes = b""
    key_payloads: list[bytes] = msgspec.field(default_factory=list)
    personas: PersonaBook = msgspec.field(default_factory=PersonaBook)
    credentials: CredentialBook = msgspec.field(default_factory=CredentialBook)
    turns: TurnBook = msgspec.field(default_factory=TurnBook)
    routines: RoutineBook = msgspec.field(default_factory=RoutineBook)
    wallets: WalletBook = msgspec.field(default_factory=WalletBook)

    def apply(self, record: Record, keys: KeyRing) -> None:
        """Take the next record; `keys` grows with it."""
        assert record.index == self.cursor, "records come in log order, each once"
        place = f"{record.partition} {record.position}"
        if record.partition == KEYS_PARTITION:
            self._apply_key(record, keys, place=place)
        elif record.partition.startswith("conv-"):
            self._end_grants(self.personas.place(record), record)
        if record.event_type == _ERASED:
            self.erased_index = record.index
        if record.event_type in _CODES and record.payload is not None:
            self._apply_event(record, keys, place=place)
        self.cursor = record.index + 1

    def folded_anew(self) -> "State":
        """An empty state of the same log that knows its keys."""
        return State(key_payloads=self.key_payloads, keys_cursor=self.cursor, erased_index=self.erased_index)

    def _apply_key(self, record: Record, keys: KeyRing, *, place: str) -> None:
        if record.index < self.keys_cursor or record.payload is None:
            return
        if keys.role_at(record.key_id, record.index) != "root":
            return
        keys.apply(record.payload, place=place)
        self.key_payloads.append(record.payload)

    def _apply_event(self, record: Record, keys: KeyRing, *, place: str) -> None:
        role = keys.role_at(record.key_id, record.index)
        is_opening = record.event_type == _OPENED and record.position == 1
        if role != "control" and not (role == "importer" and is_opening):
            return
        assert record.payload is not None
        event = codec.decode(record.event_type, record.payload, place=place)
        if isinstance(event, Credential):
            self.credentials.apply(record, event)
        elif event is not None:
            self._end_grants(self.personas.apply(record, event), record)
            self.turns.apply(record, event)
            self.routines.apply(record, event)
            self.wallets.apply(record, event)

    def _end_grants(self, subjects: list[str], record: Record) -> None:
        for subject in subjects:
            self.credentials.revoke_subject(subject, at_s=record.recorded_at_us // 1_000_000)


def fingerprint_of(record: Record) -> bytes:
    """What tells whether a record is the one a snapshot ended with."""
    parts = (
        record.partition.encode(),
        record.incarnation,
        record.position.to_bytes(8, "big"),
        record.recorded_at_us.to_bytes(8, "big", signed=True),
        record.key_id,
    )
    return hashlib.sha256(b"\0".join(parts)).digest()
