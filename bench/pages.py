"""First useful paint of each page, in Debian's chromium: `python -m bench.pages DATA_ROOT` over an imported deployment.

Useful is what a person came for: a dashboard's first figures, a list's first row, a conversation's first turn, the
editor. Times are milliseconds from the navigation's start, each the median of the visits after one warm-up, so that
the browser's cache holds the static files as it does for people, each visit after the last one has loaded wholly. They
are not ratios: no peer has these pages.
"""

import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

VISITS = 5
USEFUL = {
    "/dashboard": ".tile .figures",
    "/conversations": "tbody tr",
    "/search": "#q",
    "/sql": ".cm-content",
    "/money": "form.row",
    "/people": "tbody tr",
}


def polyc(root: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "polyc.cli.main", "--data-root", str(root), *arguments]


@contextmanager
def served(root: Path, port: int) -> Iterator[str]:
    with subprocess.Popen(
        polyc(root, "up", "--port", str(port), "--no-watch"), stdout=subprocess.PIPE, text=True
    ) as up:
        assert up.stdout is not None
        for line in up.stdout:
            if "Ctrl-C" in line:
                break
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            up.terminate()
            up.wait(timeout=60)


def paint_ms(page: Page, address: str, useful: str) -> tuple[float, float]:
    """First contentful paint, and when the useful element stands in the page."""
    page.goto(address, wait_until="commit")
    page.locator(useful).first.wait_for(timeout=60_000)
    useful_ms = page.evaluate("performance.now()")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)")
    page.locator("[aria-busy]").first.wait_for(state="detached", timeout=60_000)  # what still loads is this visit's
    return (painted[0] if painted else useful_ms), useful_ms


def main() -> None:
    root, port = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8790
    session = subprocess.run(polyc(root, "session", "create", "--admin"), capture_output=True, text=True, check=True)
    with served(root, port) as base, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{base}/login")
        page.get_by_label("Session").fill(session.stdout.strip())
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/dashboard")
        page.goto(f"{base}/conversations")
        conversation = page.locator("tbody a").first.get_attribute("href")
        print("| page | first paint, ms | first useful, ms |\n| --- | ---: | ---: |")
        for path, useful in {**USEFUL, str(conversation): ".turn"}.items():
            seen = [paint_ms(page, f"{base}{path}", useful) for _ in range(VISITS + 1)][1:]
            first, ready = (statistics.median(times) for times in zip(*seen, strict=True))
            print(f"| {'a conversation' if path == conversation else path} | {first:.0f} | {ready:.0f} |")
        browser.close()


if __name__ == "__main__":
    main()
