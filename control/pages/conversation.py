"""One conversation: its turns with messages, thinking, calls and results, approvals, payments and refusals, by parts.

Everything is asked under a scope of this one conversation. A part is ten turns; the page carries the first and loads
the next when asked, so that the longest conversation opens as fast as the shortest. Each row names its position, by
which it can be proved.
"""

import asyncio
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from control.pages.site import Site, Visit
from polyc.errors import RefusedError
from polyc.ids import check_partition

TURNS_PER_PART: Final = 10

_HEAD: Final = "SELECT * FROM sessions"
_LINKS: Final = "SELECT kind, parent_partition, evidence FROM session_links ORDER BY position"
_CHILDREN: Final = """SELECT l.partition, l.kind, COALESCE(s.title, l.partition) AS title
FROM session_links l LEFT JOIN sessions s ON s.partition = l.partition
WHERE l.parent_partition = $partition ORDER BY l.partition LIMIT 200"""
_TURNS: Final = f"""SELECT turn_id, position, source_incarnation, turn_index, status, harness, persona_id,
       started_at, duration_ms, failure_code, failure_message, start_evidence, end_evidence, superseded
FROM turns WHERE turn_index > $after ORDER BY turn_index LIMIT {TURNS_PER_PART + 1}"""
_PART_OF: Final = """SELECT COALESCE(MAX(turn_index), 1) AS turn_index FROM turns WHERE position <= $position"""
_IN_PART: Final = "turn_id IN (SELECT turn_id FROM turns WHERE turn_index > $after AND turn_index <= $through)"
_PART: Final = {
    "message": f"""SELECT turn_id, position, source_incarnation, message_id, role, material_origin, kind, author, model,
       text, occurred_at, superseded FROM messages WHERE {_IN_PART}""",
    "thinking": f"""SELECT turn_id, position, source_incarnation, message_id, text FROM blocks
WHERE type = 'thinking' AND text IS NOT NULL AND {_IN_PART}""",
    "call": f"""SELECT turn_id, position, source_incarnation, tool_call_id, name, action, arguments, output, is_error,
       exit_code, result_state, duration_ms, occurred_at, superseded FROM actions WHERE {_IN_PART}""",
    "usage": f"""SELECT turn_id, MAX(position) AS position, SUM(input_tokens) AS input_tokens,
       SUM(output_tokens) AS output_tokens,
       SUM(cache_read_tokens) AS cache_read_tokens FROM usage WHERE {_IN_PART} GROUP BY turn_id""",
    "approval": f"""SELECT turn_id, position, source_incarnation, tool_name, outcome, decided_by, decided_at, reason
FROM approvals WHERE {_IN_PART}""",
    "payment": f"""SELECT turn_id, position, source_incarnation, amount_base_units, asset, network, payee,
       reference, settled_at
FROM payments WHERE {_IN_PART}""",
    "refusal": f"""SELECT turn_id, position, source_incarnation, tool_name, stage, rule, reason
FROM refusals WHERE {_IN_PART}""",
}


def routes(site: Site) -> list[BaseRoute]:
    """The conversation's page and its further parts."""

    async def page(visit: Visit) -> Response:
        partition = _partition_of(visit)
        after = await _first_of_part(site, visit, partition)
        head, links, children, part = await asyncio.gather(
            _rows(site, visit, partition, _HEAD),
            _rows(site, visit, partition, _LINKS),
            _children(site, visit, partition),
            _part(site, visit, partition, after=after),
        )
        if not head:
            raise RefusedError("no such conversation", code="not_found")
        return site.render(
            visit,
            "conversation.html",
            active="conversations",
            partition=partition,
            head=head[0],
            links=links,
            children=children,
            earlier=max(after - TURNS_PER_PART, 0) if after else None,
            **part,
        )

    async def more(visit: Visit) -> Response:
        partition = _partition_of(visit)
        part = await _part(site, visit, partition, after=_number(visit, "after"))
        return site.render(visit, "conversation_part.html", partition=partition, **part)

    return [
        Route("/conversations/{partition}", site.page(page), name="conversation"),
        Route("/conversations/{partition}/part", site.page(more), name="conversation_part"),
    ]


async def _part(site: Site, visit: Visit, partition: str, *, after: int) -> dict[str, Any]:
    """Up to ten turns after the given one, each with its entries in the journal's order."""
    turns = await _rows(site, visit, partition, _TURNS, after=after)
    shown, has_more = turns[:TURNS_PER_PART], len(turns) > TURNS_PER_PART
    through = shown[-1]["turn_index"] if shown else after
    answers = await asyncio.gather(
        *(_rows(site, visit, partition, sql, after=after, through=through) for sql in _PART.values())
    )
    of_turn: dict[str, list[dict[str, Any]]] = {turn["turn_id"]: [] for turn in shown}
    for kind, rows in zip(_PART, answers, strict=True):
        for row in rows:
            of_turn[row["turn_id"]].append(row | {"entry": kind})
    for turn in shown:
        entries = of_turn[turn["turn_id"]]
        turn["usage"] = next((row for row in entries if row["entry"] == "usage"), None)
        turn["entries"] = _in_order(entries)
    return {"turns": shown, "next_after": through if has_more else None}


def _in_order(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By position; a message's thinking goes into the message, and one with neither word nor thought is left out."""
    thinking: dict[str, list[str]] = {}
    for row in entries:
        if row["entry"] == "thinking":
            thinking.setdefault(row["message_id"], []).append(row["text"])
    shown = []
    for row in sorted(entries, key=lambda row: int(row["position"])):
        if row["entry"] == "message":
            row["thinking"] = "\n\n".join(thinking.get(row["message_id"], ()))
            if row["kind"] == "thinking":
                row["text"] = None
            if row["text"] or row["thinking"]:
                shown.append(row)
        elif row["entry"] not in {"thinking", "usage"}:
            shown.append(row)
    return shown


async def _children(site: Site, visit: Visit, partition: str) -> list[dict[str, Any]]:
    """Conversations that claim this one as parent, among those the visitor may see."""
    answer = await site.ask(visit, _CHILDREN, parameters={"partition": partition})
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


async def _rows(site: Site, visit: Visit, partition: str, sql: str, **parameters: Any) -> list[dict[str, Any]]:
    answer = await site.ask(visit, sql, conversation=partition, parameters=parameters or None)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def _partition_of(visit: Visit) -> str:
    try:
        return check_partition(visit.request.path_params["partition"])
    except RefusedError:
        raise RefusedError("no such conversation", code="not_found") from None


async def _first_of_part(site: Site, visit: Visit, partition: str) -> int:
    """The turn before the part to show: as named by `after`, or by the position `at` that a search result names."""
    if "at" not in visit.request.query_params:
        return _number(visit, "after")
    rows = await _rows(site, visit, partition, _PART_OF, position=_number(visit, "at"))
    return (int(rows[0]["turn_index"]) - 1) // TURNS_PER_PART * TURNS_PER_PART


def _number(visit: Visit, name: str) -> int:
    text = visit.request.query_params.get(name, "0")
    if not (text.isascii() and text.isdigit()):
        raise RefusedError("no such part", code="not_found")
    return int(text[:15])
