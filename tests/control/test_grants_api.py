"""A grant covers what the persona participates in now, is recorded before it leaves, and can be revoked at once."""

import pytest

from control import grants_api, personas, revocations, sessions
from polyc import grants
from polyc.errors import RefusedError
from polyc.grants import ByReference, Everything, GrantRefusedError, Inline
from polyc.published import EdgeTrust


@pytest.fixture
def trust(deployment) -> EdgeTrust:
    return EdgeTrust(deployment.root.published, deployment.keys.policy, clock=deployment.clock)


def test_a_grant_names_exactly_the_conversations_of_its_persona(local, deployment, trust) -> None:
    for name in ("conv-a", "conv-b", "conv-c"):
        deployment.open_conversation(name)
    for persona, partition in (("ada", "conv-b"), ("ada", "conv-a"), ("bob", "conv-b"), ("bob", "conv-c")):
        local.ensure_persona(persona)
        assert local.join(partition, persona)
        assert not local.join(partition, persona)
    token, expires_at_ms = local.mint_grant(persona="ada")
    grant = trust.grant_of(token)
    assert grant.scope == Inline(partitions=("conv-a", "conv-b"))
    assert (grant.realm, grant.subject, grant.surface) == ("participant", "ada", "execute")
    assert expires_at_ms == grant.expires_at_s * 1000 == deployment.clock.now_us() // 1000 + 300_000


def test_a_persona_without_conversations_gets_an_empty_scope(local, trust) -> None:
    local.ensure_persona("ada")
    assert trust.grant_of(local.mint_grant(persona="ada")[0]).scope == Inline(partitions=())


def test_more_than_32_conversations_go_by_reference_and_the_token_stays_small(local, deployment, trust) -> None:
    local.ensure_persona("ada")
    names = [f"conv-{i:064d}" for i in range(33)]
    for name in names[:32]:
        deployment.open_conversation(name)
        local.join(name, "ada")
    assert isinstance(trust.grant_of(local.mint_grant(persona="ada")[0]).scope, Inline)
    deployment.open_conversation(names[32])
    local.join(names[32], "ada")
    last_join = deployment.journal.size() - 1
    token, _ = local.mint_grant(persona="ada")
    assert trust.grant_of(token).scope == ByReference(
        persona_id="ada", index=last_join, digest=grants.scope_digest(names), count=33
    )
    assert len(token) < 1024


def test_an_admins_grant_covers_the_fleet(local, trust) -> None:
    grant = trust.grant_of(local.mint_grant(admin=True)[0])
    assert grant.realm == "fleet"
    assert grant.scope == Everything()
    assert grant.subject.startswith("admin:")


def test_minting_and_revoking_are_on_record_and_the_token_is_nowhere(local, deployment) -> None:
    local.ensure_persona("ada")
    token, _ = local.mint_grant(persona="ada")
    month = "credentials-202605"
    minted = deployment.journal.events(month)[-1]
    assert (minted.kind, minted.event, minted.subject, minted.realm, minted.scope_size) == (
        "grant",
        "minted",
        "ada",
        "participant",
        0,
    )
    grants_api.revoke_grant(local.context, minted.credential_id)
    assert deployment.journal.events(month)[-1].event == "revoked"
    signature = token.rsplit(".", 1)[1].encode()
    assert all(signature not in record.payload for record in deployment.journal.records)


def test_no_token_leaves_without_its_record(local, deployment) -> None:
    local.ensure_persona("ada")
    deployment.journal.fails = 1
    with pytest.raises(Exception, match="gone"):
        local.mint_grant(persona="ada")


def test_a_revoked_grant_is_refused_by_the_next_list(local, deployment, trust) -> None:
    local.ensure_persona("ada")
    token, _ = local.mint_grant(persona="ada")
    trust.grant_of(token)
    grants_api.revoke_grant(local.context, trust.grant_of(token).credential_id)
    revocations.publish(local.context)
    with pytest.raises(GrantRefusedError) as caught:
        trust.grant_of(token)
    assert caught.value.reason == "revoked"


def test_a_revocation_outlives_its_grant_and_a_restart(local, deployment, trust) -> None:
    local.ensure_persona("ada")
    token, _ = local.mint_grant(persona="ada")
    credential_id = trust.grant_of(token).credential_id
    grants_api.revoke_grant(local.context, credential_id)
    deployment.clock.advance(seconds=305)
    restarted = deployment.local()
    revocations.publish(restarted.context)
    assert credential_id in trust.revocations().credential_ids
    deployment.clock.advance(seconds=600)
    revocations.publish(restarted.context)
    assert credential_id not in trust.revocations().credential_ids


def test_an_unknown_grant_cannot_be_revoked(local) -> None:
    with pytest.raises(RefusedError):
        grants_api.revoke_grant(local.context, "01980000-0000-7000-8000-000000000001")


def leaves(local, _token):
    local.leave("conv-a", "ada")


def is_suspended(local, _token):
    personas.suspend_persona(local.context, "ada")


def loses_a_session(local, _token):
    session = local.create_session("ada")
    sessions.revoke_session(local.context, session.credential_id)


@pytest.mark.parametrize("event", [leaves, is_suspended, loses_a_session])
def test_what_ends_a_personas_right_ends_its_grants_but_not_its_next_one(local, deployment, trust, event) -> None:
    deployment.open_conversation("conv-a")
    local.ensure_persona("ada")
    local.join("conv-a", "ada")
    token, _ = local.mint_grant(persona="ada")
    event(local, token)
    revocations.publish(local.context)
    with pytest.raises(GrantRefusedError):
        trust.grant_of(token)
    personas.resume_persona(local.context, "ada")
    again = trust.grant_of(local.mint_grant(persona="ada")[0])
    assert again.scope == Inline(partitions=() if event is leaves else ("conv-a",))


def test_a_new_incarnation_starts_without_participants(local, deployment, trust) -> None:
    deployment.open_conversation("conv-imp-a", role="importer", origin="codex")
    local.ensure_persona("ada")
    local.join_imported("conv-imp-a", "ada")
    token, _ = local.mint_grant(persona="ada")
    assert trust.grant_of(token).scope == Inline(partitions=("conv-imp-a",))
    from facts import codec
    from facts.events import ConversationOpened

    event = ConversationOpened(id="x", origin="codex", conversation_id="conv-imp-a")
    deployment.author("importer").append("conv-imp-a", [codec.encode(event)], new_incarnation=True)
    revocations.publish(local.context)
    with pytest.raises(GrantRefusedError):
        trust.grant_of(token)
    assert trust.grant_of(local.mint_grant(persona="ada")[0]).scope == Inline(partitions=())
    local.join_imported("conv-imp-a", "ada")
    assert trust.grant_of(local.mint_grant(persona="ada")[0]).scope == Inline(partitions=("conv-imp-a",))


def test_a_second_import_joins_nobody_twice_and_brings_nobody_back(local, deployment) -> None:
    deployment.open_conversation("conv-imp-a", role="importer", origin="codex")
    local.ensure_persona("ada")
    local.join_imported("conv-imp-a", "ada")
    size = deployment.journal.size()
    local.join_imported("conv-imp-a", "ada")
    assert deployment.journal.size() == size
    local.leave("conv-imp-a", "ada")
    local.join_imported("conv-imp-a", "ada")
    with local.context.index.view() as state:
        assert state.personas.scope_of("ada") == []
    assert local.join("conv-imp-a", "ada")


def test_records_of_another_role_admit_nobody(local, deployment) -> None:
    """The door refuses them; should one be there all the same, the fold refuses it too (ruling 3)."""
    from control.state import State
    from facts import codec
    from facts.events import ParticipantJoined
    from polyc.entry import Record
    from polyc.vocabulary import BY_KIND

    deployment.open_conversation("conv-a")
    payload = codec.encode(ParticipantJoined(id="x", persona_id="eve")).payload
    with local.context.index.view() as known:
        state = State(cursor=known.cursor, personas=known.personas)
    for role, expected in (("harness", []), ("control", ["conv-a"])):
        record = Record(
            partition="conv-a",
            incarnation=state.personas.conversations["conv-a"].incarnation,
            position=2,
            index=state.cursor,
            recorded_at_us=0,
            key_id=deployment.keys.signers[role].key_id,
            event_type=BY_KIND["participant_joined"].code,
            fence=bytes(16),
            payload=payload,
        )
        state.apply(record, deployment.keys.ring)
        assert state.personas.scope_of("eve") == expected


def test_a_token_stays_out_of_every_repr(local) -> None:
    local.ensure_persona("ada")
    minted = grants_api.mint_participant(local.context, "ada")
    assert minted.token not in repr(minted)


def test_many_threads_publish_at_once_and_the_list_stays_whole(local, deployment, trust) -> None:
    from concurrent.futures import ThreadPoolExecutor

    local.ensure_persona("ada")

    def mint_and_publish(_number: int) -> None:
        local.mint_grant(persona="ada")

    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(mint_and_publish, range(64)))
    assert trust.revocations().size == deployment.journal.size()
