"""The optional half of receipts: EIP-712 typed data, verified where the extra `eip712` (eth-account) is installed.

Whether it is installed changes verdicts, so `facts.partition.FOLD_VERSION` says so.
"""

import importlib.util
import re
from typing import Any, Final

RECEIPT_TYPES: Final = {
    "Receipt": [
        {"name": "network", "type": "string"},
        {"name": "resourceUrl", "type": "string"},
        {"name": "payer", "type": "string"},
        {"name": "issuedAt", "type": "uint256"},
        {"name": "transaction", "type": "string"},
    ]
}
_SIGNATURE: Final = re.compile(r"0x[0-9a-fA-F]{130}")
_EVM_NETWORK: Final = re.compile(r"eip155:([1-9][0-9]{0,17})")


def available() -> bool:
    """Whether the optional extra is installed."""
    return importlib.util.find_spec("eth_account") is not None


def recover(payload: dict[str, Any], signature: str, *, network: str) -> tuple[bytes, bytes]:
    """The 20 bytes of the address that signed the payload, and the digest it signed; ValueError when there is none."""
    from eth_account import Account  # noqa: PLC0415 optional, and slow to import
    from eth_account.messages import encode_typed_data  # noqa: PLC0415 same

    chain = _EVM_NETWORK.fullmatch(network)
    if chain is None or not _SIGNATURE.fullmatch(signature) or payload.keys() != _MEMBERS:
        raise ValueError("not an EIP-712 receipt")
    domain = {"name": "x402 receipt", "version": "1", "chainId": int(chain[1])}
    try:
        message = encode_typed_data(domain, RECEIPT_TYPES, payload)
        address: str = Account.recover_message(message, signature=signature)
    except Exception:  # eth-account's own families of errors have no common root but this one
        raise ValueError("no signer can be recovered") from None
    return bytes.fromhex(address[2:]), bytes(message.header + message.body)


_MEMBERS: Final = {member["name"] for member in RECEIPT_TYPES["Receipt"]}
