"""What edges read from `published/` is verified from the policy's root key, is fresh, and never goes backwards."""

import msgspec
import pytest

from polyc import grants, published
from polyc.errors import CorruptError, UnavailableError
from polyc.grants import Grant, GrantRefusedError, Inline
from polyc.published import EdgeTrust, Revocations
from polyc.signing import new_signer
from tests.support.deployment_keys import DeploymentKeys


def revocations(keys: DeploymentKeys, **changes) -> Revocations:
    values = {
        "issued_at_s": keys.clock.now_us() // 1_000_000,
        "sequence": 1,
        "size": 100,
        "keys_position": keys.head.position,
        "credential_ids": frozenset(),
        "subjects": {},
    }
    return Revocations(**{**values, **changes})


def write(folder, keys: DeploymentKeys, *, role: str = "grant", **changes) -> None:
    published.write_revocations(folder, revocations(keys, **changes), signer=keys.signers[role])


def grant(keys: DeploymentKeys, **changes) -> Grant:
    now_s = keys.clock.now_us() // 1_000_000
    values = {
        "credential_id": "01980000-0000-7000-8000-000000000001",
        "subject": "ada",
        "realm": "participant",
        "scope": Inline(partitions=("conv-a",)),
        "issued_at_s": now_s,
        "expires_at_s": now_s + 300,
    }
    return Grant(**{**values, **changes})


def token(keys: DeploymentKeys, **changes) -> str:
    return grants.mint(grant(keys, **changes), signer=keys.signers["grant"])


@pytest.fixture
def keys() -> DeploymentKeys:
    return DeploymentKeys()


@pytest.fixture
def trust(keys, tmp_path) -> EdgeTrust:
    keys.publish(tmp_path)
    write(tmp_path, keys)
    return EdgeTrust(tmp_path, keys.policy, clock=keys.clock)


def test_an_edge_admits_a_grant_from_the_published_files_alone(keys, trust) -> None:
    assert trust.grant_of(token(keys)).subject == "ada"


def test_a_bundle_is_verified_entry_by_entry(keys, tmp_path) -> None:
    keys.append(keys.added(new_signer(keys.ids), "harness"))
    keys.publish(tmp_path)
    bundle = published.load_key_bundle(tmp_path, keys.policy)
    assert bundle.position == len(keys.ring.all()) - 1
    assert {key.key_id for key in bundle.keys.all()} == {key.key_id for key in keys.ring.all()}


def tampered(keys: DeploymentKeys, change) -> list[published.KeyEntry]:
    entries = published.entries_of(keys.appends)
    return change(entries)


def swap_payload(entries):
    payload = entries[0].payload.replace(b'"role":"control"', b'"role":"grant"')
    assert payload != entries[0].payload
    return [msgspec.structs.replace(entries[0], payload=payload), *entries[1:]]


TAMPERINGS = {
    "a payload changed": swap_payload,
    "an entry dropped": lambda entries: entries[1:],
    "the tail of an append cut": lambda entries: entries[:-1],
    "two entries swapped": lambda entries: [entries[1], entries[0], *entries[2:]],
    "a signature taken off": lambda entries: [*entries[:-1], msgspec.structs.replace(entries[-1], signature=None)],
    "a signature zeroed": lambda entries: [*entries[:-1], msgspec.structs.replace(entries[-1], signature=bytes(64))],
    "nothing left": lambda entries: [],
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_changed_bundle_is_corrupt(keys, tmp_path, name) -> None:
    entries = tampered(keys, TAMPERINGS[name])
    published.write_key_bundle(tmp_path, origin=keys.policy.origin, size=100, entries=entries)
    with pytest.raises(CorruptError):
        published.load_key_bundle(tmp_path, keys.policy)


def test_another_root_keys_bundle_is_corrupt(keys, tmp_path) -> None:
    DeploymentKeys("another").publish(tmp_path)
    with pytest.raises(CorruptError):
        published.load_key_bundle(tmp_path, keys.policy)


def test_key_events_signed_by_another_key_are_corrupt(keys, tmp_path) -> None:
    keys.append(keys.added(new_signer(keys.ids), "grant"), signer=keys.signers["control"])
    keys.publish(tmp_path)
    with pytest.raises(CorruptError):
        published.load_key_bundle(tmp_path, keys.policy)


def test_a_revoked_grant_is_refused_at_the_next_request(keys, trust, tmp_path) -> None:
    bearer = token(keys)
    trust.grant_of(bearer)
    write(tmp_path, keys, sequence=2, credential_ids=frozenset({grant(keys).credential_id}))
    with pytest.raises(GrantRefusedError) as caught:
        trust.grant_of(bearer)
    assert caught.value.reason == "revoked"


def test_a_revoked_subject_needs_a_newer_grant(keys, trust, tmp_path) -> None:
    now_s = keys.clock.now_us() // 1_000_000
    write(tmp_path, keys, sequence=2, subjects={"ada": now_s})
    with pytest.raises(GrantRefusedError):
        trust.grant_of(token(keys))
    assert trust.grant_of(token(keys, issued_at_s=now_s + 1)).subject == "ada"
    assert trust.grant_of(token(keys, subject="bob")).subject == "bob"


def test_another_spelling_of_a_revoked_grant_does_not_pass(keys, trust, tmp_path) -> None:
    bearer = token(keys)
    write(tmp_path, keys, sequence=2, credential_ids=frozenset({grant(keys).credential_id}))
    for spelling in (bearer, bearer + "=", bearer[:-1] + chr(ord(bearer[-1]) + 1)):
        with pytest.raises(GrantRefusedError):
            trust.grant_of(spelling)


def test_a_list_older_than_ten_seconds_stops_new_queries(keys, trust) -> None:
    keys.clock.advance(seconds=10)
    trust.grant_of(token(keys))
    keys.clock.advance(seconds=1)
    with pytest.raises(UnavailableError):
        trust.grant_of(token(keys))


def test_a_list_from_the_future_or_of_another_role_is_refused(keys, tmp_path) -> None:
    keys.publish(tmp_path)
    trust = EdgeTrust(tmp_path, keys.policy, clock=keys.clock)
    write(tmp_path, keys, issued_at_s=keys.clock.now_us() // 1_000_000 + 6)
    with pytest.raises(UnavailableError):
        trust.revocations()
    write(tmp_path, keys, role="control")
    with pytest.raises(CorruptError):
        trust.revocations()


@pytest.mark.parametrize("older", [{"sequence": 4}, {"sequence": 9, "size": 99}])
def test_an_older_list_does_not_bring_a_revoked_grant_back(keys, trust, tmp_path, older) -> None:
    bearer = token(keys)
    write(tmp_path, keys, sequence=5, credential_ids=frozenset({grant(keys).credential_id}))
    trust.revocations()
    write(tmp_path, keys, **older)
    with pytest.raises(GrantRefusedError):
        trust.grant_of(bearer)
    write(tmp_path, keys, sequence=10)
    assert trust.grant_of(bearer)


def test_a_grant_that_was_good_is_refused_once_its_time_is_over_or_it_is_revoked(keys, trust, tmp_path) -> None:
    """What is remembered of a bearer is its signature, never that it is valid."""
    bearer = token(keys)
    assert trust.grant_of(bearer) == trust.grant_of(bearer)
    write(tmp_path, keys, sequence=5, credential_ids=frozenset({grant(keys).credential_id}))
    with pytest.raises(GrantRefusedError) as revoked:
        trust.grant_of(bearer)
    assert revoked.value.reason == "revoked"
    write(tmp_path, keys, sequence=6)
    assert trust.grant_of(bearer)
    keys.clock.advance(seconds=300)
    write(tmp_path, keys, sequence=7)
    with pytest.raises(GrantRefusedError) as ended:
        trust.grant_of(bearer)
    assert ended.value.reason == "exp"


def test_a_remembered_bearer_does_not_outlive_its_key(keys, trust, tmp_path) -> None:
    bearer = token(keys)
    assert trust.grant_of(bearer)
    keys.append(keys.revoked(keys.signers["grant"], from_index=0))
    keys.publish(tmp_path)
    with pytest.raises(GrantRefusedError):
        trust.grant_of(bearer)


def test_another_spelling_of_a_remembered_bearer_is_verified_anew(keys, trust) -> None:
    bearer = token(keys)
    assert trust.grant_of(bearer)
    for other in (f"{bearer}=", bearer[:-1], bearer[:-2] + ("AA" if bearer[-2:] != "AA" else "BB")):
        with pytest.raises(GrantRefusedError):
            trust.grant_of(other)


def test_an_old_key_bundle_beside_a_newer_list_is_noticed(keys, trust, tmp_path) -> None:
    write(tmp_path, keys, sequence=2, keys_position=keys.head.position + 1)
    with pytest.raises(UnavailableError):
        trust.grant_of(token(keys))


def test_a_revoked_grant_key_admits_nothing_from_its_index_on(keys, trust, tmp_path) -> None:
    bearer = token(keys)
    keys.append(keys.revoked(keys.signers["grant"], from_index=200))
    keys.publish(tmp_path)
    assert trust.grant_of(bearer)
    with pytest.raises(GrantRefusedError):
        trust.grant_of(bearer, size=200)


def test_nothing_published_is_unavailable(keys, tmp_path) -> None:
    with pytest.raises(UnavailableError):
        EdgeTrust(tmp_path, keys.policy, clock=keys.clock).grant_of(token(keys))
