"""How values look to a person: numbers with thin spaces, times in UTC, texts as safe markdown.

Markdown is rendered without raw HTML and with links to http, https and mailto only; nothing a model or a tool wrote
can become markup. Control characters and bidirectional overrides are shown, not obeyed (E19).
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from markdown_it import MarkdownIt
from markupsafe import Markup

_HIDDEN: Final = re.compile("[\u0000-\u0008\u000b-\u001f\u007f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_LINK: Final = re.compile(r"(?:https?|mailto):", re.IGNORECASE)


class _Markdown(MarkdownIt):
    """CommonMark without raw HTML and images; links of three schemes."""

    def validateLink(self, url: str) -> bool:  # noqa: N802 the library's name
        return bool(_LINK.match(url.strip()))


_markdown: Final = _Markdown("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")

_GOOD: Final = ("completed", "approved", "ok", "settled", "outcome_success", "active")
_BAD: Final = ("failed", "denied", "outcome_error", "refused", "revoked", "suspended")
_WARN: Final = ("cancelled", "expired", "no_result", "unknown", "outcome_unknown")
_TONES: Final = dict.fromkeys(_GOOD, "good") | dict.fromkeys(_BAD, "bad") | dict.fromkeys(_WARN, "warn")


def visible(text: object) -> str:
    r"""The text with hidden controls written out as `⟨U+202E⟩`.

    >>> visible("a\u202eb")
    'a⟨U+202E⟩b'
    """
    return _HIDDEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", str(text))


def count(value: Any) -> str:
    """A number with narrow spaces between its groups; an em dash for nothing.

    >>> count(1234567)
    '1\u202f234\u202f567'
    """
    if value is None:
        return "—"
    return f"{int(value):,}".replace(",", "\u202f")


def when(value: Any) -> str:
    """An RFC 3339 text or a time, to the second, in UTC.

    >>> when("2026-03-14T09:00:00.123456Z")
    '2026-03-14 09:00:00Z'
    """
    if value is None:
        return "—"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%SZ")
    return str(value)[:19].replace("T", " ") + "Z"


def epoch(value_s: int) -> str:
    """Seconds since 1970 as a time in UTC.

    >>> epoch(0)
    '1970-01-01 00:00:00Z'
    """
    return when(datetime.fromtimestamp(value_s, UTC))


def span(value_ms: Any) -> str:
    """A duration for people.

    >>> [span(value) for value in (None, 40, 4_000, 400_000)]
    ['—', '40 ms', '4.0 s', '6 min 40 s']
    """
    if value_ms is None:
        return "—"
    seconds = int(value_ms) / 1000
    if seconds < 1:
        return f"{int(value_ms)} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def prose(text: Any) -> Markup:
    """Safe HTML of a message's markdown."""
    return Markup(_markdown.render(visible(text)))  # noqa: S704 rendered without raw HTML, links checked


def is_time(value: Any) -> bool:
    """Whether a cell's text is a moment as the edge writes it (RFC 3339 in UTC).

    >>> is_time("2026-03-14T09:00:00.123456Z"), is_time("2026-03-14")
    (True, False)
    """
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def tone(value: Any) -> str:
    """The colour class of a status word."""
    return _TONES.get(str(value), "")


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "visible": visible,
    "count": count,
    "when": when,
    "epoch": epoch,
    "span": span,
    "prose": prose,
    "is_time": is_time,
    "tone": tone,
}
