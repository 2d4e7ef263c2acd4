"""Keys of records: 63 bits, by which copies are found (`sources.copies`)."""

import hashlib


def record_key(name: bytes) -> int:
    """The key of a record that has a name of its own (a uuid)."""
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1


class KeyChain:
    """Keys of records without names: each is a digest of all records so far, begun with a seed."""

    def __init__(self, seed: str) -> None:
        self._digest = hashlib.blake2b(seed.encode("utf-8", "replace"), digest_size=8)

    def key(self, record: bytes) -> int:
        """The next record's key."""
        self._digest.update(len(record).to_bytes(8, "big") + record)
        return int.from_bytes(self._digest.digest(), "big") >> 1
