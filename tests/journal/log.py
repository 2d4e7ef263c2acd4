"""A journal for tests: keys of every role, a clock and ids that move only when told, and the two stores to run on."""

from pathlib import Path

import msgspec

from journal.store import SqliteJournal
from polyc import entry
from polyc.appending import Ack, Author, Draft, Head, JournalPort, SignedAppend, sign_append
from polyc.clock import ManualClock
from polyc.dataroot import Policy
from polyc.ids import SeededIds, uuid7_bytes
from polyc.keyring import KEYS_PARTITION, KeyAdded
from polyc.signing import Signer, new_signer
from polyc.vocabulary import BY_KIND, ROLES

ORIGIN = "polychrome.test/log"
MESSAGE = BY_KIND["message"].code
TURN_START = BY_KIND["turn_start"].code
TURN_COMPLETE = BY_KIND["turn_complete"].code
FENCE = bytes(range(16))


class Log:
    """The keys and the trust anchor of one log; opens its stores."""

    def __init__(self, folder: Path, *, seed: str = "log") -> None:
        self.folder = folder
        self.path = folder / "journal" / "journal.sqlite"
        self.clock = ManualClock()
        self.ids = SeededIds(seed)
        self.signers: dict[str, Signer] = {role: new_signer(self.ids) for role in ROLES}
        self.policy = Policy(
            origin=ORIGIN,
            root_key=self.signers["root"].public_key.hex(),
            log_key=self.signers["log"].public_key.hex(),
        )

    def open(self, **options: object) -> SqliteJournal:
        """The SQLite store, with the key events of every role in a new one."""
        journal = SqliteJournal.open(
            self.path,
            origin=ORIGIN,
            root_public_key=self.signers["root"].public_key,
            log_signer=self.signers["log"],
            clock=self.clock,
            ids=self.ids,
            **options,
        )
        self.found(journal)
        return journal

    def found(self, port: JournalPort) -> None:
        """Append the first key events to a journal that has none."""
        if port.head(KEYS_PARTITION) is None:
            drafts = [key_added(role, signer) for role, signer in self.signers.items() if role != "root"]
            self.author(port, "root").append(KEYS_PARTITION, drafts)

    def author(self, port: JournalPort, role: str) -> Author:
        return Author(port, self.signers[role], clock=self.clock, ids=self.ids)

    def say(self, port: JournalPort, partition: str, *texts: str, role: str = "harness", **options: object) -> Ack:
        """Append messages."""
        drafts = [Draft(MESSAGE, text.encode()) for text in texts]
        return self.author(port, role).append(partition, drafts, **options)

    def sign(
        self,
        partition: str,
        *payloads: bytes,
        head: Head | None = None,
        role: str = "harness",
        append_id: bytes | None = None,
        event_type: int = MESSAGE,
        closes: bool = False,
        **options: object,
    ) -> SignedAppend:
        """A signed append for this head (None: the partition is new)."""
        drafts = [Draft(event_type, payload) for payload in payloads]
        if closes:
            drafts[-1] = Draft(event_type, payloads[-1], closes_fence=True)
        return sign_append(
            drafts,
            head=head or self.genesis(partition),
            origin=ORIGIN,
            signer=self.signers[role],
            append_id=append_id or uuid7_bytes(self.clock, self.ids),
            recorded_at_us=options.pop("recorded_at_us", self.clock.now_us()),
            ids=self.ids,
            **options,
        )

    def genesis(self, partition: str) -> Head:
        incarnation = uuid7_bytes(self.clock, self.ids)
        return Head(partition, incarnation, 0, entry.genesis(ORIGIN, partition, incarnation))


def key_added(role: str, signer: Signer, *, from_index: int = 0, to_index: int | None = None) -> Draft:
    event = KeyAdded(
        id=f"key-{signer.key_id.hex()}",
        key_id=signer.key_id.hex(),
        public_key=signer.public_key.hex(),
        role=role,
        from_index=from_index,
        to_index=to_index,
    )
    return Draft(BY_KIND["key_added"].code, msgspec.json.encode(event))
