"""Follows the newest signed manifest of a store, and pins what it names. No rows, no engine: cheap to open.

A follower verifies each manifest it meets, takes only children whose frontier does not go back, and never goes back
itself. Two manifests of one number are an alarm, not "last wins" (C19).
"""

from collections.abc import Callable
from typing import Final, TypeVar

from artifacts.layout import (
    CURRENT,
    GENERATIONS,
    base_name,
    content_id,
    decode_base,
    generation_name,
    generation_number,
)
from artifacts.lease import Lease, lease_name, write_lease
from artifacts.manifest import SignedManifest, verify_manifest
from artifacts.store import Store
from polyc.clock import Clock
from polyc.errors import CorruptError, UnavailableError
from polyc.ids import IdSource
from polyc.keyring import KeyRing
from polyc.limits import LEASE_LIFETIME_S

T = TypeVar("T")

COLLECTED_ATTEMPTS_MAX: Final = 3  # publishing and collecting twice within one look is a store that is broken
PIN_ATTEMPTS_MAX: Final = 8  # each lost attempt means that a newer generation came and an older one was collected


class Newest:
    """The newest verified manifest of a store; one per process, not shared between threads."""

    def __init__(self, store: Store, *, keys: Callable[[], KeyRing], origin: str | None = None) -> None:
        self._store = store
        self._keys = keys
        self._origin = origin
        self._known: SignedManifest | None = None

    def known_number(self) -> int | None:
        """The number of the newest manifest met so far."""
        return None if self._known is None else self._known.body.generation

    def is_latest(self, manifest: SignedManifest) -> bool:
        """Whether no newer one was published since this one was met."""
        number = manifest.body.generation
        if manifest is not self._known or self._store.exists(generation_name(number + 1)):
            return False
        try:
            return read_manifest(self._store, number) == manifest.content
        except CorruptError:  # it is gone: whoever looks for the newest one says why
            return False

    def latest(self) -> SignedManifest:
        """The newest manifest; UnavailableError when nothing has been published yet."""
        return unless_collected(self._latest)

    def _latest(self) -> SignedManifest:
        number = self._newest_number()
        if number is None:
            raise UnavailableError("nothing has been published yet", hint="polyc project")
        known = self._known
        if known is not None and number < known.body.generation:
            raise CorruptError(
                "the newest generation is gone", place=generation_name(known.body.generation), kind="rollback"
            )
        if known is not None and number == known.body.generation:
            if read_manifest(self._store, number) != known.content:
                raise CorruptError("two manifests of one number", place=generation_name(number), kind="fork")
            return known
        found = self.at(number)
        if known is not None:
            _check_follows(found, known)
        self._known = found
        return found

    def at(self, number: int) -> SignedManifest:
        """The verified manifest of this number."""
        return verify_manifest(
            read_manifest(self._store, number), number=number, origin=self._origin, keys=self._keys()
        )

    def _newest_number(self) -> int | None:
        """The newest number: from the last known or the hint upwards; by listing when the hint is of no use."""
        start = self._known.body.generation if self._known is not None else self._hint()
        if start is None or not self._store.exists(generation_name(start)):
            return newest_number(self._store)
        while self._store.exists(generation_name(start + 1)):
            start += 1
        return start

    def _hint(self) -> int | None:
        try:
            text = self._store.read(CURRENT)
        except FileNotFoundError:
            return None
        return int(text) if text.isdigit() and len(text) < 20 else None


class Pin:
    """Packs that stay while the lease lives; `manifest` is the generation that was really pinned."""

    def __init__(self, manifest: SignedManifest, lease_id: str, *, packs: tuple[str, ...], expires_at_us: int) -> None:
        self.manifest = manifest
        self.lease_id = lease_id
        self.packs = packs
        self.expires_at_us = expires_at_us


class Pins:
    """The lease of one reader process: one serves many queries and is renewed when half its life is over."""

    def __init__(self, store: Store, *, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._held: Pin | None = None

    @property
    def held(self) -> Pin | None:
        """The lease now held."""
        return self._held

    def is_newest(self, newest: Newest) -> bool:
        """Whether the lease now held is good for a while and of the newest generation; changes nothing."""
        held = self._held
        return (
            held is not None
            and held.expires_at_us > self._clock.now_us() + LEASE_LIFETIME_S * 500_000
            and newest.is_latest(held.manifest)
        )

    def hold(self, newest: Newest) -> Pin:
        """Pin the newest generation; a lost race against the collector moves on to the next newest.

        The lease is made first and the manifest looked at after it; the collector removes manifests first and looks
        at leases after that: one of the two always sees the other.
        """
        for _ in range(PIN_ATTEMPTS_MAX):
            manifest, now_us = newest.latest(), self._clock.now_us()
            held, half_us = self._held, LEASE_LIFETIME_S * 500_000
            if held is not None and held.manifest.sha256 == manifest.sha256 and held.expires_at_us > now_us + half_us:
                return held
            expires_at_us = now_us + 2 * half_us
            body = manifest.body
            try:
                packs = (*base_packs(self._store, body.base), *body.deltas)
            except CorruptError as error:
                if error.kind == "missing" and newest.latest().sha256 != manifest.sha256:
                    continue
                raise
            pin = Pin(manifest, self._ids.token(16).hex(), packs=packs, expires_at_us=expires_at_us)
            lease = Lease(
                generation=body.generation, base=body.base, packs=packs, search=body.search, expires_at_us=expires_at_us
            )
            write_lease(self._store, pin.lease_id, lease)
            if self._store.exists(generation_name(body.generation)):
                self._held = pin  # the one before runs out by itself: running queries may still stand on it
                return pin
            self._store.delete(lease_name(pin.lease_id))
        raise UnavailableError("generations are collected faster than they can be pinned")

    def release(self) -> None:
        """Give the lease back; a process that does not is waited for until it runs out."""
        held, self._held = self._held, None
        if held is not None and self._store.exists(lease_name(held.lease_id)):
            self._store.delete(lease_name(held.lease_id))


def unless_collected(look: Callable[[], T]) -> T:
    """What `look` sees; something missing is looked for again: a newer generation came and the collector after it.

    What is missing of the newest generation stays missing, and the last look says so.
    """
    for _ in range(COLLECTED_ATTEMPTS_MAX):
        try:
            return look()
        except CorruptError as error:
            if error.kind != "missing":
                raise
    return look()


def newest_number(store: Store) -> int | None:
    """The highest number that the store holds a manifest of."""
    numbers = (generation_number(entry.name) for entry in store.list(GENERATIONS))
    return max((number for number in numbers if number is not None), default=None)


def read_manifest(store: Store, number: int) -> bytes:
    """The bytes of a manifest; CorruptError when it is missing."""
    try:
        return store.read(generation_name(number))
    except FileNotFoundError:
        raise CorruptError("manifest is missing", place=generation_name(number), kind="missing") from None


def base_packs(store: Store, base_id: str) -> tuple[str, ...]:
    """The base packs of a list, checked against the list's id."""
    if not base_id:
        return ()
    name = base_name(base_id)
    try:
        content = store.read(name)
    except FileNotFoundError:
        raise CorruptError("list of base packs is missing", place=name, kind="missing") from None
    if content_id(content) != base_id:
        raise CorruptError("list of base packs is another", place=name, kind="hash")
    return decode_base(content, place=name)


def _check_follows(found: SignedManifest, known: SignedManifest) -> None:
    place = generation_name(found.body.generation)
    if found.body.generation == known.body.generation + 1 and found.body.parent != known.sha256:
        raise CorruptError("manifest's parent is another", place=place, kind="fork")
    if found.body.origin != known.body.origin or found.body.frontier.size < known.body.frontier.size:
        raise CorruptError("the frontier goes back", place=place, kind="rollback")
