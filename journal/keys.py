"""`polyc keys`: which key holds which role from when to when, and how that changes (ruling 7).

Every change is a root-signed event of `sys-keys`, judged by global log index. A rotation adds the new key at the
log's end and ends the old one `overlap` entries after itself, in one append; a revocation ends a key at an index,
also one that has passed (what it signed from there on no longer counts: affected partitions are folded again).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from journal.port import JournalReader
from polyc.appending import Ack, Author, Draft
from polyc.clock import Clock
from polyc.dataroot import DataRoot
from polyc.durable import create_file, write_file
from polyc.errors import RefusedError
from polyc.ids import IdSource, uuid8
from polyc.keyring import KEYS_PARTITION, Key, KeyAdded, KeyRevoked
from polyc.signing import Signer, key_id_of, load_signer, new_signer
from polyc.vocabulary import BY_KIND, ROLES, Role

ROTATION_ENTRIES: Final = 2  # key_added and key_revoked: the overlap begins after them
OVERLAP_DEFAULT: Final = 1000  # entries: authors that hold the old key have this long to load the new one


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStanding:
    """A key as `polyc keys list` shows it; `state` is of the log's present end."""

    key_id: str
    role: Role
    name: str
    from_index: int
    to_index: int | None
    state: str


def list_keys(reader: JournalReader) -> list[KeyStanding]:
    """Every key the log names, in its order, the root first."""
    size = reader.size()
    return [_standing(key, size) for key in reader.keyring().all()]


def add_key(
    root_author: Author,
    *,
    public_key: bytes,
    role: Role,
    from_index: int,
    to_index: int | None = None,
    name: str = "",
) -> Ack:
    """Give a key a role from an index on; the author holds the root key."""
    if role not in ROLES or role == "root":
        raise RefusedError(f"no key can be added as {role}")
    if to_index is not None and to_index <= from_index:
        raise RefusedError("the key's range is empty")
    return root_author.append(KEYS_PARTITION, [_added(public_key, role, from_index, to_index=to_index, name=name)])


def revoke_key(root_author: Author, *, key_id: bytes, from_index: int, reason: str = "") -> Ack:
    """End a key's role at an index; the author holds the root key."""
    return root_author.append(KEYS_PARTITION, [_revoked(key_id, from_index, reason)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """What a rotation did: the old key acts until `old_ends_at`, the new one from `new_from` on."""

    role: Role
    old_key_id: str
    new_key_id: str
    new_from: int
    old_ends_at: int
    file: Path


def rotate_key(
    root: DataRoot,
    root_author: Author,
    reader: JournalReader,
    *,
    role: Role,
    clock: Clock,
    ids: IdSource,
    overlap: int = OVERLAP_DEFAULT,
) -> Rotation:
    """Replace the role's key of this data root.

    1. The new key is on the disk under its own name. 2. The log names it and ends the old one, in one append.
    3. The role's key file becomes the new one; the old one stays beside it. A crash leaves at worst an unused key:
    until 3. the old one is in the role's file and acts.
    """
    del clock
    if role == "root":
        raise RefusedError("the root key is the policy file's and cannot be rotated in the log")
    if overlap < 1:
        raise RefusedError("without an overlap the authors of this role would be refused", hint="--overlap 1000")
    file = root.keys / f"{role}.pem"
    old = load_signer(file)
    # 1.
    new = new_signer(ids)
    create_file(_numbered(root, role, new), new.private_pem(), mode=0o600)
    create_file(_numbered(root, role, old), old.private_pem(), mode=0o600)
    # 2.
    size = reader.size()
    end = size + ROTATION_ENTRIES + overlap
    drafts = [_added(new.public_key, role, size, name=role), _revoked(old.key_id, end, "rotated")]
    root_author.append(KEYS_PARTITION, drafts)
    # 3.
    write_file(file, new.private_pem(), mode=0o600)
    return Rotation(
        role=role,
        old_key_id=old.key_id.hex(),
        new_key_id=new.key_id.hex(),
        new_from=size,
        old_ends_at=end,
        file=file,
    )


def _numbered(root: DataRoot, role: Role, signer: Signer) -> Path:
    return root.keys / f"{role}-{signer.key_id.hex()}.pem"


def _standing(key: Key, size: int) -> KeyStanding:
    if key.to_index is not None and key.to_index <= size:
        state = "ended"
    elif key.from_index > size:
        state = "later"
    else:
        state = "acting" if key.to_index is None else "ending"
    return KeyStanding(
        key_id=key.key_id.hex(),
        role=key.role,
        name=key.name,
        from_index=key.from_index,
        to_index=key.to_index,
        state=state,
    )


def _added(public_key: bytes, role: Role, from_index: int, *, to_index: int | None = None, name: str = "") -> Draft:
    key_id = key_id_of(public_key).hex()
    event = KeyAdded(
        id=uuid8("key_added", key_id),
        key_id=key_id,
        public_key=public_key.hex(),
        role=role,
        from_index=from_index,
        to_index=to_index,
        name=name,
    )
    return Draft(BY_KIND["key_added"].code, msgspec.json.encode(event))


def _revoked(key_id: bytes, from_index: int, reason: str) -> Draft:
    event = KeyRevoked(
        id=uuid8("key_revoked", key_id.hex(), str(from_index)),
        key_id=key_id.hex(),
        from_index=from_index,
        reason=reason,
    )
    return Draft(BY_KIND["key_revoked"].code, msgspec.json.encode(event))
