"""Pages that update by themselves, and what stays during an update; and the pages of a viewer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.browser.shop import Shop, open_shop
from tests.browser.test_looks import paths

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

    OpenPage = Callable[..., Page]


def row(page: Page, id: str) -> Locator:
    return page.locator("tr", has_text=id)


def test_a_new_job_appears_and_picks_stay(shop: Shop, open_page: OpenPage) -> None:
    page = open_page(shop.page("jobs?queue=images&state=ready"))
    page.evaluate("window.isSame = true")
    pick = row(page, shop.jobs["ready"]).get_by_role("checkbox")
    pick.check()
    row(page, shop.enqueue("shop.thumbnail", "new.png")).wait_for()
    assert pick.is_checked()
    assert page.locator("#picked").inner_text() == "1"
    assert page.evaluate("window.isSame")


def test_a_form_that_the_user_types_in_stays(shop: Shop, open_page: OpenPage) -> None:
    page = open_page(shop.page("queues/images"))
    field = page.get_by_label("Arguments or payload")
    page.get_by_label("Task").fill("shop.thumbnail")
    field.press_sequentially('[["hal')
    shop.enqueue("shop.thumbnail", "new.png")
    page.locator(".tiles div:has-text('ready') dd", has_text="5").wait_for()
    page.keyboard.type('f"]]')
    assert field.input_value() == '[["half"]]'
    assert page.get_by_label("Task").input_value() == "shop.thumbnail"


def test_what_the_user_has_written_stays_when_the_focus_is_elsewhere(shop: Shop, open_page: OpenPage) -> None:
    page = open_page(shop.page("queues/images"))
    page.get_by_label("Task").fill("shop.thumbnail")
    page.get_by_label("Maximum length").fill("70")
    page.locator("h1").click()
    shop.enqueue("shop.thumbnail", "new.png")
    page.locator(".tiles div:has-text('ready') dd", has_text="5").wait_for()
    assert page.get_by_label("Task").input_value() == "shop.thumbnail"
    assert page.get_by_label("Maximum length").input_value() == "70"
    page.get_by_role("button", name="Save").click()
    page.locator("#answer", has_text="configure: done.").wait_for()
    shop.do(lambda: shop.app.control.configure("images", max_length=80))
    page.wait_for_function("() => document.querySelector('[name=max_length]').value === '80'")


def test_no_update_while_they_are_stopped(shop: Shop, open_page: OpenPage) -> None:
    stopped = open_page(shop.page("jobs?queue=images&state=ready"))
    other = open_page(shop.page("jobs?queue=images&state=ready"))
    stopped.keyboard.press("p")
    stopped.get_by_role("button", name="Paused").wait_for()
    id = shop.enqueue("shop.thumbnail", "new.png")
    row(other, id).wait_for()
    stopped.wait_for_function("() => stale")
    assert row(stopped, id).count() == 0
    stopped.keyboard.press("p")
    row(stopped, id).wait_for()


def test_a_viewer_sees_no_buttons(chromium: Browser, redis_url: str, open_page: OpenPage) -> None:
    with open_shop(redis_url, authorize=lambda _: "viewer") as shop:
        page = open_page(shop.url)
        for path in paths(shop):
            page.goto(shop.page(path))
            assert page.locator("main :is(button, [data-action])").all_inner_texts() in ([], ["Filter"], ["Show"]), path
        page.goto(shop.page("jobs", "images", shop.jobs["failed"]))
        assert "eve.png" not in page.locator("main").inner_text().replace("eve.png: the file", "")
        page.context.close()
