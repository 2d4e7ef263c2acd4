"""Hostile relatives of one good grant: each changes one thing and, where it can, is signed anew by the real key.

`RELATIVES` maps a name to a function from a forge (the good claims, header and the key) to the bearer's text, and
the reason our verifier must give: a relative that is refused for another reason would prove nothing about its rule.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from polyc import canonical
from polyc.signing import Signer

ED25519_ORDER = 2**252 + 27742317777372353535851937790883648493
NOW_S = 1_780_000_000


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Forge:
    """A good grant taken apart, and a pen that signs whatever is put together."""

    def __init__(self, signer: Signer) -> None:
        self.signer = signer
        self.header = {"alg": "Ed25519", "kid": signer.key_id.hex(), "typ": "polychrome-grant+jwt"}
        self.claims = {
            "aud": "polychrome/query",
            "exp": NOW_S + 200,
            "iat": NOW_S - 10,
            "iss": "polychrome/control",
            "jti": "01980000-0000-7000-8000-000000000001",
            "realm": "participant",
            "scope": ["conv-a", "conv-b"],
            "sub": "ada",
            "surface": "execute",
        }

    def raw(self, header: bytes, payload: bytes, signature: bytes | None = None) -> str:
        signed = f"{b64(header)}.{b64(payload)}"
        return f"{signed}.{b64(self.signer.sign(signed.encode()) if signature is None else signature)}"

    def good(self) -> str:
        return self.raw(canonical.encode(self.header), canonical.encode(self.claims))

    def with_header(self, **changes: object) -> str:
        header = {k: v for k, v in {**self.header, **changes}.items() if v is not ...}
        return self.raw(_dumps(header), canonical.encode(self.claims))

    def with_claims(self, **changes: object) -> str:
        claims = {k: v for k, v in {**self.claims, **changes}.items() if v is not ...}
        return self.raw(canonical.encode(self.header), _dumps(claims))

    def with_payload(self, payload: bytes) -> str:
        return self.raw(canonical.encode(self.header), payload)

    def with_signature(self, change: Callable[[bytes], bytes]) -> str:
        head, payload, signature = self.good().split(".")
        return f"{head}.{payload}.{b64(change(base64.urlsafe_b64decode(signature + '==')))}"


def _dumps(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def hs256_with_the_public_key(forge: Forge) -> str:
    pem = Ed25519PublicKey.from_public_bytes(forge.signer.public_key).public_bytes(
        Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    )
    signed = f"{b64(_dumps({**forge.header, 'alg': 'HS256'}))}.{b64(canonical.encode(forge.claims))}"
    return f"{signed}.{b64(hmac.new(pem, signed.encode(), hashlib.sha256).digest())}"


def s_plus_order(signature: bytes) -> bytes:
    s = int.from_bytes(signature[32:], "little") + ED25519_ORDER
    return signature[:32] + s.to_bytes(32, "little")


def last_bits(token: str) -> str:
    """The same signature, spelled with other unused bits in the last character (86 characters hold 516 bits)."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]


def twice(text: bytes, member: bytes) -> bytes:
    return b"{" + member + b"," + text[1:]


Relative = tuple[Callable[[Forge], str], str]

RELATIVES: dict[str, Relative] = {
    "alg-none": (lambda f: f.with_header(alg="none"), "header"),
    "alg-NoNe": (lambda f: f.with_header(alg="NoNe").rsplit(".", 1)[0] + ".", "base64"),
    "alg-HS256-pem": (hs256_with_the_public_key, "header"),
    "alg-missing": (lambda f: f.with_header(alg=...), "header"),
    "alg-null": (lambda f: f.with_header(alg=None), "header"),
    "alg-list": (lambda f: f.with_header(alg=["Ed25519"]), "header"),
    "alg-EdDSA": (lambda f: f.with_header(alg="EdDSA"), "header"),
    "jwk-in-header": (
        lambda f: f.with_header(jwk={"crv": "Ed25519", "kty": "OKP", "x": b64(f.signer.public_key)}),
        "header",
    ),
    "b64-false": (lambda f: f.with_header(b64=False, crit=["b64"]), "header"),
    "kid-unknown": (lambda f: f.with_header(kid="00" * 8), "key"),
    "kid-path": (lambda f: f.with_header(kid="../../keys/grant.pem"), "header"),
    "kid-number": (lambda f: f.with_header(kid=7), "header"),
    "sig-short": (lambda f: f.with_signature(lambda s: s[:63]), "signature"),
    "sig-long": (lambda f: f.with_signature(lambda s: s + b"\0"), "signature"),
    "sig-zero": (lambda f: f.with_signature(lambda _: bytes(64)), "signature"),
    "sig-S-plus-L": (lambda f: f.with_signature(s_plus_order), "signature"),
    "b64-last-bits": (lambda f: last_bits(f.good()), "base64"),
    "b64-padded": (lambda f: f.good() + "==", "base64"),
    "b64-junk": (lambda f: f.good() + "!", "base64"),
    "b64-newline": (lambda f: f.good().replace(".", "\n.", 1), "base64"),
    "b64-space": (lambda f: f.good().replace(".", " .", 1), "base64"),
    "trailing-newline": (lambda f: f.good() + "\n", "base64"),
    "nul": (lambda f: f.good() + "\0", "base64"),
    "four-parts": (lambda f: f.good() + ".AAAA", "parts"),
    "dots": (lambda _: "." * 200_000, "size"),
    "dots-few": (lambda _: "." * 100, "parts"),
    "five-parts-jwe": (lambda f: "e30.AAAA.AAAA.AAAA.AAAA", "parts"),
    "exp-past": (lambda f: f.with_claims(exp=NOW_S - 1), "exp"),
    "exp-equals-now": (lambda f: f.with_claims(exp=NOW_S), "exp"),
    "exp-missing": (lambda f: f.with_claims(exp=...), "claims"),
    "exp-null": (lambda f: f.with_claims(exp=None), "exp"),
    "exp-float": (lambda f: f.with_claims(exp=NOW_S + 100.5), "claims"),
    "exp-2e63": (lambda f: f.with_claims(exp=2**63), "exp"),
    "exp-1e400": (
        lambda f: f.with_payload(_dumps(f.claims).replace(b'"exp":%d' % f.claims["exp"], b'"exp":1e400')),
        "claims",
    ),
    "exp-NaN": (lambda f: f.with_claims(exp=float("nan")), "claims"),
    "exp-Infinity": (lambda f: f.with_claims(exp=float("inf")), "claims"),
    "exp-negative": (lambda f: f.with_claims(exp=-1), "exp"),
    "exp-true": (lambda f: f.with_claims(exp=True), "exp"),
    "exp-text": (lambda f: f.with_claims(exp=str(NOW_S + 100)), "exp"),
    "exp-ms": (lambda f: f.with_claims(exp=(NOW_S + 100) * 1000), "lifetime"),
    "lifetime-10y": (lambda f: f.with_claims(exp=NOW_S + 315_360_000), "lifetime"),
    "lifetime-301s": (lambda f: f.with_claims(iat=NOW_S, exp=NOW_S + 301), "lifetime"),
    "iat-future": (lambda f: f.with_claims(iat=NOW_S + 6, exp=NOW_S + 100), "iat"),
    "nbf-future": (lambda f: f.with_claims(nbf=NOW_S + 100), "claims"),
    "exp-before-iat": (lambda f: f.with_claims(iat=NOW_S, exp=NOW_S - 5), "lifetime"),
    "aud-missing": (lambda f: f.with_claims(aud=...), "claims"),
    "aud-list-with": (lambda f: f.with_claims(aud=["polychrome/query"]), "aud"),
    "aud-empty-list": (lambda f: f.with_claims(aud=[]), "aud"),
    "aud-prefix": (lambda f: f.with_claims(aud="polychrome/query-plane"), "aud"),
    "aud-case": (lambda f: f.with_claims(aud="Polychrome/Query"), "aud"),
    "iss-missing": (lambda f: f.with_claims(iss=...), "claims"),
    "iss-substring": (lambda f: f.with_claims(iss="polychrome"), "iss"),
    "iss-list": (lambda f: f.with_claims(iss=["polychrome/control"]), "iss"),
    "realm-missing": (lambda f: f.with_claims(realm=...), "claims"),
    "realm-case": (lambda f: f.with_claims(realm="Fleet"), "realm"),
    "scope-missing": (lambda f: f.with_claims(scope=...), "claims"),
    "scope-null": (lambda f: f.with_claims(scope=None), "scope"),
    "scope-star": (lambda f: f.with_claims(scope="*"), "scope"),
    "scope-string": (lambda f: f.with_claims(scope="conv-a"), "scope"),
    "scope-dup": (lambda f: f.with_claims(scope=["conv-a", "conv-a"]), "scope"),
    "scope-unsorted": (lambda f: f.with_claims(scope=["conv-b", "conv-a"]), "scope"),
    "scope-wild": (lambda f: f.with_claims(scope=["conv-*"]), "scope"),
    "scope-path": (lambda f: f.with_claims(scope=["conv-../conv-b"]), "scope"),
    "scope-quote": (lambda f: f.with_claims(scope=["conv-a' OR '1'='1"]), "scope"),
    "scope-newline": (lambda f: f.with_claims(scope=["conv-a\n"]), "scope"),
    "scope-NFC": (lambda f: f.with_claims(scope=["conv-cafe\u0301"]), "scope"),
    "scope-deployment-wide": (lambda f: f.with_claims(scope=["personas"]), "scope"),
    "scope-huge": (lambda f: f.with_claims(scope=[f"conv-{i:02}" for i in range(33)]), "scope"),
    "scope-all-participant": (lambda f: f.with_claims(scope={"all": True}), "scope"),
    "scope-all-one": (lambda f: f.with_claims(realm="fleet", scope={"all": 1}), "scope"),
    "scope-of-another": (
        lambda f: f.with_claims(scope={"count": 1, "digest": "0" * 64, "index": 1, "persona": "bob"}),
        "scope",
    ),
    "dup-claim-scope": (
        lambda f: f.with_payload(twice(canonical.encode(f.claims), b'"scope":["conv-z"]')),
        "claims",
    ),
    "dup-header-alg": (
        lambda f: f.raw(twice(canonical.encode(f.header), b'"alg":"none"'), canonical.encode(f.claims)),
        "header",
    ),
    "once-only": (lambda f: f.with_claims(once=True), "claims"),
    "attenuated": (lambda f: f.with_claims(caveats=["conv-a"]), "claims"),
    "surface-other": (lambda f: f.with_claims(surface="everything"), "surface"),
    "sub-empty": (lambda f: f.with_claims(sub=""), "sub"),
    "payload-array": (lambda f: f.with_payload(b"[]"), "claims"),
    "payload-not-json": (lambda f: f.with_payload(b"not json"), "claims"),
    "payload-bom": (lambda f: f.with_payload(b"\xef\xbb\xbf" + canonical.encode(f.claims)), "claims"),
    "payload-deep": (lambda f: f.with_payload(b"[" * 2000), "claims"),
    "payload-space": (lambda f: f.with_payload(json.dumps(f.claims, sort_keys=True).encode()), "claims"),
    "token-64k": (lambda f: f.good() + "A" * 65_536, "size"),
    "typ-other": (lambda f: f.with_header(typ="JWT"), "header"),
    "typ-revocations": (lambda f: f.with_header(typ="polychrome-revocations+jwt"), "header"),
}

HEADERS: dict[str, tuple[list[tuple[bytes, bytes]], str | None]] = {
    "two Authorization headers": ([(b"authorization", b"Bearer T"), (b"Authorization", b"Bearer T")], "headers"),
    "authorization: bearer T (lower case scheme)": ([(b"authorization", b"bearer T")], None),
    "BEARER T": ([(b"authorization", b"BEARER T")], None),
    "Bearer  T (two spaces)": ([(b"authorization", b"Bearer  T")], "scheme"),
    "Bearer\\tT": ([(b"authorization", b"Bearer\tT")], "scheme"),
    "Basic T": ([(b"authorization", b"Basic T")], "scheme"),
    "T (no scheme)": ([(b"authorization", b"T")], "scheme"),
    "Bearer (empty)": ([(b"authorization", b"Bearer ")], "scheme"),
    "cookie": ([(b"cookie", b"session=T")], "headers"),
    "T of 64 KB": ([(b"authorization", b"Bearer " + b"T" * 65_536)], "size"),
    "a list of two": ([(b"authorization", b"Bearer T, Bearer T")], "scheme"),
    "folded line": ([(b"authorization", b"Bearer T\r\n T")], "scheme"),
    "latin-1": ([(b"authorization", b"Bearer \xe4\xf6")], "scheme"),
    "none": ([], "headers"),
}
