"""Reads search packs of a pinned generation: `SearchEngine.search` answers one request under one access."""

from search.query.answer import Hit, SearchAnswer
from search.query.cursor import peek_generation
from search.query.engine import GenerationRef, SearchEngine
from search.query.request import Filters, SearchRequest, check_request
from search.query.scope import Access

__all__ = [
    "Access",
    "Filters",
    "GenerationRef",
    "Hit",
    "SearchAnswer",
    "SearchEngine",
    "SearchRequest",
    "check_request",
    "peek_generation",
]
