"""`sessions`, `session_links`, participation, the user tier: what a conversation says of itself."""

import pytest

from facts import events as e
from tests.facts.journal import Journal, anomalies, at, column


def session(rows):
    from facts.catalog import TABLES

    (row,) = rows["sessions"]
    return dict(zip(TABLES["sessions"].column_names, row, strict=True))


def test_a_session_has_a_row_from_its_first_committed_turn_on():
    journal = Journal().open(title="hello", cwd="/src").start().say()
    assert journal.rows()["sessions"] == []
    row = session(journal.end().rows())
    assert (row["title"], row["cwd"], row["origin"], row["turn_count"]) == ("hello", "/src", "live", 1)


def test_the_last_word_of_each_field_counts():
    journal = Journal().open(title="first", repo="atlas").start().end()
    journal.add(e.SessionUpdated(id="1", title="second", title_source="person"))
    row = session(journal.add(e.SessionUpdated(id="2", git_branch="main")).rows())
    assert (row["title"], row["title_source"], row["repo"], row["git_branch"]) == ("second", "person", "atlas", "main")
    assert row["position"] == 5


def test_what_an_unfinished_turn_says_of_the_session_is_not_heard():
    journal = Journal().open(title="first").start().end()
    journal.start("t2").add(e.SessionUpdated(id="1", turn_id="t2", title="secret"))
    assert session(journal.rows())["title"] == "first"
    assert session(journal.end("t2").rows())["title"] == "secret"


def test_counts_are_by_role_and_of_committed_turns():
    journal = Journal().open().start(occurred_at=at(0)).say("two words", occurred_at=at(1))
    journal.say("injected", material_origin="runtime_context").say("an answer here", role="assistant", message_id="a")
    journal.call(message_id="a").say(role="assistant", blocks=(e.Block(type="thinking", text="hmm"),))
    row = session(journal.end(occurred_at=at(5)).start("t2").say("unseen", "t2").rows())
    assert (row["message_count"], row["user_message_count"], row["authored_user_message_count"]) == (4, 2, 1)
    assert (row["word_count"], row["user_word_count"], row["authored_user_word_count"]) == (7, 3, 2)
    assert (row["assistant_message_count"], row["assistant_word_count"]) == (2, 4)
    assert (row["tool_use_message_count"], row["thinking_message_count"], row["tool_call_count"]) == (1, 1, 1)
    assert (row["created_at"], row["updated_at"], row["duration_ms"]) == (at(0), at(5), 300_000)


def test_a_paste_is_its_mark_or_many_lines():
    long = "\n".join(["x" * 100] * 10)
    journal = Journal().open().start().say("see [Pasted text #1 +9 lines]").say(long).say("x\n" * 10).say("y" * 1000)
    assert session(journal.end().rows())["paste_message_count"] == 2


def test_a_link_claims_a_parent_and_names_its_call():
    journal = Journal("conv-b").open()
    link = e.SessionLink(
        id="l", kind="subagent", parent_partition="conv-a", evidence="agent_id", parent_tool_call_id="x"
    )
    rows = journal.add(link, by="control").start().end().rows()
    assert column(rows, "session_links", "parent_tool_call_id") == ["conv-a:x"]
    row = session(rows)
    assert (row["parent_partition"], row["root_partition"], row["link_kind"]) == ("conv-a", "conv-a", "subagent")


def test_participation_is_by_record_and_control_alone():
    journal = Journal().open()
    journal.add(e.ParticipantJoined(id="1", persona_id="ada", occurred_at=at(1), acted_by="c-1"), by="control")
    journal.add(e.ParticipantJoined(id="2", persona_id="eve"), by="harness")
    journal.add(e.ParticipantJoined(id="3", persona_id="ada"), by="control")
    rows = journal.rows()
    assert [row[3:] for row in rows["persona_participation"]] == [("ada", at(1), None, 102, 102, "c-1")]
    assert anomalies(rows) == {("unauthorised", "participant_joined"): 1, ("repeated_join", "participant_joined"): 1}


def test_who_left_is_no_participant_and_may_join_again():
    journal = Journal().open().add(e.ParticipantJoined(id="1", persona_id="ada"), by="control")
    journal.add(e.ParticipantLeft(id="2", persona_id="ada", occurred_at=at(2)), by="control")
    assert column(journal.rows(), "persona_participation", "left_at") == [at(2)]
    journal.add(e.ParticipantJoined(id="3", persona_id="ada", occurred_at=at(3)), by="control")
    assert [row[4:] for row in journal.rows()["persona_participation"]] == [(at(3), None, 104, 104, None)]


def claim(state, author, assertion_id="1", **fields):
    return e.Assertion(id="a", assertion_id=assertion_id, kind="note", state=state, author_kind=author, **fields)


def test_what_no_person_wrote_starts_as_a_candidate():
    journal = Journal().open().add(claim("accepted", "agent", text="sure"), by="harness")
    assert column(journal.rows(), "assertions", "state") == ["candidate"]
    journal.add(claim("rejected", "person"), by="control").add(claim("active", "agent"), by="harness")
    rows = journal.rows()
    assert column(rows, "assertions", "state") == ["rejected"]
    assert column(rows, "assertions", "text") == ["sure"]


@pytest.mark.parametrize("state", ["active", "accepted", "rejected", "deferred", "deleted"])
def test_no_automated_write_puts_words_into_a_persons_claim(state):
    journal = Journal().open().add(claim("active", "person", text="so it is"), by="control")
    journal.add(claim(state, "person"), by="control")
    for author in ("agent", "rule"):
        journal.add(claim("active", author, text="it is not", target_message_id="m"), by="harness")
    (row,) = journal.rows()["assertions"]
    assert row[7:] == (state, "person", "so it is", None)
    assert anomalies(journal.rows()) == {("settled_by_a_person", "assertion"): 2}


def test_a_harness_does_not_speak_as_a_person():
    journal = Journal().open().add(claim("accepted", "person", text="sure"), by="harness")
    assert [row[7:9] for row in journal.rows()["assertions"]] == [("candidate", "agent")]
    journal.add(claim("accepted", "person"), by="control").add(claim("deleted", "person"), by="harness")
    assert [row[7:9] for row in journal.rows()["assertions"]] == [("accepted", "agent")]


def test_what_an_automated_write_claimed_another_one_may_change():
    journal = Journal().open().add(claim("active", "rule", text="a"), claim("active", "agent", text="b"), by="harness")
    assert [row[7:10] for row in journal.rows()["assertions"]] == [("candidate", "rule", "b")]


def test_a_tag_is_on_until_it_is_taken_off():
    journal = Journal().open().add(e.SessionTag(id="1", tag="x"), e.SessionTag(id="2", tag="y"), by="control")
    journal.add(e.SessionTag(id="3", tag="x", state="removed"), by="control")
    assert column(journal.rows(), "session_tags", "tag") == ["y"]
