"""A journal in memory with real headers, chains, signatures and checkpoint notes: for planes that only read it.

It complains when misused (a wrong prev, position or digest is an AssertionError), and it can be damaged on purpose:
`tamper` flips a payload, `truncate` restores an older journal, `fork` forgets a tail and goes on differently.
"""

import base64
import hashlib
import threading
from collections.abc import Iterator
from typing import Any

from journal.port import PartitionHead, RawEntry
from polyc.appending import Ack, Author, Draft, Expected, Head, SignedAppend, SignedEntry
from polyc.entry import Record, decode_header, genesis, leaf_hash, payload_digest
from polyc.errors import ConflictError, CorruptError
from polyc.ids import SeededIds
from polyc.keyring import KEYS_PARTITION, KeyRing
from tests.support.deployment_keys import ORIGIN, DeploymentKeys


class MemoryJournal:
    """JournalPort and JournalReader over a list."""

    origin = ORIGIN

    def __init__(self, seed: str = "journal") -> None:
        self.keys = DeploymentKeys(seed)
        self.clock = self.keys.clock
        self.ids = SeededIds(f"{seed}/authors")
        self.entries: list[tuple[str, bytes, SignedEntry]] = []
        self.current: dict[str, Head] = {}
        self.places: dict[tuple[str, bytes], list[int]] = {}  # the indexes of an incarnation's entries
        self._root = hashlib.sha256()
        self._grew = threading.Condition()
        for signed in self.keys.appends:
            self.append(signed)

    # --- authors ---

    def author(self, role: str) -> Author:
        return Author(self, self.keys.signers[role], clock=self.clock, ids=self.ids)

    def say(self, partition: str, *drafts: Draft, role: str = "control", new_incarnation: bool = False) -> Ack:
        return self.author(role).append(partition, drafts, expected=Expected.ANY, new_incarnation=new_incarnation)

    def head(self, partition: str) -> Head | None:
        return self.current.get(partition)

    def append(self, signed: SignedAppend) -> Ack:
        first_index = len(self.entries)
        with self._grew:
            head = self.current.get(signed.partition)
            for entry in signed.entries:
                header = decode_header(entry.header, place=signed.partition)
                if head is None or head.incarnation != header.incarnation:
                    start = genesis(self.origin, signed.partition, header.incarnation)
                    head = Head(signed.partition, header.incarnation, 0, start)
                if header.position != head.position + 1 or header.prev != head.leaf:
                    raise ConflictError("the partition moved on", actual=head.position)
                assert header.payload_digest == payload_digest(entry.salt, entry.payload)
                head = Head(signed.partition, header.incarnation, header.position, leaf_hash(entry.header))
                self.places.setdefault((signed.partition, header.incarnation), []).append(len(self.entries))
                self.entries.append((signed.partition, header.incarnation, entry))
                self._root.update(head.leaf)
            assert head is not None
            self.current[signed.partition] = head
            self._grew.notify_all()
        return Ack(first_index, head.position - len(signed.entries) + 1, head.position, head, self.checkpoint())

    # --- readers ---

    def size(self) -> int:
        return len(self.entries)

    def checkpoint(self) -> str:
        root = base64.b64encode(self._root.digest()).decode()
        return f"{self.origin}\n{len(self.entries)}\n{root}\n\n— test\n"

    def partitions(self) -> list[PartitionHead]:
        return self.changed_since(0)

    def changed_since(self, index: int) -> list[PartitionHead]:
        found = []
        for name, head in sorted(self.current.items()):
            places = self.places[name, head.incarnation]
            if places[-1] >= index:
                found.append(PartitionHead(name, head.incarnation, head.position, head.leaf, places[0], places[-1]))
        return found

    def read(
        self,
        partition: str,
        *,
        from_position: int = 1,
        incarnation: bytes | None = None,
        through_index: int | None = None,
    ) -> Iterator[Record]:
        wanted = incarnation or self.current[partition].incarnation
        prev = genesis(self.origin, partition, wanted)
        for index in self.places.get((partition, wanted), ()):
            _, _, entry = self.entries[index]
            if through_index is not None and index > through_index:
                return
            header = decode_header(entry.header, place=f"{partition}/{index}")
            place = f"{partition}/{header.position}"
            if header.prev != prev:
                raise CorruptError("chain is broken", place=place, kind="chain")
            if entry.payload is not None and header.payload_digest != payload_digest(entry.salt, entry.payload):
                raise CorruptError("payload is not the one signed", place=place, kind="digest")
            prev = leaf_hash(entry.header)
            if header.position >= from_position:
                yield Record(
                    partition=partition,
                    incarnation=wanted,
                    position=header.position,
                    index=index,
                    recorded_at_us=header.recorded_at_us,
                    key_id=header.key_id,
                    event_type=header.event_type,
                    fence=header.fence,
                    payload=entry.payload,
                )

    def opening(self, head: PartitionHead) -> tuple[int, bytes | None]:
        first = next(self.read(head.partition, incarnation=head.incarnation, through_index=head.first_index))
        return first.recorded_at_us, first.payload

    def read_batches(self, partition: str, **options: Any) -> Iterator[list[Record]]:
        yield from ([record] for record in self.read(partition, **options))

    def read_all(self, *, from_index: int, to_index: int | None = None) -> Iterator[Record]:
        raise AssertionError("no reader of artifacts asks for the whole log")

    def read_raw(
        self, partition: str, *, incarnation: bytes | None = None, from_position: int = 1
    ) -> Iterator[RawEntry]:
        raise AssertionError("no reader of artifacts asks for raw entries")

    def wait_beyond(self, size: int, timeout_s: float) -> int:
        with self._grew:
            self._grew.wait_for(lambda: len(self.entries) > size, timeout_s)
            return len(self.entries)

    def keyring(self) -> KeyRing:
        ring = KeyRing(self.keys.signers["root"].public_key)
        for record in self.read(KEYS_PARTITION):
            assert record.payload is not None
            ring.apply(record.payload, place=f"{KEYS_PARTITION}/{record.position}")
        return ring

    # --- damage ---

    def erase(self, partition: str, position: int) -> None:
        self._replace(partition, position, None)

    def tamper(self, partition: str, position: int, payload: bytes = b"{}") -> None:
        self._replace(partition, position, payload)

    def truncate(self, size: int) -> None:
        kept, self.entries, self.current, self.places = self.entries[:size], [], {}, {}
        for partition, incarnation, entry in kept:
            header = decode_header(entry.header, place=partition)
            self.current[partition] = Head(partition, incarnation, header.position, leaf_hash(entry.header))
            self.places.setdefault((partition, incarnation), []).append(len(self.entries))
            self.entries.append((partition, incarnation, entry))

    def _replace(self, partition: str, position: int, payload: bytes | None) -> None:
        incarnation = self.current[partition].incarnation
        place = self.places[partition, incarnation][position - 1]
        _, _, entry = self.entries[place]
        self.entries[place] = (partition, incarnation, SignedEntry(entry.header, entry.salt, payload))
