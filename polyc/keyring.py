"""Which key holds which role from which global log index to which (journal.md, rulings 3 and 7).

The partition `sys-keys` is the only source: `key_added` and `key_revoked`, authored by the root key, whose public
half is given out of band in the policy file. A signature is judged by the index it stands at, never by "now".
A second key with a used key_id is refused. `KeyRing` is a value that grows by `apply`; folds, the journal's door,
manifest readers and the edge all judge with this one object.
"""

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from polyc.errors import CorruptError
from polyc.signing import key_id_of
from polyc.vocabulary import ROLES, Role

KEYS_PARTITION: Final = "sys-keys"
LogIndex = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class KeyAdded(msgspec.Struct, frozen=True, kw_only=True, tag="key_added", tag_field="type"):
    """The body of `key_added`; `public_key` is 64 hex digits; the key acts at indexes in [from_index, to_index)."""

    id: str
    key_id: str
    public_key: str
    role: Role
    from_index: LogIndex
    to_index: LogIndex | None = None
    name: str = ""
    occurred_at: str | None = None


class KeyRevoked(msgspec.Struct, frozen=True, kw_only=True, tag="key_revoked", tag_field="type"):
    """The body of `key_revoked`: from `from_index` on the key has no role; a rotation ends a key in the future."""

    id: str
    key_id: str
    from_index: LogIndex
    reason: str = ""
    occurred_at: str | None = None


class Key(msgspec.Struct, frozen=True):
    """A known key and its validity, half-open in global log indexes."""

    key_id: bytes
    public_key: bytes
    role: Role
    from_index: int
    to_index: int | None
    name: str = ""

    def acts_at(self, index: int) -> bool:
        """Whether the key holds its role at this global log index."""
        return self.from_index <= index and (self.to_index is None or index < self.to_index)


_decoder = msgspec.json.Decoder(KeyAdded | KeyRevoked)


class KeyRing:
    """All keys the log ever named, by key id."""

    def __init__(self, root_public_key: bytes) -> None:
        root = Key(key_id_of(root_public_key), root_public_key, "root", 0, None, "root")
        self._keys: dict[bytes, Key] = {root.key_id: root}
        self.root = root

    def apply(self, payload: bytes, *, place: str) -> None:
        """Take one event of `sys-keys`; CorruptError when it is not one or contradicts what is known."""
        try:
            event = _decoder.decode(payload)
            if isinstance(event, KeyRevoked):
                self._revoke(event, place=place)
            else:
                self._add(event, place=place)
        except (msgspec.DecodeError, ValueError):
            raise CorruptError("not a key event", place=place, kind="key_event") from None

    def get(self, key_id: bytes) -> Key | None:
        """The key, whatever its validity."""
        return self._keys.get(key_id)

    def role_at(self, key_id: bytes, index: int) -> Role | None:
        """The role the key holds at this global log index, or None."""
        key = self._keys.get(key_id)
        return key.role if key is not None and key.acts_at(index) else None

    def all(self) -> Iterable[Key]:
        """Every key, in the order the log named them."""
        return self._keys.values()

    def of_role(self, role: Role, *, index: int) -> list[Key]:
        """The keys that hold the role at this index, oldest first."""
        return [key for key in self._keys.values() if key.role == role and key.acts_at(index)]

    def _add(self, event: KeyAdded, *, place: str) -> None:
        public_key, key_id = bytes.fromhex(event.public_key), bytes.fromhex(event.key_id)
        if key_id != key_id_of(public_key) or event.role not in ROLES or event.role == "root":
            raise CorruptError("key id, key and role do not fit together", place=place, kind="key_event")
        if key_id in self._keys:
            raise CorruptError("key id was used before", place=place, kind="key_reuse")
        self._keys[key_id] = Key(key_id, public_key, event.role, event.from_index, event.to_index, event.name)

    def _revoke(self, event: KeyRevoked, *, place: str) -> None:
        key = self._keys.get(bytes.fromhex(event.key_id))
        if key is None or key.role == "root":
            raise CorruptError("revokes a key the log never added", place=place, kind="key_event")
        end = event.from_index if key.to_index is None else min(key.to_index, event.from_index)
        self._keys[key.key_id] = Key(key.key_id, key.public_key, key.role, key.from_index, end, key.name)
