"""How well search finds what is asked for in other words: glosses of WordNet must bring back FOLDOC's entries.

    apt-get download wordnet-base dict-foldoc && for f in *.deb; do dpkg -x $f debian; done
    python -m bench.search_quality debian [MODEL]

A query is the gloss of a WordNet noun whose domain is computer science (FOLDOC knows no river banks), once whole, once
without its example sentences; relevant is the FOLDOC entry (one document each) whose headword is one of the synset's
words. Nothing was tuned on it and nothing of it is committed. Printed: nDCG@10 of the lexical, the semantic and the
hybrid order over the same questions, in one run. MODEL is minilm, multilingual-e5-small, or none.
"""

import gzip
import math
import re
import string
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from artifacts.store import DirectoryStore
from search.build import PartitionChange, SearchBuild
from search.query import SearchAnswer, SearchRequest
from search.query.engine import GenerationRef, SearchEngine
from search.query.scope import Access
from search.settings import SemanticSettings, make_embedder
from tests.search.archive import message

ENTRY_CHARS_MIN = 40  # shorter entries only point at another one
FLEET = Access(realm="fleet", partitions=None)
COMPUTER_SCIENCE = "06128570"  # the synset that WordNet 3.0 names as the domain
DIGITS = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"


def main() -> int:
    folder = Path(sys.argv[1])
    model = sys.argv[2] if len(sys.argv) > 2 else "minilm"
    entries = dict(foldoc(folder))
    documents = {text: f"conv-{number:05}" for number, text in enumerate(sorted(set(entries.values())))}
    asked = [
        (gloss, {documents[entries[word]] for word in words if word in entries}) for gloss, words in glosses(folder)
    ]
    asked = [(gloss, relevant) for gloss, relevant in asked if relevant]
    print(f"{len(documents)} entries, {len(asked)} glosses")
    with tempfile.TemporaryDirectory(prefix="polyc-quality-") as place:
        store = DirectoryStore(Path(place))
        changes = (
            PartitionChange(
                partition=name,
                incarnation="aa",
                mode="replace",
                to_position=1,
                rows={"messages": [message(name, 1, text)]},
            )
            for text, name in documents.items()
        )
        packs = SearchBuild(store).rebuild(changes)
        generation = GenerationRef(generation_id="g", packs=packs, as_of=1)
        semantic = None if model == "none" else embedded(store, packs, model)
        engine = SearchEngine(
            store,
            cursor_secret=b"only for this bench, never kept",
            semantic=None if semantic is None else lambda: semantic,
        )
        for mode in ("lexical", "semantic", "hybrid") if semantic else ("lexical",):
            whole, definition = (
                score(engine, generation, [(cut(gloss), relevant) for gloss, relevant in asked], mode=mode)
                for cut in (str, lambda gloss: re.split(r'; "', gloss)[0])
            )
            print(f"{mode:<9} nDCG@10 {whole:.3f}, without examples {definition:.3f}", flush=True)
    return 0


def score(engine: SearchEngine, generation: GenerationRef, asked: list[tuple[str, set[str]]], *, mode: Any) -> float:
    """The mean over all questions, each a gloss and the documents that answer it."""
    gains = []
    for gloss, relevant in asked:
        answer = engine.search(SearchRequest(text=gloss, mode=mode, limit=10), access=FLEET, generation=generation)
        gains.append(ndcg(answer, relevant))
    return sum(gains) / len(gains)


def ndcg(answer: SearchAnswer, relevant: set[str]) -> float:
    """Binary gains, discounted by the logarithm of the rank, of the best possible."""
    gained = sum(1 / math.log2(hit.rank + 1) for hit in answer.results if hit.partition in relevant)
    return gained / sum(1 / math.log2(rank + 1) for rank in range(1, min(10, len(relevant)) + 1))


def embedded(store: DirectoryStore, packs: tuple[str, ...], model: str):
    """A semantic index over the packs, signed by a key of this bench."""
    from polyc.keyring import KeyRing
    from search.build.vectors import VectorBuild
    from search.query.semantic_lane import SemanticIndex
    from tests.search.test_semantic import SIGNER, ring

    assert isinstance(ring(), KeyRing)
    embedder = make_embedder(SemanticSettings(executor="builtin", model=model))
    VectorBuild(store, embedder, SIGNER, frontier=1).catch_up(packs)
    return SemanticIndex(store, ring, embedder)


def foldoc(folder: Path) -> Iterator[tuple[str, str]]:
    """Headword, folded, and the text of its entry."""
    place = next(folder.rglob("foldoc.dict.dz"))
    content = gzip.decompress(place.read_bytes())
    for line in place.with_name("foldoc.index").read_text(encoding="utf-8").splitlines():
        word, start, size = line.split("\t")
        text = content[number(start) : number(start) + number(size)].decode("utf-8", "replace")
        if word.isascii() and not word.startswith("00-database") and len(text) >= ENTRY_CHARS_MIN:
            yield key(word), text


def number(text: str) -> int:
    """dictd writes numbers in base 64, the highest digit first."""
    value = 0
    for digit in text:
        value = 64 * value + DIGITS.index(digit)
    return value


def glosses(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The gloss of each noun synset of the domain, without the domain's name, and its words."""
    for line in next(folder.rglob("wordnet/data.noun")).read_text(encoding="latin-1").splitlines():
        head, _, gloss = line.partition(" | ")
        if line.startswith(" ") or f";c {COMPUTER_SCIENCE}" not in head:
            continue
        fields = head.split()
        words = [key(fields[4 + 2 * at]) for at in range(int(fields[3], 16))]
        yield re.sub(r"^\([^)]*\)", "", gloss).strip(), words


def key(word: str) -> str:
    """A headword without its case, blanks and hyphens."""
    return re.sub(r"[\s_-]+", "", word.casefold())


if __name__ == "__main__":
    sys.exit(main())
