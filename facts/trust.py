"""What a fold is told to trust: keys and their roles by log index, and who may sign receipts for what.

A `Trust` is a value: folds never look anything up. Two folds with equal records and equal trust give equal rows.
"""

from dataclasses import dataclass, field

from polyc.keyring import KeyRing


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptSigner:
    """A key that may sign receipts for resources with this prefix (x402 offer and receipt; data-model.md)."""

    key_id: str
    algorithm: str  # EdDSA, ES256, ES256K or eip712
    public_key: bytes
    resource_prefix: str
    valid_from_index: int = 0
    revoked_at_index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Keys of the log and signers of receipts."""

    keys: KeyRing
    receipt_signers: tuple[ReceiptSigner, ...] = field(default=())
