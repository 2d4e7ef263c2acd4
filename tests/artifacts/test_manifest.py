"""A manifest is believed for what it signs, by whom, at which index — and for nothing else."""

import msgspec
import pytest

from artifacts.layout import generation_name
from artifacts.manifest import sign_manifest, verify_manifest
from artifacts.memory import MemoryStore
from polyc import canonical
from polyc.errors import CorruptError
from polyc.ids import SeededIds
from polyc.signing import new_signer
from tests.support.archive import Archive


@pytest.fixture
def archive() -> Archive:
    archive = Archive()
    archive.converse("conv-a", "hello")
    archive.projector.run_once()
    return archive


def manifest(archive: Archive, number: int = 1) -> bytes:
    return archive.store.read(generation_name(number))


def verified(archive: Archive, content: bytes, number: int = 1):
    return verify_manifest(content, number=number, origin=archive.journal.origin, keys=archive.journal.keyring())


def replaced(archive: Archive, content: bytes) -> Archive:
    assert isinstance(archive.store, MemoryStore)
    archive.store.delete(generation_name(1))
    archive.store.create(generation_name(1), content)
    return archive


def test_the_projectors_manifest_verifies(archive: Archive) -> None:
    body = verified(archive, manifest(archive)).body
    assert (body.generation, body.parent, body.frontier.size) == (1, "", archive.journal.size())


@pytest.mark.parametrize("field", ["generation", "created_at_us", "fold_version", "base", "trust", "parent"])
def test_a_changed_body_does_not_verify(archive: Archive, field: str) -> None:
    outer = canonical.decode(manifest(archive), place="")
    outer["body"][field] = outer["body"][field] + ("0" if isinstance(outer["body"][field], str) else 1)
    with pytest.raises(CorruptError):
        verified(archive, canonical.encode(outer))


def test_a_manifest_resigned_by_a_key_the_log_never_named_is_refused(archive: Archive) -> None:
    body = verified(archive, manifest(archive)).body
    with pytest.raises(CorruptError) as caught:
        verified(archive, sign_manifest(body, new_signer(SeededIds("stranger"))))
    assert caught.value.kind == "signature"


@pytest.mark.parametrize("role", ["control", "harness", "log", "query", "root", "importer", "grant"])
def test_a_manifest_resigned_by_another_role_is_refused(archive: Archive, role: str) -> None:
    body = verified(archive, manifest(archive)).body
    with pytest.raises(CorruptError) as caught:
        verified(archive, sign_manifest(body, archive.journal.keys.signers[role]))
    assert caught.value.kind == "signature"


def test_the_key_is_judged_at_the_frontier_never_now(archive: Archive) -> None:
    keys, frontier = archive.journal.keys, archive.journal.size()
    archive.journal.append(keys.append(keys.revoked(keys.signers["projector"], from_index=frontier + 1)))
    assert verified(archive, manifest(archive)).body.generation == 1
    body = msgspec.structs.replace(
        verified(archive, manifest(archive)).body,
        frontier=msgspec.structs.replace(verified(archive, manifest(archive)).body.frontier, size=frontier + 1),
    )
    with pytest.raises(CorruptError):
        verified(archive, sign_manifest(body, keys.signers["projector"]))


def test_a_manifest_moved_to_another_number_is_refused(archive: Archive) -> None:
    with pytest.raises(CorruptError):
        verified(archive, manifest(archive), number=2)


def test_a_manifest_of_another_log_is_refused(archive: Archive) -> None:
    with pytest.raises(CorruptError):
        verify_manifest(manifest(archive), number=1, origin="elsewhere.example/log", keys=archive.journal.keyring())


def test_a_second_spelling_of_the_same_manifest_is_refused(archive: Archive) -> None:
    pretty = msgspec.json.format(manifest(archive), indent=1)
    with pytest.raises(CorruptError):
        verified(archive, pretty)


def test_unknown_fields_and_versions_are_refused(archive: Archive) -> None:
    outer = canonical.decode(manifest(archive), place="")
    for change in ({"extra": 1}, {"v": 2}):
        body = {**outer["body"], **change}
        signature = archive.journal.keys.signers["projector"].sign(
            b"polychrome/artifacts/manifest/v1\n" + canonical.encode(body)
        )
        with pytest.raises(CorruptError):
            verified(archive, canonical.encode({**outer, "body": body, "sig": signature.hex()}))


def test_every_byte_of_a_manifest_counts(archive: Archive) -> None:
    content = manifest(archive)
    for place in range(0, len(content), 7):
        damaged = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        with pytest.raises(CorruptError):
            verified(archive, damaged)


def test_every_cut_of_a_manifest_is_refused(archive: Archive) -> None:
    content = manifest(archive)
    for size in range(0, len(content), 11):
        with pytest.raises(CorruptError):
            verified(archive, content[:size])


def test_a_reader_never_goes_back(archive: Archive) -> None:
    reader = archive.new_reader()
    archive.converse("conv-b", "more")
    archive.projector.run_once()
    assert reader.latest().number == 2
    archive.store.delete(generation_name(2))
    with pytest.raises(CorruptError) as caught:
        reader.latest()
    assert caught.value.kind == "rollback"


def test_two_manifests_of_one_number_are_an_alarm(archive: Archive) -> None:
    reader = archive.new_reader()
    known = reader.latest().manifest.body
    forged = sign_manifest(msgspec.structs.replace(known, created_at_us=1), archive.journal.keys.signers["projector"])
    replaced(archive, forged)
    with pytest.raises(CorruptError) as caught:
        reader.latest()
    assert caught.value.kind == "fork"


def test_a_child_of_another_parent_is_an_alarm(archive: Archive) -> None:
    reader = archive.new_reader()
    known = reader.latest().manifest.body
    child = msgspec.structs.replace(known, generation=2, parent="00" * 32)
    archive.store.create(generation_name(2), sign_manifest(child, archive.journal.keys.signers["projector"]))
    with pytest.raises(CorruptError) as caught:
        reader.latest()
    assert caught.value.kind == "fork"


def test_a_child_whose_frontier_goes_back_is_an_alarm(archive: Archive) -> None:
    reader = archive.new_reader()
    known = reader.latest().manifest
    frontier = msgspec.structs.replace(known.body.frontier, size=known.body.frontier.size - 1)
    child = msgspec.structs.replace(known.body, generation=2, parent=known.sha256, frontier=frontier)
    archive.store.create(generation_name(2), sign_manifest(child, archive.journal.keys.signers["projector"]))
    with pytest.raises(CorruptError) as caught:
        reader.latest()
    assert caught.value.kind == "rollback"


@pytest.mark.parametrize("hint", [b"", b"999", b"1", b"-1", b"\xff", b"1" * 30, None])
def test_the_hint_is_only_a_hint(archive: Archive, hint: bytes | None) -> None:
    archive.converse("conv-b", "more")
    archive.projector.run_once()
    if hint is None:
        archive.store.delete("CURRENT")
    else:
        archive.store.hint("CURRENT", hint)
    assert archive.latest().number == 2


def test_participants_see_a_name_that_tells_no_count(archive: Archive) -> None:
    first = archive.latest()
    archive.converse("conv-b", "more")
    second = archive.publish()
    assert first.generation_id != second.generation_id
    assert len(second.generation_id) == 22
