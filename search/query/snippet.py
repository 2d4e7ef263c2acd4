"""Where a chunk matched: the densest window of its text, with ranges of UTF-8 bytes that slice it exactly.

The chunk is tokenised again by the analyzer that indexed it, so what is marked is what matched. Offsets count in the
event's canonical text (search.chunk): `text.encode()[start_byte:end_byte]` is the snippet. A window begins and ends at
white space where there is some, and never within a letter with its marks or a joined emoji.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from search.analyzer import Token, analyze, parse_word, without_blobs, words_placed
from search.chunk import Chunk
from search.query.clauses import Clause
from search.query.score import needles, stem_of
from search.stream import blanked, flat

_CHARS: Final = 240
_MARGIN: Final = 40  # characters of context before the first match
_BLANK_REACH: Final = 24  # how far an end may move to find white space
_EDGES: Final = frozenset({b"", b" "})  # what stands beside a unit
_SPANS_MAX: Final = 32  # highlights of one snippet


class Snippet(NamedTuple):
    """A slice of the event's canonical text and the matches in it, as half-open byte ranges of that text."""

    text: str
    start_byte: int
    end_byte: int
    highlights: tuple[tuple[int, int], ...]
    terms: tuple[str, ...]  # what matched, as written
    cut_before: bool
    cut_after: bool


class Marker:
    """Makes the snippets of one question; remembers what each word of the texts has to do with it."""

    def __init__(self, clauses: Iterable[Clause]) -> None:
        asked = list(clauses)
        self._terms = {
            clause.tokens[0]: clause.word for clause in asked if clause.field == "body" and len(clause.tokens) == 1
        }
        self._stems = {stem_of(clause.tokens[0]): clause.word for clause in asked if clause.field == "stem"}
        self._initials = {stem[0] for stem in self._stems}  # Porter2 keeps the first letter
        self._phrases = [clause for clause in asked if len(clause.tokens) > 1]
        self._words: dict[str, tuple[_Span, ...]] = {}
        self._units: dict[bytes, tuple[_Span, ...]] = {}
        self._may_match = needles(self._terms, self._stems)

    def snippet(self, chunk: Chunk) -> Snippet:
        """The snippet of a chunk; its beginning when nothing matches (a semantic hit)."""
        text = chunk.text
        spans = self._spans(text)
        start, end = _window(text, spans)
        shown = [span for span in spans if start <= span.start and span.end <= end][:_SPANS_MAX]
        base = chunk.start_byte
        terms = dict.fromkeys(text[span.start : span.end] for span in shown)
        return Snippet(
            text[start:end],
            base + _bytes(text, start),
            base + _bytes(text, end),
            tuple((base + _bytes(text, span.start), base + _bytes(text, span.end)) for span in _joined(shown)),
            tuple(terms),
            start > 0,
            end < len(text),
        )

    def _spans(self, text: str) -> list["_Span"]:
        """The ranges of characters that satisfy a clause, in order."""
        if not (self._terms or self._stems or self._phrases):
            return []
        found = set(self._of_ascii(without_blobs(text)) if text.isascii() else self._of_foreign(text))
        phrases = self._phrases
        if text.isascii():  # most texts hold none of the phrases, and their tokens stand in the text as they are
            lowered = text.lower()
            phrases = [clause for clause in phrases if all(token in lowered for token in clause.tokens)]
        if phrases:
            parts = analyze(text).parts
            for clause in phrases:
                found.update(_phrase_spans(parts, clause))
        return sorted(found)

    def _of_ascii(self, text: str) -> Iterator["_Span"]:
        """What single words match, by the units that hold them: only what may match is taken apart and looked for."""
        content = blanked(text)
        for unit in set(content.split()):
            for start in _places(content, unit) if (spans := self._of_unit(unit)) else ():
                for span in spans:
                    yield _Span(start + span.start, start + span.end, span.word)

    def _of_foreign(self, text: str) -> Iterator["_Span"]:
        """The same of any text, word by word."""
        words, placed = words_placed(text)
        for word, start in words:
            for span in self._of_word(word):
                yield _Span(*placed(start + span.start, start + span.end), span.word)

    def _of_unit(self, unit: bytes) -> tuple["_Span", ...]:
        """What the words of a unit have to do with the question, as spans from its start."""
        known = self._units.get(unit)
        if known is None:
            known = ()
            if self._may_match.search(flat(unit)) is not None:
                known = tuple(self._of_foreign(unit.decode()))
            self._units[unit] = known
        return known

    def _of_word(self, text: str) -> tuple["_Span", ...]:
        """What a word has to do with the question, as spans from its own start."""
        known = self._words.get(text)
        if known is None and text.isascii() and text.isalpha() and text.islower():  # most words: one part, no whole
            word = self._terms.get(text)
            if word is None and text[0] in self._initials:
                word = self._stems.get(stem_of(text))
            known = self._words[text] = () if word is None else (_Span(0, len(text), word),)
        elif known is None:
            parts, wholes = parse_word(text)
            spans = [_Span(start, end, self._terms[token]) for token, start, end in wholes if token in self._terms]
            for token, start, end in parts:
                word = self._terms.get(token)
                if word is None and token[0] in self._initials:
                    word = self._stems.get(stem_of(token))
                if word is not None:
                    spans.append(_Span(start, end, word))
            known = self._words[text] = tuple(spans)
        return known


class _Span(NamedTuple):
    start: int
    end: int
    word: int


def _places(content: bytes, unit: bytes) -> Iterator[int]:
    """Where a unit stands, whole, between blanks."""
    at = content.find(unit)
    while at >= 0:
        end = at + len(unit)
        if content[max(at - 1, 0) : at] in _EDGES and content[end : end + 1] in _EDGES:
            yield at
        at = content.find(unit, end)


def _phrase_spans(parts: Sequence[Token], clause: Clause) -> Iterable[_Span]:
    size = len(clause.tokens)
    for at, token in enumerate(parts):
        if token.text == clause.tokens[0] and tuple(part.text for part in parts[at : at + size]) == clause.tokens:
            yield _Span(token.start, parts[at + size - 1].end, clause.word)


def _window(text: str, spans: Sequence[_Span]) -> tuple[int, int]:
    """The range with the most different words, then the most matches, then the earliest."""
    if len(text) <= _CHARS:
        return 0, len(text)
    best, at = (0, 0), spans[0].start if spans else 0
    last = 0
    words: dict[int, int] = {}
    for first in spans:
        while last < len(spans) and spans[last].end <= first.start + _CHARS - _MARGIN:
            words[spans[last].word] = words.get(spans[last].word, 0) + 1
            last += 1
        value = (sum(1 for count in words.values() if count), sum(words.values()))
        if value > best:
            best, at = value, first.start
        if words.get(first.word):
            words[first.word] -= 1
    start = max(0, min(at - _MARGIN, len(text) - _CHARS))
    end = min(len(text), start + _CHARS)
    return _moved(text, start, bound=at), _moved(text, end, bound=len(text))


def _moved(text: str, place: int, *, bound: int) -> int:
    """The place, moved forward to after the next white space if that is near, else to where a character begins."""
    if place in {0, len(text)}:
        return place
    for index in range(place, min(place + _BLANK_REACH, bound, len(text))):
        if text[index - 1].isspace():
            return index
    while place < len(text) and _joins(text[place]):
        place += 1
    return place


def _joins(char: str) -> bool:
    """Whether the character belongs to the one before it."""
    return unicodedata.category(char)[0] == "M" or char == "\u200d" or 0x1F3FB <= ord(char) <= 0x1F3FF


def _joined(spans: Sequence[_Span]) -> Iterable[_Span]:
    """The spans without overlaps: ranges to mark."""
    current: _Span | None = None
    for span in spans:
        if current is not None and span.start < current.end:
            current = _Span(current.start, max(current.end, span.end), current.word)
            continue
        if current is not None:
            yield current
        current = span
    if current is not None:
        yield current


def _bytes(text: str, characters: int) -> int:
    return characters if text.isascii() else len(text[:characters].encode())
