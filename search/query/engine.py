"""`SearchEngine.search`: one request, one access, one pinned generation, one answer.

The steps (the numbers stand in the body):
1. request and cursor are checked; a cursor is good for this generation, question and access only
2. the generation's packs are opened (verified, once a process) and the scope resolved
3. filters on conversations narrow where hits may be; statistics stay those of the scope
4. the question is compiled
5. lexical lane   6. semantic lane, or the reason why not   7. fusion and the one order
8. shaping   9. the page and the cursor of the next one   10. hits, facets, explanation
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from artifacts.store import Store
from polyc.errors import CorruptError, RefusedError, UnavailableError
from polyc.limits import SEARCH_LANE_DEPTH, SEARCH_OFFSET_MAX, SEARCH_POOL
from search.chunk import Chunk, SessionMeta
from search.opened import OpenPack
from search.query.answer import Freshness, GenerationUse, Hit, ResultWindow, SearchAnswer
from search.query.clauses import Question, compile_question
from search.query.cursor import VERSION, Cursor, open_cursor, query_hash, seal_cursor
from search.query.facets import count_facets
from search.query.filters import conversation_filter
from search.query.fusion import RANKING, Ranked, fuse, only_lexical, only_semantic
from search.query.lexical_lane import LexicalLane, Match, newest_spots
from search.query.present import explain_answer, make_hit
from search.query.request import SearchRequest, check_request
from search.query.scope import Access, Scope, ScopedPack, narrow, resolve_scope
from search.query.shape import Shaped, shape_dense, shape_diverse
from search.query.snippet import Marker
from search.query.stopwords import STOP_WORDS
from search.query.units import Unit, hit_units, scope_units, scoped_clauses
from search.query.wire import format_time

if TYPE_CHECKING:  # vectors need numpy: loaded by whoever enables them
    from search.query.fusion import SemanticMatch
    from search.query.score import ScopedClause
    from search.query.semantic_lane import SemanticIndex

_MASS_MIN: Final = 0.25  # of the query's idf: weaker lexical matches would drown paraphrases in a hybrid (search.md)
_SCOPES_MAX: Final = 32
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRef:
    """What search needs of a verified generation (`artifacts.reader.Generation`)."""

    generation_id: str
    packs: tuple[str, ...]
    as_of: int  # the journal size it was built through
    created_at_us: int | None = None


class SearchEngine:
    """Opens packs of a store and answers from them; one per process, shared between threads."""

    def __init__(
        self, store: Store, *, cursor_secret: bytes, semantic: "Callable[[], SemanticIndex | None] | None" = None
    ) -> None:
        assert len(cursor_secret) >= 16, "cursors are sealed with a real key"
        self._store = store
        self._secret = cursor_secret
        self._semantic = semantic
        self._loaded: SemanticIndex | None = None
        self._lock = threading.Lock()
        self._packs: dict[str, OpenPack] = {}
        self._scopes: _Recent[Scope] = _Recent(_SCOPES_MAX)

    def search(
        self,
        request: SearchRequest,
        *,
        access: Access,
        generation: GenerationRef,
        freshness: Freshness | None = None,
        verbose: bool = False,
    ) -> SearchAnswer:
        """The answer; RefusedError for a request that contradicts itself or a cursor of another search."""
        once = partial(self.once, request, access=access, generation=generation, freshness=freshness, verbose=verbose)
        try:
            return once()
        except CoincidenceError:
            return once(careful=True)

    def once(
        self,
        request: SearchRequest,
        *,
        access: Access,
        generation: GenerationRef,
        freshness: Freshness | None = None,
        verbose: bool = False,
        careful: bool = False,
    ) -> SearchAnswer:
        """The answer, or CoincidenceError when it must be looked for carefully (`search.query.lexical_lane`)."""
        check_request(request)  # 1
        offset = self._offset(request, access, generation)
        scope = self.scope(generation, access)  # 2
        admits = conversation_filter(scope.metas, request.filters)  # 3
        packs = scope.packs if admits is None else narrow(scope, filter(admits, _partitions(scope)))
        question = compile_question((request.text, *request.terms))  # 4
        run = _Run(request, scope, packs, question, careful=careful)
        wanted = offset + request.limit + 1
        ranked = run.rank(self._semantic_for(request), batch=2 * wanted)  # 5, 6, 7
        if request.filters.sessions and not packs:
            run.fallback = "no_such_conversation"
        shaped = run.shape(ranked, wanted=wanted)  # 8
        page = shaped.results[offset : offset + request.limit]  # 9
        more = len(shaped.results) > offset + request.limit
        cursor = self._next_cursor(request, access, generation, page, offset) if more else None
        hits = [  # 10
            self._hit(run, item, rank=offset + number, shaped=shaped, verbose=verbose)
            for number, item in enumerate(page, 1)
        ]
        return SearchAnswer(
            query=request.echo,
            results=tuple(hits),
            window=ResultWindow(limit=request.limit, offset=offset, returned=len(hits), more_available=more),
            requested_mode=request.mode,
            effective_mode=run.effective_mode,
            ranking_policy=RANKING,
            generations=self._generations(run, access, generation),
            freshness=msgspec.structs.replace(  # of the generation that was searched: a cursor's may be older
                freshness or Freshness(requested="off", outcome="indexed"),
                published_at=format_time(generation.created_at_us),
            ),
            matching_chunks=run.total,
            fallback=run.fallback,
            next_cursor=cursor,
            pool_truncated=shaped.pool_full,
            query_truncated=question.cut,
            facets=count_facets(run.units, run.clauses, scope.metas) if request.facets and run.clauses else None,
            explain=explain_answer(
                scope=scope, question=question, clauses=run.clauses, pool=SEARCH_POOL, lanes=run.lanes
            )
            if request.explain
            else None,
        )

    def scope(self, generation: GenerationRef, access: Access) -> Scope:
        """The rows that an access has in a generation; remembered, because pages and words repeat."""
        with self._lock:
            key = (generation.packs, access.digest)
            known = self._scopes.get(key)
            if known is None:
                known = resolve_scope([self._pack(identity) for identity in generation.packs], access)
                self._scopes.put(key, known)
            return known

    def keep(self, packs: Iterable[str]) -> None:
        """Close the packs that no generation in use names."""
        kept = set(packs)
        with self._lock:
            for identity in [identity for identity in self._packs if identity not in kept]:
                self._packs.pop(identity)  # its folders go when the last query that uses it ends
            self._scopes.clear()
            semantic = self._loaded
            if semantic is not None:
                semantic.keep(sorted(kept))

    def _semantic_for(self, request: SearchRequest) -> "SemanticIndex | None":
        """The semantic index, when the request could use one: a lexical search loads no executor."""
        if self._semantic is None or not request.wants_semantic:
            return None
        self._loaded = self._semantic()
        return self._loaded

    def _pack(self, identity: str) -> OpenPack:
        if identity not in self._packs:
            self._packs[identity] = OpenPack(self._store, identity)
        return self._packs[identity]

    def _offset(self, request: SearchRequest, access: Access, generation: GenerationRef) -> int:
        if request.cursor is None:
            return 0
        cursor = open_cursor(
            request.cursor,
            secret=self._secret,
            query=query_hash(request),
            access=access.digest,
        )
        if cursor.generation_id != generation.generation_id:
            raise RefusedError(
                "the generation of this cursor has expired", code="failed_precondition", hint="start the search again"
            )
        return cursor.offset

    def _next_cursor(
        self,
        request: SearchRequest,
        access: Access,
        generation: GenerationRef,
        page: Sequence[Ranked],
        offset: int,
    ) -> str | None:
        if not page or offset + len(page) > SEARCH_OFFSET_MAX:
            return None
        cursor = Cursor(
            VERSION, generation.generation_id, offset + len(page), page[-1].key, asked_at_us=request.asked_at_us
        )
        return seal_cursor(cursor, secret=self._secret, query=query_hash(request), access=access.digest)

    def _hit(self, run: "_Run", item: Ranked, *, rank: int, shaped: Shaped, verbose: bool) -> Hit:
        """Read the record; it must be of the partition that was admitted, which is checked before its text is used."""
        scoped = run.packs[item.spot.pack]
        chunk = scoped.pack.chunk(item.spot.index_name, item.spot.row)
        if chunk.partition != item.spot.partition or not scoped.admits(chunk.partition):
            raise CorruptError("search record is of another partition", place=scoped.pack.identity, kind="search")
        if item.lexical is not None:
            item = item._replace(lexical=run.confirmed(item.lexical, chunk))
        return make_hit(
            item,
            chunk,
            rank=rank,
            marker=run.marker,
            clauses=run.clauses,
            meta=run.scope.metas.get(chunk.partition, SessionMeta()),
            further=shaped.further.get(chunk.partition, 0),
            request=run.request,
            verbose=verbose,
        )

    def _generations(self, run: "_Run", access: Access, generation: GenerationRef) -> tuple[GenerationUse, ...]:
        watermark = generation.as_of if access.realm == "fleet" else None
        used = [GenerationUse(kind="lexical", generation=generation.generation_id, watermark=watermark)]
        if run.semantic is not None:
            space = run.semantic.embedder.space.space_id
            name = f"{generation.generation_id}/{space}"
            used.append(GenerationUse(kind="semantic", generation=name, watermark=watermark))
        return tuple(used)


class _Run:
    """One search on its way: what the steps hand to each other."""

    def __init__(
        self, request: SearchRequest, scope: Scope, packs: tuple[ScopedPack, ...], question: Question, *, careful: bool
    ) -> None:
        self.request = request
        self.scope = scope
        self.packs = packs
        self.question = question
        self.marker = Marker(question.clauses)
        self.scope_units = scope_units(scope.packs)
        self.units: list[Unit] = hit_units(self.scope_units if packs is scope.packs else scope_units(packs), request)
        self.clauses: tuple[ScopedClause, ...] = ()
        self.total = 0
        self.fallback: str | None = None
        self.effective_mode = "lexical"
        self.semantic: SemanticIndex | None = None  # the one that took part
        self.lanes: dict[str, object] = {}
        self._lane: LexicalLane | None = None
        self._careful = careful
        self._batch = 0

    def rank(self, semantic: "SemanticIndex | None", *, batch: int) -> Iterable[Ranked]:
        """The lanes and their order; `batch` is how many candidates to begin with."""
        request = self.request
        self._batch = batch
        if not self.question.clauses:
            return self._without_words()
        if not request.wants_semantic:
            return only_lexical(self._lexical(self.question))
        reason = self._unready(semantic)
        if reason is not None or semantic is None:
            if request.mode == "semantic":
                raise _semantic_refused(reason or "semantic_disabled")
            self.fallback = reason
            return only_lexical(self._lexical(self.question))
        similar = self._semantic(semantic)
        self.semantic = semantic
        self.effective_mode = request.mode
        if request.mode == "semantic":
            return only_semantic(similar)
        question = compile_question((request.text, *request.terms), drop=STOP_WORDS)
        lane = list(islice(self._telling(self._lexical(question)), SEARCH_LANE_DEPTH))
        self.lanes["lexical"] = {"depth": SEARCH_LANE_DEPTH, "taken": len(lane), "idf_mass_min": _MASS_MIN}
        self.lanes["semantic"] = {"depth": SEARCH_LANE_DEPTH, "taken": len(similar)}
        return fuse(lane, similar, request.semantic_weight)

    def shape(self, ranked: Iterable[Ranked], *, wanted: int) -> Shaped:
        """The results in their order."""
        if self.request.dense:
            return shape_dense(ranked, wanted=wanted)
        metas = self.scope.metas
        return shape_diverse(
            ranked, wanted=wanted, root_of=lambda partition: metas.get(partition, SessionMeta()).root or partition
        )

    def confirmed(self, match: Match, chunk: Chunk) -> Match:
        """The match with what its own text scores, which is what it was ordered by."""
        if match.is_own:
            return match
        assert self._lane is not None, "a match comes from the lane"
        scored = self._lane.scored(match, chunk)
        if scored.score != match.scored.score:
            raise CoincidenceError
        return match._replace(scored=scored)

    def _lexical(self, question: Question) -> Iterable[Match]:
        self.clauses = scoped_clauses(question, self.scope, self.scope_units)
        if not self.clauses:
            return ()
        self._lane = LexicalLane(self.units, self.clauses, batch=self._batch, careful=self._careful)
        self.total = self._lane.total
        return self._lane

    def _telling(self, matches: Iterable[Match]) -> Iterable[Match]:
        """Those that match a quarter or more of what the question's words tell."""
        mass: dict[int, float] = {}
        for item in self.clauses:
            mass[item.clause.word] = max(mass.get(item.clause.word, 0.0), item.idf)
        needed = _MASS_MIN * sum(mass.values())
        for match in matches:
            if sum(mass[word] for word in match.scored.words) >= needed:
                yield match

    def _semantic(self, semantic: "SemanticIndex") -> "list[SemanticMatch]":
        from search.query.semantic_lane import semantic_matches  # noqa: PLC0415 needs numpy, an extra

        return semantic_matches(semantic, self.units, self.request, depth=SEARCH_LANE_DEPTH)

    def _unready(self, semantic: "SemanticIndex | None") -> str | None:
        """Why the semantic lane cannot take part, by its code."""
        if semantic is None:
            return "semantic_disabled"
        if (
            "transcript" not in self.request.kinds
            or self.request.filters.tools
            or self.request.filters.files
            or self.request.filters.ids
        ):
            return "semantic_unsupported_scope"
        if semantic.missing(self.scope.packs):
            return "semantic_incomplete"
        return None

    def _without_words(self) -> Iterable[Ranked]:
        """No word to search for: the newest events of the named files, or nothing."""
        if self.request.text.strip() or any(term.strip() for term in self.request.terms):
            self.fallback = "no_searchable_words"
            return ()
        if not (self.request.filters.files or self.request.filters.ids):
            self.fallback = "empty_query"
            return ()
        found, self.total = newest_spots(self.units, SEARCH_POOL)
        return [Ranked(0.0, rank, spot, None, None, None, None) for rank, spot in enumerate(found, 1)]


class CoincidenceError(Exception):
    """Chunks that the engine scored alike have different scores."""


def _semantic_refused(reason: str) -> UnavailableError | RefusedError:
    texts = {
        "semantic_disabled": ("semantic search is not enabled", "polyc semantic enable"),
        "semantic_incomplete": ("not every conversation has its vectors yet", "polyc semantic status"),
        "semantic_unsupported_scope": ("semantic search covers transcripts only", "leave out calls, outputs and files"),
    }
    message, hint = texts[reason]
    if reason == "semantic_unsupported_scope":
        return RefusedError(message, code="unimplemented", hint=hint)
    return UnavailableError(message, code="failed_precondition", hint=hint)


def _partitions(scope: Scope) -> set[str]:
    return {item.pack.entries[ordinal].partition for item in scope.packs for ordinal in item.ordinals}


class _Recent(Generic[Value]):
    """The last values, by key."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[object, Value] = OrderedDict()

    def get(self, key: object) -> Value | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: object, value: Value) -> None:
        self._values[key] = value
        while len(self._values) > self._size:
            self._values.popitem(last=False)

    def clear(self) -> None:
        self._values.clear()
