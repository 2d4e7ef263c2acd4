"""Making a deployment, and opening its journal: embedded, or through the socket of the process that writes it."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import apsw
import msgspec

from journal import opening
from journal.database import check_format, open_reader
from journal.port import JournalReader
from journal.store import SqliteJournal
from polyc import published
from polyc.appending import Author, Draft
from polyc.clock import Clock
from polyc.dataroot import DataRoot, Policy
from polyc.durable import create_file
from polyc.errors import RefusedError, UnavailableError
from polyc.ids import IdSource, uuid8
from polyc.keyring import KEYS_PARTITION, KeyAdded
from polyc.signing import Signer, load_or_create_signer, load_signer
from polyc.vocabulary import BY_KIND, ROLES, Role

if TYPE_CHECKING:
    from journal.client import JournalClient

Encryption = Literal["none", "per-conversation"]
ORIGIN_PREFIX: Final = "polychrome.local/"


def create_deployment(root: DataRoot, *, clock: Clock, ids: IdSource, encryption: Encryption = "none") -> Policy:
    """Make keys, journal, key events, key bundle and, last, the policy file; what is there already stays.

    `encryption` is chosen once: `per-conversation` encrypts what is said from the first event on (ruling 9).
    Idempotent: a run that was interrupted is completed by the next one.
    """
    root.make()
    if root.exists:
        return root.policy()
    signers = {role: load_or_create_signer(root.keys / f"{role}.pem", ids) for role in ROLES}
    origin = _origin_of(root.journal_file) or f"{ORIGIN_PREFIX}{ids.token(8).hex()}"
    with SqliteJournal.open(
        root.journal_file,
        origin=origin,
        root_public_key=signers["root"].public_key,
        log_signer=signers["log"],
        clock=clock,
        ids=ids,
    ) as journal:
        if journal.head(KEYS_PARTITION) is None:
            drafts = [_first_key(role, signer) for role, signer in signers.items() if role != "root"]
            Author(journal, signers["root"], clock=clock, ids=ids).append(KEYS_PARTITION, drafts)
        publish_keys(root, journal)
    policy = Policy(
        origin=origin,
        root_key=signers["root"].public_key.hex(),
        log_key=signers["log"].public_key.hex(),
        encryption=encryption,
    )
    create_file(root.policy_file, msgspec.json.format(msgspec.json.encode(policy)) + b"\n")
    return root.policy()


def open_embedded(root: DataRoot, *, clock: Clock, ids: IdSource, socket: str = "") -> SqliteJournal:
    """Become the journal's writer; UnavailableError names the process and socket that already is."""
    policy = root.policy()
    opening.check_stands(root.journal_file)
    journal = SqliteJournal.open(
        root.journal_file,
        origin=policy.origin,
        root_public_key=bytes.fromhex(policy.root_key),
        log_signer=log_signer(root),
        reload_log_signer=lambda: log_signer(root),
        clock=clock,
        ids=ids,
        socket=socket,
        encrypts=policy.encryption == "per-conversation",
    )
    try:
        opening.check_begun(root.journal_file, journal.size())
    except BaseException:
        journal.close()
        raise
    return journal


def connect(root: DataRoot, *, clock: Clock, ids: IdSource) -> "SqliteJournal | JournalClient":
    """The running journal's socket when there is one, else the writer's role for this command (ruling 5)."""
    socket = root.socket("journal")
    if socket.exists():
        from journal.client import JournalClient  # noqa: PLC0415 gRPC costs every command what only a served journal needs

        client = JournalClient(socket, root_public_key=bytes.fromhex(root.policy().root_key))
        if client.is_serving():
            return client
        client.close()
    return open_embedded(root, clock=clock, ids=ids)


def publish_keys(root: DataRoot, reader: JournalReader) -> None:
    """Write the key bundle that edges read: all of `sys-keys`."""
    entries = []
    for raw in reader.read_raw(KEYS_PARTITION):
        if raw.salt is None or raw.payload is None:
            raise RefusedError("a key event was erased; the key bundle cannot be made", code="data_loss")
        entries.append(
            published.KeyEntry(header=raw.header, salt=raw.salt, payload=raw.payload, signature=raw.signature or None)
        )
    published.write_key_bundle(root.published, origin=reader.origin, size=reader.size(), entries=entries)


def log_signer(root: DataRoot) -> Signer:
    """The log's key of the data root (a rotation replaces the file)."""
    return load_signer(root.keys / "log.pem")


def _first_key(role: Role, signer: Signer) -> Draft:
    event = KeyAdded(
        id=uuid8("key_added", signer.key_id.hex()),
        key_id=signer.key_id.hex(),
        public_key=signer.public_key.hex(),
        role=role,
        from_index=0,
        name=role,
    )
    return Draft(BY_KIND["key_added"].code, msgspec.json.encode(event))


def _origin_of(path: Path) -> str | None:
    """The origin of a journal that an interrupted run made, or None."""
    if not path.exists():
        return None
    with suppress(apsw.Error, UnavailableError):
        connection = open_reader(path)
        try:
            return check_format(connection, origin=None, place=str(path))
        finally:
            connection.close()
    return None
