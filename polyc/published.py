"""What edges read without opening the journal: the key events and the revocations, as files in `published/`.

    keys.json          {"origin":…,"size":…,"entries":[{"header":…,"salt":…,"payload":…,"signature":…}, …]}
                       all of `sys-keys` as it stands in the log (bytes in base64), verified from the policy's root key
    revocations.json   a compact JWS by the grant key: {"iat":…,"jti":[…],"keys":…,"personas":{…},"seq":…,"size":…}
                       written by Control every second (ruling 30); `keys` is the position of the last key event
                       and `size` the log's size, so that an edge notices an old key bundle

Nothing here is trusted for where it lies: the bundle by the root key, the revocations by the bundle. `EdgeTrust`
keeps both loaded, looks at the files on each use, and answers with a verified grant or refuses.
It does not resolve scopes: that is admission's business.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from polyc import entry, grants, jws, signing
from polyc.appending import SignedAppend
from polyc.clock import Clock
from polyc.dataroot import Policy
from polyc.durable import write_file
from polyc.errors import CorruptError, UnavailableError
from polyc.grants import Grant, GrantRefusedError
from polyc.keyring import KEYS_PARTITION, KeyRing
from polyc.limits import (
    GRANT_LEEWAY_S,
    GRANTS_REMEMBERED_MAX,
    KEY_BUNDLE_SIZE_BYTES_MAX,
    REVOCATION_AGE_S_MAX,
    REVOCATIONS_SIZE_BYTES_MAX,
)
from polyc.signing import Signer
from polyc.vocabulary import BY_KIND

KEYS_FILE: Final = "keys.json"
REVOCATIONS_FILE: Final = "revocations.json"
REVOCATIONS_TYPE: Final = "polychrome-revocations+jwt"
_KEY_EVENT_CODES: Final = frozenset({BY_KIND["key_added"].code, BY_KIND["key_revoked"].code})


class KeyEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `sys-keys` as the log keeps it; the signature stands at the last entry of its append."""

    header: bytes
    salt: bytes
    payload: bytes
    signature: bytes | None = None


class _Bundle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    origin: str
    size: int
    entries: tuple[KeyEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBundle:
    """The verified key events: the ring, the log's size when they were published, and how many they are."""

    keys: KeyRing
    size: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocations:
    """Which grants are no longer valid although their time has not come.

    `subjects` maps a subject to the second up to which (inclusive) its grants were issued in vain.
    """

    issued_at_s: int
    sequence: int
    size: int
    keys_position: int
    credential_ids: frozenset[str]
    subjects: dict[str, int]

    @property
    def order(self) -> tuple[int, int]:
        """Which of two lists is newer: the one of the larger log, then of the larger sequence."""
        return self.size, self.sequence

    def check(self, grant: Grant) -> None:
        """Return, or raise GrantRefusedError when the grant was revoked."""
        if grant.credential_id in self.credential_ids:
            raise GrantRefusedError("revoked")
        if grant.issued_at_s <= self.subjects.get(grant.subject, -1):
            raise GrantRefusedError("revoked")


def entries_of(appends: Sequence[SignedAppend]) -> list[KeyEntry]:
    """The key entries of whole appends, each with its author's signature at its last entry."""
    entries = []
    for append in appends:
        last = len(append.entries) - 1
        for i, signed in enumerate(append.entries):
            entries.append(
                KeyEntry(
                    header=signed.header,
                    salt=signed.salt,
                    payload=signed.payload,
                    signature=append.signature if i == last else None,
                )
            )
    return entries


def write_key_bundle(folder: Path, *, origin: str, size: int, entries: Sequence[KeyEntry]) -> None:
    """Publish all entries of `sys-keys`; `size` is the log's checkpoint size now."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(folder / KEYS_FILE, msgspec.json.encode(_Bundle(origin=origin, size=size, entries=tuple(entries))))


def load_key_bundle(folder: Path, policy: Policy) -> KeyBundle:
    """The key bundle, verified from the policy's root key.

    1. Read, bounded. 2. The log is the policy's. 3. Each entry: header, place, chain, digest, key event, root's key.
    4. Each append: the root's signature over its last leaf; the last entry ends its append. 5. The ring takes the
    event. CorruptError names the entry; UnavailableError when nothing was published.
    """
    # 1
    place = KEYS_FILE
    try:
        bundle = msgspec.json.decode(_read(folder / KEYS_FILE, KEY_BUNDLE_SIZE_BYTES_MAX), type=_Bundle)
    except (msgspec.DecodeError, RecursionError):
        raise CorruptError("not a key bundle", place=place, kind="key_bundle") from None
    # 2
    if bundle.origin != policy.origin or bundle.size < len(bundle.entries) or not bundle.entries:
        raise CorruptError("not this log's key bundle", place=place, kind="key_bundle")
    keys = KeyRing(bytes.fromhex(policy.root_key))
    incarnation = entry.decode_header(bundle.entries[0].header, place=place).incarnation
    leaf = entry.genesis(bundle.origin, KEYS_PARTITION, incarnation)
    for position, item in enumerate(bundle.entries, start=1):
        place = f"{KEYS_FILE}: {KEYS_PARTITION} {position}"
        # 3
        header = entry.decode_header(item.header, place=place)
        fits = (
            header.partition == KEYS_PARTITION
            and header.position == position
            and header.incarnation == incarnation
            and header.prev == leaf
            and header.payload_digest == entry.payload_digest(item.salt, item.payload)
            and header.event_type in _KEY_EVENT_CODES
            and header.key_id == keys.root.key_id
        )
        if not fits:
            raise CorruptError("entry does not continue the chain of key events", place=place, kind="chain")
        leaf = entry.leaf_hash(item.header)
        # 4
        is_last = bool(header.flags & entry.FLAG_LAST)
        if is_last is (item.signature is None) or (position == len(bundle.entries) and not is_last):
            raise CorruptError("append without its signature", place=place, kind="signature")
        if item.signature is not None and not signing.verify(
            keys.root.public_key, item.signature, entry.append_preimage(bundle.origin, leaf)
        ):
            raise CorruptError("the root key did not sign this append", place=place, kind="signature")
        # 5
        keys.apply(item.payload, place=place)
    return KeyBundle(keys=keys, size=bundle.size, position=len(bundle.entries))


def write_revocations(folder: Path, revocations: Revocations, *, signer: Signer) -> None:
    """Publish the list, signed by the grant key; once a second even when nothing changed (the heartbeat)."""
    claims: dict[str, Any] = {
        "iat": revocations.issued_at_s,
        "jti": sorted(revocations.credential_ids),
        "keys": revocations.keys_position,
        "personas": revocations.subjects,
        "seq": revocations.sequence,
        "size": revocations.size,
    }
    token = jws.sign(claims, typ=REVOCATIONS_TYPE, signer=signer)
    assert len(token) <= REVOCATIONS_SIZE_BYTES_MAX, "revocations live for one grant's life"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(folder / REVOCATIONS_FILE, token.encode())


def load_revocations(folder: Path, *, bundle: KeyBundle, now_us: int) -> Revocations:
    """The current list; UnavailableError when it is missing or older than 10 s, CorruptError when it is not ours."""
    revocations = _verified_revocations(_read(folder / REVOCATIONS_FILE, REVOCATIONS_SIZE_BYTES_MAX), bundle=bundle)
    _check_fresh(revocations, now_us=now_us)
    return revocations


class EdgeTrust:
    """Authenticates bearers at an edge, from the published files alone.

    Both files are looked at on every use and verified again when they changed. A list older than one seen before
    (by log size, then sequence) is ignored, so that it cannot bring a revoked grant back; a key bundle older than the
    list says is refused. One for each event loop; not for several threads at once.
    """

    def __init__(self, folder: Path, policy: Policy, *, clock: Clock) -> None:
        self._folder = folder
        self._keys_file = folder / KEYS_FILE  # put together once: both are looked at for every bearer
        self._revocations_file = folder / REVOCATIONS_FILE
        self._policy = policy
        self._clock = clock
        self._bundle: KeyBundle | None = None
        self._bundle_stamp: object = None
        self._revocations: Revocations | None = None
        self._revocations_stamp: object = None
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    def bundle(self) -> KeyBundle:
        """The verified key bundle as it is published now."""
        stamp = _stamp(self._keys_file)
        if self._bundle is None or stamp != self._bundle_stamp:
            loaded = load_key_bundle(self._folder, self._policy)
            if self._bundle is not None and loaded.position < self._bundle.position:
                raise CorruptError("key bundle went backwards", place=KEYS_FILE, kind="rollback")
            self._bundle, self._bundle_stamp = loaded, stamp
        return self._bundle

    def revocations(self) -> Revocations:
        """The verified list as it is published now, never an older one than before."""
        stamp = _stamp(self._revocations_file)
        if self._revocations is None or stamp != self._revocations_stamp:
            raw = _read(self._revocations_file, REVOCATIONS_SIZE_BYTES_MAX)
            loaded = _verified_revocations(raw, bundle=self.bundle())
            if self._revocations is None or loaded.order >= self._revocations.order:
                self._revocations = loaded
            self._revocations_stamp = stamp
        _check_fresh(self._revocations, now_us=self._clock.now_us())
        return self._revocations

    def grant_of(self, token: str, *, size: int = 0) -> Grant:
        """The verified, unrevoked grant of a bearer; `size` is a log size the edge knows of (its generation's).

        1. The key bundle and the revocations, fresh. 2. The bundle is as new as the revocations say.
        3. The grant, judged at the newest log size known; what was verified with these keys at this size is not
        verified again, but its times are. 4. Not revoked.
        """
        # 1
        revocations = self.revocations()
        bundle = self.bundle()
        # 2
        if bundle.position < revocations.keys_position:
            raise UnavailableError("the published keys are older than the revocations", hint="try again")
        # 3
        newest = max(size, bundle.size, revocations.size)
        grant = self._verify(token, bundle=bundle, size=newest)
        # 4
        revocations.check(grant)
        return grant

    def _verify(self, token: str, *, bundle: KeyBundle, size: int) -> Grant:
        now_us, digest = self._clock.now_us(), hashlib.sha256(token.encode("utf-8", "replace")).digest()
        known = self._verified.get(digest)
        if known is not None and known.bundle is bundle and known.size == size:
            grants.check_times(known.grant, now_us=now_us)
            return known.grant
        grant = grants.verify(token, keys=bundle.keys, size=size, now_us=now_us)
        self._verified[digest] = _Verified(grant=grant, bundle=bundle, size=size)
        if len(self._verified) > GRANTS_REMEMBERED_MAX:
            self._verified.popitem(last=False)
        return grant


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verified:
    """A grant whose signature and claims were found good, with these keys, at this size of the log."""

    grant: Grant
    bundle: KeyBundle
    size: int


def _verified_revocations(raw: bytes, *, bundle: KeyBundle) -> Revocations:
    def key_of(key_id: bytes) -> bytes | None:
        key = bundle.keys.get(key_id)
        return key.public_key if key is not None and bundle.keys.role_at(key_id, bundle.size) == "grant" else None

    try:
        claims = jws.verify(raw, typ=REVOCATIONS_TYPE, size_bytes_max=REVOCATIONS_SIZE_BYTES_MAX, key_of=key_of)
        wire = msgspec.convert(claims, type=_Claims, strict=True)
    except (jws.JwsError, msgspec.ValidationError):
        raise CorruptError("not a list of revocations", place=REVOCATIONS_FILE, kind="revocations") from None
    return Revocations(
        issued_at_s=wire.iat,
        sequence=wire.seq,
        size=wire.size,
        keys_position=wire.keys,
        credential_ids=wire.jti,
        subjects=wire.personas,
    )


class _Claims(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    iat: int
    jti: frozenset[str]
    keys: int
    personas: dict[str, int]
    seq: int
    size: int


def _check_fresh(revocations: Revocations, *, now_us: int) -> None:
    age_s = now_us // 1_000_000 - revocations.issued_at_s
    if not -GRANT_LEEWAY_S <= age_s <= REVOCATION_AGE_S_MAX:
        raise UnavailableError("the list of revocations is not current", hint="is Control running? polyc up")


def _stamp(path: Path) -> object:
    """What changes whenever the file is replaced (writes go through rename: a new inode each time)."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _read(path: Path, size_bytes_max: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(size_bytes_max + 1)
    except FileNotFoundError:
        raise UnavailableError(f"{path.name} was not published yet", hint="is Control running? polyc up") from None
    if len(content) > size_bytes_max:
        raise CorruptError("file is too large", place=path.name, kind="size")
    return content
