"""Who may sign receipts for which resources: `receipt-signers.json` in the data root, which only its owner can write.

    [{"key_id":"did:web:api.example#1","algorithm":"EdDSA","public_key":"<hex>","resource_prefix":"https://api.example/"}]

A key in a receipt's header is material, never authority: only a key listed here settles anything. The projector and
every spending check are given this same list, so that they judge alike.
"""

from pathlib import Path
from typing import Final

import msgspec

from facts.trust import ReceiptSigner
from polyc.dataroot import DataRoot
from polyc.errors import RefusedError
from polyc.limits import RECEIPT_SIGNERS_MAX

RECEIPT_SIGNERS_FILE: Final = "receipt-signers.json"


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key_id: str
    algorithm: str
    public_key: str
    resource_prefix: str
    valid_from_index: int = 0
    revoked_at_index: int | None = None


def load_receipt_signers(root: DataRoot) -> tuple[ReceiptSigner, ...]:
    """The listed signers; none when there is no file."""
    file = root.path / RECEIPT_SIGNERS_FILE
    return _load(file) if file.exists() else ()


def _load(file: Path) -> tuple[ReceiptSigner, ...]:
    if file.stat().st_mode & 0o022:
        raise RefusedError(
            f"{file.name} can be written by others", code="failed_precondition", hint=f"chmod 600 {file}"
        )
    try:
        rows = msgspec.json.decode(file.read_bytes(), type=list[_Row])
        if len(rows) > RECEIPT_SIGNERS_MAX:
            raise RefusedError(f"{file.name} lists too many signers", code="failed_precondition")
        return tuple(
            ReceiptSigner(
                key_id=row.key_id,
                algorithm=row.algorithm,
                public_key=bytes.fromhex(row.public_key),
                resource_prefix=row.resource_prefix,
                valid_from_index=row.valid_from_index,
                revoked_at_index=row.revoked_at_index,
            )
            for row in rows
        )
    except (msgspec.DecodeError, ValueError):
        raise RefusedError(f"{file.name} does not fit", code="failed_precondition") from None
