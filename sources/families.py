"""The families of files that hold copies of each other's records, as the cursors know them."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sources.copies import Member, Share, shares
from sources.cursors import Cursors
from sources.following import Followed
from sources.providers import BY_NAME
from sources.surveying import FoundFile, Survey, signature_of

if TYPE_CHECKING:
    from sources.keys import Keys


class Families:
    """Settles who owns copied records, for the files of one plan."""

    def __init__(self, cursors: Cursors, going_on: dict[str, Followed]) -> None:
        """`going_on`: the files whose telling paused; those that turn out to have a family are taken out of it."""
        self._cursors = cursors
        self._going_on = going_on
        self.keys: dict[str, Keys] = {}

    def shares(self, todo: dict[str, FoundFile], survey: Survey) -> dict[str, Share]:
        """Who owns the copied records of the changed files' families; files that lost or won some join the plan."""
        cursors = self._cursors
        related: set[int] = set()
        for found in survey.changed:
            keys = self._fresh_keys(found)
            file = cursors.see(found.path, provider=found.provider)
            others = cursors.index(file, keys) if keys else set()
            if others:
                cursors.relate(file, others)
            if len(cursors.family(file)) > 1:
                related.add(file)
                self._going_on.pop(found.path, None)
        shared: dict[str, Share] = {}
        while related:
            family = cursors.family(related.pop())
            related -= family
            members = [self._member(file, todo) for file in sorted(family)]
            shared |= shares([member for member in members if member is not None])
        for path, share in shared.items():
            if path not in todo and Path(path).exists() and (cursors.told_without(path) or "") != share.digest:
                todo[path] = self._again(path, survey)
        return shared

    def _fresh_keys(self, found: FoundFile) -> set[int]:
        followed = self._going_on.get(found.path)
        try:
            keys = BY_NAME[found.provider].keys(Path(found.path)) if followed is None else followed.keys
            self.keys[found.path] = keys
            return {key for key, _at in keys.fresh()}
        except OSError:  # gone or unreadable by now: whoever tells it will say so
            return set()

    def _member(self, file: int, todo: dict[str, FoundFile]) -> Member | None:
        """A file of a family as it is now; a deleted one as it was known last."""
        path = self._cursors.path_of(file)
        if not Path(path).exists():
            known = self._cursors.remembered(file)
            if known is not None:
                return msgspec.structs.replace(msgspec.json.decode(known, type=Member), is_gone=True)
            partition = self._cursors.partition_told_by(path)
            keys = self._cursors.keys_of(file)
            if partition is None:
                return None
            return Member(path, partition, "", 0, keys, (None,) * len(keys), is_gone=True)
        provider = BY_NAME[self._provider_of(path, todo)]
        telling = next(iter(provider.tellings(Path(path), lambda _bad: None)))
        keys_at = list(provider.keys(Path(path)).fresh())
        member = Member(
            path,
            telling.identity.partition,
            telling.identity.native_id,
            provider.depth(Path(path)),
            tuple(key for key, _at in keys_at),
            tuple(at.decode("ascii", "replace") or None for _key, at in keys_at),
        )
        self._cursors.remember(file, msgspec.json.encode(member))
        return member

    def _provider_of(self, path: str, todo: dict[str, FoundFile]) -> str:
        return todo[path].provider if path in todo else self._known_provider(path)

    def _known_provider(self, path: str) -> str:
        known = self._cursors.file(path)
        assert known is not None, "a file of a family was looked at"
        return known.provider

    def _again(self, path: str, survey: Survey) -> FoundFile:
        provider = self._known_provider(path)
        signature = signature_of(Path(path), BY_NAME[provider].companions(Path(path)))
        return FoundFile(path, provider, signature.text, signature.size_bytes, survey.level)
