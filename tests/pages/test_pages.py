"""The pages as a person meets them, in a real browser over real sockets."""

import csv
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.cli.runner import polyc
from tests.pages.conftest import Site

WIDTHS = (390, 1280)
ADMIN_PAGES = ("/dashboard", "/conversations", "/search", "/sql", "/money", "/people")


def log_in(page: Page, site: Site, session: str) -> None:
    page.goto(f"{site.base}/login")
    page.get_by_label("Session").fill(session)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(re.compile(r"/(dashboard|conversations)$"))


def settled(page: Page) -> None:
    """All tiles of the dashboard, or the catalog of the SQL page, have their answer."""
    page.wait_for_load_state()
    expect(page.locator("[aria-busy]")).to_have_count(0, timeout=60_000)


def write(page: Page, statement: str) -> None:
    """Replace the editor's text by typing, as a person does, and run it."""
    page.locator("#editor .cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.type(statement)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")


def test_the_dashboard_shows_the_numbers_of_its_statements(page: Page, site: Site) -> None:
    log_in(page, site, site.admin)
    settled(page)
    figures = page.locator('[data-tile="totals"] .figures')
    assert (
        figures.locator("div", has=page.locator("dt", has_text=re.compile("^turns$"))).locator("dd").inner_text()
        == "10"
    )
    expect(page.locator('[data-tile="turns-by-day"] canvas')).to_be_visible()
    expect(page.locator('[data-tile="journal"]')).to_contain_text("none: this disk alone vouches")
    expect(page.locator('[data-tile="tools"] table')).to_contain_text("failed")
    page.locator('[data-tile="models"]').get_by_text("Open in SQL").click()
    page.wait_for_url("**/sql")
    expect(page.locator("#editor")).to_contain_text("LEFT JOIN prices")


def test_a_cost_appears_only_where_a_price_was_valid(page: Page, site: Site) -> None:
    log_in(page, site, site.admin)
    page.goto(f"{site.base}/dashboard/tiles/models")
    row = page.locator("tr", has_text="gpt-5.2-codex")
    expect(row.locator("td").last).to_have_text("—")
    page.goto(f"{site.base}/money")
    for label, value in (("Model", "gpt-5.2-codex"), ("From", "2020-01-01"), ("Input", "1.25"), ("Output", "10")):
        page.get_by_label(label, exact=True).first.fill(value)
    page.get_by_role("button", name="Enter price").click()
    page.wait_for_url("**/money")
    for _ in range(50):
        page.goto(f"{site.base}/dashboard/tiles/models")
        if page.locator("tr", has_text="gpt-5.2-codex").locator("td").last.inner_text() != "—":
            break
        page.wait_for_timeout(200)
    expect(page.locator("tr", has_text="gpt-5.2-codex").locator("td").last).to_have_text(re.compile(r"^\d+\.\d\d$"))
    expect(page.locator("tr", has_text="claude-opus").locator("td").last).to_have_text("—")


def test_a_conversation_opens_with_its_turns_and_calls(page: Page, site: Site) -> None:
    log_in(page, site, site.admin)
    page.goto(f"{site.base}/conversations")
    page.locator("tbody a").first.click()
    expect(page.locator(".turn").first).to_be_visible()
    expect(page.locator(".entry.user").first).to_be_visible()
    call = page.locator(".entry.call").first
    call.get_by_text("Arguments").click()
    expect(call.locator("pre").first).to_be_visible()


def test_many_open_tabs_wait_for_each_other_and_none_is_refused(page: Page, site: Site) -> None:
    log_in(page, site, site.admin)
    page.goto(f"{site.base}/conversations")
    address = f"{site.base}{page.locator('tbody a').first.get_attribute('href')}"
    tabs = [page.context.new_page() for _ in range(3)]
    for tab in tabs:
        tab.goto(address, wait_until="commit")
    for tab in tabs:
        expect(tab.locator(".turn").first).to_be_visible(timeout=60_000)


def test_a_row_is_proved_by_the_policy_file_alone_and_only_to_who_may_see_it(
    page: Page, site: Site, tmp_path: Path
) -> None:
    log_in(page, site, site.admin)
    page.goto(f"{site.base}/conversations")
    page.locator("tbody a").first.click()
    proof = page.get_by_text("prove this").first
    with page.expect_download() as download:
        proof.click()
    download.value.save_as(tmp_path / "row.tlog-proof")
    policy = ("receipt", "verify", str(tmp_path / "row.tlog-proof"), "--policy", str(site.root / "policy.json"))
    assert polyc(tmp_path / "elsewhere", *policy).code == 0
    address = proof.get_attribute("href")
    page.context.clear_cookies()
    log_in(page, site, site.stranger)
    answer = page.goto(f"{site.base}{address}")
    assert answer is not None
    assert answer.status == 404


def test_a_statement_runs_from_the_browser_and_its_answer_can_be_taken_home(
    page: Page, site: Site, tmp_path: Path
) -> None:
    log_in(page, site, site.persona)
    page.goto(f"{site.base}/sql")
    page.get_by_role("button", name="Calls by model").click()
    expect(page.locator("#result tbody tr")).to_have_count(4, timeout=30_000)
    expect(page.locator("#truncated")).to_be_hidden()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    download.value.save_as(tmp_path / "result.csv")
    with (tmp_path / "result.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["model", "calls"]
    assert len(rows) == 5
    with page.expect_download() as download:
        page.get_by_role("button", name="Arrow").click()
    download.value.save_as(tmp_path / "result.arrows")
    table = pa.ipc.open_stream((tmp_path / "result.arrows").read_bytes()).read_all()
    assert sorted(str(value) for value in table["calls"].to_pylist()) == sorted(row[1] for row in rows[1:])
    page.get_by_role("button", name="Chart").click()
    expect(page.locator("#chart")).to_be_visible()


def test_a_truncated_answer_cannot_be_overlooked_and_an_error_has_its_place(page: Page, site: Site) -> None:
    log_in(page, site, site.persona)
    page.goto(f"{site.base}/sql")
    page.get_by_label("Rows at most").fill("2")
    page.get_by_role("button", name="Calls by model").click()
    expect(page.locator("#truncated")).to_be_visible(timeout=30_000)
    expect(page.locator("#truncated")).to_contain_text("Truncated")
    write(page, "SELECT * FROM signer_keys")
    expect(page.locator("#status")).to_contain_text('no table "signer_keys"', timeout=30_000)
    expect(page.locator("#truncated")).to_be_hidden()
    write(page, "SELECT FROM WHERE")
    expect(page.locator("#status")).to_contain_text("line 1, column", timeout=30_000)
    expect(page.locator("#editor .cm-lint-marker-error")).to_be_visible()


def test_a_search_shows_where_it_matched_and_jumps_to_the_row(page: Page, site: Site) -> None:
    log_in(page, site, site.persona)
    page.goto(f"{site.base}/search")
    page.get_by_label("Words").fill("ferry")
    page.keyboard.press("Enter")
    expect(page.locator(".hit").first).to_be_visible(timeout=30_000)
    expect(page.get_by_role("button", name="More results")).to_be_hidden()
    assert {mark.lower() for mark in page.locator(".hit mark").all_inner_texts()} == {"ferry"}
    page.locator("#facets button", has_text="codex").first.click()
    expect(page.locator("#chosen")).to_contain_text("providers: codex")
    expect(page.locator(".hit .status").first).to_contain_text("codex")
    page.locator("h1").click()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/conversations/conv-imp-\S+#p\d+$"))
    expect(page.locator(".entry:target, .turn").first).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Words")).to_have_value("ferry")
    expect(page.locator("#chosen")).to_contain_text("providers: codex")
    expect(page.locator(".hit .status").first).to_contain_text("codex", timeout=30_000)


def test_a_link_to_a_search_keeps_its_filters_and_one_with_an_unknown_choice_falls_back(page: Page, site: Site) -> None:
    log_in(page, site, site.persona)
    page.goto(f"{site.base}/search#q=ferry&scope=transcript&since=365d&providers=claude-code&nonsense=1")
    expect(page.locator("#chosen")).to_have_text(re.compile("^providers: claude-code"))
    expect(page.locator("#scope")).to_have_value("transcript")
    expect(page.locator("#since")).to_have_value("365d")
    page.goto(f"{site.base}/search#q=ferry&scope=nowhere")
    expect(page.locator("#scope")).to_have_value("all")
    expect(page.locator("#chosen")).to_be_empty()


HOSTILE = "\u202egnp.exe <img src=x onerror=alert(1)> " + "x" * 300


def test_foreign_titles_and_texts_are_shown_as_they_are_and_break_no_line(
    page: Page, site: Site, tmp_path: Path
) -> None:
    """E19: marks that reverse a line, markup, a word longer than the window."""
    text = f"brigantine \u202eexe.txt <b>bold</b> {'w' * 900}"
    answer = {
        "role": "assistant", "id": "m1", "model": "m", "type": "message", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    lines = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "which ship"}},
        {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "requestId": "r1", "message": answer},
        {"type": "ai-title", "aiTitle": HOSTILE},
    ]
    for line in lines:
        line |= {"sessionId": "hostile", "timestamp": "2026-03-01T12:00:00Z"}
    file = tmp_path / ".claude" / "projects" / "-srv" / "hostile.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert polyc(site.root, "import", "--final", str(tmp_path)).code == 0
    assert b"brigantine" in polyc(site.root, "search", "--refresh", "wait", "brigantine").out
    page.set_viewport_size({"width": 375, "height": 700})
    log_in(page, site, site.persona)
    page.goto(f"{site.base}/search#q=brigantine")
    expect(page.locator(".hit .status bdi")).to_contain_text("⟨U+202E⟩gnp.exe <img src=x onerror=alert(1)>")
    expect(page.locator(".hit .snippet")).to_contain_text("⟨U+202E⟩exe.txt <b>bold</b>")
    expect(page.locator("#facets bdi", has_text="⟨U+202E⟩gnp.exe")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") == 375


def test_an_error_leaves_no_results_of_another_question_and_back_goes_to_the_question_before(
    page: Page, site: Site
) -> None:
    log_in(page, site, site.persona)
    page.goto(f"{site.base}/search#q=ferry")
    expect(page.locator(".hit").first).to_be_visible(timeout=30_000)
    page.get_by_label("Words").fill("harbour")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("q=harbour"))
    page.go_back()
    expect(page.get_by_label("Words")).to_have_value("ferry")
    expect(page.locator(".hit mark").first).to_have_text(re.compile("ferry", re.IGNORECASE))
    page.goto(f"{site.base}/search#q=ferry&sessions=conv-imp")
    expect(page.locator("#status")).to_contain_text("ambiguous", timeout=30_000)
    expect(page.locator(".hit")).to_have_count(0)
    page.locator("#chosen button").click()
    expect(page.locator(".hit").first).to_be_visible(timeout=30_000)
    page.get_by_label("Words").fill("")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_contain_text("Write a word, or name a file")
    expect(page.locator(".hit")).to_have_count(0)


def test_a_stranger_finds_nothing_and_no_facet(page: Page, site: Site) -> None:
    log_in(page, site, site.stranger)
    page.goto(f"{site.base}/search#q=ferry")
    expect(page.locator("#status")).to_contain_text("0 shown of 0", timeout=30_000)
    expect(page.locator("#facets button")).to_have_count(0)


def test_another_persona_sees_nothing_of_it(page: Page, site: Site) -> None:
    log_in(page, site, site.admin)
    page.goto(f"{site.base}/conversations")
    address = page.locator("tbody a").first.get_attribute("href")
    page.context.clear_cookies()
    log_in(page, site, site.stranger)
    expect(page.locator(".notice")).to_contain_text("No conversation fits")
    answer = page.goto(f"{site.base}{address}")
    assert answer is not None
    assert answer.status == 404
    expect(page.locator("[role=alert]")).to_contain_text("no such conversation")
    for path in ("/dashboard", "/dashboard/tiles/totals", "/people", "/money"):
        refused = page.goto(f"{site.base}{path}")
        assert refused is not None
        assert refused.status == 403


def test_a_waiting_call_is_approved_and_the_harness_goes_on(page: Page, site: Site) -> None:
    with site.api(site.persona) as api, ThreadPoolExecutor(1) as pool:
        conversation = api.post("/api/conversations", json={"title": "A deployment"}).raise_for_status().json()
        turn = pool.submit(
            api.post,
            f"/api/conversations/{conversation['conversation']}/turns",
            json={"prompt": "deploy it", "harness": "waits"},
        )
        log_in(page, site, site.persona)
        page.goto(f"{site.base}/approvals")
        waiting = page.locator("#waiting article")
        expect(waiting).to_have_count(1, timeout=30_000)
        expect(waiting.locator("pre")).to_contain_text("production")
        waiting.get_by_label("Reason").select_option("as_expected")
        waiting.get_by_role("button", name="Approve").click()
        expect(page.locator("#waiting")).to_contain_text("Nothing waits for you", timeout=30_000)
        assert "the answer was approved" in turn.result(timeout=60).text
    for _ in range(100):  # until the projection has the turn
        shown = page.goto(f"{site.base}/conversations/{conversation['conversation']}")
        if shown is not None and shown.status != 404:
            break
        page.wait_for_timeout(200)
    expect(page.locator(".entry.event")).to_contain_text("Approval of deploy")
    expect(page.locator(".entry.event .badge")).to_have_text("approved")


def test_an_admins_session_decides_nothing(page: Page, site: Site) -> None:
    log_in(page, site, site.admin)
    answer = page.goto(f"{site.base}/approvals")
    assert answer is not None
    assert answer.status == 403


def test_a_session_made_on_the_people_page_works_and_is_gone_once_revoked(page: Page, site: Site) -> None:
    log_in(page, site, site.admin)
    page.goto(f"{site.base}/people")
    form = page.locator('form[action="/people/session"]')
    form.get_by_label("Persona").fill("stranger")
    form.get_by_role("button").click()
    bearer = page.locator(".notice code").inner_text()
    with site.api(bearer) as api:
        assert api.post("/api/query/grant").status_code == 200
        assert "pcs_" not in page.url
        page.goto(f"{site.base}/people")
        for revoke in page.locator("tr", has_text="stranger").get_by_role("button", name="Revoke").all():
            revoke.click()
            page.wait_for_url("**/people")
            break
        for _ in range(page.locator("tr", has_text="stranger").get_by_role("button", name="Revoke").count()):
            page.locator("tr", has_text="stranger").get_by_role("button", name="Revoke").first.click()
            page.wait_for_url("**/people")
        assert api.post("/api/query/grant").status_code == 401


def test_a_form_of_another_origin_or_without_its_token_changes_nothing(page: Page, site: Site) -> None:
    log_in(page, site, site.admin)
    with site.api("") as api:
        del api.headers["authorization"]
        for cookie in page.context.cookies():
            api.cookies.set(cookie["name"], cookie["value"])
        for headers in ({}, {"origin": "https://attacker.example"}, {"origin": site.base}):
            answer = api.post("/people/add", data={"persona": "mallory"}, headers=headers)
            assert answer.status_code == 403
    page.goto(f"{site.base}/people")
    expect(page.locator("body")).not_to_contain_text("mallory")


def test_nobody_gets_a_page_without_a_session(page: Page, site: Site) -> None:
    for path in ADMIN_PAGES:
        page.goto(f"{site.base}{path}")
        assert page.url == f"{site.base}/login"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", [*ADMIN_PAGES, "/login"])
def test_a_page_fits_its_width_and_has_no_serious_fault(page: Page, site: Site, path: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    if path != "/login":
        log_in(page, site, site.admin)
    page.goto(f"{site.base}{path}")
    settled(page)
    if path == "/sql":
        expect(page.locator("#catalog details").first).to_be_attached(timeout=30_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    serious = [
        f"{found['id']}: {found['nodes'][0]['html'][:200]}"
        for found in Axe().run(page).response["violations"]
        if found["impact"] in {"serious", "critical"}
    ]
    assert serious == []
