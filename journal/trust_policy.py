"""The text form of who must have signed a checkpoint (c2sp.org/tlog-policy): logs, witnesses, groups, a quorum.

log <vkey> [<url>]                       witness <name> <vkey> [<url>]
group <name> <k>|any|all <name>…         quorum <name>|none
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from polyc import note
from polyc.errors import CorruptError, RefusedError

POLICY_SIZE_BYTES_MAX: Final = 256 * 1024
NONE: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """At least `threshold` of the members have witnessed."""

    threshold: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """Logs that may sign, witnesses by name with their URLs, groups, and the quorum's name."""

    logs: tuple[note.Verifier, ...]
    witnesses: dict[str, note.Verifier]
    quorum: str
    urls: dict[str, str] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)

    def satisfied_by(self, signers: set[note.Verifier]) -> bool:
        """Whether one of the logs, when any is named, and witnesses that make the quorum are among who signed."""
        logged = not self.logs or any(log in signers for log in self.logs)
        return logged and (self.quorum == NONE or self._witnessed(self.quorum, signers))

    def _witnessed(self, name: str, cosigners: set[note.Verifier]) -> bool:
        group = self.groups.get(name)
        if group is None:
            return self.witnesses[name] in cosigners
        return sum(self._witnessed(member, cosigners) for member in group.members) >= group.threshold


def parse_trust_policy(content: bytes | str, *, place: str) -> TrustPolicy:
    """The policy of these lines; RefusedError names the line that is wrong.

    Octets beyond ASCII are opaque: a comment or a name may hold any ("Character set").
    """
    if len(content) > POLICY_SIZE_BYTES_MAX:
        raise RefusedError(f"{place}: the policy is too long")
    text = content if isinstance(content, str) else content.decode(errors="surrogateescape")
    parser = _Parser(place)
    for number, line in enumerate(text.split("\n"), start=1):
        if any((ch < " " and ch != "\t") or ch == "\x7f" for ch in line):
            raise RefusedError(f"{place}:{number}: control characters")
        words = line.replace("\t", " ").split(" ")
        words = [word for word in words if word]
        if words and not words[0].startswith("#"):
            parser.take(words, number)
    return parser.finish()


class _Parser:
    def __init__(self, place: str) -> None:
        self._place = place
        self._logs: list[note.Verifier] = []
        self._witnesses: dict[str, note.Verifier] = {}
        self._groups: dict[str, Group] = {}
        self._urls: dict[str, str] = {}
        self._members: set[str] = set()
        self._quorum: str | None = None

    def take(self, words: list[str], number: int) -> None:
        where = f"{self._place}:{number}"
        match words:
            case ["log", vkey, *url] if len(url) <= 1:
                self._logs.append(self._key(vkey, self._logs, note.ED25519, where))
            case ["witness", name, vkey, *url] if len(url) <= 1:
                key = self._key(vkey, self._witnesses.values(), note.COSIGNATURE, where)
                self._check_new(name, where)
                self._witnesses[name] = key
                self._urls |= {name: url[0]} if url else {}
            case ["group", name, threshold, *members] if members:
                self._check_new(name, where)
                self._groups[name] = self._group(threshold, members, where)
            case ["quorum", name] if self._quorum is None:
                if name != NONE and name not in self._witnesses and name not in self._groups:
                    raise RefusedError(f"{where}: the quorum names nothing defined before")
                self._quorum = name
            case _:
                raise RefusedError(f"{where}: not a log, witness, group or single quorum line")

    def finish(self) -> TrustPolicy:
        if self._quorum is None:
            raise RefusedError(f"{self._place}: a policy has a quorum line", hint="quorum none")
        return TrustPolicy(
            logs=tuple(self._logs),
            witnesses=self._witnesses,
            quorum=self._quorum,
            urls=self._urls,
            groups=self._groups,
        )

    def _key(self, vkey: str, known: Iterable[note.Verifier], kind: int, where: str) -> note.Verifier:
        try:
            key = note.parse_verifier(vkey, place=where)
        except CorruptError as error:
            raise RefusedError(error.message) from None
        except UnicodeError:
            raise RefusedError(f"{where}: a key's name is UTF-8") from None
        if key.kind != kind:
            raise RefusedError(f"{where}: the key is of another kind")
        if any(key.public_key == other.public_key for other in known):
            raise RefusedError(f"{where}: the key stands here twice")
        return key

    def _check_new(self, name: str, where: str) -> None:
        if name == NONE or name in self._witnesses or name in self._groups:
            raise RefusedError(f"{where}: the name is taken")

    def _group(self, threshold: str, members: list[str], where: str) -> Group:
        for member in members:
            if member not in self._witnesses and member not in self._groups:
                raise RefusedError(f"{where}: a member is not defined before")
            if member in self._members:
                raise RefusedError(f"{where}: a member stands in two groups")
            self._members.add(member)
        count = {"any": "1", "all": str(len(members))}.get(threshold, threshold)
        if not note.is_decimal(count) or not 1 <= int(count) <= len(members):
            raise RefusedError(f"{where}: the threshold is any, all, or 1 to the number of members")
        return Group(threshold=int(count), members=tuple(members))
