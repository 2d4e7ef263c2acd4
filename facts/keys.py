"""The table `signer_keys`: every key that `sys-keys` named, with the log indexes between which it holds its role."""

import msgspec

from facts.fold import Row, Rows
from facts.place import Place
from polyc.keyring import KeyAdded, KeyRevoked

REVOKED_AT = 9


class SignerKeys(msgspec.Struct):
    """The fold of `sys-keys`."""

    keys: dict[str, Row] = {}

    def apply(self, event: KeyAdded | KeyRevoked, place: Place) -> str | None:
        """Take a key event; one that contradicts what is known changes nothing."""
        if isinstance(event, KeyAdded):
            return self._add(event, place)
        row = self.keys.get(event.key_id)
        if row is None:
            return "revokes_unknown_key"
        end = event.from_index if row[REVOKED_AT] is None else min(row[REVOKED_AT], event.from_index)
        self.keys[event.key_id] = (*place.row, *row[4:REVOKED_AT], end, *row[REVOKED_AT + 1 :])
        return None

    def _add(self, event: KeyAdded, place: Place) -> str | None:
        if event.key_id in self.keys:
            return "repeated_key"
        try:
            public_key = bytes.fromhex(event.public_key)
        except ValueError:
            return "malformed_key"
        self.keys[event.key_id] = (
            *place.row,
            event.key_id,
            "Ed25519",
            public_key,
            event.role,
            event.from_index,
            event.to_index,
            event.name,
        )
        return None

    def rows(self) -> Rows:
        """One row a key, by key id."""
        return {"signer_keys": [row for _, row in sorted(self.keys.items())]}
