"""The tokens of a text as the index is given them: what `analyze` says without its places, at the speed of a split.

A text is folded, everything that no word is made of becomes a blank, and what is left is split into *units*: each
holds a few words or none, and what it holds depends on nothing around it. So the tokens of a unit are looked up, and
worked out only when it is new: a pass over a text is a translation, a split and a dictionary, all of them in C.
`unit_tokens` is the same law for those who count tokens (scoring) instead of joining them.
"""

import re
from typing import Final, NamedTuple

from polyc.limits import SEARCH_TOKEN_CHARS_MAX, SEARCH_WORD_MEMO_MAX
from search.analyzer import GAP, fold_words, foreign_words, parse_word, without_blobs

Unit = bytes | str  # bytes of an ASCII text, a word of any other


class Stream(NamedTuple):
    """A text's tokens joined by blanks: the parts, and all of them with the wholes after a gap; how many each are."""

    parts: str
    body: str
    parts_count: int
    body_count: int


def stream(text: str) -> Stream:
    r"""The tokens of a text.

    >>> stream("x86_64")
    Stream(parts='x 86 64', body='x 86 64 \x1f x86 x86_64', parts_count=3, body_count=6)
    """
    return stream_of(without_blobs(text))


def stream_of(text: str) -> Stream:
    """The same of a text whose blobs are blanks already."""
    known = _known_units()
    joined = b" ".join(filter(None, map(known.__getitem__, units(text))))
    if _WHOLES not in joined:
        parts = joined.decode()
        count = joined.count(b" ") + 1 if joined else 0
        return Stream(parts, parts, count, count)
    pieces = joined.split(_WHOLES)
    parts, count = b"".join(pieces[::2]).decode(), sum([piece.count(b" ") for piece in pieces[::2]]) + 1
    wholes = b" ".join(pieces[1::2])
    return Stream(parts, f"{parts} {GAP} {wholes.decode()}", count, count + wholes.count(b" ") + 2)


def units(text: str) -> list[bytes] | list[str]:
    """The units of a text without blobs, in order."""
    folded = fold_words(text)
    if folded.isascii():
        return blanked(folded).split()
    return foreign_words(folded)


def blanked(text: str) -> bytes:
    """An ASCII text with blanks for all that no unit is made of: units stand where they stood.

    >>> blanked("a(b_c);")
    b'a b_c  '
    """
    return text.encode().translate(_BETWEEN)


def flat(unit: Unit) -> bytes:
    """A unit in which each of its tokens stands in one piece: case folded, apostrophes gone."""
    if isinstance(unit, str):
        return unit.casefold().replace("'", "").replace("\u2019", "").encode()
    return unit.lower().replace(b"'", b"")


def unit_tokens(unit: Unit) -> tuple[list[str], list[str]]:
    """The parts and the wholes of a unit."""
    parts, wholes = _of_unit(unit)
    return parts.decode().split(" ") if parts else [], wholes.decode().split(" ") if wholes else []


class _Known(dict[Unit, bytes]):
    """The parts of units by unit, their wholes between marks behind them; worked out when first asked for."""

    def __missing__(self, unit: Unit) -> bytes:
        parts, wholes = _of_unit(unit)
        self[unit] = known = b"".join((parts, _WHOLES, wholes, _WHOLES)) if wholes else parts
        return known


_WHOLES: Final = b"\x1d"  # no unit holds it: it is a blank in every text
_tables = [_Known()]


def _known_units() -> _Known:
    """The table of units; a full one gives way to a new one, and who is using it goes on with it."""
    known = _tables[0]
    if len(known) >= SEARCH_WORD_MEMO_MAX:
        known = _tables[0] = _Known()
    return known


_OF_UNITS: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-.'+#"
_BETWEEN: Final = bytes(byte if byte in _OF_UNITS else 0x20 for byte in range(256))
_ONE_WORD: Final = re.compile(rb"[A-Za-z0-9]+(?:[_\-.'][A-Za-z0-9]+)*")
# The words of a unit, as `search.analyzer` defines them.
_WORDS: Final = re.compile(r"(?<![^\W_])[A-Za-z](?:\+\+|\#)(?![+#_]|[^\W\d])|[A-Za-z0-9]+(?:(?:_+|[-.'])[A-Za-z0-9]+)*")
_PIECE: Final = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SEGMENT: Final = re.compile(rb"[A-Za-z0-9]+")
_HEX: Final = re.compile(  # a segment that is a hex id, which is not split: rare enough to be left to `parse_word`
    rb"(?<![A-Za-z0-9])(?:0[xX])?(?=[A-Fa-f]*[0-9])(?=[0-9]*[A-Fa-f])[0-9A-Fa-f]{4,}(?![A-Za-z0-9])"
)


def _of_unit(unit: Unit) -> tuple[bytes, bytes]:
    """What `parse_word` says of the words of a unit: parts and wholes, each joined by blanks."""
    if isinstance(unit, str):
        return _of_words([unit])
    if unit.isalpha() and (unit.islower() or unit[1:].islower()):
        return unit.lower()[:SEARCH_TOKEN_CHARS_MAX], b""
    if unit.isdigit():
        return unit[:SEARCH_TOKEN_CHARS_MAX], b""
    if len(unit) > SEARCH_TOKEN_CHARS_MAX:
        return _of_words(_WORDS.findall(unit.decode()))
    if unit.isalnum():
        if not unit.isalpha() and _HEX.search(unit):
            return _of_words([unit.decode()])
        pieces = _PIECE.findall(unit)
        return b" ".join(pieces).lower(), b"" if len(pieces) == 1 else unit.lower()
    if _HEX.search(unit) or not _ONE_WORD.fullmatch(unit):
        return _of_words(_WORDS.findall(unit.decode()))
    pieces, segments = _PIECE.findall(unit), _SEGMENT.findall(unit)
    wholes = [unit.replace(b"'", b"").lower()]
    if len(pieces) > len(segments):
        wholes = [*(segment.lower() for segment in segments if len(_PIECE.findall(segment)) > 1), *wholes]
    return b" ".join(pieces).lower(), b" ".join(wholes)


def _of_words(words: list[str]) -> tuple[bytes, bytes]:
    parsed = [parse_word(word) for word in words]
    parts = [token for word in parsed for token, _, _ in word.parts]
    wholes = [token for word in parsed for token, _, _ in word.wholes]
    return " ".join(parts).encode(), " ".join(wholes).encode()
