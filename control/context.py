"""What every part of Control works with: the journal, the memory of it, the keys Control may use, time and chance."""

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from control.dispatches import Dispatches
from control.index import Index
from control.ports import JournalPlane, RedactionPolicy
from polyc.appending import Author
from polyc.clock import Clock
from polyc.dataroot import DataRoot
from polyc.ids import IdSource, uuid7
from polyc.signing import KeyFile, SignerSource

if TYPE_CHECKING:
    from control.statements import Statements  # loads an HTTP client, which only a Control that serves needs


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlContext:
    """One Control.

    `control` signs markers and records, `harness` what harnesses say, `edge` what gateways say, `grant_key` grants and
    the list of revocations alone; each with the key that its role's file holds at that moment. `statements` and
    `redaction` are there in a Control that serves.
    `acted_by` is the credential id of the session on whose word this request acts.
    """

    root: DataRoot
    journal: JournalPlane
    index: Index
    control: Author
    harness: Author
    edge: Author
    grant_key: SignerSource
    published: Path
    clock: Clock
    ids: IdSource
    dispatches: Dispatches
    statements: "Statements | None" = None
    redaction: RedactionPolicy | None = None
    publishing: threading.Lock = field(default_factory=threading.Lock)
    acted_by: str | None = None

    @classmethod
    def open(cls, journal: JournalPlane, root: DataRoot, *, clock: Clock, ids: IdSource) -> Self:
        """The Control of a data root, over a journal that is already open."""
        policy = root.policy()

        def author(role: str) -> Author:
            return Author(journal, KeyFile(root.keys / f"{role}.pem"), clock=clock, ids=ids)

        return cls(
            root=root,
            journal=journal,
            index=Index(
                journal,
                root_public_key=bytes.fromhex(policy.root_key),
                cache_file=root.path / "cache" / "control.index",
            ),
            control=author("control"),
            harness=author("harness"),
            edge=author("edge"),
            grant_key=KeyFile(root.keys / "grant.pem"),
            published=root.published,
            clock=clock,
            ids=ids,
            dispatches=Dispatches(clock=clock, ids=ids),
        )

    def acting(self, credential_id: str) -> Self:
        """The same Control, acting on the word of this session: its records say so."""
        return replace(self, acted_by=credential_id)

    def new_id(self) -> str:
        """A fresh UUIDv7."""
        return uuid7(self.clock, self.ids)

    def now_s(self) -> int:
        """Whole seconds since 1970-01-01 UTC."""
        return self.clock.now_us() // 1_000_000
