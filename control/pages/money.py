"""Money, for admins: what models' tokens cost from a day on, and what personas and conversations may spend.

Prices are dated and never guessed: a model without a price on a day costs nothing that we would show.
"""

from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from control import money
from control.browser import read_form
from control.pages.site import Site, Visit
from polyc.errors import RefusedError

_PRICES: Final = """SELECT model, valid_from, currency, input_per_million, output_per_million,
       cache_read_per_million, cache_write_per_million FROM prices ORDER BY model, valid_from DESC"""
_BUDGETS: Final = """SELECT subject_kind, subject, asset, network, amount_base_units, window_s
FROM budgets ORDER BY subject_kind, subject, asset"""
_MODELS: Final = "SELECT DISTINCT model FROM usage WHERE model IS NOT NULL ORDER BY model LIMIT 200"
_WINDOW_DAYS_MAX: Final = 3660


def routes(site: Site) -> list[BaseRoute]:
    """The page and its two forms."""

    async def page(visit: Visit) -> Response:
        prices, budgets, models = [await site.ask(visit, sql) for sql in (_PRICES, _BUDGETS, _MODELS)]
        return site.render(
            visit,
            "money.html",
            active="money",
            prices=prices,
            budgets=budgets,
            models=[row[0] for row in models.rows],
        )

    async def price(visit: Visit) -> Response:
        form = await _checked_form(site, visit.request)
        await run_in_threadpool(
            lambda: money.set_price(
                site.context.acting(visit.caller.credential_id),
                model=_needed(form, "model"),
                valid_from=_needed(form, "valid_from"),
                currency=_needed(form, "currency"),
                input_per_million=form.get("input") or None,
                output_per_million=form.get("output") or None,
                cache_read_per_million=form.get("cache_read") or None,
                cache_write_per_million=form.get("cache_write") or None,
            )
        )
        return RedirectResponse("/money", status_code=303)

    async def budget(visit: Visit) -> Response:
        form = await _checked_form(site, visit.request)
        days = form.get("window_days", "")
        await run_in_threadpool(
            lambda: money.set_budget(
                site.context.acting(visit.caller.credential_id),
                subject_kind="conversation" if form.get("subject_kind") == "conversation" else "persona",
                subject=_needed(form, "subject"),
                asset=_needed(form, "asset"),
                network=_needed(form, "network"),
                amount_base_units=_whole(_needed(form, "amount"), most=10**38 - 1),
                window_s=_whole(days, most=_WINDOW_DAYS_MAX) * 86_400 if days else None,
            )
        )
        return RedirectResponse("/money", status_code=303)

    return [
        Route("/money", site.page(page, admin_only=True), name="money"),
        Route("/money/price", site.page(price, admin_only=True), methods=["POST"], name="money_price"),
        Route("/money/budget", site.page(budget, admin_only=True), methods=["POST"], name="money_budget"),
    ]


async def _checked_form(site: Site, request: Request) -> dict[str, str]:
    form = await read_form(request)
    site.browser.check_csrf(request, form)
    return form


def _needed(form: dict[str, str], name: str) -> str:
    value = form.get(name, "").strip()
    if not value:
        raise RefusedError(f"the field {name} is needed")
    return value


def _whole(text: str, *, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most):
        raise RefusedError(f"a whole number from 0 to {most} is needed")
    return int(text)
