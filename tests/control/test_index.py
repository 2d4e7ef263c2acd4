"""Control reads each record once, starts from its cache when that is of this log, and loses nothing without it."""

import pytest

from control import index as index_module
from control.local import LocalControl


@pytest.fixture(autouse=True)
def small_cache(monkeypatch) -> None:
    monkeypatch.setattr(index_module, "CACHE_EVERY_RECORDS", 10)


def busy(deployment) -> LocalControl:
    local = deployment.local()
    local.ensure_persona("ada")
    for i in range(10):
        deployment.open_conversation(f"conv-{i}")
        local.join(f"conv-{i}", "ada")
    return local


def test_a_request_reads_only_what_is_new(deployment) -> None:
    local = busy(deployment)
    local.mint_grant(persona="ada")
    before = deployment.journal.reads
    local.mint_grant(persona="ada")
    assert deployment.journal.reads - before == 1


def test_a_restart_reads_only_what_its_cache_does_not_know(deployment) -> None:
    busy(deployment)
    before = deployment.journal.reads
    token, _ = deployment.local().mint_grant(persona="ada")
    assert deployment.journal.reads - before < 15
    assert token


def scope(deployment) -> list[str]:
    with deployment.local().context.index.view() as state:
        return state.personas.scope_of("ada")


def test_with_and_without_the_cache_the_state_is_the_same(deployment) -> None:
    busy(deployment)
    cached = scope(deployment)
    (deployment.root.path / "cache" / "control.index").unlink()
    assert scope(deployment) == cached == sorted(f"conv-{i}" for i in range(10))


@pytest.mark.parametrize("damage", [lambda raw: raw[: len(raw) // 2], lambda raw: b"", lambda raw: raw + b"x"])
def test_a_damaged_cache_is_not_used(deployment, damage) -> None:
    busy(deployment)
    file = deployment.root.path / "cache" / "control.index"
    file.write_bytes(damage(file.read_bytes()))
    assert len(scope(deployment)) == 10


def test_a_cache_of_another_history_is_not_used(deployment) -> None:
    busy(deployment)
    journal = deployment.journal
    cut = journal.size() - 15
    journal.records[cut:] = []
    assert len(scope(deployment)) < 10


def test_after_an_erasure_nothing_of_it_is_remembered_here_or_in_the_cache(tmp_path) -> None:
    """Over the real journal: the title of an erased conversation is in no file and in no memory of Control."""
    from dataclasses import replace

    from control import conversations, personas
    from control.context import ControlContext
    from journal import boot
    from journal.erasure import erase
    from polyc.clock import SystemClock
    from polyc.dataroot import DataRoot
    from polyc.ids import SystemIds
    from tests.control.crash_child import POLICY

    root, clock, ids = DataRoot(tmp_path / "root"), SystemClock(), SystemIds()
    boot.create_deployment(root, clock=clock, ids=ids)
    with boot.open_embedded(root, clock=clock, ids=ids) as journal:
        context = replace(ControlContext.open(journal, root, clock=clock, ids=ids), redaction=POLICY)
        personas.ensure_persona(context, "ada")
        kept = conversations.open_conversation(context, "ada", title="kept")
        gone = conversations.open_conversation(context, "ada", title="needle")
        for _ in range(10):
            personas.ensure_persona(context, "ada", display_name=context.new_id())
        cache = root.path / "cache" / "control.index"
        assert b"needle" in cache.read_bytes()
        erase(context.control, partition=gone, incarnation=journal.head(gone).incarnation)
        with context.index.view() as state:
            assert state.personas.scope_of("ada") == [kept]
            assert state.personas.conversations[gone].title is None
            assert state.personas.conversations[kept].title == "kept"
            assert len(state.key_payloads) == len(list(context.index.keys.all())) - 1
        assert not cache.exists() or b"needle" not in cache.read_bytes()
        personas.ensure_persona(context, "ada", display_name="again")
        assert personas.find_persona(context, "ada").display_name == "again"
