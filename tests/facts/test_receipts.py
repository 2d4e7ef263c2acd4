"""The signature checks of receipts against published vectors, and what else a verifier must hold to."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts.payments import Spending
from facts.receipts import _ALGORITHMS, ReceiptError, covers, verify
from tests.facts.journal import Journal
from tests.facts.payment import claims, jws, paid, paying, signer, trust


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


# RFC 8037 appendix A.4 and RFC 7515 appendix A.3: the public key, the signing input, the signature.
EDDSA = (
    decoded("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"),
    b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
    decoded("hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"),
)
ES256 = (
    b"\x04"
    + decoded("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU")
    + decoded("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"),
    b"eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
    decoded("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"),
)


@pytest.mark.parametrize(("name", "vector"), [("EdDSA", EDDSA), ("ES256", ES256)])
def test_the_published_vectors_verify_and_their_relatives_do_not(name, vector):
    key, signed, signature = vector
    check = _ALGORITHMS[name]
    assert check(key, signature, signed)
    assert not check(key, signature, signed + b" ")
    assert not check(key, signature[:-1] + bytes([signature[-1] ^ 1]), signed)
    assert not check(key, signature[:32] + bytes(32), signed)
    assert not check(key[:-1] + bytes([key[-1] ^ 1]), signature, signed)
    assert not check(b"", signature, signed)


@pytest.mark.parametrize("name", _ALGORITHMS)
def test_no_signature_is_all_zeros(name):
    key = EDDSA[0] if name == "EdDSA" else ES256[0]
    assert not _ALGORITHMS[name](key, bytes(64), b"x")


@settings(deadline=None, derandomize=True, database=None)
@given(st.text(max_size=300))
def test_no_text_is_a_receipt_and_none_makes_the_verifier_fail(text):
    for form in ("jws", "eip712", "other"):
        with pytest.raises(ReceiptError):
            verify(form, text, signers=[signer()], index=1)


@settings(deadline=None, derandomize=True, database=None, max_examples=60)
@given(st.integers(0, len(jws()) - 1), st.characters(codec="ascii"))
def test_no_other_spelling_of_a_true_receipt_verifies(place, letter):
    true = jws()
    other = true[:place] + letter + true[place + 1 :]
    if other != true:
        with pytest.raises(ReceiptError):
            verify("jws", other, signers=[signer()], index=1)


@pytest.mark.parametrize(
    ("prefix", "resource", "covered"),
    [
        ("https://a.example", "https://a.example", True),
        ("https://a.example", "https://a.example/x", True),
        ("https://a.example/", "https://a.example/x", True),
        ("https://a.example/x", "https://a.example/x?y", True),
        ("https://a.example/x", "https://a.example/xy", False),
        ("https://a.example/x", "https://a.example/x/../y", False),
        ("https://a.example/x", "https://a.example/x/%2e%2E/y", False),
        ("https://a.example/x", "https://a.example/x/.%2e", False),
        ("https://a.example/x", "https://a.example/x/./y", False),
        ("https://a.example/x", "https://a.example/x\\..\\y", False),
        ("https://a.example/x", "https://a.example/x/..?y", False),
        ("https://a.example/x", "https://a.example/x/.well-known/a..b/...", True),
        ("https://a.example/x", "https://a.example/x?to=/../y", True),
        ("https://a.example", "https://a.example:8443/", False),
        ("https://a.example", "https://a.example@evil/", False),
        ("https://a.example", "http://a.example", False),
        ("", "https://a.example", False),
    ],
)
def test_a_prefix_ends_at_a_border(prefix, resource, covered):
    assert covers(prefix, resource) is covered


@settings(deadline=None, derandomize=True, database=None, max_examples=30)
@given(st.randoms(use_true_random=False))
def test_the_order_in_which_conversations_are_read_changes_no_check(random):
    journals = [
        paid(paying("conv-a"), jws()),
        paid(paying("conv-b"), jws(claims(transaction="0xAA02"))).end(),
        paid(paying("conv-c"), jws(claims(payer="0xeve"))),
        Journal("conv-d").open(),
    ]
    queues = [list(journal.records) for journal in journals]
    spending = Spending(trust())
    while any(queues):
        queue = random.choice([queue for queue in queues if queue])
        spending.take([queue.pop(0)])
    assert sorted(fact.reference for fact in spending.payments()) == ["0xAA01", "0xAA02"]
