"""One of everything: journals that together fill every table, each value marked with where it comes from."""

import msgspec

from facts import events as e
from polyc.keyring import KeyAdded
from polyc.vocabulary import BY_KIND
from tests.facts.journal import Journal, at
from tests.facts.payment import ISSUED_AT, asked, claims, decided, jws, paid, requested

# What must be in no participant artifact, by where it belongs.
MARKED_KEY = b"MARK-raw-key-32-bytes-long......"
MARKED = {
    "identity_provenance": "MARK-identity-assertion",
    "messages_withheld": "MARK-withheld-message",
    "settlement_verdicts": "MARK-receipt-key",
    "routine_steps": "MARK-routine-step",
    "routine_runs": "MARK-routine-trigger",
    "routines": "MARK-routine-prompt",
    "personas": "MARK-persona-name",
    "credential_history": "MARK-credential",
    "query_audit_intents": "MARK-audited-statement",
    "import_quarantine": "MARK-quarantine-path",
    "journal_notices": "MARK-notice",
    "budgets": "MARK-budget-asset",
    "reservations": "MARK-reservation",
    "prices": "MARK-model-price",
}


def conversation(*, issued_at_s: int = ISSUED_AT) -> Journal:
    """A conversation with an event of every type that it may hold; its receipts were issued at this time."""
    claim = claims(issuedAt=issued_at_s)
    journal = Journal("conv-all").open(title="all of it", cwd="/src", repo="atlas", git_branch="main")
    journal.add(e.ParticipantJoined(id="p1", persona_id="ada", occurred_at=at(0)), by="control")
    journal.add(
        e.SessionLink(
            id="l1", kind="fork", parent_partition="conv-parent", evidence="prefix", parent_tool_call_id="toolu_9"
        ),
        e.IdentityAsserted(
            id="i",
            persona_id="ada",
            identity=MARKED["identity_provenance"],
            asserted_by="idp",
            edge="web",
            method="oidc",
        ),
        by="control",
    )
    journal.add(
        e.IdentityAsserted(
            id="i",
            persona_id="ada",
            identity=MARKED["identity_provenance"],
            asserted_by="idp",
            edge="web",
            method="oidc",
        ),
        by="edge",
    )
    journal.intend("t1", "d1", persona_id="ada", harness="demo").start("t1", occurred_at=at(1))
    journal.add(
        e.ContextSnapshot(id="x", turn_id="t1", boundary="compaction", pre_tokens=900, post_tokens=90, call_id="c1")
    )
    journal.say("please read a.py", occurred_at=at(2))
    thought, text = e.Block(type="thinking", text="hmm"), e.Block(type="text", text="reading")
    journal.say(role="assistant", message_id="a1", model="m-1", call_id="c1", blocks=(thought, text))
    journal.add(
        e.ModelCall(id="c", turn_id="t1", call_id="c1", provider="p", model="m-1", started_at=at(2), ended_at=at(3)),
        e.Usage(id="u", turn_id="t1", call_id="c1", provider="p", model="m-1", input_tokens=90, output_tokens=7),
    )
    journal.call(
        "r1", name="Read", message_id="a1", action="file_read", path="/src/a.py", arguments='{"path":"/src/a.py"}'
    )
    journal.result("r1", text="print(1)", is_error=False)
    journal.call("g1", name="Task", message_id="a1", action="agent", arguments='{"prompt":"look","model":"m-2"}')
    journal.call("x", name="pay", message_id="a1").call("open", name="Bash", action="shell", command="ls")
    decided(requested(asked(journal)))
    paid(journal, jws(claim))
    paid(journal, jws(claim, kid=MARKED["settlement_verdicts"]))
    journal.say(
        "draft", role="assistant", message_id="w1", blocks=(e.Block(type="text", text=MARKED["messages_withheld"]),)
    )
    journal.add(
        e.MessageWithheld(id="w", dispatch_id="d1", message_id="w1", reason="policy"),
        e.Refusal(
            id="f", request_id="z", dispatch_id="d1", stage="policy", tool_name="rm", rule="no-rm", reason="denied"
        ),
        e.WalletLink(id="k", wallet="0xada", network="eip155:1", state="linked", persona_id="ada"),
        by="edge",
    )
    journal.end("t1", occurred_at=at(4)).start("t2").end("t2", status="failed", failure_code="lost")
    journal.add(
        e.Assertion(id="as", assertion_id="n1", kind="note", state="active", author_kind="person", text="good"),
        e.SessionTag(id="st", tag="kept"),
        by="control",
    )
    return journal


def deployment() -> list[Journal]:
    """A partition of every other kind, with marked values in the tables of the fleet."""
    m = MARKED
    keys = Journal("sys-keys")
    key = KeyAdded(
        id="1", key_id="00" * 8, public_key=MARKED_KEY.hex(), role="projector", from_index=0, name="projector"
    )
    keys.raw(BY_KIND["key_added"].code, msgspec.json.encode(key), by="root")
    audit = Journal("query-audit-e1-20261101")
    for event in (
        e.QueryIntent(
            id="1", query_id="q1", credential_id="g1", subject="ada", realm="participant", surface="execute",
            statement=m["query_audit_intents"], statement_sha256="00",
        ),
        e.QueryOutcome(id="2", query_id="q1", status="ok"),
    ):  # fmt: skip
        audit.add(event, by="query")
    money = {"asset": "usdc", "network": "eip155:8453", "amount_base_units": "7"}
    by_control = {
        "personas": [e.PersonaRecorded(id="1", persona_id="ada", display_name=m["personas"])],
        "routines": [
            e.RoutineRecorded(id="1", routine="r", conversation_id="all", schedule="daily", prompt=m["routines"]),
            e.RoutineRun(id="2", run_id="1", routine="r", trigger=m["routine_runs"], status="started"),
            e.RoutineStep(id="3", run_id="1", step=1, action="ask", status="ok", detail=m["routine_steps"]),
        ],
        "credentials-202611": [
            e.Credential(id="1", credential_id=m["credential_history"], kind="grant", subject="ada", event="minted")
        ],
        "budgets": [
            e.BudgetSet(id="1", subject_kind="persona", subject="ada", **money | {"asset": m["budgets"]}),
        ],
        "spend-ada": [
            e.SpendReserved(id="2", reservation_id=m["reservations"], conversation_id="all", tool_call_id="x", **money),
        ],
        "prices": [e.PriceSet(id="1", model=m["prices"], valid_from="2026-11-01", currency="USD")],
        "notices": [e.Gap(id="1", detail=m["journal_notices"])],
    }
    journals = [Journal(partition).add(*events, by="control") for partition, events in by_control.items()]
    imports = Journal("imports").add(
        e.ImportQuarantined(
            id="1", provider="codex", path=m["import_quarantine"], offset=0, size_bytes=1, reason="torn"
        ),
        by="importer",
    )
    wallets = Journal("wallets").add(
        e.WalletLink(id="1", wallet="0xb", network="eip155:1", state="requested"), by="edge"
    )
    return [keys, audit, *journals, imports, wallets]


def child() -> Journal:
    """A conversation that the first one's call started."""
    link = e.SessionLink(
        id="l", kind="subagent", parent_partition="conv-all", evidence="agent_id", parent_tool_call_id="g1"
    )
    journal = Journal("conv-child").open().add(link, by="control").start("t1").say("look", message_id="m1")
    journal.add(e.ModelCall(id="c", turn_id="t1", call_id="c1", model="m-2"))
    return journal.end("t1")


def every_partition() -> list[Journal]:
    """All of them."""
    return [conversation(), child(), *deployment()]
