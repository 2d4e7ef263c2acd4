"""The keys that the log itself names: `sys-keys`, read and judged (ruling 7).

Every event of `sys-keys` carries a signature by the root key, whose public half comes from the policy file.
"""

from typing import Protocol

from journal.port import RawEntry
from journal.records import place_of
from polyc import entry
from polyc.errors import CorruptError, RefusedError
from polyc.keyring import KEYS_PARTITION, KeyRing
from polyc.signing import verify


class RawReader(Protocol):
    """As much of a reader as the key ring needs."""

    @property
    def origin(self) -> str:
        """The log's name."""

    def read_raw(self, partition: str) -> "RawEntries":
        """The partition as stored."""


class RawEntries(Protocol):
    """An iterator of raw entries."""

    def __iter__(self) -> "RawEntries": ...

    def __next__(self) -> RawEntry: ...


def load_keyring(reader: RawReader, *, root_public_key: bytes) -> KeyRing:
    """The key ring of the log; CorruptError when an event of `sys-keys` is not the root key's."""
    return KeyEvents.load(reader, root_public_key=root_public_key).ring


class KeyEvents:
    """The key events so far and the ring they make; grows by whole appends, or refuses them."""

    def __init__(self, root_public_key: bytes, payloads: tuple[bytes, ...] = ()) -> None:
        self._root_public_key = root_public_key
        self.payloads = payloads
        self.ring = KeyRing(root_public_key)
        for i, payload in enumerate(payloads):
            self.ring.apply(payload, place=f"{KEYS_PARTITION}@{i + 1}")

    @classmethod
    def load(cls, reader: RawReader, *, root_public_key: bytes) -> "KeyEvents":
        """Read and verify all of `sys-keys`."""
        payloads = []
        signed = True
        for raw in reader.read_raw(KEYS_PARTITION):
            header = entry.decode_header(raw.header, place=KEYS_PARTITION)
            place = place_of(header.partition, header.incarnation, header.position)
            if raw.payload is None:
                raise CorruptError("a key event was erased", place=place, kind="erasure")
            payloads.append(raw.payload)
            signed = bool(raw.signature)
            if signed:
                preimage = entry.append_preimage(reader.origin, entry.leaf_hash(raw.header))
                if not verify(root_public_key, raw.signature, preimage):
                    raise CorruptError("not signed by the root key", place=place, kind="signature")
        if not signed:
            raise CorruptError("the last append has no signature", place=KEYS_PARTITION, kind="signature")
        return cls(root_public_key, tuple(payloads))

    def grown(self, payloads: list[bytes]) -> "KeyEvents":
        """The events with these after them; RefusedError when they contradict what is known."""
        try:
            return KeyEvents(self._root_public_key, (*self.payloads, *payloads))
        except CorruptError as error:
            raise RefusedError(f"key event refused: {error.kind}", code="failed_precondition") from None
