"""Search: how fast a warm query is against SQLite's FTS5 on the same texts, and how well known things are found.

    python -m bench.search HOME [GOLD]    quality and latency on a real deployment (and the generated corpus's gold.json)

Known items: a few words out of the middle of a message, in another order, must bring back its conversation: a mean
reciprocal rank below `KNOWN_ITEMS_MRR_MIN` fails. Needles: every planted phrase must be found in exactly the
conversations of committed turns that hold it; one that is not fails.
"""

import json
import random
import statistics
import sys
import tempfile
import time
from itertools import compress
from pathlib import Path

import apsw

from artifacts.newest import Newest
from artifacts.store import DirectoryStore
from bench.measure import Measurement, best_s
from polyc.cli.deployment import opened
from polyc.dataroot import DataRoot
from search.build import PartitionChange, SearchBuild
from search.query import SearchRequest
from search.query.engine import GenerationRef, SearchEngine
from search.query.scope import Access
from tests.support.conversations import WORDS

FLEET = Access(realm="fleet", partitions=None)
CONVERSATIONS, TURNS = 400, 10
KNOWN_ITEMS = 200
KNOWN_ITEMS_MRR_MIN = 0.6  # the corpus is a salad of few words: short texts that share three of the five do come first


def measure() -> list[Measurement]:
    """A rare word, a common word and three words together, with snippets, 20 results, over 4 000 messages."""
    chance = random.Random(7)
    texts = {
        (f"conv-{number:04}", turn): " ".join(chance.choices(WORDS, k=80)) + f" needle{number}x{turn}"
        for number in range(CONVERSATIONS)
        for turn in range(1, TURNS + 1)
    }
    with tempfile.TemporaryDirectory() as folder:
        engine, generation = _ours(Path(folder), texts)
        peer = _fts5(texts)

        def ours(query: str) -> None:
            request = SearchRequest(text=query, mode="lexical", events=True)
            assert engine.search(request, access=FLEET, generation=generation).results

        def theirs(query: str) -> None:
            sql = "SELECT rowid, snippet(t, 0, '[', ']', '…', 30) FROM t WHERE t MATCH ? ORDER BY rank LIMIT 20"
            assert list(peer.execute(sql, (" OR ".join(query.split()),)))

        return [
            Measurement(
                what=f"warm search, {name}, 20 results with snippets",
                unit="queries/s",
                ours=1 / best_s(lambda query=query: ours(query)),
                peer=1 / best_s(lambda query=query: theirs(query)),
                peer_name="SQLite FTS5",
                note="ours scores by the scope's own statistics and shapes the answer; no grant, no audit in either",
            )
            for name, query in (
                ("a rare word", "needle17x3"),
                ("a common word", "harbour"),
                ("three words", "harbour lamp needle9x9"),
            )
        ]


def main() -> int:
    """Quality and latency of a deployment's newest generation."""
    root = DataRoot(Path(sys.argv[1]))
    with opened(root) as deployment:
        store = DirectoryStore(root.artifacts)
        newest = Newest(store, keys=deployment.journal.keyring, origin=deployment.journal.origin).latest()
    generation = GenerationRef(
        generation_id=newest.generation_id, packs=newest.body.search, as_of=newest.body.frontier.size
    )
    engine = SearchEngine(store, cursor_secret=b"only for this bench, never kept")
    scope = engine.scope(generation, FLEET)
    print(f"{len(scope.metas)} conversations, {scope.chunks} chunks, {len(generation.packs)} packs")
    is_good = _known_items(engine, generation) >= KNOWN_ITEMS_MRR_MIN
    for query in ("error", "the", "test failed", "database migration error"):
        _latency(engine, generation, query)
    if len(sys.argv) > 2:
        is_good &= not _needles(engine, generation, json.loads(Path(sys.argv[2]).read_text()))
    return 0 if is_good else 1


def _needles(engine: SearchEngine, generation: GenerationRef, gold: dict) -> int:
    """Every planted phrase, in its committed conversations and in no unfinished one; the number of misses."""
    metas = engine.scope(generation, FLEET).metas
    missed = 0
    for name, planted in gold["totals"]["needles"].items():
        wanted = set(gold["committed"]["needles"][name])
        unfinished = set(planted["sessions"]) - wanted
        request = SearchRequest(text=planted["text"], mode="lexical", limit=200)
        answer = engine.search(request, access=FLEET, generation=generation)
        found = [metas[hit.partition].provider_session_id for hit in answer.results]
        whole = [planted["text"].casefold() in hit.snippet.text.casefold() for hit in answer.results]
        top = wanted & set(found[: len(wanted)])
        held = unfinished & set(compress(found, whole))
        missed += len(wanted) - len(top) + len(held)
        print(f"{name} {planted['where']:<12} {len(top)}/{len(wanted)} on top, {len(held)} of unfinished turns")
    return missed


def _known_items(engine: SearchEngine, generation: GenerationRef) -> float:
    """Mean reciprocal rank of the conversation that words were taken from."""
    chance = random.Random(11)
    scope = engine.scope(generation, FLEET)
    packs = [scoped.pack for scoped in scope.packs]
    ranks = []
    while len(ranks) < KNOWN_ITEMS:
        pack = chance.choice(packs)
        chunk = pack.chunk("main", chance.randrange(pack.description.chunks["main"]))
        words = [word for word in chunk.text.split() if len(word) > 4 and word.isalpha()]
        if chunk.kind != "transcript" or len(words) < 12:
            continue
        query = " ".join(chance.sample(words[len(words) // 4 :], 5))
        answer = engine.search(SearchRequest(text=query, mode="lexical", limit=10), access=FLEET, generation=generation)
        found = [hit.partition for hit in answer.results]
        ranks.append(1 / (found.index(chunk.partition) + 1) if chunk.partition in found else 0.0)
    first = sum(rank == 1.0 for rank in ranks)
    print(f"known items: MRR@10 {statistics.mean(ranks):.3f}, first {first}/{len(ranks)}")
    return statistics.mean(ranks)


def _latency(engine: SearchEngine, generation: GenerationRef, query: str) -> None:
    times = []
    for _ in range(9):
        started = time.perf_counter()
        request = SearchRequest(text=query, mode="lexical")
        answer = engine.search(request, access=FLEET, generation=generation)
        times.append(1000 * (time.perf_counter() - started))
    print(f"{query!r}: {statistics.median(times):.1f} ms, {answer.matching_chunks} matching chunks")


def _ours(folder: Path, texts: dict[tuple[str, int], str]) -> tuple[SearchEngine, GenerationRef]:
    from tests.search.archive import message

    store = DirectoryStore(folder)
    changes = [
        PartitionChange(
            partition=f"conv-{number:04}",
            incarnation="aa",
            mode="replace",
            to_position=TURNS,
            rows={
                "messages": [
                    message(f"conv-{number:04}", turn, texts[f"conv-{number:04}", turn]) for turn in range(1, TURNS + 1)
                ]
            },
        )
        for number in range(CONVERSATIONS)
    ]
    packs = SearchBuild(store).rebuild(changes)
    engine = SearchEngine(store, cursor_secret=b"only for this bench, never kept")
    return engine, GenerationRef(generation_id="g-bench", packs=packs, as_of=1)


def _fts5(texts: dict[tuple[str, int], str]) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(text)")
    connection.executemany("INSERT INTO t VALUES (?)", ((text,) for text in texts.values()))
    return connection


if __name__ == "__main__":
    sys.exit(main())
