"""Each page, wide and narrow, light and dark: no error, no scrolling to the side, and nothing that axe-core finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.browser.shop import Shop

if TYPE_CHECKING:
    from playwright.sync_api import Page

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
CHECK = """async (rules) => (await axe.run(document, {runOnly: rules})).violations.flatMap(
  (one) => one.nodes.map((node) => `${one.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`))"""
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def paths(shop: Shop) -> list[str]:
    jobs = [f"jobs/images/{shop.jobs[name]}" for name in ("failed", "active", "ready")]
    lists = ["queues", "jobs", "errors", "lanes", "lanes?queue=payments&state=ready", "schedules", "limits", "workers"]
    others = ["queues/images", "queues/images?reasons=1", "lanes/payments/customer:7", "audit"]
    others += ["flows", "flows?queue=albums", f"flows/{shop.jobs['flow']}"]
    return ["", *lists, *others, *jobs, f"jobs/payments/{shop.jobs['behind']}"]


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_pages_fit_and_can_be_read(
    shop: Shop, open_page: Callable[..., Page], axe: str, width: int, theme: str
) -> None:
    page = open_page(shop.url, viewport={"width": width, "height": 800}, color_scheme=theme)
    found: list[str] = []
    for path in paths(shop):
        page.goto(shop.page(path))
        page.evaluate(axe)
        found += [f"/{path}: {one}" for one in page.evaluate(CHECK, RULES)]
        if (more := page.evaluate(WIDER)) > 0:
            found.append(f"/{path}: {more} pixels wider than the window")
    assert found == []


def test_an_id_and_a_time_stay_whole_in_a_narrow_window(shop: Shop, open_page: Callable[..., Page]) -> None:
    page = open_page(shop.page("jobs"), viewport={"width": 400, "height": 800})
    lines = page.locator("td time, th a").evaluate_all("(all) => all.map((one) => one.getClientRects().length)")
    assert set(lines) == {1}
