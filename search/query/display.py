"""Foreign text on a terminal or a page: control characters, bidi marks and invisible letters are shown, not obeyed."""

import re
from typing import Final

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
    "|(?<![^\x00-\x7f])[\u200c\u200d]"  # joiners belong to emoji and to Arabic and Indic words; beside ASCII they hide
)


def visible(text: str) -> str:
    r"""The text with every character that could move, hide or reverse others written as an escape.

    >>> visible("a\x1b[31mb \u202egnp.exe")
    'a\\x1b[31mb \\u202egnp.exe'
    """
    return _UNSAFE.sub(_escape, text)


def one_line(text: str) -> str:
    """The same on one line: each run of white space is a blank."""
    return visible(" ".join(text.split()))


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
