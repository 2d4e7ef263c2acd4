"""Meaning, end to end: an endpoint of one's own, a projector that embeds what it published, status with coverage."""

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from polyc.cli.embedding import Follower, embedding
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.errors import CorruptError, UnavailableError
from search import multilingual
from search.settings import SemanticSettings, save_settings, settings_file
from search.space import canary_of, has_drifted
from tests.cli.runner import polyc
from tests.search.executors import WordsEmbedder


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An embeddings endpoint of the OpenAI form."""
    embedder = WordsEmbedder()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            vectors = embedder.documents(asked["input"]).tolist()
            answer = json.dumps({"data": [{"index": at, "embedding": each} for at, each in enumerate(vectors)]})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None:
            """Silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/embeddings"
        server.shutdown()


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> DataRoot:
    return DataRoot(Path(shutil.copytree(root, tmp_path / "root", symlinks=True)))


def test_what_was_published_is_embedded_and_then_found_by_meaning(copy, endpoint, word):
    follower = Follower(copy, clock=SystemClock())
    assert follower.catch_up() == 0  # nothing is enabled
    settings = [
        "--executor",
        "external",
        "--url",
        endpoint,
        "--model",
        "words",
        "--space-id",
        "w",
        "--dimensions",
        "64",
    ]
    enabled = polyc(copy.path, "semantic", "enable", "--later", *settings)
    assert enabled.code == 0, enabled.err
    assert "will be sent to" in enabled.err
    told = json.loads(polyc(copy.path, "semantic", "status", "--json").out)
    assert (told["state"], told["coverage"], told["texts_missing"]) == ("incomplete", "0 %", told["texts"])
    lexical = json.loads(polyc(copy.path, "search", "--admin", "--format", "json", word).out)
    assert (lexical["effective_mode"], lexical["fallback"]) == ("lexical", "semantic_incomplete")
    assert follower.catch_up() > 0
    assert follower.catch_up() == 0
    told = json.loads(polyc(copy.path, "semantic", "status", "--json").out)
    assert (told["state"], told["coverage"], told["texts_missing"]) == ("ready", "100 %", 0)
    found = json.loads(polyc(copy.path, "search", "--admin", "--format", "json", "--backend", "semantic", word).out)
    assert found["effective_mode"] == "semantic"
    assert found["results"]
    polyc(copy.path, "semantic", "disable")
    assert follower.catch_up() == 0


def test_a_follower_that_cannot_says_so_once_and_ends_when_told(copy, capsys):
    save_settings(copy, SemanticSettings(executor="builtin", model="no such model"))
    woken = threading.Event()
    with embedding(copy, clock=SystemClock()) as wake:
        thread = next(each for each in threading.enumerate() if each.name == "embedding")
        wake()
        woken.set()
    assert not thread.is_alive()
    said = capsys.readouterr().err
    assert said.count("no vectors for now: no such built-in model") <= 1
    assert settings_file(copy).exists()


@pytest.fixture(scope="module")
def model() -> multilingual.MultilingualE5:
    try:
        return multilingual.MultilingualE5()
    except UnavailableError:
        pytest.skip("the extra `multilingual` is not installed")


def test_the_multilingual_model_puts_languages_together(model):
    german = model.query("Wie viel Eiweiss braucht man am Tag?")
    protein, cat, chinese = model.documents(
        ["protein per day: 50 g for adults", "the cat sat on the mat", "每天需要多少蛋白质"]
    )
    assert german @ protein > german @ cat + 0.1
    assert german @ chinese > german @ cat + 0.1


def test_the_multilingual_model_is_exactly_ours_and_takes_every_text(model):
    assert not has_drifted(canary_of(model), canary_of(model))
    odd = model.documents(["\ud800", "a\x00b", "", "depot " * 600])
    assert odd.shape == (4, 384)
    assert np.isfinite(odd).all()
    alone = model.documents(["the points froze"])[0]
    assert np.array_equal(alone, model.documents(["something else " * 40, "the points froze"])[1])
    with pytest.raises(CorruptError):
        multilingual.checked_model("0" * 64)
