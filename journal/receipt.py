"""Receipts: one small file that proves an entry to somebody who has only the policy file (c2sp.org/tlog-proof).

    extra = header ‖ the headers after it in its append ‖ author's signature 64 ‖ key evidence …
    key evidence = header of a `key_added` entry ‖ the headers after it in its append ‖ root's signature 64
                   ‖ salt 16 ‖ payload

Headers end at the first one marked as last of its append; a payload's length stands in its header. The evidence names
the author's key, and the log's key when it is not the policy's. What it cannot show is that a key was not revoked
before this entry: for that the log's checkpoint vouches (its door refused it otherwise, ruling 2).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import apsw
import msgspec

from journal.body import COLUMNS, Run, Stored
from journal.database import row, rows
from journal.tree import TileNodes
from journal.trust_policy import TrustPolicy
from polyc import entry, merkle, note
from polyc.dataroot import Policy
from polyc.entry import FLAG_LAST, HEADER_FIXED_SIZE_BYTES, Header
from polyc.errors import CorruptError
from polyc.keyring import KEYS_PARTITION, KeyAdded, KeyRing
from polyc.limits import EVENTS_PER_APPEND_MAX
from polyc.merkle import HASH_SIZE_BYTES, PROOF_HASHES_MAX
from polyc.signing import verify

FIRST_LINE: Final = "c2sp.org/tlog-proof@v1"
RECEIPT_SIZE_BYTES_MAX: Final = 1024 * 1024  # 1000 headers of the longest kind, in base64, and the rest
SIGNATURE_SIZE_BYTES: Final = 64
SALT_SIZE_BYTES: Final = 16
EVIDENCE_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedHeaders:
    """Headers from one entry to the end of its append, and the signature over the last leaf."""

    raw: tuple[bytes, ...]
    headers: tuple[Header, ...]
    signature: bytes

    def is_signed_by(self, public_key: bytes, origin: str) -> bool:
        """Whether the key signed the last leaf for this log, and the headers chain up to it."""
        prevs = [header.prev for header in self.headers[1:]]
        chained = prevs == [entry.leaf_hash(raw) for raw in self.raw[:-1]]
        preimage = entry.append_preimage(origin, entry.leaf_hash(self.raw[-1]))
        return chained and verify(public_key, self.signature, preimage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A decoded tlog-proof, not yet verified."""

    index: int
    proof: tuple[bytes, ...]
    note: str
    entry: SignedHeaders
    evidence: tuple[tuple[SignedHeaders, bytes, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """What a verified receipt says. `witnesses` are the known cosigners of its checkpoint."""

    origin: str
    partition: str
    incarnation: bytes
    position: int
    index: int
    size: int
    recorded_at_us: int
    event_type: int
    role: str
    key_id: bytes
    payload_digest: bytes
    witnesses: tuple[str, ...]


def make_receipt(connection: apsw.Connection, *, pid: int, position: int, where: str) -> str:
    """The receipt of an entry, from the store."""
    extra, header, index = _signed_headers(connection, pid=pid, position=position, where=where)
    size, text = row(
        connection,
        "SELECT size, note FROM checkpoint WHERE size > ? ORDER BY size IN (SELECT size FROM cosignature) DESC,"
        " size DESC LIMIT 1",
        (index,),
    )
    text += "".join(
        line for (line,) in rows(connection, "SELECT line FROM cosignature WHERE size = ? ORDER BY line", (size,))
    )
    extra += _evidence(connection, key_ids=[*_log_key_ids(connection, text), header[72:80]])
    proof = merkle.inclusion_proof(index, size, TileNodes(connection))
    lines = [FIRST_LINE, f"extra {note.encode64(extra)}", f"index {index}", *map(note.encode64, proof), "", text]
    return "\n".join(lines)


def verify_receipt(
    data: bytes | str,
    *,
    policy: Policy,
    witnesses: Sequence[note.Verifier] = (),
    trust: TrustPolicy | None = None,
    place: str = "receipt",
) -> Proved:
    """What the receipt proves; CorruptError names the step that failed.

    1. It is a tlog-proof of the one spelling. 2. Its key evidence is the root's. 3. Its checkpoint is this log's,
    signed by the policy's log key or one the evidence names for its size, and cosigned as `trust` wants it.
    4. The entry's leaf is at its index under the root. 5. Its author's key held a role at this index, and signed the
    append that the entry is part of.
    """
    # 1.
    receipt = decode_receipt(data, place=place)
    # 2.
    ring = KeyRing(bytes.fromhex(policy.root_key))
    for signed, salt, payload in receipt.evidence:
        _check_evidence(signed, salt, payload, ring=ring, origin=policy.origin, place=place)
        ring.apply(payload, place=f"{place}: key evidence")
    # 3.
    if trust is not None:
        witnesses = [*witnesses, *trust.witnesses.values()]
    named = {key.public_key: key for key in ring.all() if key.role == "log"}
    publics = {bytes.fromhex(policy.log_key), *named}
    logs = {note.Verifier(name=policy.origin, kind=note.ED25519, public_key=public) for public in publics}
    checkpoint, signers = note.open_checkpoint(
        receipt.note, origin=policy.origin, verifiers=[*logs, *witnesses], place=f"{place}: checkpoint"
    )
    signed_by = [signer.public_key for signer in signers if signer in logs]
    if not any(public not in named or named[public].acts_at(checkpoint.size - 1) for public in signed_by):
        raise CorruptError(
            "no key that the log had at this size signed the checkpoint", place=place, kind="note_signature"
        )
    if trust is not None and not trust.satisfied_by(set(signers)):
        raise CorruptError("not the logs and the quorum of the trust policy signed it", place=place, kind="quorum")
    # 4.
    leaf = entry.leaf_hash(receipt.entry.raw[0])
    if not merkle.verify_inclusion(
        leaf=leaf, index=receipt.index, size=checkpoint.size, proof=receipt.proof, root=checkpoint.root
    ):
        raise CorruptError("the entry is not at this index of the tree", place=place, kind="inclusion")
    # 5.
    header = receipt.entry.headers[0]
    key = ring.get(header.key_id)
    role = ring.role_at(header.key_id, receipt.index)
    if key is None or role is None:
        raise CorruptError("no evidence for the author's key at this index", place=place, kind="key")
    if not receipt.entry.is_signed_by(key.public_key, policy.origin):
        raise CorruptError("the author did not sign this append", place=place, kind="signature")
    return Proved(
        origin=policy.origin,
        partition=header.partition,
        incarnation=header.incarnation,
        position=header.position,
        index=receipt.index,
        size=checkpoint.size,
        recorded_at_us=header.recorded_at_us,
        event_type=header.event_type,
        role=role,
        key_id=header.key_id,
        payload_digest=header.payload_digest,
        witnesses=tuple(signer.name for signer in signers if signer in witnesses and signer not in logs),
    )


def decode_receipt(data: bytes | str, *, place: str) -> Receipt:
    """The receipt of these bytes; CorruptError for anything that would be written otherwise."""
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError:
        raise CorruptError("not UTF-8", place=place, kind="receipt") from None
    if len(text) > RECEIPT_SIZE_BYTES_MAX:
        raise CorruptError("a receipt is smaller", place=place, kind="receipt")
    head, blank, checkpoint = text.partition("\n\n")
    lines = head.split("\n")
    if not blank or len(lines) < 3 or lines[0] != FIRST_LINE or not lines[1].startswith("extra "):
        raise CorruptError("not a tlog-proof with extra data", place=place, kind="receipt")
    number = lines[2].removeprefix("index ")
    if number == lines[2] or not note.is_decimal(number):
        raise CorruptError("the index line is not one", place=place, kind="receipt")
    proof = tuple(note.decode64(line, place=place) for line in lines[3:])
    if len(proof) > PROOF_HASHES_MAX or any(len(item) != HASH_SIZE_BYTES for item in proof):
        raise CorruptError("proof lines are 32 bytes each", place=place, kind="receipt")
    extra = note.decode64(lines[1].removeprefix("extra "), place=place)
    signed, at = _take_signed(extra, 0, place=place)
    evidence: list[tuple[SignedHeaders, bytes, bytes]] = []
    while at < len(extra):
        key_entry, at = _take_signed(extra, at, place=place)
        end = at + SALT_SIZE_BYTES + key_entry.headers[0].payload_size_bytes
        if end > len(extra) or len(evidence) == EVIDENCE_MAX:
            raise CorruptError("key evidence is cut short", place=place, kind="receipt")
        evidence.append((key_entry, extra[at : at + SALT_SIZE_BYTES], extra[at + SALT_SIZE_BYTES : end]))
        at = end
    return Receipt(index=int(number), proof=proof, note=checkpoint, entry=signed, evidence=tuple(evidence))


def check_payload(proved: Proved, *, salt: bytes, payload: bytes, place: str = "payload") -> None:
    """CorruptError unless this is the payload that the proved entry commits to."""
    if entry.payload_digest(salt, payload) != proved.payload_digest:
        raise CorruptError("not the payload that the entry commits to", place=place, kind="digest")


def _check_evidence(
    signed: SignedHeaders, salt: bytes, payload: bytes, *, ring: KeyRing, origin: str, place: str
) -> None:
    header = signed.headers[0]
    fits = (
        header.partition == KEYS_PARTITION
        and header.key_id == ring.root.key_id
        and entry.payload_digest(salt, payload) == header.payload_digest
        and signed.is_signed_by(ring.root.public_key, origin)
    )
    if not fits:
        raise CorruptError("key evidence is not the root key's", place=place, kind="key_evidence")


def _take_signed(data: bytes, at: int, *, place: str) -> tuple[SignedHeaders, int]:
    raws: list[bytes] = []
    headers: list[Header] = []
    while not headers or not headers[-1].flags & FLAG_LAST:
        fixed_end = at + HEADER_FIXED_SIZE_BYTES
        end = fixed_end + data[fixed_end - 1] if fixed_end <= len(data) else len(data) + 1
        if end > len(data) or len(raws) == EVENTS_PER_APPEND_MAX:
            raise CorruptError("headers are cut short", place=place, kind="receipt")
        raws.append(data[at:end])
        headers.append(entry.decode_header(raws[-1], place=place))
        at = end
    signature = data[at : at + SIGNATURE_SIZE_BYTES]
    if len(signature) != SIGNATURE_SIZE_BYTES:
        raise CorruptError("signature is cut short", place=place, kind="receipt")
    signed = SignedHeaders(raw=tuple(raws), headers=tuple(headers), signature=signature)
    return signed, at + SIGNATURE_SIZE_BYTES


def _signed_headers(connection: apsw.Connection, *, pid: int, position: int, where: str) -> tuple[bytes, bytes, int]:
    """The entry's header and those after it in its append with the signature; the entry's header alone, its index."""
    query = f"SELECT {COLUMNS} FROM append WHERE pid = ? AND position <= ? ORDER BY position DESC LIMIT 1"
    stored = Stored(*row(connection, query, (pid, position)))
    headers = stored.open(where).headers[position - stored.position :]
    if not headers:
        raise CorruptError("entry is missing", place=f"{where}@{position}", kind="gap")
    return b"".join(headers) + stored.signature, headers[0], stored.index + position - stored.position


def _log_key_ids(connection: apsw.Connection, text: str) -> list[bytes]:
    """The key that signed a checkpoint, when it is not the log's first, which the policy names."""
    parsed = note.parse_note(text, place="checkpoint")
    signed = {(line.name, line.key_id) for line in parsed.signatures}
    origin = parsed.text.partition("\n")[0]
    added = [event for *_entry, event in _keys_added(connection) if event.role == "log"]
    return [
        bytes.fromhex(event.key_id)
        for event in added[1:]
        for key in [note.Verifier(name=origin, kind=note.ED25519, public_key=bytes.fromhex(event.public_key))]
        if (key.name, key.key_id) in signed
    ]


def _evidence(connection: apsw.Connection, *, key_ids: list[bytes]) -> bytes:
    evidence = b""
    for stored, number, run, event in _keys_added(connection):
        if bytes.fromhex(event.key_id) in key_ids:
            evidence += b"".join(run.headers[number:]) + stored.signature + (run.salted[number] or b"")
    return evidence


def _keys_added(connection: apsw.Connection) -> Iterator[tuple[Stored, int, Run, KeyAdded]]:
    """Each `key_added` event of the log and where it stands."""
    query = f"SELECT {COLUMNS} FROM append JOIN part USING (pid) WHERE name = ? AND current = 1"
    for columns in rows(connection, f"{query} ORDER BY append.position", (KEYS_PARTITION,)):
        stored = Stored(*columns)
        run = stored.open(KEYS_PARTITION)
        for number in range(stored.count):
            try:
                yield stored, number, run, msgspec.json.decode(run.payload(number) or b"", type=KeyAdded)
            except msgspec.DecodeError:
                continue  # a revocation
