"""One conversation: its turns with messages, thinking, calls and results, approvals, payments and refusals, by parts.

Everything is asked under a scope of this one conversation. A part is ten turns; the page carries the first and loads
the next when asked, so that the longest conversation opens as fast as the shortest. Each row names its position, by
which it can be proved.
"""

import itertools
from collections import defaultdict
from typing import Any, Final

import msgspec
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from control.pages.site import Site, Visit
from polyc.errors import RefusedError
from polyc.ids import check_partition

TURNS_PER_PART: Final = 10

_CHILDREN: Final = """SELECT l.partition, l.kind, COALESCE(s.title, l.partition) AS title
FROM session_links l LEFT JOIN sessions s ON s.partition = l.partition
WHERE l.parent_partition = $partition ORDER BY l.partition LIMIT 200"""
_TURNS: Final = f"""SELECT t.turn_id, t.position, t.source_incarnation, t.turn_index, t.status, t.harness, t.persona_id,
       t.started_at, t.duration_ms, t.failure_code, t.failure_message, t.start_evidence, t.end_evidence, t.superseded,
       u.input_tokens, u.output_tokens, u.cache_read_tokens
FROM turns t LEFT JOIN (
    SELECT turn_id, SUM(input_tokens) AS input_tokens, SUM(output_tokens) AS output_tokens,
           SUM(cache_read_tokens) AS cache_read_tokens FROM usage GROUP BY turn_id) u ON u.turn_id = t.turn_id
WHERE t.turn_index > $after ORDER BY t.turn_index LIMIT {TURNS_PER_PART + 1}"""
_PART_OF: Final = """SELECT COALESCE(MAX(turn_index), 1) AS turn_index FROM turns WHERE position <= $position"""
_IN_PART: Final = "turn_id IN (SELECT turn_id FROM turns WHERE turn_index > $after AND turn_index <= $through)"
_ROW: Final = "turn_id, position, source_incarnation"
# Each statement is a process of its own at the edge, so a page asks few: rows of several shapes go as JSON.
_SHAPES: Final = (
    "SELECT 'head' AS entry, * FROM sessions",
    "SELECT 'link' AS entry, position, kind, parent_partition, evidence FROM session_links",
    f"SELECT 'turn' AS entry, x.* FROM ({_TURNS}) x",
    f"""SELECT 'message' AS entry, m.*, b.thinking
FROM (SELECT {_ROW}, message_id, role, material_origin, kind, author, model, text, occurred_at, superseded
      FROM messages WHERE {_IN_PART}) m
LEFT JOIN (SELECT message_id, string_agg(text, chr(10) || chr(10) ORDER BY block_index) AS thinking
           FROM blocks WHERE type = 'thinking' AND {_IN_PART} GROUP BY message_id) b ON b.message_id = m.message_id""",
    f"""SELECT 'call' AS entry, {_ROW}, name, action, arguments, output, exit_code, result_state, duration_ms,
       superseded
FROM actions WHERE {_IN_PART}""",
    f"""SELECT 'approval' AS entry, {_ROW}, tool_name, outcome AS status, decided_by AS party, decided_at AS at,
       reason AS detail, NULL AS amount, NULL AS asset, NULL AS network FROM approvals WHERE {_IN_PART}
UNION ALL
SELECT 'payment', {_ROW}, NULL, 'settled', payee, settled_at, reference, CAST(amount_base_units AS VARCHAR), asset,
       network
FROM payments WHERE {_IN_PART}
UNION ALL
SELECT 'refusal', {_ROW}, tool_name, stage, NULL, NULL, concat_ws(' ', rule, reason), NULL, NULL, NULL
FROM refusals WHERE {_IN_PART}""",
)
_PART: Final = "\nUNION ALL\n".join(f"SELECT to_json(r) AS data FROM (\n{shape}\n) r" for shape in _SHAPES)


def routes(site: Site) -> list[BaseRoute]:
    """The conversation's page and its further parts."""

    async def page(visit: Visit) -> Response:
        partition = _partition_of(visit)
        after = await _first_of_part(site, visit, partition)
        part = await _part(site, visit, partition, after=after)
        if part["head"] is None:
            raise RefusedError("no such conversation", code="not_found")
        return site.render(
            visit,
            "conversation.html",
            active="conversations",
            partition=partition,
            earlier=max(after - TURNS_PER_PART, 0) if after else None,
            **part,
        )

    async def children(visit: Visit) -> Response:
        """What came from this conversation: a fragment, because it is asked over the visitor's whole scope."""
        partition = _partition_of(visit)
        return site.render(visit, "conversation_children.html", children=await _children(site, visit, partition))

    async def more(visit: Visit) -> Response:
        partition = _partition_of(visit)
        part = await _part(site, visit, partition, after=_number(visit, "after"))
        return site.render(visit, "conversation_part.html", partition=partition, **part)

    return [
        Route("/conversations/{partition}", site.page(page), name="conversation"),
        Route("/conversations/{partition}/children", site.page(children), name="conversation_children"),
        Route("/conversations/{partition}/part", site.page(more), name="conversation_part"),
    ]


async def _part(site: Site, visit: Visit, partition: str, *, after: int) -> dict[str, Any]:
    """Up to ten turns after the given one, each with its entries in the journal's order."""
    through = after + TURNS_PER_PART  # turns are numbered without gaps
    answer = await site.ask(visit, _PART, conversation=partition, parameters={"after": after, "through": through})
    of_entry: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (data,) in answer.rows:
        row = msgspec.json.decode(data, type=dict[str, Any])
        of_entry[row["entry"]].append(row)
    turns = sorted(of_entry.pop("turn", []), key=lambda row: int(row["turn_index"]))
    head, links = of_entry.pop("head", []), of_entry.pop("link", [])
    shown, has_more = turns[:TURNS_PER_PART], len(turns) > TURNS_PER_PART
    of_turn: dict[str, list[dict[str, Any]]] = {turn["turn_id"]: [] for turn in shown}
    for row in itertools.chain.from_iterable(of_entry.values()):
        of_turn[row["turn_id"]].append(row)
    for turn in shown:
        turn["entries"] = _in_order(of_turn[turn["turn_id"]])
    return {
        "head": head[0] if head else None,
        "links": sorted(links, key=lambda row: int(row["position"])),
        "turns": shown,
        "next_after": through if has_more else None,
    }


def _in_order(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By position; a message with neither word nor thought is left out: its calls stand for it."""
    shown = []
    for row in sorted(entries, key=lambda row: int(row["position"])):
        if row["entry"] == "message" and row["kind"] == "thinking":
            row["thinking"], row["text"] = row["thinking"] or row["text"], None
        if row["entry"] != "message" or row["text"] or row["thinking"]:
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
