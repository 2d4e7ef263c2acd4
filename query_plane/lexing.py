r"""The bounds of a statement's text, checked before any parser sees it (query-plane.md, step 4).

Rules: at most 32 KiB of UTF-8, no NUL, bracket depth at most 100, no control or invisible character outside a quoted
literal, a quoted name or a comment. DuckDB takes U+200B, U+2060 and U+FEFF for blanks and sqlglot takes them for
letters, so a FROM clause can hide from one of them (B01); which characters count as blanks is not something two
parsers may disagree on.

DuckDB's own pre-pass for such characters loses count of the quotes at a `'` inside a block comment and at `\'` inside
an E'…' text, and then rewrites later literals (B27): a statement with both is refused by name rather than searched
for other text.

This is a scanner of quotes, comments and brackets, nothing more: it decides no names and no meaning.
"""

import unicodedata
from dataclasses import dataclass
from typing import Final

from polyc.errors import RefusedError
from polyc.limits import STATEMENT_DEPTH_MAX, STATEMENT_SIZE_BYTES_MAX

_PLAIN_BLANKS: Final = frozenset(" \t\n\r")
_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zs", "Zl", "Zp"})
_INVISIBLE_LETTERS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What the scanner saw: the first word in lower case and where it ends."""

    first_word: str
    first_word_end: int


def place_of(text: str, offset: int) -> str:
    r"""Line and column of an offset, both from 1.

    >>> place_of("SELECT 1\nFROM x", 14)
    'line 2, column 6'
    """
    before = text[:offset]
    return f"line {before.count(chr(10)) + 1}, column {offset - before.rfind(chr(10))}"


def check_bounds(sql: str) -> Scan:
    """The scan of a text within its bounds; RefusedError names the rule and the place otherwise."""
    try:
        size_bytes = len(sql.encode("utf-8"))
    except UnicodeEncodeError:
        raise RefusedError("the statement is not valid Unicode") from None
    if size_bytes > STATEMENT_SIZE_BYTES_MAX:
        raise RefusedError(
            f"the statement has {size_bytes} bytes; at most {STATEMENT_SIZE_BYTES_MAX} are taken",
            hint="send long lists as a $name parameter",
        )
    if "\0" in sql:
        raise RefusedError("the statement holds a NUL character")
    return _Scanner(sql).scan()


class _Scanner:
    """One pass over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0
        self.trap: str | None = None
        self.rewritable: int | None = None
        self.first: tuple[int, int] | None = None

    def scan(self) -> Scan:
        """Walk the text; each step consumes one literal, one comment, one word or one character."""
        position = 0
        while position < len(self.text):
            position = self._step(position)
        if self.trap is not None and self.rewritable is not None:
            raise RefusedError(
                f"the engine would rewrite the invisible character at {place_of(self.text, self.rewritable)}",
                hint=f"send the text as a $name parameter, or leave out {self.trap}",
            )
        start, end = self.first or (0, 0)
        return Scan(first_word=self.text[start:end].lower(), first_word_end=end)

    def _step(self, position: int) -> int:
        text = self.text
        char = text[position]
        if char == "'":
            return self._literal(position + 1, "'", escapes=self._is_escape_string(position))
        if char == '"':
            return self._literal(position + 1, '"', escapes=False)
        if char == "$":
            return self._dollar(position)
        if text.startswith("--", position):
            return self._line_comment(position)
        if text.startswith("/*", position):
            return self._block_comment(position)
        if char in _OPENING or char in _CLOSING:
            return self._bracket(position, opens=char in _OPENING)
        if _is_invisible(char):
            raise RefusedError(
                f"{_name_of(char)} outside a quoted text at {place_of(text, position)}",
                hint="write a plain space; inside quotes the character is fine",
            )
        return self._word(position) if _is_word(char) else position + 1

    def _bracket(self, position: int, *, opens: bool) -> int:
        self.depth += 1 if opens else -1
        if self.depth > STATEMENT_DEPTH_MAX:
            raise RefusedError(
                f"brackets are nested deeper than {STATEMENT_DEPTH_MAX} at {place_of(self.text, position)}"
            )
        return position + 1

    def _word(self, position: int) -> int:
        end = position
        while end < len(self.text) and (_is_word(self.text[end]) or self.text[end] == "$"):
            end += 1
        if self.first is None:
            self.first = (position, end)
        return end

    def _is_escape_string(self, quote: int) -> bool:
        text = self.text
        if quote == 0 or text[quote - 1] not in "eE":
            return False
        return quote == 1 or not (_is_word(text[quote - 2]) or text[quote - 2] == "$")

    def _literal(self, position: int, quote: str, *, escapes: bool) -> int:
        """To the closing quote; a doubled quote stays inside, a backslash escapes in E'…' alone."""
        text = self.text
        while position < len(text):
            char = text[position]
            if escapes and char == "\\":
                if text.startswith("'", position + 1):
                    self.trap = "the \\' in the E'…' text"
                position += 2
                continue
            if char == quote:
                if not text.startswith(quote, position + 1):
                    return position + 1
                position += 1
            elif self.rewritable is None and _is_invisible(char) and char > "\x7f":
                self.rewritable = position
            position += 1
        raise RefusedError("a quoted text is not closed")

    def _dollar(self, position: int) -> int:
        """A dollar-quoted text, else a parameter's sign."""
        text = self.text
        end = position + 1
        while end < len(text) and _is_word(text[end]):
            end += 1
        if not text.startswith("$", end) or (end > position + 1 and text[position + 1].isdigit()):
            return end
        tag = text[position : end + 1]
        close = text.find(tag, end + 1)
        if close < 0:
            raise RefusedError("a quoted text is not closed")
        for offset in range(end + 1, close):
            if self.rewritable is None and text[offset] > "\x7f" and _is_invisible(text[offset]):
                self.rewritable = offset
        return close + len(tag)

    def _line_comment(self, position: int) -> int:
        """To the end of the line; a bare carriage return ends it, too."""
        ends = [end for end in (self.text.find("\n", position), self.text.find("\r", position)) if end >= 0]
        return min(ends, default=len(self.text))

    def _block_comment(self, position: int) -> int:
        """To the matching end: block comments nest."""
        text = self.text
        level = 0
        while position < len(text):
            if text.startswith("/*", position):
                level += 1
                position += 2
            elif text.startswith("*/", position):
                level -= 1
                position += 2
                if level == 0:
                    return position
            else:
                if text[position] in "'\"":
                    self.trap = "the quote in the comment"
                position += 1
        raise RefusedError("a comment is not closed")


def _is_word(char: str) -> bool:
    return (char.isalnum() or char == "_") and char not in _INVISIBLE_LETTERS


def _is_invisible(char: str) -> bool:
    if char in _PLAIN_BLANKS:
        return False
    return unicodedata.category(char) in _INVISIBLE_CATEGORIES or char in _INVISIBLE_LETTERS


def _name_of(char: str) -> str:
    return f"U+{ord(char):04X} ({unicodedata.name(char, 'control character')})"
