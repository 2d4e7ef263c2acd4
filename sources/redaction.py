r"""Redaction where an event is made (ruling 18): the journal never forgets, so it never gets what must be forgotten.

The policy is `polychrome-secrets/1`; its version is a digest of all its patterns. Struck are credentials
(`[redacted:KIND]`), e-mail addresses (`[redacted:email]`) and the folder of a person's home (`/home/NAME/x`,
`/Users/NAME/x`, `C:\Users\NAME\x` become `~/x`, `~\x`) where a path begins, and under what such folders are mounted
at; `/srv/app/home/page.html` is no home. What was struck is counted by kind, never kept.

Every payload of every event passes here, whatever provider made it. Most contain no literal of any rule and leave as
they came; in the others every text is rewritten, also the texts inside of `arguments` (JSON in JSON). Names that join
events (ids, types, times) are not touched.
"""

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import msgspec
import re2

from facts.events import Redaction
from sources.foreign_json import value_in
from sources.secret_patterns import SECRETS, Rule

POLICY: Final = "polychrome-secrets/1"

_EMAIL: Final = re.compile(
    r"(?<![\w.+/:-])[A-Za-z0-9][\w.+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-]|\.\w|:[\w/~]|/)"
)  # not `git@host:path`: that is an address of a machine
_HOME: Final = re.compile(rb"""(?:/home|/Users)/[^/\\\s"'<>|:;,()\[\]{}*?$]{1,64}(?=[/\\\s"'<>|:;,()\[\]{}]|$)""")
_HOME_WINDOWS: Final = re.compile(rb"""[A-Za-z]:(\\{1,8})Users\\{1,8}[^/\\"<>|:*?]{1,64}(?=[\\"])""")
_HOME_LITERALS: Final = (b"/home/", b"/Users/")
_NAME_BYTES: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz.@~+%-"  # of a folder
_NAME_SIZE_MAX: Final = 255
_BEFORE_PATH: Final = b" \t\n\r\f\v\"'(,=:;<>`|"
_WEB: Final = re.compile(rb"https?://[^/\s]{1,255}\Z")
_MOUNTED: Final = re.compile(  # what homes stand under, and machines whose path begins behind their name
    rb"(?:(?:(?<![\w.~/-])|(?<=\\[nrt]))/(?:var|usr|export|data|host|rootfs|private/var|System/Volumes/Data"
    rb"|(?:mnt|media|run/media|Volumes)(?:/[^/\s\\]{1,64}){1,3})|[a-z][a-z0-9+.-]{1,30}://[^/\s\\]{1,255})\Z"
)
_LOOK_BEHIND_BYTES: Final = 512
_GIVEAWAYS: Final = re2.compile(
    "|".join(
        [*(re.escape(literal) for rule in SECRETS for literal in rule.literals), r"@[A-Za-z0-9-]+\.[A-Za-z]"]
    ).encode()
)
_KEPT_FIELDS: Final = frozenset({
    "type", "id", "occurred_at", "turn", "turn_id", "message_id", "parent_message_id", "call_id", "tool_call_id",
    "role", "material_origin", "kind", "sha256", "conversation_id", "parent_partition", "media_type",
    "receipt",  # a signed text: struck, it would no longer verify
})  # fmt: skip
_SEPARATOR: Final = b"\n"
_encoder: Final = msgspec.json.Encoder()


def policy_version() -> str:
    """A digest of everything that decides what is struck."""
    digest = hashlib.sha256()
    for rule in SECRETS:
        digest.update(f"{rule.name}\x1f{rule.literals}\x1f{rule.pattern.pattern}\x1f{rule.pattern.flags}\x1e".encode())
    digest.update(_EMAIL.pattern.encode())
    for pattern in (_HOME, _HOME_WINDOWS, _WEB, _MOUNTED):
        digest.update(pattern.pattern)
    digest.update(_NAME_BYTES + _BEFORE_PATH)
    return digest.hexdigest()[:16]


REDACTION: Final = Redaction(POLICY, policy_version())


def is_suspect(payload: bytes) -> bool:
    """Whether the payload contains a literal of a rule or something like an e-mail address.

    One pass of a DFA over all literals (RE2): 0.3 s for 92 MB; a search for each literal takes 4 s, an alternation of
    Python's `re` 3 s.
    """
    return _GIVEAWAYS.search(payload) is not None


def _suspects(payloads: list[bytes], whole: bytes) -> Iterator[int]:
    """The places of the payloads that are suspect, found in one pass over all of them."""
    ends: list[int] = []
    begin = 0
    while (found := _GIVEAWAYS.search(whole, begin)) is not None:
        ends = ends or list(accumulate(len(payload) + len(_SEPARATOR) for payload in payloads))
        place = bisect_right(ends, found.start())
        yield place
        begin = ends[place]
        if begin >= len(whole):
            return


def _begins_path(payload: bytes, at: int) -> bool:
    r"""Whether the slash at this place begins a path, or goes on from where homes are mounted.

    Letters alone before it say little: it may be an option (`-I/home/kim`), an escape (`\n/home/kim`), a colour.
    """
    before = payload[max(0, at - _LOOK_BEHIND_BYTES) : at]
    rest = before.rstrip(_NAME_BYTES)
    name = before[len(rest) :]
    if b"://" in before and _WEB.search(before) is not None:
        return False
    is_name = 0 < len(name) <= _NAME_SIZE_MAX
    goes_on = is_name and rest.endswith(b"/")
    is_relative = is_name and len(name) > 1 and name[0] != ord("-") and (not rest or rest[-1] in _BEFORE_PATH)
    return not (goes_on or is_relative) or _MOUNTED.search(before) is not None


class Redactor:
    """Rewrites payloads by the policy and counts what it struck, by kind."""

    def __init__(self) -> None:
        self.struck: Counter[str] = Counter()

    def clean(self, payloads: list[bytes]) -> list[bytes]:
        """The payloads with everything struck that the policy names, in the same order.

        They are searched together (JSON holds no raw line feed), because nearly all of them are innocent.
        """
        whole = _SEPARATOR.join(payloads)
        suspects = list(_suspects(payloads, whole))
        if suspects:
            cleaned = list(payloads)
            for place in suspects:
                cleaned[place] = self._clean_texts(payloads[place])
            whole = _SEPARATOR.join(cleaned)
        if any(literal in whole for literal in _HOME_LITERALS):
            whole = self._clean_homes(whole, _HOME)
        if b"\\Users\\" in whole:
            whole = self._clean_homes(whole, _HOME_WINDOWS)
        return whole.split(_SEPARATOR)

    def _clean_homes(self, payload: bytes, pattern: re.Pattern[bytes]) -> bytes:
        def struck(found: re.Match[bytes]) -> bytes:
            if pattern is _HOME and not _begins_path(payload, found.start()):
                return found[0]
            self.struck["home"] += 1
            return b"~"

        return pattern.sub(struck, payload)

    def _clean_texts(self, payload: bytes) -> bytes:
        before = self.struck.total()
        rules = [rule for rule in SECRETS if any(literal.encode() in payload for literal in rule.literals)]
        value = self._walk(msgspec.json.decode(payload), rules)
        return _encoder.encode(value) if self.struck.total() != before else payload

    def _walk(self, value: Any, rules: list[Rule]) -> Any:
        if isinstance(value, str):
            return self.text(value, rules)
        if isinstance(value, dict):
            return {
                key: item
                if key in _KEPT_FIELDS
                else self._arguments(item, rules)
                if key == "arguments" and isinstance(item, str)
                else self._walk(item, rules)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._walk(item, rules) for item in value]
        return value

    def _arguments(self, text: str, rules: list[Rule]) -> str:
        """JSON in JSON: the texts inside are rewritten, so that no escape hides a border of a secret."""
        value = value_in(text)
        if value is None:
            return self.text(text, rules)
        before = self.struck.total()
        cleaned = self._inner(value, rules)
        return _encoder.encode(cleaned).decode() if self.struck.total() != before else text

    def _inner(self, value: Any, rules: list[Rule]) -> Any:
        if isinstance(value, str):
            return self.text(value, rules)
        if isinstance(value, dict):
            return {self.text(key, rules): self._inner(item, rules) for key, item in value.items()}
        if isinstance(value, list):
            return [self._inner(item, rules) for item in value]
        return value

    def text(self, text: str, rules: list[Rule] | None = None) -> str:
        """One text by the rules (all of them when none are given)."""
        for rule in SECRETS if rules is None else rules:
            text = self._strike(text, rule)
        if "@" in text:
            text, count = _EMAIL.subn("[redacted:email]", text)
            if count:
                self.struck["email"] += count
        return text

    def _strike(self, text: str, rule: Rule) -> str:
        if not any(literal in text for literal in rule.literals):
            return text
        mark = f"[redacted:{rule.name}]"

        def struck(found: re.Match[str]) -> str:
            self.struck[rule.name] += 1
            if not rule.pattern.groups or found[1] is None:
                return mark
            begin, end = found.start(1) - found.start(), found.end(1) - found.start()
            return found[0][:begin] + mark + found[0][end:]

        return rule.pattern.sub(struck, text)
