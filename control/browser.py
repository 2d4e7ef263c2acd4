"""Sessions of browsers: a cookie that scripts cannot read and other sites cannot send, and a token for each form.

    POST /login    form field `session` (the opaque bearer)      → 303 /, sets the cookie
    POST /logout   form field `csrf`                             → 303 /, clears it

The cookie is HttpOnly, SameSite=Strict, `__Host-` and Secure where Control is reached over TLS. A request that writes
needs the cookie, our own Origin and the form's CSRF token, which is derived from the bearer and so needs no store.
"""

import hashlib
import hmac
from typing import Final
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from control import sessions
from control.api.answers import read_body
from control.api.routing import guarded
from control.context import ControlContext
from control.http_face import SAFE_METHODS, FaceConfig
from control.sessions import Caller
from polyc.errors import RefusedError
from polyc.limits import FORM_SIZE_BYTES_MAX

COOKIE: Final = "polyc_session"
CSRF_FIELD: Final = "csrf"
CSRF_HEADER: Final = "x-csrf-token"
_CSRF_DOMAIN: Final = b"polychrome/csrf/v1"


class Browser:
    """Cookie sessions for one face."""

    def __init__(self, context: ControlContext, config: FaceConfig) -> None:
        self._context = context
        self._config = config
        self.cookie = f"__Host-{COOKIE}" if config.is_secure else COOKIE

    @property
    def query_origin(self) -> str:
        """Where pages reach the Query edge."""
        return self._config.query_origin

    def session_of(self, request: Request) -> Caller:
        """The verified caller of the request's cookie; RefusedError `unauthenticated`. Blocks on the journal."""
        return sessions.verify_session(self._context, self._bearer_of(request))

    def csrf_token(self, request: Request) -> str:
        """What forms of this session's pages carry."""
        return hmac.new(self._bearer_of(request).encode(), _CSRF_DOMAIN, hashlib.sha256).hexdigest()

    def check_csrf(self, request: Request, form: dict[str, str]) -> None:
        """Return, or raise RefusedError when a request that writes is not from a page of ours."""
        if request.method in SAFE_METHODS:
            return
        self.check_origin(request)
        given = request.headers.get(CSRF_HEADER) or form.get(CSRF_FIELD, "")
        if not hmac.compare_digest(given.encode(), self.csrf_token(request).encode()):
            raise RefusedError("the form is not of this session", code="permission_denied", hint="load the page again")

    def check_origin(self, request: Request) -> None:
        """Return, or raise RefusedError unless the request states an Origin of ours (browsers always do on POST)."""
        if request.headers.get("origin") not in self._config.origins:
            raise RefusedError("the request does not come from a page of ours", code="permission_denied")

    def routes(self) -> list[Route]:
        """Login and logout."""
        return [
            Route("/login", guarded(self._login), methods=["POST"], name="login"),
            Route("/logout", guarded(self._logout), methods=["POST"], name="logout"),
        ]

    async def _login(self, request: Request) -> Response:
        self.check_origin(request)
        form = await read_form(request)
        bearer = form.get("session", "").strip()
        await run_in_threadpool(sessions.verify_session, self._context, bearer)
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(
            self.cookie, bearer, path="/", httponly=True, samesite="strict", secure=self._config.is_secure
        )
        return response

    async def _logout(self, request: Request) -> Response:
        self.check_csrf(request, await read_form(request))
        response = RedirectResponse("/", status_code=303)
        response.delete_cookie(self.cookie, path="/", httponly=True, samesite="strict", secure=self._config.is_secure)
        return response

    def _bearer_of(self, request: Request) -> str:
        """The one cookie of our name; a second one could have been planted by a sibling host."""
        found = [
            value
            for header in request.headers.getlist("cookie")
            for name, _, value in (item.strip().partition("=") for item in header.split(";"))
            if name == self.cookie
        ]
        if len(found) != 1:
            raise RefusedError("not logged in", code="unauthenticated", hint="open /login")
        return found[0]


async def read_form(request: Request) -> dict[str, str]:
    """An urlencoded form, bounded, each field once."""
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/x-www-form-urlencoded":
        raise RefusedError("a form is needed")
    raw = await read_body(request, size_bytes_max=FORM_SIZE_BYTES_MAX)
    try:
        fields = parse_qsl(raw.decode("utf-8"), keep_blank_values=True, strict_parsing=bool(raw), max_num_fields=64)
    except ValueError:
        raise RefusedError("the form cannot be read") from None
    if len({name for name, _ in fields}) != len(fields):
        raise RefusedError("a field of the form is repeated")
    return dict(fields)
