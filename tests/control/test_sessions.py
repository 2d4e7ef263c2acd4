"""A session speaks for its persona until it ends, is known by its hash alone, and leaves its records."""

import pytest

from control import personas, sessions
from polyc.errors import RefusedError


def refused(context, bearer: str) -> str:
    with pytest.raises(RefusedError) as caught:
        sessions.verify_session(context, bearer)
    assert caught.value.code == "unauthenticated"
    return caught.value.message


def test_a_session_speaks_for_its_persona(local) -> None:
    session = local.create_session("ada")
    caller = sessions.verify_session(local.context, session.bearer)
    assert (caller.persona_id, caller.is_admin, caller.subject) == ("ada", False, "ada")


def test_the_bearer_is_nowhere_in_the_log_and_in_no_repr(local, deployment) -> None:
    session = local.create_session("ada")
    assert session.bearer not in repr(session)
    payloads = b"".join(record.payload for record in deployment.journal.records)
    assert session.bearer.encode() not in payloads
    assert b'"secret_sha256"' in payloads


def test_every_bearer_that_is_not_live_reads_the_same(local, deployment) -> None:
    context = local.context
    good = local.create_session("ada")
    short = local.create_session("ada", lifetime_s=60)
    deployment.clock.advance(seconds=59)
    sessions.verify_session(context, short.bearer)
    deployment.clock.advance(seconds=1)
    texts = {
        refused(context, short.bearer),
        refused(context, good.bearer[:-1] + "!"),
        refused(context, "pcs_" + "A" * 43),
    }
    sessions.revoke_session(context, good.credential_id)
    assert texts | {refused(context, good.bearer)} == {"not a valid session"}


def test_a_revoked_session_stays_revoked_after_a_restart(deployment) -> None:
    first = deployment.local()
    session = first.create_session("ada")
    assert sessions.revoke_session(first.context, session.credential_id)
    assert not sessions.revoke_session(first.context, session.credential_id)
    refused(deployment.local().context, session.bearer)


def test_a_suspended_personas_sessions_end_and_come_back_with_it(local) -> None:
    session = local.create_session("ada")
    personas.suspend_persona(local.context, "ada")
    refused(local.context, session.bearer)
    with pytest.raises(RefusedError):
        sessions.create_session(local.context, "ada")
    personas.resume_persona(local.context, "ada")
    assert sessions.verify_session(local.context, session.bearer).persona_id == "ada"


def test_only_a_persona_marked_as_admin_gets_an_admin_session(local) -> None:
    local.ensure_persona("ada")
    with pytest.raises(RefusedError) as caught:
        sessions.create_session(local.context, "ada", admin=True)
    assert caught.value.code == "permission_denied"
    caller = sessions.verify_session(local.context, local.create_session("ada", admin=True).bearer)
    assert caller.is_admin
    assert caller.subject == "admin:ada"


def test_an_admin_session_ends_with_the_admin_mark(local) -> None:
    session = local.create_session("ada", admin=True)
    local.ensure_persona("ada", admin=False)
    refused(local.context, session.bearer)


def test_a_persona_is_recorded_once(local, deployment) -> None:
    local.ensure_persona("ada")
    local.ensure_persona("ada")
    assert len(deployment.journal.events("personas")) == 1


@pytest.mark.parametrize("name", ["", "Ada", "a b", "admin:ada", "a" * 65, "ada\n"])
def test_a_name_outside_the_grammar_is_refused(local, name) -> None:
    with pytest.raises(RefusedError):
        personas.ensure_persona(local.context, name)


def test_a_session_that_ended_by_itself_is_put_on_record_once_and_takes_no_grant_with_it(local, deployment) -> None:
    local.create_session("ada", lifetime_s=60)
    local.create_session("ada")
    assert sessions.record_expired(local.context) == 0
    deployment.clock.advance(seconds=60)
    assert sessions.record_expired(local.context) == 1
    assert sessions.record_expired(local.context) == 0
    assert deployment.journal.events("credentials-202605")[-1].event == "expired"
    with local.context.index.view() as state:
        assert state.credentials.revoked_subjects == {}
