"""Every table of the catalog has a producer: one deployment, driven over its sockets alone, fills them all.

It needs nothing that another test did: where it shares a deployment, it only adds to it.
"""

import json
import threading

from facts.catalog import TABLES
from polyc.clock import SystemClock
from tests.control.serving import Client
from tests.facts.payment import NETWORK, PAYER, RESOURCE, claims, jws

# Written by other doors: importers quarantine lines, and a restart or an erasure makes a notice.
ELSEWHERE = {"import_quarantine", "journal_notices"}


def approve_what_waits(client: Client, thread: threading.Thread) -> None:
    while thread.is_alive():
        for waiting in client.get("/api/approvals").json()["approvals"]:
            client.post(f"/api/approvals/{waiting['approval_id']}", outcome="approved")
            return


def test_every_table_is_filled_over_the_sockets_alone(processes) -> None:
    deployment = processes
    root = Client(deployment.url, deployment.session("root", admin=True))
    ada = Client(deployment.url, deployment.session("ada"))
    budget = {"subject_kind": "persona", "subject": "ada", "asset": "usdc", "network": NETWORK}
    assert root.post("/api/budgets", **budget, amount_base_units="15000").status_code == 200
    price = {"model": "tiny", "valid_from": "2026-01-01", "currency": "USD", "output_per_million": "2"}
    assert root.post("/api/prices", **price).status_code == 200
    conversation = ada.open(title="everything")
    receipt = jws(claims(issuedAt=SystemClock().now_us() // 1_000_000))
    prompt = json.dumps(
        {
            "network": NETWORK,
            "resource": RESOURCE,
            "payer": PAYER,
            "receipt": receipt,
            "leak": str(deployment.root.path / "leak"),
        }
    )
    lines: list[dict] = []
    thread = threading.Thread(target=lambda: lines.extend(ada.turn(conversation, "all", prompt=prompt)))
    thread.start()
    approve_what_waits(ada, thread)
    thread.join(timeout=60)
    paying, settled = json.loads(lines[-2]["text"])
    assert (paying["outcome"], settled) == ("reserved", {"settled": True}), lines
    late = Client(deployment.url, (deployment.root.path / "leak").read_text())
    assert late.post("/api/edge/receipts", tool_call_id="x", format="jws", receipt=receipt).json() == {"settled": False}
    ada.open(continues=conversation)
    ada.post(f"/api/conversations/{conversation}/tags", tag="whole")
    ada.post(f"/api/conversations/{conversation}/assertions", kind="note", text="all there")
    ada.post("/api/wallets", wallet="4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T", network="solana:mainnet")
    ada.post("/api/routines", routine="r", conversation=conversation, schedule="daily 07:30", prompt="{}")
    assert ada.post("/api/routines/r/run").json() == {"status": "failed"}

    for name in sorted(TABLES.keys() - ELSEWHERE):
        deployment.settle(root, f"SELECT COUNT(*) > 0, '{name}' FROM {name}", [[True, name]], admin=True)
