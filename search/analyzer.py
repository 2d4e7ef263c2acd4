"""`agent-text/2`: how text becomes tokens; one code path for indexing, for queries and for the offsets of highlights.

    folding     compatibility decomposition without U+0300-036F, the points and vowel signs of Hebrew and Arabic (most
                people leave them out), format characters and emoji modifiers; ł đ ø æ œ þ ð ı as their Latin letters;
                Hangul and Kana composed instead; case folded last, after case has split words
    words       letters, digits and marks, joined by `_ - . '`: `main.py`, `v1.2.3`, `refresh_token`
    parts       a word's pieces in reading order (camelCase, snake_case, digits apart): phrases are matched on these
    wholes      the word as written, and each camelCase segment of it: `getuserbyid`, `x86_64`, `c++` (of `C++17`, too)
    characters  one token for each character of a script without blanks (Han, Kana, Hangul, Thai, …), each emoji
    blobs       runs of 320 and more letters, digits, + and / (base64) are no words at all
    hex ids     not split; from 8 digits on, a whole of the first 7 too, so that short forms of hashes are found

A stream is the parts, then (after `GAP`) the wholes, joined by blanks: the engine's white-space tokenizer gives every
part its true position. Text is text: no character is an operator, nothing raises, tokens are cut at 128 characters.
Deliberately absent: stop words, stemming (the index does it in a field of its own), language detection.
"""

import functools
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from polyc.limits import SEARCH_TOKEN_CHARS_MAX, SEARCH_WORD_MEMO_MAX

ANALYZER: Final = "agent-text/2"
GAP: Final = "\x1f"  # stands between parts and wholes, so that no phrase crosses; no text can make this token


class Token(NamedTuple):
    """A token and the half-open range of characters of the original text it came from."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """The tokens of a text: `parts` in reading order, `wholes` beside them."""

    parts: list[Token]
    wholes: list[Token]


def analyze(text: str) -> Analysis:
    """The tokens of a text and where they stand in it.

    >>> [token.text for token in analyze("getUserById in Łódź").parts]
    ['get', 'user', 'by', 'id', 'in', 'lodz']
    """
    words, placed = words_placed(text)
    parts: list[Token] = []
    wholes: list[Token] = []
    for word, at in words:
        parsed = parse_word(word)
        parts.extend([Token(token, *placed(at + start, at + end)) for token, start, end in parsed.parts])
        wholes.extend([Token(token, *placed(at + start, at + end)) for token, start, end in parsed.wholes])
    return Analysis(parts, wholes)


def words_placed(text: str) -> tuple[list[tuple[str, int]], Callable[[int, int], tuple[int, int]]]:
    """The folded words of a text with their starts, and what takes a range of the folded text to the original."""
    folded, places = _fold_placed(text)
    words = [(match.group(), match.start()) for match in _words_of(folded).finditer(folded)]
    if places is None:
        return words, _same
    return words, lambda start, end: (places.starts[start], places.ends[end - 1])


def _same(start: int, end: int) -> tuple[int, int]:
    return start, end


def fold(text: str) -> str:
    """The folded text, case kept, encoded blobs blanked.

    >>> fold("ﬁn de siècle"), fold("ŁÓDŹ")
    ('fin de siecle', 'LODZ')
    """
    return fold_words(without_blobs(text))


def fold_words(text: str) -> str:
    """The folded text of one whose blobs are blanks already."""
    if text.isascii():
        return text
    return _FOREIGN.sub(_fold_run, text)


def foreign_words(folded: str) -> list[str]:
    """The words of a folded text that is not all ASCII."""
    words: list[str] = _foreign("word").findall(folded)
    return words


# Base64 and its like: so long a run with a digit or sign in it is no word; its fragments would be found by chance.
_BLOB_CHARS: Final = 320
_BLOB_STRIDE: Final = _BLOB_CHARS // 2  # whatever is as long as a blob covers one of these pieces wholly
_BLOB_PIECE: Final = re.compile(rf"[A-Za-z0-9+/]{{{_BLOB_STRIDE}}}")
_BLOB: Final = re.compile(rf"(?<![A-Za-z0-9+/])(?=[A-Za-z]*[0-9+/])[A-Za-z0-9+/]{{{_BLOB_CHARS},}}={{0,2}}")


def without_blobs(text: str) -> str:
    """The text with blanks instead of encoded data; offsets stay."""
    for start, end in blobs(text):
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return text


def blobs(text: str) -> list[tuple[int, int]]:
    """Where encoded data stands in a text, as ranges of characters."""
    for start in range(0, len(text) - _BLOB_STRIDE + 1, _BLOB_STRIDE):
        piece = text[start : start + _BLOB_STRIDE]
        if " " not in piece and _BLOB_PIECE.fullmatch(piece):
            return [run.span() for run in _BLOB.finditer(text)]
    return []


def is_single(token: str) -> bool:
    """Whether the token is a character of a script without blanks, or an emoji."""
    return not token.isascii() and _foreign("single").fullmatch(token) is not None


Piece = tuple[str, int, int]  # a token and its range within a folded word: a plain tuple, since millions are made


class Word(NamedTuple):
    """What a folded word is made of."""

    parts: list[Piece]
    wholes: list[Piece]


def parse_word(word: str) -> Word:
    """The parts and wholes of one folded word, with offsets from its start."""
    size = len(word)
    if word.isalpha() and word.isascii() and (word.islower() or word[1:].islower() or size == 1):
        return Word([(word.lower()[:SEARCH_TOKEN_CHARS_MAX], 0, size)], [])
    if is_single(word):
        return Word([(word.casefold(), 0, 1)], [])
    if word[-1] in "+#":
        return Word([(word[0].casefold(), 0, 1)], [(word.casefold(), 0, size)])
    return _split(word)


def _words_of(folded: str) -> re.Pattern[str]:
    """The pattern of words; the simpler ones find the same words where they are used, up to five times as fast."""
    if not folded.isascii():
        return _foreign("word")
    return _WORD_SIGNED if "#" in folded or "++" in folded else _WORD_PLAIN


# Scripts that are written without blanks, and Hangul, whose words carry endings: one token for each character.
_SINGLE: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005\u3040-\u30ff\u3100-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Pictures a person would search for; arrows, boxes and spinners are noise of terminals and are no tokens.
_EMOJI: Final = "\u231a-\u231b\u23e9-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
# Marks that belong to letters but are no letters to `re`: Indic signs.
_MARKS: Final = "\u0900-\u0963\u0966-\u096f\u0971-\u0dff"
_LETTER: Final = rf"(?:[^\W_{_SINGLE}{_EMOJI}]|[{_MARKS}])"
_SIGN: Final = r"(?<![^\W_])[A-Za-z](?:\+\+|\#)(?![+#_]|[^\W\d])"  # C++, C#, the beginning of C++17
_WORD_SIGNED: Final = re.compile(rf"{_SIGN}|[A-Za-z0-9]+(?:(?:_+|[-.'])[A-Za-z0-9]+)*")
_WORD_PLAIN: Final = re.compile(r"[A-Za-z0-9]+(?:(?:_+|[-.'])[A-Za-z0-9]+)*")
_FOREIGN_PATTERNS: Final = {
    "word": rf"{_SIGN}|[{_SINGLE}{_EMOJI}]|{_LETTER}+(?:(?:_+|[-.'\u2019]){_LETTER}+)*",
    "single": rf"[{_SINGLE}{_EMOJI}]",
    "no word": rf"(?![\x00-\x7f\u2019{_SINGLE}{_EMOJI}]|{_LETTER}).",
}


@functools.cache
def _foreign(name: str) -> re.Pattern[str]:
    """A pattern over all of Unicode, compiled when the first foreign letter is met: that takes 20 ms a command."""
    return re.compile(_FOREIGN_PATTERNS[name], re.DOTALL)


_SEGMENT: Final = re.compile(r"[^_\-.'\u2019]+")
_HEX: Final = re.compile(r"(?:0[xX])?(?=[0-9A-Fa-f]*[0-9])(?=[0-9]*[A-Fa-f])[0-9A-Fa-f]{4,}")
_PIECE: Final = re.compile(
    r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+"  # ASCII: HTTP|Server, parse|JSON|2|XML
    r"|(?:[^\W\d_A-Za-z]|[^\w\s])+|\d+"  # other letters with their marks; their case is looked at below
)
_HEX_SHORT: Final = 7  # what version control shows of a commit
_HEX_LONG: Final = 8


def _split(word: str) -> Word:
    """The parts of a word, the wholes of its segments, and the whole of it."""
    parts: list[Piece] = []
    wholes: list[Piece] = []
    segments = [(word, 0)] if word.isalnum() else [(match.group(), match.start()) for match in _SEGMENT.finditer(word)]
    for segment, at in segments:
        if not (segment.isalpha() or segment.isdigit()) and _HEX.fullmatch(segment):
            _add_hex(segment, at, parts, wholes)
            continue
        pieces = _pieces(segment, at)
        parts += pieces
        if len(pieces) > 1:
            wholes.append(_piece(segment, at))
    if len(segments) > 1:
        whole = word.replace("'", "").replace("\u2019", "")
        wholes.append((whole.casefold()[:SEARCH_TOKEN_CHARS_MAX], 0, len(word)))
    return Word(parts, wholes)


def _add_hex(segment: str, at: int, parts: list[Piece], wholes: list[Piece]) -> None:
    parts.append(_piece(segment, at))
    digits = segment.casefold().removeprefix("0x")
    if len(digits) != len(segment):
        wholes.append((digits[:SEARCH_TOKEN_CHARS_MAX], at + 2, at + len(segment)))
    if len(digits) >= _HEX_LONG:
        wholes.append((digits[:_HEX_SHORT], at, at + len(segment)))


def _pieces(segment: str, at: int) -> list[Piece]:
    if segment.isdigit():
        return [_piece(segment, at)]
    if segment.isascii():
        return [_piece(match.group(), at + match.start()) for match in _PIECE.finditer(segment)]
    pieces = []
    begin = 0
    for index in range(1, len(segment)):
        if _boundary(segment, index):
            pieces.append(_piece(segment[begin:index], at + begin))
            begin = index
    pieces.append(_piece(segment[begin:], at + begin))
    return pieces


def _boundary(segment: str, index: int) -> bool:
    """Whether a new piece begins here: aB, a1, 1a, and the B of ABc."""
    left, right = segment[index - 1], segment[index]
    if left.isdigit() != right.isdigit():
        return left.isalnum() and right.isalnum()
    if right.isupper():
        return left.islower() or (index + 1 < len(segment) and left.isupper() and segment[index + 1].islower())
    return False


def _piece(text: str, at: int) -> Piece:
    return text.casefold()[:SEARCH_TOKEN_CHARS_MAX], at, at + len(text)


class _Places(NamedTuple):
    """For each folded character, the range of the original it came from, with the marks that follow it."""

    starts: list[int]
    ends: list[int]


_FOREIGN: Final = re.compile(r"[^\x00-\x7f]+")
# What is composed before it is folded: conjoining Jamo, and Kana with its voicing mark.
_CLUSTER: Final = re.compile(r"[\u1100-\u115f][\u1160-\u11a7][\u11a8-\u11ff]?|.[\u3099\u309a\uff9e\uff9f]|.", re.DOTALL)
_LETTERS: Final = {
    "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE",
    "þ": "th", "Þ": "TH", "ð": "d", "Ð": "D", "ı": "i", "\u2010": "-", "\u2011": "-",
}  # fmt: skip
_COMPOSED: Final = re.compile(r"[\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\uac00-\ud7ff\uff65-\uffdc]")
_COMBINING: Final = re.compile(
    r"[\u0300-\u036f\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff"
    r"\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew points and accents
    r"\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]"  # Arabic; tatweel
)
_folds: dict[str, str] = {}


def _fold_placed(text: str) -> tuple[str, _Places | None]:
    """The folded text, and where its characters came from unless they stand where they stood."""
    text = without_blobs(text)
    if text.isascii():
        return text, None
    out: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    done = 0
    for run in _FOREIGN.finditer(text):
        begin = run.start()
        out.append(text[done:begin])
        starts.extend(range(done, begin))
        ends.extend(range(done + 1, begin + 1))
        for cluster in _CLUSTER.finditer(text, begin, run.end()):
            folded = _fold_cluster(cluster.group())
            if folded:
                out.append(folded)
                starts.extend([cluster.start()] * len(folded))
                ends.extend([cluster.end()] * len(folded))
            elif ends:
                _extend(ends, starts, cluster.end())
        done = run.end()
    out.append(text[done:])
    starts.extend(range(done, len(text)))
    ends.extend(range(done + 1, len(text) + 1))
    return "".join(out), _Places(starts, ends)


def _extend(ends: list[int], starts: list[int], end: int) -> None:
    """Let a mark that vanished belong to the character before it."""
    last = len(ends) - 1
    origin = starts[last]
    while last >= 0 and starts[last] == origin:
        ends[last] = end
        last -= 1


def _fold_run(match: re.Match[str]) -> str:
    """A run of foreign characters; runs repeat, most are one sign."""
    run = match.group()
    known = _folds.get(run)
    if known is None:
        known = "".join([_fold_cluster(cluster) for cluster in _CLUSTER.findall(run)])
        if len(_folds) < SEARCH_WORD_MEMO_MAX:
            _folds[run] = known
    return known


def _fold_cluster(cluster: str) -> str:
    """A character (or what is composed to one); signs that no word is made of are blanks."""
    known = _folds.get(cluster)
    if known is not None:
        return known
    if _COMPOSED.match(cluster):
        folded = unicodedata.normalize("NFKC", cluster)
    else:
        plain = _COMBINING.sub("", unicodedata.normalize("NFKD", cluster))
        folded = "".join(_LETTERS.get(char, char) for char in plain if unicodedata.category(char) != "Cf")
    folded = _foreign("no word").sub(" ", folded)
    if len(_folds) < SEARCH_WORD_MEMO_MAX:
        _folds[cluster] = folded
    return folded
