"""Write the picture of the dashboard that the README and the guide show: `make screenshot`.

It needs playwright and Chromium, as `make browser` does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from tenure.testing.server import RedisServer, available_binaries
from tests.browser.conftest import chromium_path
from tests.browser.shop import open_shop

PICTURE: Final = Path(__file__).parents[1] / "docs" / "_static" / "dashboard.png"


def main() -> None:
    program = next(iter(available_binaries().values()))
    with (
        RedisServer(program, tcp=True, aof=False) as server,
        open_shop(server.url, authorize=lambda _: "operator") as shop,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"]) as browser,
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 690}, color_scheme="light", locale="en-US")
        page.goto(shop.page("queues/images?reasons=1"))
        page.locator("[data-chart] canvas").wait_for()
        page.screenshot(path=PICTURE)
    print(f"{PICTURE.name} has {PICTURE.stat().st_size:,} bytes.")


if __name__ == "__main__":
    main()
