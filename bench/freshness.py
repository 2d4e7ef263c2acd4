"""How long an acknowledged turn takes until a new query sees it, through the whole product.

    python -m bench.freshness [CONVERSATIONS] [TURNS]     a synthetic archive, made and thrown away
    python -m bench.freshness DATA_ROOT [TURNS]           one that stands (`polyc import`); its journal gets the turns

`polyc up` runs journal, projector, Control and the edge. This process appends turns, one every half second or so, and
after each acknowledgement asks the edge over HTTP until the turn is in `turns`: as an admin on the even ones, as a
participant of that conversation on the odd ones. The projector's share is told by the generation's own time.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import httpx

from artifacts.reader import Reader
from artifacts.store import DirectoryStore
from bench.archive import fill
from bench.deployment import embedded
from facts import codec, events
from polyc.appending import Draft
from polyc.cli.deployment import Deployment, opened
from polyc.cli.projecting import project
from polyc.cli.supervising import check_free
from polyc.dataroot import DataRoot
from polyc.errors import RefusedError, UnavailableError
from polyc.ids import uuid8
from query_plane.client import Client
from tests.support.conversations import text

PERSONA = "fresh"
PAUSES_S = (0.05, 0.42, 0.79, 1.16, 1.53)  # so that turns meet the projector's ticks in any phase
START_S = 60.0


def measure_freshness(root: DataRoot, turns: int) -> list[tuple[float, float]]:
    """Of each turn, seconds from its acknowledgement to the generation that holds it, and to the first answer with it."""
    with opened(root) as deployment:
        control, names = deployment.control(), _conversations(deployment)[:turns]
        control.ensure_persona(PERSONA)
        for name in names:
            control.join(name, PERSONA)
        project(deployment)
    with _serving(root) as url, opened(root) as deployment:
        control, author = deployment.control(), deployment.author("importer")
        reader = Reader(
            DirectoryStore(root.artifacts), keys=deployment.journal.keyring, clock=deployment.clock, ids=deployment.ids
        )
        admin, participant = (
            Client(url, lambda options=options: control.mint_grant(**options)[0])
            for options in ({"admin": True}, {"persona": PERSONA})
        )
        for client in (admin, participant):
            client.rows("SELECT count(*) AS n FROM turns")  # every way is walked once
        found = []
        for number in range(turns):
            client, name = (admin, participant)[number % 2], names[number % len(names)]
            question = f"SELECT count(*) AS n FROM turns WHERE partition = '{name}'"
            before = client.rows(question)[0][0]
            size = author.append(name, _turn(name, number)).first_index
            acknowledged_s, started_s = time.time(), time.perf_counter()
            while client.rows(question)[0][0] == before:
                time.sleep(0.01)
            visible_s, generation = time.perf_counter() - started_s, reader.latest()
            while generation.frontier.size > size and generation.number > 1:
                made_s, generation = generation.created_at_us / 1e6, reader.at(generation.number - 1)
            found.append((made_s - acknowledged_s, visible_s))
            time.sleep(PAUSES_S[number % len(PAUSES_S)])
        return found


def _turn(partition: str, number: int) -> list[Draft]:
    """A committed turn with a prompt and an answer."""
    name = f"fresh-{time.time_ns()}"
    ref = events.TurnRef(partition, name)
    said = [
        events.Message(
            id=uuid8(name, role), turn_id=name, message_id=f"{name}-{role}", role=role, material_origin=origin,
            blocks=(events.Block(type="text", text=text(number * 2 + len(role), 80)),),
        )
        for role, origin in (("user", "human_authored"), ("assistant", "assistant_authored"))
    ]  # fmt: skip
    start = events.TurnStart(id=uuid8(name, "start"), turn=ref, evidence="stated")
    end = events.TurnComplete(id=uuid8(name, "end"), turn=ref, status="completed", evidence="stated")
    return [codec.encode(event) for event in (start, *said, end)]


def _conversations(deployment: Deployment) -> list[str]:
    return [head.partition for head in deployment.journal.partitions() if head.partition.startswith("conv-imp-")]


@contextmanager
def _serving(root: DataRoot) -> Iterator[str]:
    """`polyc up` on a free pair of ports; the edge's address."""
    port = next(port for port in range(9400, 9500, 2) if _are_free(port, port + 1))
    command = [sys.executable, "-m", "polyc.cli.main", "up", "--data-root", str(root.path), "--no-watch"]
    with Popen([*command, "--port", str(port)]) as process:
        url, until_s = f"http://127.0.0.1:{port + 1}", time.perf_counter() + START_S
        try:
            while not _answers(url):
                if process.poll() is not None or time.perf_counter() > until_s:
                    raise UnavailableError("polyc up did not come up")
                time.sleep(0.2)
            yield url
        finally:
            process.terminate()


def _are_free(*ports: int) -> bool:
    try:
        for port in ports:
            check_free(port)
    except RefusedError:
        return False
    return True


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=2).is_success
    except httpx.HTTPError:
        return False


def main() -> int:
    """Print the percentiles."""
    archive, turns = ([*sys.argv[1:], "500", "40"][:2]) if len(sys.argv) != 2 else (sys.argv[1], "40")
    if archive.isdecimal():
        with tempfile.TemporaryDirectory(prefix="polyc-fresh-") as folder:
            with embedded(Path(folder)) as deployment:
                fill(deployment, int(archive))
            found = measure_freshness(DataRoot(Path(folder)), int(turns))
    else:
        found = measure_freshness(DataRoot(Path(archive)), int(turns))
    for number, what in enumerate(("published", "visible over HTTP")):
        times = sorted(item[number] for item in found)
        p50, p95 = times[len(times) // 2], times[int(len(times) * 0.95)]
        print(f"{archive}, {turns} turns, {what} after: p50 {p50 * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
