"""What an operator does, from start to end: half of it with the mouse, half with the keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tenure import State
from tests.browser.shop import WORKER, Shop
from tests.support.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    OpenPage = Callable[..., Page]


@pytest.fixture
def page(shop: Shop, open_page: OpenPage) -> Page:
    return open_page(shop.url)


def button(page: Page, name: str, within: str = "main") -> Locator:
    return page.locator(within).get_by_role("button", name=name, exact=True)


def confirm(page: Page, name: str) -> None:
    button(page, name, "dialog").click()


def card(name: str) -> str:
    return f"section.card:has(h2:text-is('{name}'))"


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def go(page: Page, key: str, title: str) -> None:
    press(page, "g", key)
    page.wait_for_function("(title) => document.querySelector('h1')?.textContent.startsWith(title)", arg=title)


def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until an element has the focus."""
    target.wait_for()
    for _ in range(300):  # a page of fifty rows has two stops in each
        if target.evaluate("(one) => one === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {target}")


def answer(page: Page, text: str) -> None:
    page.locator("#answer", has_text=text).wait_for()


def test_find_the_failed_job_of_a_customer_by_keyboard(shop: Shop, page: Page) -> None:
    go(page, "j", "Jobs")
    press(page, "/")
    page.keyboard.type("payments")
    press(page, "Tab")
    page.keyboard.type("failed")
    tab_to(page, page.get_by_label("Lane"))
    page.keyboard.type("customer:7")
    press(page, "Enter")
    page.wait_for_url("**lane=customer*")
    press(page, "j", "Enter")
    page.locator("h1", has_text="shop.charge").wait_for()
    assert page.url.endswith(shop.jobs["blocker"])
    assert "[7, 700]" in page.locator("pre").last.inner_text()


def test_see_why_a_job_waits_by_mouse(shop: Shop, page: Page) -> None:
    page.get_by_role("link", name="payments: blocked lanes: 1").click()
    page.get_by_role("link", name="customer:7").click()
    page.get_by_role("link", name=shop.jobs["behind"]).click()
    page.get_by_text(f"lane customer:7 is blocked by failed job {shop.jobs['blocker']}").wait_for()
    page.get_by_role("link", name=shop.jobs["blocker"]).click()
    page.get_by_text("the bank refuses the card").wait_for()


def test_retry_all_jobs_of_one_error_by_mouse(shop: Shop, page: Page) -> None:
    page.get_by_role("link", name="Errors", exact=True).click()
    button(page, "Retry", "tr:has-text('ValueError')").click()
    page.locator("dialog", has_text="Retry 5 jobs?").wait_for()
    confirm(page, "Retry")
    page.locator("main:not(:has-text('ValueError'))").wait_for()
    until(lambda: shop.counts("images")["failed"] == 2)


def test_unblock_a_lane_by_keyboard(shop: Shop, page: Page) -> None:
    go(page, "l", "Lanes")
    tab_to(page, button(page, "Discard it"))
    press(page, "Enter")
    page.locator("dialog", has_text="Discard?").wait_for()
    press(page, "Enter")
    page.get_by_text("No such lane.").wait_for()
    assert "failed" not in shop.counts("payments")


def test_pause_and_resume_a_queue_by_mouse(shop: Shop, page: Page) -> None:
    page.get_by_role("link", name="Queues", exact=True).click()
    row = "tr:has-text('images')"
    button(page, "Pause", row).click()
    page.locator(row, has_text="paused").wait_for()
    assert shop.do(lambda: shop.app.inspect.settings("images").paused)
    button(page, "Resume", row).click()
    button(page, "Pause", row).wait_for()
    assert not shop.do(lambda: shop.app.inspect.settings("images").paused)


def test_pick_two_jobs_and_discard_them_by_keyboard(shop: Shop, page: Page) -> None:
    page.goto(shop.page("jobs?queue=images&state=failed"))
    press(page, "j", "x", "j", "x")
    assert page.locator("#picked").inner_text() == "2"
    press(page, ".", "Tab", "Tab", "Enter")
    page.locator("dialog", has_text="Discard 2 jobs?").wait_for()
    press(page, "Enter")
    until(lambda: shop.counts("images")["failed"] == 5)
    page.locator("tbody:not(:has(tr:nth-child(6)))").wait_for()


def test_cancel_the_jobs_of_a_lane_by_mouse(shop: Shop, page: Page) -> None:
    page.goto(shop.page("lanes/payments/customer:7"))
    button(page, "Cancel its jobs").click()
    page.locator("dialog", has_text="Cancel 2 jobs?").wait_for()
    confirm(page, "Cancel")
    until(lambda: shop.counts("payments").get("cancelled") == 2)
    page.locator("main", has_text="None.").wait_for()


def test_edit_a_payload_and_retry_by_keyboard(shop: Shop, page: Page) -> None:
    id = shop.jobs["failed"]
    page.goto(shop.page("jobs", "images", id))
    tab_to(page, page.locator("summary", has_text="Edit and retry"))
    press(page, "Enter", "Tab", "Control+a")
    page.keyboard.type('[["new.png"], {"size": 64}]')
    press(page, "Tab", "Enter")
    page.locator("dialog", has_text="Retry with this payload?").wait_for()
    press(page, "Enter")
    answer(page, "edit: done.")
    job = shop.do(lambda: shop.app.inspect.job("images", id))
    assert job is not None
    assert (job.state, job.payload) == (State.READY, b'[["new.png"], {"size": 64}]')


def test_enqueue_a_job_of_a_task_by_mouse(shop: Shop, page: Page) -> None:
    page.goto(shop.page("queues/images"))
    page.get_by_label("Task").fill("shop.thumbnail")
    page.get_by_label("Arguments or payload").fill('[["zoe.png"], {"size": "large"}]')
    button(page, "Enqueue").click()
    page.locator("#answer.bad", has_text="size").wait_for()
    page.get_by_label("Arguments or payload").fill('[["zoe.png"], {"size": 64}]')
    button(page, "Enqueue").click()
    answer(page, "Enqueued: ")
    id = page.locator("#answer").inner_text().removeprefix("Enqueued: ")
    job = shop.do(lambda: shop.app.inspect.job("images", id))
    assert job is not None
    assert (job.task, job.payload) == ("shop.thumbnail", b'[["zoe.png"],{"size":64}]')
    assert page.get_by_label("Task").input_value() == ""


def test_pause_a_schedule_with_a_reason_by_keyboard(shop: Shop, page: Page) -> None:
    go(page, "s", "Schedules")
    tab_to(page, button(page, "Pause", card("poll")))
    press(page, "Enter")
    page.locator("dialog", has_text="Why is it paused?").wait_for()
    page.keyboard.type("the disk is full")
    press(page, "Enter")
    page.locator(card("poll"), has_text="the disk is full").wait_for()
    schedule = shop.do(lambda: shop.app.schedules.get("reports", "poll"))
    assert schedule is not None
    assert schedule.reason == "the disk is full"


def test_run_a_schedule_now_by_mouse(shop: Shop, page: Page) -> None:
    page.get_by_role("link", name="Schedules").click()
    button(page, "Run now", card("nightly")).click()
    answer(page, "schedule_trigger: done.")
    assert shop.counts("reports") == {"ready": 1}


def test_remove_a_schedule_by_mouse(shop: Shop, page: Page) -> None:
    page.get_by_role("link", name="Schedules").click()
    button(page, "Remove", card("poll")).click()
    confirm(page, "Remove")
    answer(page, "schedule_remove: done.")
    assert shop.do(lambda: shop.app.schedules.get("reports", "poll")) is None


def test_change_a_limit_by_keyboard(shop: Shop, page: Page) -> None:
    go(page, "i", "Limits")
    tab_to(page, page.locator("summary", has_text="Change"))
    press(page, "Enter", "Tab")
    page.keyboard.type("7")
    press(page, "Enter")
    page.locator(card("mail"), has_text="2 of 7").wait_for()
    assert shop.do(lambda: shop.app.limits.get("mail").concurrency) == 7


def test_quiet_a_worker_by_mouse(shop: Shop, page: Page) -> None:
    page.get_by_role("link", name="Workers").click()
    button(page, "Quiet", card(WORKER)).click()
    confirm(page, "Let it finish its jobs and start no others")
    answer(page, "quiet: done.")


def test_stop_a_running_change_of_many_jobs_by_keyboard(shop: Shop, page: Page) -> None:
    shop.do(lambda: shop.app.queue("bulk").enqueue_many([b"x"] * 9_000))
    page.goto(shop.page("jobs?queue=bulk&state=ready"))
    tab_to(page, button(page, "Discard all"))
    press(page, "Enter")
    page.locator("dialog", has_text="Discard all 9,000 jobs?").wait_for()
    press(page, "Enter")
    tab_to(page, button(page, "Stop"))
    press(page, "Enter")
    page.locator("section.run", has_text="stopped").wait_for()
    assert 0 < shop.counts("bulk")["ready"] < 9_000


def test_read_the_audit_by_keyboard(shop: Shop, page: Page) -> None:
    go(page, "q", "Queues")
    press(page, ".", "Enter")
    answer(page, "pause: done.")
    go(page, "a", "Audit")
    row = page.locator("tbody tr").first.inner_text()
    assert re.search(r"unnamed\s+127\.0\.0\.1\s+pause\s+queue=images\s+1\s+done", row)


def test_switch_the_theme_by_keyboard_and_by_mouse(shop: Shop, page: Page) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(back)
    press(page, "t", "t")
    dark = page.evaluate(back)
    assert dark != light
    page.reload()
    assert page.evaluate(back) == dark
    page.get_by_role("button", name="Theme", exact=True).click()
    assert page.evaluate(back) == light


def test_open_the_list_of_keys_and_close_it(page: Page) -> None:
    press(page, "?")
    page.locator("dialog", has_text="go to a page").wait_for()
    press(page, "Escape")
    page.locator("dialog").wait_for(state="hidden")
    press(page, "r")
