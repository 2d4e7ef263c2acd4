"""The journal on the pages: how it stands, for admins, and the proof of a row, for whoever may see it.

Health is the log's own word: its head and checkpoint, the witnesses that cosigned, and how far the generation that
answers queries goes. A proof is the log's receipt as a file (C2SP tlog-proof), which carries no payload: the
visitor's scope decides whether there is one, as for the row itself.
"""

from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from control.context import ControlContext
from control.pages.site import Site, Visit
from polyc.errors import RefusedError
from polyc.ids import check_partition
from polyc.keyring import KEYS_PARTITION
from polyc.note import decode_checkpoint, parse_note

_PROBE: Final = "SELECT COUNT(*) AS turns FROM turns"
_POSITION_DIGITS_MAX: Final = 15


def routes(site: Site) -> list[BaseRoute]:
    """The health fragment and the proofs."""

    async def health(visit: Visit) -> Response:
        answer = await site.ask(visit, _PROBE)
        stands = await run_in_threadpool(_stands, site.context)
        covered = answer.as_of or 0
        values = stands | {
            "covered": covered,
            "lag": stands["head"] - covered,
            "generation": answer.generation or "none",
        }
        page = site.render(visit, "journal_health.html", **values)
        if visit.request.headers.get("accept") != "application/json":
            return page
        return JSONResponse({"html": bytes(page.body).decode(), "chart": None})

    async def proof(visit: Visit) -> Response:
        partition, position = _row_of(visit)
        await site.check_conversation(visit, partition)
        receipt = await run_in_threadpool(site.context.journal.receipt, partition, position)
        name = f"{partition}-{position}.tlog-proof"
        return Response(
            receipt,
            media_type="text/plain; charset=utf-8",
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    return [
        Route("/dashboard/journal", site.page(health, admin_only=True), name="journal_health"),
        Route("/conversations/{partition}/proof/{position}", site.page(proof), name="proof"),
    ]


def _stands(context: ControlContext) -> dict[str, Any]:
    """Head, the newest checkpoint that witnesses cosigned (else the latest), and who they are."""
    head = context.journal.size()
    receipt = context.journal.receipt(KEYS_PARTITION, 1)
    note = parse_note(receipt.split("\n\n", 1)[1], place="receipt")
    checkpoint = decode_checkpoint(note.text, place="receipt")
    witnesses = [line.name for line in note.signatures if line.name != checkpoint.origin]
    return {"origin": checkpoint.origin, "head": head, "checkpoint": checkpoint.size, "witnesses": witnesses}


def _row_of(visit: Visit) -> tuple[str, int]:
    text = visit.request.path_params["position"]
    if not (text.isascii() and text.isdigit() and len(text) <= _POSITION_DIGITS_MAX):
        raise RefusedError("no such row", code="not_found")
    try:
        return check_partition(visit.request.path_params["partition"]), int(text)
    except RefusedError:
        raise RefusedError("no such conversation", code="not_found") from None
