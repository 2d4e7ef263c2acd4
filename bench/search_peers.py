"""Search end to end over HTTP on an imported archive, beside `agentsview` and `grep`, in one run.

    python -m bench.search_peers ROOT CORPUS [AGENTSVIEW]

ROOT is an imported data root of the generated corpus, CORPUS the corpus itself. AGENTSVIEW is a folder with the peer in
a virtual environment of its own (`python -m venv v; v/bin/pip install agentsview==0.46.1`) and a copy of the corpus
synchronised into `data` by `agentsview sync`, telemetry off; without it only we are measured.

warm       one question at a time, a pause between two, 20 results with snippets; median and 95th percentile
cold       `polyc search` as a new process asking the running edge; `grep -rl` over the corpus
fresh      from the acknowledgement of an appended turn to the first answer that holds it
scope      200 000 chunks in 10 000 conversations, a scope of 1 000 of either, in process; the first two questions match
           every chunk of it alike, the third tells one in twenty from the others
"""

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from urllib.parse import quote

from artifacts.store import DirectoryStore
from bench.pages import polyc, served
from facts import codec, events
from journal.boot import connect
from polyc.appending import Author, Draft
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.ids import SystemIds, uuid8
from polyc.signing import load_signer
from query_plane.search_client import PATH, SearchClient
from search.build import PartitionChange, SearchBuild
from search.query import SearchRequest
from search.query.engine import GenerationRef, SearchEngine
from search.query.scope import Access
from search.query.wire import SearchBody
from tests.search.archive import message
from tests.support.conversations import opening, partition_of

ROUNDS, PAUSE_S = 40, 0.02
PORT, PEER_PORT = 8794, 8796
WORDS = {"rare": "zanzibar", "common": "error", "three words": "database migration error"}
TURNS = 24


def main() -> int:
    root, corpus = Path(sys.argv[1]), Path(sys.argv[2])
    peer = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    with served(root, PORT), agentsview(peer) if peer else nullcontext() as theirs:
        token = subprocess.run(polyc(root, "grant", "--admin"), capture_output=True, text=True, check=True).stdout
        ours = asking(token.strip())
        for name, word in WORDS.items():
            measured = {"ours": times_ms(lambda word=word: ours(word))}
            if theirs is not None:
                measured["agentsview"] = times_ms(lambda word=word: theirs(word))
            print(f"warm {name:<12}", ", ".join(f"{who} {told(ms)}" for who, ms in measured.items()), flush=True)
        cold(root, corpus)
        fresh(DataRoot(root), token.strip())
    scope()
    return 0


def told(milliseconds: list[float]) -> str:
    ordered = sorted(milliseconds)
    return f"{statistics.median(ordered):.1f} ms (min {ordered[0]:.1f}, p95 {ordered[int(0.95 * len(ordered))]:.1f})"


def times_ms(ask: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    for _ in range(3):
        ask()
    found = []
    for _ in range(rounds):
        time.sleep(PAUSE_S)
        started = time.perf_counter()
        ask()
        found.append(1000 * (time.perf_counter() - started))
    return found


def asking(token: str) -> Callable[[str], bytes]:
    """Our edge on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT + 1)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def ask(word: str) -> bytes:
        connection.request("POST", PATH, json.dumps({"query": word, "mode": "lexical"}), headers)
        response = connection.getresponse()
        content = response.read()
        assert response.status == 200, content
        assert json.loads(content)["results"], "something is found"
        return content

    return ask


@contextmanager
def agentsview(folder: Path) -> Iterator[Callable[[str], bytes]]:
    program = next(folder.rglob("agentsview/bin/agentsview"))
    environment = os.environ | {
        "HOME": str(folder), "AGENTSVIEW_DATA_DIR": str(folder / "data"), "AGENTSVIEW_TELEMETRY_ENABLED": "0",
        "CLAUDE_PROJECTS_DIR": str(folder / "claude" / "projects"), "CODEX_SESSIONS_DIR": str(folder / "codex" / "sessions"),
    }  # fmt: skip
    command = [str(program), "serve", "--no-browser", "--no-update-check", "--port", str(PEER_PORT)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        connection = http.client.HTTPConnection("127.0.0.1", PEER_PORT)

        def ask(word: str) -> bytes:
            connection.request(
                "GET", f"/api/v1/search?q={quote(word)}&limit=20", headers={"origin": f"http://127.0.0.1:{PEER_PORT}"}
            )
            response = connection.getresponse()
            content = response.read()
            assert response.status == 200, content[:200]
            return content

        try:
            for _ in range(120):
                try:
                    ask("zanzibar")
                    break
                except (OSError, http.client.HTTPException):
                    connection.close()
                    time.sleep(1)
            yield ask
        finally:
            server.terminate()


def cold(root: Path, corpus: Path) -> None:
    """A new process for each question; CPU seconds beside, because the machine is shared."""
    commands = {
        "polyc search": polyc(root, "search", "--admin", "zanzibar"),
        "grep -rl": ["grep", "-rl", "zanzibar", str(corpus)],
    }
    for name, command in commands.items():
        subprocess.run(command, capture_output=True, check=True)
        wall, cpu = [], []
        for _ in range(9):
            before, started = os.times(), time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            wall.append(time.perf_counter() - started)
            after = os.times()
            cpu.append(after.children_user + after.children_system - before.children_user - before.children_system)
        print(
            f"cold {name:<12} {statistics.median(wall):.3f} s wall (min {min(wall):.3f}), {statistics.median(cpu):.2f} s CPU",
            flush=True,
        )


def fresh(root: DataRoot, token: str) -> None:
    client = SearchClient(f"http://127.0.0.1:{PORT + 1}", token)
    clock, ids = SystemClock(), SystemIds()
    seconds = []
    with connect(root, clock=clock, ids=ids) as journal:
        author = Author(journal, load_signer(root.keys / "importer.pem"), clock=clock, ids=ids)
        conversation = 10**6 + int.from_bytes(ids.token(4), "big")  # one that no earlier run has appended to
        author.append(partition_of(conversation), opening(conversation))
        for number in range(1, TURNS + 1):
            needle = f"needle{ids.token(6).hex()}"
            author.append(partition_of(conversation), needle_turn(conversation, number, needle))
            started = time.perf_counter()
            while not client.search(SearchBody(query=needle, mode="lexical")).results:
                assert time.perf_counter() - started < 30, "it comes"
                time.sleep(0.02)  # a person who waits, not a flood: each question is two records
            seconds.append(time.perf_counter() - started)
            time.sleep(0.3)
    ordered = sorted(seconds)
    print(
        f"fresh append to searchable {statistics.median(ordered):.2f} s, p95 {ordered[int(0.95 * len(ordered))]:.2f} s, worst {ordered[-1]:.2f} s",
        flush=True,
    )


def needle_turn(conversation: int, number: int, needle: str) -> list[Draft]:
    """A committed turn that says one word nobody said."""
    seed, name, at = f"{conversation}/{number}", f"t{number}", datetime(2026, 3, 1, tzinfo=UTC)
    ref = events.TurnRef(partition_of(conversation), name)
    said = events.Message(
        id=uuid8("user", seed), occurred_at=at, turn_id=name, message_id=f"u{number}", role="user",
        material_origin="human_authored", blocks=(events.Block(type="text", text=f"where is the {needle} now"),),
    )  # fmt: skip
    ends = events.TurnComplete(
        id=uuid8("end", seed), occurred_at=at, turn=ref, status="completed", evidence="stated", duration_ms=40
    )
    starts = events.TurnStart(id=uuid8("start", seed), occurred_at=at, turn=ref, evidence="stated")
    return [codec.encode(event) for event in (starts, said, ends)]


def scope(chunks: int = 200_000, wanted: int = 1_000) -> None:
    text = "the points at the depot froze and shift {0} re-ran migration {1} until every test was green again"
    per = 20
    changes = (
        PartitionChange(
            partition=f"conv-{number:06}", incarnation="aa", mode="replace", to_position=per,
            rows={"messages": [message(f"conv-{number:06}", at, text.format(number, at)) for at in range(1, per + 1)]},
        )
        for number in range(chunks // per)
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="polyc-scope-") as folder:
        store = DirectoryStore(Path(folder))
        generation = GenerationRef(generation_id="g", packs=SearchBuild(store).rebuild(changes), as_of=1)
        engine = SearchEngine(store, cursor_secret=b"only for this bench, never kept")
        for conversations in (wanted // per, wanted):
            admitted = range(0, chunks // per, chunks // per // conversations)
            access = Access(realm="participant", partitions=frozenset(f"conv-{number:06}" for number in admitted))
            for query in ("froze", "depot migration", "shift 7"):
                request = SearchRequest(text=query, mode="lexical")
                ask = partial(engine.search, request, access=access, generation=generation)
                print(
                    f"scope {conversations} conversations, {len(admitted) * per} of {chunks} chunks, {query!r}: "
                    f"{ask().matching_chunks} match, {told(times_ms(ask))}",
                    flush=True,
                )


if __name__ == "__main__":
    sys.exit(main())
