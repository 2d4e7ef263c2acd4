"""Search over HTTP beside `polylogue` 0.2.0, on a corpus that its daemon takes in within a minute.

    python -m bench.search_polylogue ROOT CORPUS PEERS

ROOT is an imported data root of CORPUS, which is a small one (`gen_corpus.py --sessions 100 --scale 0.3 --seed 7`: 119
files, 8.4 MB); of the 118 MB that `bench.search_peers` uses, the daemon had not taken in all after seven minutes and 130
CPU seconds. PEERS is where the peers' virtual environments are (`bench.sources`). The peer is asked at its own entry,
`GET /api/sessions?query=WORD&limit=20`, which gives sessions with a snippet each; ours at its edge, under a grant and on
record. Both serve, both are warm, in turns, a pause between two questions. The peer joins words by AND, so three words
that no message has together find nothing there.
"""

import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from bench.pages import polyc, served
from bench.search_peers import PAUSE_S, PORT, ROUNDS, WORDS, asking, told
from bench.sources import SYSTEM_PYTHON, installed, polylogue_environment, used_s

PEER_PORT = 8798
IDLE_S = 12.0
PATIENCE_S = 300.0


def main() -> int:
    root, corpus, peers = map(Path, sys.argv[1:4])
    with served(root, PORT), polylogue(corpus, installed("polylogue", peers, python=SYSTEM_PYTHON)) as theirs:
        token = subprocess.run(polyc(root, "grant", "--admin"), capture_output=True, text=True, check=True).stdout
        who = {"ours": asking(token.strip()), "polylogue": theirs}
        for name, word in WORDS.items():
            measured: dict[str, list[float]] = {asked: [] for asked in who}
            for number in range(ROUNDS + 3):
                for asked, ask in who.items():
                    time.sleep(PAUSE_S)
                    started = time.perf_counter()
                    ask(word)
                    if number >= 3:
                        measured[asked].append(1000 * (time.perf_counter() - started))
            print(f"warm {name:<12}", ", ".join(f"{asked} {told(ms)}" for asked, ms in measured.items()), flush=True)
    return 0


@contextmanager
def polylogue(corpus: Path, venv: Path) -> Iterator[Callable[[str], bytes]]:
    """The daemon over a copy of the corpus, once it has nothing left to do."""
    with tempfile.TemporaryDirectory() as folder:
        environment = polylogue_environment(corpus, venv, Path(folder))
        command = [str(venv / "bin" / "polylogued"), "run", "--no-browser-capture", "--api-port", str(PEER_PORT)]
        output = subprocess.DEVNULL
        with subprocess.Popen(command, env=environment, stdout=output, stderr=output) as daemon:
            try:
                idle = _until_idle(daemon)
                print(
                    f"polylogue: {used_s(daemon.pid):.0f} CPU s until {'idle' if idle else 'patience ended'}",
                    flush=True,
                )
                yield _ask
            finally:
                daemon.terminate()


def _until_idle(daemon: subprocess.Popen[bytes]) -> bool:
    begun = since = time.monotonic()
    last_s = -1.0
    while daemon.poll() is None and time.monotonic() - begun < PATIENCE_S:
        now_s = used_s(daemon.pid)
        if now_s - last_s > 0.5:
            last_s, since = now_s, time.monotonic()
        if time.monotonic() - since > IDLE_S:
            return True
        time.sleep(0.5)
    return False


def _ask(word: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", PEER_PORT, timeout=30)
    connection.request("GET", f"/api/sessions?query={quote(word)}&limit=20")
    response = connection.getresponse()
    content = response.read()
    connection.close()
    assert response.status == 200, content[:200]
    assert "hits" in json.loads(content), "an answer of the search"
    return content


if __name__ == "__main__":
    sys.exit(main())
