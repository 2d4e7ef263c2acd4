"""How answers and errors look on the wire: JSON, never cached; errors as Connect writes them plus a hint.

    {"code":"unauthenticated","message":"not a valid session","hint":"…"}

An exception that is not ours becomes `internal`: its text never leaves.
"""

import msgspec
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from polyc import strict_json
from polyc.errors import HTTP_STATUS, PolycError, RefusedError

NO_STORE = {"cache-control": "no-store"}


def answer(model: BaseModel, *, status: int = 200) -> Response:
    """The model as JSON."""
    return Response(model.model_dump_json(), status_code=status, media_type="application/json", headers=NO_STORE)


def failure(error: PolycError) -> Response:
    """An error of ours, with the HTTP status of its code."""
    content = {"code": error.code, "message": error.message}
    if error.hint is not None:
        content["hint"] = error.hint
    headers = dict(NO_STORE)
    if error.code == "unauthenticated":
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(content, status_code=HTTP_STATUS[error.code], headers=headers)


def internal() -> Response:
    """What the caller learns of a bug of ours."""
    return JSONResponse(
        {"code": "internal", "message": "something failed here; it is not your request"},
        status_code=500,
        headers=NO_STORE,
    )


def body_of(model: type[BaseModel], raw: bytes) -> BaseModel:
    """The body as the model; RefusedError names the members that do not fit, never their values."""
    try:
        strict_json.decode(raw)
    except ValueError as error:
        raise RefusedError(f"the body cannot be read: {error}") from None
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        places = sorted({_place_of(item["type"], item["loc"]) for item in error.errors()})
        raise RefusedError(f"the body does not fit: {', '.join(places[:8])}") from None


def _place_of(kind: str, location: tuple[int | str, ...]) -> str:
    """The member that does not fit; one we do not know is not named: its name is the caller's text."""
    if kind == "extra_forbidden":
        return "an unknown member"
    return ".".join(str(part) for part in location) or "the body"


async def read_body(request: Request, *, size_bytes_max: int) -> bytes:
    """The body, bounded while it arrives: a length that is announced is believed only when it is too large."""
    announced = request.headers.get("content-length", "0")
    if not announced.isascii() or not announced.isdigit() or int(announced[:20]) > size_bytes_max:
        raise _too_large(size_bytes_max)
    chunks = bytearray()
    async for chunk in request.stream():
        chunks += chunk
        if len(chunks) > size_bytes_max:
            raise _too_large(size_bytes_max)
    return bytes(chunks)


def is_empty(raw: bytes) -> bool:
    """Whether a body says nothing: no bytes, or an empty object."""
    try:
        return not raw.strip() or msgspec.json.decode(raw) == {}
    except (msgspec.DecodeError, RecursionError):
        return False


def _too_large(size_bytes_max: int) -> RefusedError:
    return RefusedError(f"the body is larger than {size_bytes_max} bytes", code="resource_exhausted")
