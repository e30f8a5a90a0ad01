"""Chromium, driven by playwright, and a shop for it to look at. Tests are skipped where either is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.browser.shop import Shop, open_shop

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

AXE: Final = Path(__file__).parents[2] / "build" / "axe-core" / "axe.min.js"
HOW: Final = "`make browser` installs it"


def chromium_path() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


# For one module, so that no event loop of playwright runs in this thread during the tests of others.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    api = pytest.importorskip("playwright.sync_api", reason=f"playwright is not installed: {HOW}")
    program = chromium_path()
    if program is None:
        pytest.skip("there is no chromium: install the package of your system")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The program that checks a page for accessibility."""
    if not AXE.exists():
        pytest.skip(f"axe-core is not installed: {HOW}")
    return AXE.read_text()


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a URL in a browser of its own. At the end no page may have had an error."""
    faults: list[str] = []

    def note(line: ConsoleMessage) -> None:
        # The browser calls it an error that an action was refused.
        refused = line.text.endswith(("409 (Conflict)", "422 (Unprocessable Entity)"))
        if line.type in ("error", "warning") and not refused:
            faults.append(line.text)

    with ExitStack() as stack:

        def open_page(url: str, **options: Any) -> Page:
            context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, "locale": "en-US"} | options)
            stack.callback(context.close)
            page = context.new_page()
            page.on("console", note)
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.goto(url)
            return page

        yield open_page
    assert faults == []


@pytest.fixture
def shop(chromium: Browser, redis_url: str) -> Iterator[Shop]:
    with open_shop(redis_url) as shop:
        yield shop
