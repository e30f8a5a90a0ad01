"""`enqueue_on_commit`, with tasks of Django and of Tenure."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from django.test import TestCase

from tenure import InvalidArgument, PayloadInvalid, State
from tenure.integrations.django import enqueue_on_commit
from tests.support.django_project import Site, site
from tests.support.django_site import tasks

__all__ = ["site"]


@pytest.fixture(params=["django", "tenure"])
def task(request: pytest.FixtureRequest, site: Site) -> Any:
    """A task that takes a text."""
    if request.param == "django":
        return tasks.fails

    @site.app.task(name="tenure")
    def own(text: str) -> None: ...

    return own


def waiting(site: Site) -> int:
    return site.app.inspect.queue("default").counts[State.READY] if site.app.inspect.queues() else 0


def test_the_call_is_enqueued_after_the_commit(site: Site, task: Any) -> None:
    with transaction.atomic():
        enqueue_on_commit(task, "a")
        assert waiting(site) == 0
    assert waiting(site) == 1
    enqueue_on_commit(task, "b")
    assert waiting(site) == 2


def test_a_rollback_drops_the_call(site: Site, task: Any) -> None:
    with transaction.atomic():
        enqueue_on_commit(task, "a")
        transaction.set_rollback(True)
    assert waiting(site) == 0


def test_a_wrong_argument_rolls_the_transaction_back(site: Site, task: Any) -> None:
    with pytest.raises((TypeError, PayloadInvalid)), transaction.atomic():
        enqueue_on_commit(task, {1})
    with pytest.raises(PayloadInvalid), transaction.atomic():
        enqueue_on_commit(task, "a", "b")
    with pytest.raises(InvalidArgument, match="task must be a task of Tenure or of Django, got str"):
        enqueue_on_commit("tasks.fails", "a")
    assert waiting(site) == 0


def test_tests_of_django_catch_the_call(site: Site, task: Any) -> None:
    with transaction.atomic():
        with TestCase.captureOnCommitCallbacks(execute=True) as callbacks:
            enqueue_on_commit(task, "a")
        transaction.set_rollback(True)  # as at the end of a TestCase
    assert (len(callbacks), waiting(site)) == (1, 1)
