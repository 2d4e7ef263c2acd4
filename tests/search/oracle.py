"""A naive search: every chunk of the scope scored by the formula of search.md, in plain loops over plain tokens.

Shares the analyzer and the chunker with the product, and nothing that ranks.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import tantivy

from search.analyzer import GAP, analyze
from search.build.chunker import texts_of
from search.chunk import Chunk
from search.query.clauses import Clause, compile_question

WEIGHTS = {"transcript": 1.0, "summary": 0.9, "call": 0.8, "output": 0.6, "other": 0.8}
STEMMER = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(tantivy.Filter.stemmer("english")).build()


def naive_search(changes: Iterable[object], text: str) -> list[tuple[float, str]]:
    """(score, chunk id) of every match, best first."""
    chunks = [chunk for change in changes for chunk, _ in texts_of(change.rows)]
    streams = {chunk.chunk_id: _tokens(chunk) for chunk in chunks}
    clauses = compile_question([text]).clauses
    averages = {
        is_output: [
            _average([streams[chunk.chunk_id][field] for chunk in chunks if (chunk.kind == "output") is is_output])
            for field in (0, 1)
        ]
        for is_output in (False, True)
    }
    scored = []
    for chunk in chunks:
        total = 0.0
        for clause in clauses:
            forms = [other for other in clauses if other.word == clause.word]
            matching = sum(1 for tokens in streams.values() if any(_count(form, tokens) for form in forms))
            count = _count(clause, streams[chunk.chunk_id])
            if not count:
                continue
            idf = math.log(1 + (len(streams) - matching + 0.5) / (matching + 0.5))
            size, average = (
                (len(streams[chunk.chunk_id][1]), averages[chunk.kind == "output"][1])
                if clause.field == "stem"
                else (len(streams[chunk.chunk_id][0]), averages[chunk.kind == "output"][0])
            )
            total += clause.weight * idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * size / average))
        if total:
            scored.append((total * WEIGHTS[chunk.kind], chunk))
    scored.sort(key=lambda item: (-round(item[0], 9), -(item[1].occurred_at_us or -(1 << 62)), item[1].chunk_id))
    return [(score, chunk.chunk_id) for score, chunk in scored]


def _average(streams):
    return max(1, sum(map(len, streams))) / max(1, len(streams))


def _tokens(chunk: Chunk) -> tuple[list[str], list[str]]:
    analysis = analyze(chunk.text)
    parts = [token.text for token in analysis.parts]
    wholes = [token.text for token in analysis.wholes]
    return parts + ([GAP, *wholes] if wholes else []), [] if chunk.kind == "output" else parts


def _count(clause: Clause, tokens: tuple[Sequence[str], Sequence[str]]) -> int:
    body, parts = tokens
    if clause.field == "stem":
        wanted = STEMMER.analyze(clause.tokens[0])[0]
        return Counter(STEMMER.analyze(" ".join(parts)))[wanted]
    size = len(clause.tokens)
    return sum(1 for at in range(len(body) - size + 1) if tuple(body[at : at + size]) == clause.tokens)
