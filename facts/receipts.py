"""x402 receipts (offer-and-receipt extension 0.6, §3 and §5): from text to a verified claim, or the check that failed.

    jws     compact JWS (RFC 7515 §7.1); header alg, kid, maybe jwk
    eip712  JSON {"payload": {…}, "signature": "0x" r s v}, typed data as in `facts.eip712`
    payload version 1, network (CAIP-2), resourceUrl, payer, issuedAt, maybe transaction ("" says no more than none)

A `jwk` in the header is key material, never authority (§4.5.1): the key must be one that Trust names for that
resource, and a `jwk` beside it must be that very key. The algorithm belongs to the key, not to the receipt. Whether
the key held is asked at the receipt's place in the log, which nobody can choose, not at its `issuedAt`, which the
signer writes. What a receipt cannot say (the amount, the payee) is judged elsewhere (`facts.settlement`); an offer
says what would be asked and is no receipt.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from facts import eip712
from facts.trust import ReceiptSigner
from polyc import strict_json
from polyc.limits import RECEIPT_SIZE_CHARS_MAX

# What becomes of a receipt: `settled`, or the first check that failed (`facts.settlement` lists them in order).
Outcome = Literal[
    "settled", "bad_signature", "unknown_key", "revoked_key", "wrong_payer", "wrong_resource", "amount_mismatch",
    "duplicate", "unapproved", "expired", "malformed", "unsupported_format",
]  # fmt: skip
NETWORK: Final = re.compile(r"[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}")  # CAIP-2
CALENDAR_END_S: Final = 253_402_300_800  # seconds from 1970 to the year 10000, which no table can hold
# A segment of a path that is none (RFC 3986 §3.3): one or two dots, also percent-encoded, between slashes of any kind.
DOTS: Final = re.compile(r"[/\\](\.|%2e){1,2}([/\\?#]|$)", re.IGNORECASE)
HEX: Final = re.compile(r"0[xX][0-9a-fA-F]+")


class ReceiptError(Exception):
    """A check that failed: the verdict, more of it as a code, and the key the receipt names."""

    def __init__(self, verdict: Outcome, detail: str, *, key_id: str | None = None) -> None:
        super().__init__(verdict)
        self.verdict = verdict
        self.detail = detail
        self.key_id = key_id


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a signer that Trust names has signed."""

    key_id: str
    network: str
    resource: str
    payer: str
    issued_at_s: int
    transaction: str | None
    signed: bytes  # the signed bytes, without the signature: signatures of one claim may differ (ECDSA)
    amount: str | None = None
    asset: str | None = None


def verify(form: str, text: str, *, signers: Iterable[ReceiptSigner], index: int) -> Receipt:
    """The verified receipt, or ReceiptError with the first check that failed, in these steps.

    1. the form is known  2. it parses  3. Trust names its key  4. the key holds at this log index
    5. the signature is the key's  6. the key may speak for the resource
    """
    known = tuple(signers)
    if len(text) > RECEIPT_SIZE_CHARS_MAX:
        raise ReceiptError("malformed", "size")
    if form == "jws":
        return _verify_jws(text, known, index)
    if form == "eip712" and eip712.available():
        return _verify_eip712(text, known, index)
    raise ReceiptError("unsupported_format", "format")  # 1


def _verify_jws(text: str, signers: tuple[ReceiptSigner, ...], index: int) -> Receipt:
    parts = text.split(".")
    if len(parts) != 3:
        raise ReceiptError("malformed", "jws")
    header, payload, signature = _object(_decoded(parts[0])), _object(_decoded(parts[1])), _decoded(parts[2])  # 2
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or not isinstance(key_id, str) or "crit" in header or "b64" in header:
        raise ReceiptError("malformed", "header")
    check = _ALGORITHMS.get(algorithm)
    if check is None:
        raise ReceiptError("unsupported_format", "alg", key_id=key_id)
    signed = f"{parts[0]}.{parts[1]}".encode()
    receipt = _receipt(payload, key_id=key_id, signed=signed)
    signer = _holder([signer for signer in signers if signer.key_id == key_id], receipt, index)  # 3, 4
    if signer.algorithm != algorithm:
        raise ReceiptError("bad_signature", "algorithm_of_key", key_id=key_id)
    if "jwk" in header and not _is_key(header["jwk"], algorithm, signer.public_key):
        raise ReceiptError("bad_signature", "jwk_is_another_key", key_id=key_id)
    if not check(signer.public_key, signature, signed):  # 5
        raise ReceiptError("bad_signature", "signature", key_id=key_id)
    return _authorised(receipt, signer)  # 6


def _verify_eip712(text: str, signers: tuple[ReceiptSigner, ...], index: int) -> Receipt:
    outer = _object(text.encode("utf-8", "surrogatepass"))  # 2
    payload, signature = outer.get("payload"), outer.get("signature")
    if not isinstance(payload, dict) or not isinstance(signature, str):
        raise ReceiptError("malformed", "eip712")
    _receipt(payload, key_id="", signed=b"")  # what does not parse has no signer
    try:
        address, signed = eip712.recover(payload, signature)
    except ValueError:
        raise ReceiptError("bad_signature", "signature") from None
    receipt = _receipt(payload, key_id=f"0x{address.hex()}", signed=signed)
    mine = [signer for signer in signers if signer.algorithm == "eip712" and signer.public_key == address]
    return _authorised(receipt, _holder(mine, receipt, index))  # 3 to 6: recovering the signer is the signature's check


def _holder(named: list[ReceiptSigner], receipt: Receipt, index: int) -> ReceiptSigner:
    """The key that Trust names under this id, preferably for the resource, in its range of the log."""
    if not named:
        raise ReceiptError("unknown_key", "not_named", key_id=receipt.key_id)
    holding = [signer for signer in named if _holds(signer, index)]
    if not holding:
        raise ReceiptError("revoked_key", "not_at_this_index", key_id=receipt.key_id)
    return next((signer for signer in holding if covers(signer.resource_prefix, receipt.resource)), holding[0])


def _holds(signer: ReceiptSigner, index: int) -> bool:
    return signer.valid_from_index <= index and (signer.revoked_at_index is None or index < signer.revoked_at_index)


def _authorised(receipt: Receipt, signer: ReceiptSigner) -> Receipt:
    if not covers(signer.resource_prefix, receipt.resource):
        raise ReceiptError("unknown_key", "not_for_this_resource", key_id=receipt.key_id)
    return receipt


def covers(prefix: str, resource: str) -> bool:
    """Whether a resource lies under a prefix; a prefix ends at a border of the URL, never within a name.

    A path with `.` or `..` in it, however written, lies nowhere: what it leads to need not be under the prefix.

    >>> covers("https://api.example", "https://api.example/data?x=1"), covers("https://api.example", "https://api.example.evil/")
    (True, False)
    """
    if not prefix or not resource.startswith(prefix) or DOTS.search(resource.partition("?")[0]):
        return False
    rest = resource[len(prefix) :]
    return not rest or prefix.endswith("/") or rest[0] in "/?#"


def canonical_account(text: str) -> str:
    """An account or transaction as compared: hexadecimal in lower case, anything else as it is.

    >>> canonical_account("0xAb"), canonical_account("GvAbc")
    ('0xab', 'GvAbc')
    """
    return text.lower() if HEX.fullmatch(text) else text


def _receipt(payload: dict[str, Any], *, key_id: str, signed: bytes) -> Receipt:
    """The claim of a payload; members this extension does not know are ignored unless they say what we compare."""
    version = payload.get("version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise ReceiptError("malformed", "version", key_id=key_id or None)
    if version != 1:
        raise ReceiptError("unsupported_format", "version", key_id=key_id or None)
    texts = [payload.get(name) for name in ("network", "resourceUrl", "payer")]
    issued_at_s = payload.get("issuedAt")
    optional = [payload.get(name) for name in ("transaction", "amount", "asset")]
    if (
        not all(isinstance(value, str) and value for value in texts)
        or not all(value is None or isinstance(value, str) for value in optional)
        or not isinstance(issued_at_s, int)
        or isinstance(issued_at_s, bool)
        or not 0 <= issued_at_s < CALENDAR_END_S
        or not NETWORK.fullmatch(str(texts[0]))
    ):
        raise ReceiptError("malformed", "payload", key_id=key_id or None)
    network, resource, payer = (str(value) for value in texts)
    return Receipt(
        key_id=key_id,
        network=network,
        resource=resource,
        payer=payer,
        issued_at_s=issued_at_s,
        transaction=optional[0] or None,
        signed=signed,
        amount=optional[1],
        asset=optional[2],
    )


def _decoded(part: str) -> bytes:
    """The bytes of base64url without padding; only the one canonical spelling."""
    try:
        raw = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ReceiptError("malformed", "base64url") from None
    if _encoded(raw) != part:
        raise ReceiptError("malformed", "base64url")
    return raw


def _object(text: bytes) -> dict[str, Any]:
    """The JSON object of the text; its texts can stand in a table, and nothing in it can be read in two ways."""
    try:
        value = strict_json.decode(text)
    except ValueError:
        raise ReceiptError("malformed", "json") from None
    if not isinstance(value, dict):
        raise ReceiptError("malformed", "json")
    return value


def _check_eddsa(public_key: bytes, signature: bytes, signed: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, signed)
    except (InvalidSignature, ValueError):
        return False
    return True


def _check_ecdsa(curve: ec.EllipticCurve) -> Callable[[bytes, bytes, bytes], bool]:
    """RFC 7518 §3.4: r and s, 32 bytes each."""

    def check(public_key: bytes, signature: bytes, signed: bytes) -> bool:
        if len(signature) != 64:
            return False
        der = encode_dss_signature(int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big"))
        try:
            key = ec.EllipticCurvePublicKey.from_encoded_point(curve, public_key)
            key.verify(der, signed, ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, ValueError):
            return False
        return True

    return check


def is_public_key(algorithm: str, public_key: bytes) -> bool:
    """Whether bytes are a public key of this algorithm; of `eip712`, an account's address."""
    try:
        if algorithm == "EdDSA":
            Ed25519PublicKey.from_public_bytes(public_key)
        elif algorithm in _CURVES:
            ec.EllipticCurvePublicKey.from_encoded_point(_CURVES[algorithm][1], public_key)
        else:
            return algorithm == "eip712" and len(public_key) == 20
    except ValueError:
        return False
    return True


def _is_key(jwk: object, algorithm: str, public_key: bytes) -> bool:
    """Whether a JSON Web Key (RFC 7517, RFC 8037) is this public key."""
    if algorithm == "EdDSA":
        members = {"kty": "OKP", "crv": "Ed25519", "x": _encoded(public_key)}
    else:
        name, curve = _CURVES[algorithm]
        try:
            point = ec.EllipticCurvePublicKey.from_encoded_point(curve, public_key).public_numbers()
        except ValueError:
            return False
        x, y = (_encoded(number.to_bytes(32, "big")) for number in (point.x, point.y))
        members = {"kty": "EC", "crv": name, "x": x, "y": y}
    return isinstance(jwk, dict) and all(jwk.get(name) == value for name, value in members.items())


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


_CURVES: Final[dict[str, tuple[str, ec.EllipticCurve]]] = {
    "ES256": ("P-256", ec.SECP256R1()),
    "ES256K": ("secp256k1", ec.SECP256K1()),
}
_ALGORITHMS: Final[dict[str, Callable[[bytes, bytes, bytes], bool]]] = {
    "EdDSA": _check_eddsa,
    **{algorithm: _check_ecdsa(curve) for algorithm, (_, curve) in _CURVES.items()},
}
