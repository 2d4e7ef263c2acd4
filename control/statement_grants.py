"""The grants of Control's own fixed statements: minted on record, kept for a minute in this process, never shown.

A dashboard asks several questions at once; one grant serves all of the same subject, realm, scope and surface while
it is young and its subject was not revoked since.
"""

import threading
from collections import OrderedDict
from typing import Final

from control import grants_api, revocations
from control.context import ControlContext
from polyc.grants import Realm, Scope, Surface
from polyc.limits import GRANT_LIFETIME_S_MAX

REUSE_S: Final = 60
KEPT_MAX: Final = 256

_Key = tuple[str, Realm, Scope, Surface]


class StatementGrants:
    """Mints or reuses; safe for several threads."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, tuple[str, int]] = OrderedDict()

    def mint(self, *, subject: str, realm: Realm, scope: Scope, surface: Surface) -> str:
        """The token of a living grant for exactly this."""
        key = (subject, realm, scope, surface)
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and self._is_young(kept[1], subject):
            return kept[0]
        minted = grants_api.mint_scoped(self._context, subject, realm=realm, scope=scope, surface=surface)
        revocations.publish(self._context)
        with self._lock:
            self._kept[key] = (minted.token, minted.expires_at_ms // 1000 - GRANT_LIFETIME_S_MAX)
            self._kept.move_to_end(key)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return minted.token

    def _is_young(self, issued_at_s: int, subject: str) -> bool:
        if self._context.now_s() - issued_at_s > REUSE_S:
            return False
        with self._context.index.view() as state:
            return state.credentials.revoked_subjects.get(subject, -1) < issued_at_s
