"""The optional half of receipts: EIP-712 typed data, verified where the extra `eip712` (eth-account) is installed.

The schema is the extension's (version 0.6, §3.2 and §5.3): domain "x402 receipt", version 1 and *always* chain id 1,
whatever network was paid on, for that stands in the payload. Whether the extra is installed changes verdicts, so
`facts.partition.FOLD_VERSION` says so.
"""

import importlib.util
import re
import sys
from typing import Any, Final

DOMAIN: Final = {"name": "x402 receipt", "version": "1", "chainId": 1}
RECEIPT_TYPES: Final = {
    "Receipt": [
        {"name": "version", "type": "uint256"},
        {"name": "network", "type": "string"},
        {"name": "resourceUrl", "type": "string"},
        {"name": "payer", "type": "string"},
        {"name": "issuedAt", "type": "uint256"},
        {"name": "transaction", "type": "string"},
    ]
}
_SIGNATURE: Final = re.compile(r"0x[0-9a-fA-F]{130}")
_MEMBERS: Final = {member["name"] for member in RECEIPT_TYPES["Receipt"]}


def available() -> bool:
    """Whether the optional extra is installed."""
    return importlib.util.find_spec("eth_account") is not None


def library() -> tuple[Any, Any]:
    """eth-account's `Account` and `messages`; ImportError without the extra.

    One of its own imports (py_ecc) lets this whole process recurse 100,000 deep. Parsers in C recurse on the C stack:
    from then on a document of brackets, which anybody can send, would not be refused but end the process.
    """
    limit = sys.getrecursionlimit()  # before the look: while the module is not there, nobody has raised it
    is_first = "eth_account" not in sys.modules  # who comes beside the first leaves the limit to that one
    try:
        from eth_account import Account, messages  # noqa: PLC0415 optional, and slow to import
    finally:
        if is_first:
            sys.setrecursionlimit(limit)
    return Account, messages


def recover(payload: dict[str, Any], signature: str) -> tuple[bytes, bytes]:
    """The 20 bytes of the address that signed the payload, and the digest it signed; ValueError when there is none.

    The payload is used exactly as it was sent: every member of the schema and no other (§5.5 step 3).
    """
    account, messages = library()
    if not _SIGNATURE.fullmatch(signature) or payload.keys() != _MEMBERS:
        raise ValueError("not an EIP-712 receipt")
    try:
        message = messages.encode_typed_data(DOMAIN, RECEIPT_TYPES, payload)
        address: str = account.recover_message(message, signature=signature)
    except Exception:  # eth-account's own families of errors have no common root but this one
        raise ValueError("no signer can be recovered") from None
    return bytes.fromhex(address[2:]), bytes(message.header + message.body)
