"""What a query's words ask of the index: a flat OR of terms, phrases and stems, each with a weight.

    word of one part            the term (1), and its Porter2 stem (0.35) when it is a Latin word of 3 letters or more
    word of several parts       the phrase of its parts (1), and the word as written (0.5)
    C++, C#                     the word as written only: "c" alone would be another question
    hex id                      the id (1), and its first 7 digits (0.5)
    a run of 4 or more Han, Kana, Hangul, … characters: the phrases of each two neighbours
    a place in a file, a path in a home folder: its other spellings, too (0.5), as `search.query.spelling` says

Repeated clauses count once. At most `SEARCH_WORDS_MAX` different words are asked for; the answer says when more came.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final, Literal, NamedTuple

from polyc.limits import SEARCH_PHRASE_TOKENS_MAX, SEARCH_WORDS_MAX
from search.analyzer import Analysis, analyze, is_single
from search.query.spelling import other_spellings

Field = Literal["body", "stem"]
# What stands between words of a query: blanks, brackets, quotes and the signs of other search languages. Not the signs
# within a name, a path or an address: what they join is looked for as a phrase.
_BETWEEN: Final = re.compile(r"""[\s()\[\]{}<>"“”„«»`,;*^~|!?]+""")
_WHOLE_WEIGHT: Final = 0.5
_STEM_WEIGHT: Final = 0.35
_OTHER_WEIGHT: Final = 0.5
_STEM_CHARS_MIN: Final = 3
_RUN_MIN: Final = 4


class Clause(NamedTuple):
    """One thing to look for; `word` numbers the query's words, so that coverage can be judged by words."""

    field: Field
    tokens: tuple[str, ...]
    weight: float
    word: int


class Question(NamedTuple):
    """A compiled query; `cut` when it had more words than are asked for."""

    clauses: tuple[Clause, ...]
    words: tuple[str, ...]
    cut: bool


def compile_question(texts: Iterable[str], *, drop: frozenset[str] = frozenset()) -> Question:
    """The clauses of the texts' words; words in `drop` are left out unless nothing else is asked.

    >>> [clause.tokens for clause in compile_question(["fix refresh_token"]).clauses]
    [('fix',), ('fix',), ('refresh', 'token'), ('refresh_token',)]
    """
    words = list(dict.fromkeys(word for text in texts for word in _BETWEEN.split(text) if word))
    analysed = [(word, analysis) for word in words if (analysis := analyze(word)).parts]
    kept = [item for item in analysed if item[0].casefold() not in drop] or analysed
    clauses: dict[tuple[str, tuple[str, ...]], Clause] = {}
    for number, (word, analysis) in enumerate(kept[:SEARCH_WORDS_MAX]):
        for field, tokens, weight in (*_clauses_of(analysis), *_others_of(word)):
            clauses.setdefault((field, tokens), Clause(field, tokens, weight, number))
    asked = tuple(word for word, _ in kept[:SEARCH_WORDS_MAX])
    return Question(tuple(clauses.values()), asked, len(kept) > SEARCH_WORDS_MAX)


def _clauses_of(analysis: Analysis) -> Iterator[tuple[Field, tuple[str, ...], float]]:
    parts = [token.text for token in analysis.parts]
    wholes = [token.text for token in analysis.wholes]
    if len(parts) == 1:
        if wholes and wholes[-1][-1] in "+#":
            yield "body", (wholes[-1],), 1.0
            return
        yield "body", (parts[0],), 1.0
        for whole in wholes:
            yield "body", (whole,), _WHOLE_WEIGHT
        if parts[0].isascii() and parts[0].isalpha() and len(parts[0]) >= _STEM_CHARS_MIN:
            yield "stem", (parts[0],), _STEM_WEIGHT
        return
    for phrase in _phrases(parts):
        yield "body", phrase, 1.0
    for token in analysis.wholes:
        if token.start <= analysis.parts[0].start and token.end >= analysis.parts[-1].end:
            yield "body", (token.text,), _WHOLE_WEIGHT


def _others_of(word: str) -> Iterator[tuple[Field, tuple[str, ...], float]]:
    for other in other_spellings(word):
        for field, tokens, weight in _clauses_of(analyze(other)):
            yield field, tokens, _OTHER_WEIGHT * weight


def _phrases(parts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """A word's phrase; long runs of characters in pairs, long words in pieces of a bounded length."""
    for single, group in groupby(parts, key=is_single):
        run = tuple(group)
        if single and len(run) >= _RUN_MIN:
            yield from pairwise(run)
        else:
            for start in range(0, len(run), SEARCH_PHRASE_TOKENS_MAX):
                yield run[start : start + SEARCH_PHRASE_TOKENS_MAX]
