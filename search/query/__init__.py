"""Reads search packs of a pinned generation: `search.query.engine` answers one request under one access.

The engine is not imported here, so that the forms of requests and answers can be had without it.
"""

from search.query.answer import Hit, SearchAnswer
from search.query.request import Filters, SearchRequest, check_request

__all__ = ["Filters", "Hit", "SearchAnswer", "SearchRequest", "check_request"]
