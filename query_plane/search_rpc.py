"""The doors for generated clients of `polychrome.search.v1.SearchService`: Connect, gRPC-Web and gRPC.

A message is taken as the JSON it stands for and the answer's JSON becomes the answer's message: there is one law of
what a request may be and one form of an answer, whatever the door.
"""

from typing import Any, Final

from connectrpc.codec import proto_json_codec
from connectrpc.request import RequestContext

from polyc.errors import PolycError
from polychrome.search.v1 import search_pb as pb
from polychrome.search.v1.search_connect import SearchService
from query_plane.core import Headers
from query_plane.rpc import connect_error, header_pairs
from query_plane.searching import SearchCore

SERVICE: Final = "polychrome.search.v1.SearchService"
_json: Final = proto_json_codec()


async def answer_message(core: SearchCore, headers: Headers, request: pb.SearchRequest) -> pb.SearchResponse:
    """The answer to a message."""

    async def read() -> bytes:
        return bytes(_json.encode(request))

    async with core.answering(headers, read) as answer:
        response: pb.SearchResponse = _json.decode(answer.to_json(), pb.SearchResponse)
        return response


class SearchDoor(SearchService):
    """`SearchService` over the core, as Connect calls it."""

    def __init__(self, core: SearchCore) -> None:
        self._core = core

    async def search(self, request: pb.SearchRequest, ctx: RequestContext[Any, Any]) -> pb.SearchResponse:
        """Answer one question."""
        try:
            return await answer_message(self._core, header_pairs(ctx), request)
        except PolycError as error:
            raise connect_error(error) from None
