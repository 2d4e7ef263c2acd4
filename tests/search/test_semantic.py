"""The semantic lane: opt-in, bound to packs, refused when it is not the one that was recorded."""

import json

import msgspec
import pytest

from polyc.errors import CorruptError, RefusedError, UnavailableError
from polyc.ids import SeededIds
from polyc.keyring import KeyAdded, KeyRing
from polyc.signing import new_signer
from search.build.vectors import VectorBuild
from search.query import SearchRequest
from search.query.semantic_lane import SemanticIndex
from search.vectors import HEADER_FILE, VECTORS_FILE, vectors_name
from tests.search.archive import Archive, access, call, change, message, partitions, said
from tests.search.executors import WordsEmbedder

SIGNER = new_signer(SeededIds("projector"))
ROOT = new_signer(SeededIds("root"))


def ring(role: str = "projector") -> KeyRing:
    keys = KeyRing(ROOT.public_key)
    added = KeyAdded(id="k", key_id=SIGNER.key_id.hex(), public_key=SIGNER.public_key.hex(), role=role, from_index=0)
    keys.apply(msgspec.json.encode(added), place="sys-keys@1")
    return keys


def embed(archive: Archive, embedder: WordsEmbedder | None = None) -> tuple[SemanticIndex, int]:
    embedder = embedder or WordsEmbedder()
    count = VectorBuild(archive.store, embedder, SIGNER, frontier=1).catch_up(archive.packs)
    return SemanticIndex(archive.store, ring, embedder), count


def ask(archive: Archive, semantic: SemanticIndex | None, text: str, *, scope=None, **more):
    request = SearchRequest(text=text, **({"mode": "semantic"} | more))
    return archive.engine(semantic).search(request, access=access(scope), generation=archive.generation())


def depot() -> Archive:
    return Archive().tick(
        said("conv-a", "the points freeze at night"),
        said("conv-b", "the kitchen is open"),
        said("conv-c", "icy turnout, again"),
    )


def test_a_paraphrase_is_found_by_meaning_alone():
    archive = depot()
    semantic, _ = embed(archive)
    assert "conv-c" not in partitions(archive.search("frozen points", mode="lexical"))
    assert set(partitions(ask(archive, semantic, "frozen switch"))[:2]) == {"conv-a", "conv-c"}


def test_hybrid_finds_what_either_lane_finds_and_tells_both_ranks():
    archive = depot()
    semantic, _ = embed(archive)
    answer = ask(archive, semantic, "frozen points", mode="hybrid")
    assert answer.effective_mode == "hybrid"
    first = answer.results[0]
    assert first.partition == "conv-a"
    assert (first.lexical.rank, first.semantic is not None) == (1, True)
    assert [use.kind for use in answer.generations] == ["lexical", "semantic"]


def test_weight_zero_does_no_vector_work_at_all():
    archive = depot()
    embedder = WordsEmbedder()
    semantic = SemanticIndex(archive.store, ring, embedder)
    answer = ask(archive, semantic, "points", mode="hybrid", semantic_weight=0.0)
    assert (answer.effective_mode, answer.fallback, embedder.embedded) == ("lexical", None, 0)


@pytest.mark.parametrize(
    ("more", "reason"),
    [({}, "semantic_incomplete"), ({"content_scope": "calls"}, "semantic_unsupported_scope")],
)
def test_a_hybrid_that_cannot_use_vectors_says_why(more, reason):
    archive = depot()
    semantic = SemanticIndex(archive.store, ring, WordsEmbedder())
    answer = ask(archive, semantic, "points", mode="hybrid", **more)
    assert (answer.effective_mode, answer.fallback) == ("lexical", reason)


def test_semantic_only_never_turns_lexical():
    """E17."""
    archive = depot()
    with pytest.raises(UnavailableError):
        ask(archive, None, "points")
    with pytest.raises(UnavailableError):
        ask(archive, SemanticIndex(archive.store, ring, WordsEmbedder()), "points")
    semantic, _ = embed(archive)
    with pytest.raises(RefusedError):
        ask(archive, semantic, "points", content_scope="outputs")


def test_a_new_pack_embeds_only_new_text_and_a_merge_embeds_nothing():
    archive = depot()
    embedder = WordsEmbedder()
    assert embed(archive, embedder)[1] == 3
    archive.tick(said("conv-d", "the points freeze at night", "something new"))
    assert embed(archive, embedder)[1] == 1
    archive.packs = archive.build.compact(archive.packs)
    semantic, count = embed(archive, embedder)
    assert count == 0
    assert set(partitions(ask(archive, semantic, "frozen switch"))[:3]) == {"conv-a", "conv-c", "conv-d"}


def test_a_scope_sees_its_own_vectors_only():
    archive = depot()
    semantic, _ = embed(archive)
    alone = Archive().tick(said("conv-c", "icy turnout, again"))
    alone_semantic, _ = embed(alone)
    crowded = json.loads(ask(archive, semantic, "frozen switch", scope=["conv-c"]).to_json())
    single = json.loads(ask(alone, alone_semantic, "frozen switch", scope=["conv-c"]).to_json())
    assert partitions(ask(archive, semantic, "frozen switch", scope=["conv-c"])) == ["conv-c"]
    assert [(hit["partition"], hit["semantic"]) for hit in crowded["results"]] == [
        (hit["partition"], hit["semantic"]) for hit in single["results"]
    ]
    assert ask(archive, semantic, "frozen switch", scope=[]).results == ()


def test_filters_hold_in_the_semantic_lane():
    archive = Archive().tick(
        change(
            "conv-a",
            messages=[message("conv-a", 1, "points freeze"), message("conv-a", 2, "points froze", role="assistant")],
        ),
        said("conv-b", "points freeze"),
    )
    semantic, _ = embed(archive)
    from search.query import Filters

    answer = ask(archive, semantic, "points", events=True, filters=Filters(roles=("assistant",)))
    assert [(hit.partition, hit.role) for hit in answer.results] == [("conv-a", "assistant")]
    answer = ask(archive, semantic, "points", events=True, filters=Filters(exclude_sessions=("conv-a",)))
    assert partitions(answer) == ["conv-b"]


def test_calls_and_outputs_get_no_vectors():
    archive = Archive().tick(change("conv-a", tool_calls=[call("conv-a", 1, "Bash", '{"command":"points"}')]))
    assert embed(archive)[1] == 0


def test_a_drifted_executor_is_refused_and_another_space_is_not_there():
    """E17."""
    archive = depot()
    embed(archive)
    drifted = SemanticIndex(archive.store, ring, WordsEmbedder(shift="other"))
    with pytest.raises(UnavailableError, match="drifted"):
        ask(archive, drifted, "points")
    other = SemanticIndex(archive.store, ring, WordsEmbedder(space_id="other"))
    assert ask(archive, other, "points", mode="hybrid").fallback == "semantic_incomplete"


def test_vectors_that_were_touched_or_signed_by_another_role_are_refused():
    archive = depot()
    embedder = WordsEmbedder()
    embed(archive, embedder)
    untrusted = SemanticIndex(archive.store, lambda: ring("importer"), embedder)
    with pytest.raises(CorruptError):
        ask(archive, untrusted, "points")
    name = vectors_name(embedder.space, archive.packs[0], VECTORS_FILE)
    content = bytearray(archive.store.read(name))
    content[5] ^= 1
    archive.store._objects[name] = (bytes(content), 0)
    with pytest.raises(CorruptError):
        ask(archive, SemanticIndex(archive.store, ring, embedder), "points")
    moved = vectors_name(embedder.space, archive.packs[0], HEADER_FILE)
    archive.store._objects[moved] = (archive.store.read(moved).replace(b'"rows":3', b'"rows":2'), 0)
    with pytest.raises(CorruptError):
        ask(archive, SemanticIndex(archive.store, ring, embedder), "points")


def test_sidecars_of_packs_that_are_gone_are_swept():
    archive = depot()
    embedder = WordsEmbedder()
    embed(archive, embedder)
    old = archive.packs
    archive.tick(said("conv-d", "new"))
    build = VectorBuild(archive.store, embedder, SIGNER, frontier=1)
    build.catch_up(archive.packs)
    assert build.sweep(archive.packs[1:]) == 1
    assert not archive.store.exists(vectors_name(embedder.space, old[0], HEADER_FILE))


def test_the_same_on_disk(tmp_path):
    """A folder of the local file system takes sidecars as a store in memory does."""
    from artifacts.store import DirectoryStore

    archive = Archive(DirectoryStore(tmp_path)).tick(said("conv-a", "the points freeze"), said("conv-b", "kitchen"))
    semantic, count = embed(archive)
    assert count == 2
    assert partitions(ask(archive, semantic, "frozen switch"))[0] == "conv-a"
    assert VectorBuild(archive.store, WordsEmbedder(), SIGNER, frontier=1).sweep(()) == 1
    assert not archive.store.exists(vectors_name(WordsEmbedder().space, archive.packs[0], HEADER_FILE))
