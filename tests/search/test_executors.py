"""Executors: the built-in model is exactly the one we know; an external one is believed in nothing it did not declare."""

import json
import os
import time

import httpx
import msgspec
import numpy as np
import pytest

from artifacts.memory import MemoryStore
from polyc.clock import ManualClock
from polyc.dataroot import DataRoot
from polyc.errors import CorruptError, RefusedError, UnavailableError
from search import minilm
from search.http_embedder import HttpEmbedder
from search.query.switch import SemanticSwitch
from search.settings import SemanticSettings, load_settings, make_embedder, save_settings, settings_file
from search.space import CANARY, Space, canary_of, has_drifted


@pytest.fixture(scope="module")
def model() -> minilm.MiniLM:
    pytest.importorskip("onnxruntime")
    try:
        return minilm.MiniLM()
    except UnavailableError:
        pytest.skip("the extra `semantic` is not installed")


def test_the_model_puts_what_means_alike_together(model):
    near, alike, far = model.documents(
        ["the railway points froze at night", "the train switch was blocked by ice", "a recipe for onion soup"]
    )
    assert near @ alike > near @ far + 0.1


def test_vectors_are_of_unit_length_and_do_not_depend_on_their_company(model):
    alone = model.documents(["the points froze"])[0]
    among = model.documents(["something much longer " * 50, "the points froze", ""])[1]
    assert np.array_equal(alone, among)
    assert abs(float(np.linalg.norm(alone)) - 1) < 1e-5


def test_the_canary_is_stable_and_long_or_odd_text_is_no_error(model):
    assert not has_drifted(canary_of(model), canary_of(model))
    assert model.documents([CANARY * 200, "\ud800", "数据库"]).shape == (3, 384)


def test_another_file_under_the_models_name_is_refused(model):
    with pytest.raises(CorruptError):
        minilm._checked(minilm._MODEL, "0" * 64)
    with pytest.raises(UnavailableError):
        minilm._checked(("no-such-package", "x"), "0" * 64)


def external(answer, *, dimensions: int = 2, **more) -> HttpEmbedder:
    transport = httpx.MockTransport(answer)
    return HttpEmbedder(
        url="http://embeddings.test/v1",
        model="m",
        space=Space("s", dimensions),
        client=httpx.Client(transport=transport),
        **more,
    )


def reply(*vectors: list[float], status: int = 200) -> httpx.Response:
    data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return httpx.Response(status, json={"data": data})


def test_an_external_executor_gets_raw_text_and_its_vectors_are_scaled(monkeypatch):
    monkeypatch.setenv("A_KEY", "secret")
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((json.loads(request.content), request.headers["authorization"]))
        return reply([3.0, 4.0], [0.0, 2.0])

    vectors = external(answer, key_variable="A_KEY").documents(["a", "b"])
    assert np.allclose(vectors, [[0.6, 0.8], [0.0, 1.0]])
    assert seen == [({"model": "m", "input": ["a", "b"]}, "Bearer secret")]


@pytest.mark.parametrize(
    "response",
    [
        reply([1.0, 0.0], status=500),
        reply([1.0, 0.0, 0.0]),
        reply([0.0, 0.0]),
        reply(),
        reply([1.0, 0.0], [1.0, 0.0]),
        httpx.Response(200, content=b'{"data":[{"index":0,"embedding":[NaN,1]}]}'),
        httpx.Response(200, content=b"<html>"),
        httpx.Response(200, json={"data": [{"index": 1, "embedding": [1.0, 0.0]}]}),
    ],
)
def test_an_external_answer_outside_the_declaration_is_refused(response):
    with pytest.raises(UnavailableError):
        external(lambda _: response).query("a")


def test_no_error_text_holds_the_key_or_the_text(monkeypatch):
    monkeypatch.setenv("A_KEY", "secret-of-the-operator")
    with pytest.raises(UnavailableError) as error:
        external(lambda _: httpx.Response(401), key_variable="A_KEY").query("words of a person")
    assert "secret" not in repr(error.value)
    assert "words" not in repr(error.value)


def test_settings_say_whether_and_with_what(tmp_path):
    root = DataRoot(tmp_path)
    assert load_settings(root) is None
    save_settings(root, SemanticSettings(executor="external", url="http://x", model="m", space_id="s", dimensions=3))
    embedder = make_embedder(load_settings(root))
    assert embedder.space == Space("s", 3)
    assert settings_file(root).stat().st_mode & 0o077 == 0
    settings_file(root).write_text("{")
    with pytest.raises(RefusedError):
        load_settings(root)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"url": "ftp://x", "model": "m", "space_id": "s", "dimensions": 3},
        {"url": "http://x", "model": "m", "space_id": "s", "dimensions": 10**6},
    ],
)
def test_an_undeclared_executor_is_refused(more):
    with pytest.raises(RefusedError):
        make_embedder(SemanticSettings(executor="external", **more))


def test_enabling_and_disabling_need_no_restart(tmp_path):
    root = DataRoot(tmp_path)
    switch = SemanticSwitch(root, MemoryStore(ManualClock()), lambda: None)
    assert switch.index() is None
    save_settings(root, SemanticSettings(executor="external", url="http://x", model="m", space_id="s", dimensions=3))
    first = switch.index()
    assert first is not None
    assert switch.index() is first
    settings_file(root).write_text("{")
    os.utime(settings_file(root), ns=(1, time.monotonic_ns()))
    assert switch.index() is None
    settings_file(root).unlink()
    assert switch.index() is None


def test_spaces_of_different_declarations_have_different_folders():
    assert Space("a/b", 3).folder != Space("a-b", 3).folder
    assert Space("a", 3).folder != Space("a", 4).folder
    assert msgspec.json.decode(msgspec.json.encode(Space("a", 3)), type=Space) == Space("a", 3)
