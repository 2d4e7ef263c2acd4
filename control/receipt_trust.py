"""Who may sign receipts for which resources: `receipt-signers.json` in the data root, which only its owner can write.

    [{"key_id":"did:web:api.example#1","algorithm":"EdDSA","public_key":"<hex>","resource_prefix":"https://api.example/"}]

A key in a receipt's header is material, never authority: only a key listed here settles anything. The projector and
every spending check are given this same list, so that they judge alike.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from facts.receipts import is_public_key
from facts.trust import ReceiptSigner
from polyc import strict_json
from polyc.dataroot import DataRoot
from polyc.errors import RefusedError
from polyc.keyring import LogIndex
from polyc.limits import RECEIPT_SIGNERS_MAX

RECEIPT_SIGNERS_FILE: Final = "receipt-signers.json"


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key_id: Annotated[str, msgspec.Meta(min_length=1)]
    algorithm: Literal["EdDSA", "ES256", "ES256K", "eip712"]
    public_key: str
    resource_prefix: Annotated[str, msgspec.Meta(min_length=1)]
    valid_from_index: LogIndex = 0
    revoked_at_index: LogIndex | None = None


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
        rows = msgspec.convert(strict_json.decode(file.read_bytes()), list[_Row])
        if len(rows) > RECEIPT_SIGNERS_MAX:
            raise RefusedError(f"{file.name} lists too many signers", code="failed_precondition")
        signers = tuple(
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
    except (msgspec.ValidationError, ValueError):
        raise RefusedError(f"{file.name} does not fit", code="failed_precondition") from None
    for number, signer in enumerate(signers, start=1):
        if not is_public_key(signer.algorithm, signer.public_key):
            raise RefusedError(
                f"{file.name}: the public key of signer {number} is none of its algorithm", code="failed_precondition"
            )
    return signers
