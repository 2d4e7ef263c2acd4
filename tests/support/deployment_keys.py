"""Keys of a deployment as tests need them: one signer a role, and the signed key events that name them."""

from polyc import published
from polyc.appending import Head, SignedAppend, sign_append
from polyc.clock import ManualClock
from polyc.dataroot import Policy
from polyc.entry import genesis
from polyc.ids import SeededIds, uuid7, uuid7_bytes
from polyc.keyring import KEYS_PARTITION, KeyAdded, KeyRevoked, KeyRing
from polyc.signing import Signer, new_signer
from polyc.vocabulary import ROLES

ORIGIN = "polychrome.test/log"


class DeploymentKeys:
    """The keys, the signed appends of `sys-keys` and the ring they make."""

    def __init__(self, seed: str = "keys") -> None:
        from facts import codec

        self._encode = codec.encode
        self.ids = SeededIds(seed)
        self.clock = ManualClock()
        self.signers: dict[str, Signer] = {role: new_signer(self.ids) for role in ROLES}
        self.ring = KeyRing(self.signers["root"].public_key)
        self.policy = Policy(
            origin=ORIGIN,
            root_key=self.signers["root"].public_key.hex(),
            log_key=self.signers["log"].public_key.hex(),
        )
        incarnation = uuid7_bytes(self.clock, self.ids)
        self.head = Head(KEYS_PARTITION, incarnation, 0, genesis(ORIGIN, KEYS_PARTITION, incarnation))
        self.appends: list[SignedAppend] = []
        self.append(*[self.added(self.signers[role], role) for role in ROLES if role != "root"])

    def added(self, signer: Signer, role: str, *, from_index: int = 0) -> KeyAdded:
        return KeyAdded(
            id=uuid7(self.clock, self.ids),
            key_id=signer.key_id.hex(),
            public_key=signer.public_key.hex(),
            role=role,
            from_index=from_index,
        )

    def revoked(self, signer: Signer, *, from_index: int) -> KeyRevoked:
        return KeyRevoked(id=uuid7(self.clock, self.ids), key_id=signer.key_id.hex(), from_index=from_index)

    def append(self, *events: KeyAdded | KeyRevoked, signer: Signer | None = None) -> SignedAppend:
        from polyc.entry import leaf_hash

        drafts = [self._encode(event) for event in events]
        signed = sign_append(
            drafts,
            head=self.head,
            origin=ORIGIN,
            signer=signer or self.signers["root"],
            append_id=uuid7_bytes(self.clock, self.ids),
            recorded_at_us=self.clock.now_us(),
            ids=self.ids,
        )
        self.appends.append(signed)
        self.head = Head(
            KEYS_PARTITION,
            self.head.incarnation,
            self.head.position + len(drafts),
            leaf_hash(signed.entries[-1].header),
        )
        for event, draft in zip(events, drafts, strict=True):
            self.ring.apply(draft.payload, place=event.id)
        return signed

    def publish(self, folder, *, size: int = 100) -> None:
        published.write_key_bundle(folder, origin=ORIGIN, size=size, entries=published.entries_of(self.appends))
