"""Every idea against admission meets its verdict over HTTP, and every bomb ends within its deadline."""

import pytest

from tests.attacks.query_ideas import BOMBS, IDEAS, Idea
from tests.query_plane.conftest import deployment, edge  # noqa: F401 the fixtures of the folder that has the edge
from tests.query_plane.deployment import SECRET

TOO_MUCH = {"deadline_exceeded", "resource_exhausted", "out_of_range", "invalid_argument"}
DEADLINE = {"connect-timeout-ms": "400"}


def verdict_of(edge, idea: Idea) -> tuple[str, str]:  # noqa: F811 the fixture
    response = edge.sql(idea.sql.replace("{file}", str(edge.deployment.root.policy_file)))
    assert SECRET not in response.text, idea.what
    folder = str(edge.deployment.root.path)
    assert folder not in response.text or folder in idea.sql.replace("{file}", folder), idea.what
    if response.status_code == 200:
        return "answer", response.text
    body = response.json()
    assert (response.status_code, body["code"]) in {
        (400, "invalid_argument"), (404, "not_found"), (400, "out_of_range"), (501, "unimplemented"),
        (400, "failed_precondition"), (403, "permission_denied"),
    }, (idea, body)  # fmt: skip
    return "refuse", response.text


def test_every_idea_meets_its_verdict(edge):  # noqa: F811 the fixture
    unwanted = []
    for idea in IDEAS:
        verdict, said = verdict_of(edge, idea)
        if verdict != idea.verdict:
            unwanted.append((idea.what, idea.sql, said))
    assert unwanted == []


def test_an_idea_that_got_through_would_be_seen(edge):  # noqa: F811 the fixture
    assert verdict_of(edge, Idea("reads", "SELECT 1", "refuse"))[0] == "answer"


@pytest.mark.parametrize(
    ("what", "sql"), [*BOMBS[:8], *(pytest.param(*bomb, marks=pytest.mark.soak) for bomb in BOMBS[8:])]
)
def test_a_bomb_ends_as_too_much_and_the_next_caller_is_served(edge, what, sql):  # noqa: F811 the fixture
    response = edge.sql(sql, headers=DEADLINE)
    if response.status_code == 200:
        assert "error" in response.text.splitlines()[-1], what
    else:
        assert response.json()["code"] in TOO_MUCH, response.text
    assert edge.sql("SELECT 1").status_code == 200
