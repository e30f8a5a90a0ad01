"""Runs Django's own test cases for backends of tasks, unchanged, against the backend of Tenure.

    python scripts/django_cases.py FOLDER

FOLDER: the folder `tests` of Django's sources, of the version that is installed (6 or newer). The cases name Django's
two backends and use what only these have, such as `clear` and an end within `enqueue`. Both are replaced by the backend
of Tenure with these additions. SKIPPED has the cases for what those backends cannot do or have in memory.
"""

from __future__ import annotations

import os
import sys
import unittest
from collections.abc import Iterator
from typing import Any, Final

import django
from django.conf import settings

from tenure.testing.server import RedisServer, available_binaries

_MEMORY: Final = "it changes a result in the memory of the dummy backend"
_LACKS: Final = "it checks that the immediate backend lacks what this one has"
SKIPPED: Final = {
    "DummyBackendTestCase.test_refresh_result": _MEMORY,
    "DummyBackendTestCase.test_refresh_result_async": _MEMORY,
    "ImmediateBackendTestCase.test_cannot_get_result": _LACKS,
    "ImmediateBackendTestCase.test_cannot_refresh_result": _LACKS,
    "ImmediateBackendTestCase.test_cannot_pass_run_after": _LACKS,
    "ImmediateBackendTestCase.test_throws_keyboard_interrupt": "a task does not run in the process that enqueues it",
    "ImmediateBackendTestCase.test_catches_exception": "the line about the end has no text of the error: it may hold "
    "data, and TENURE_LOG_ERRORS decides about it",
}
"""A case that is not run, and why."""
MODULES: Final = ("test_tasks", "test_dummy_backend", "test_immediate_backend", "test_custom_backend")


def replace_backends(server: RedisServer) -> None:
    """Put the backend of Tenure in the place of Django's two."""
    from django.tasks.backends import dummy, immediate

    from tenure.integrations.django.backend import TenureBackend
    from tenure.integrations.django.results import update

    class Dummy(TenureBackend):
        """Also has its results as a list, with the time of the enqueue by Redis' clock."""

        def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
            result = super().enqueue(task, args, kwargs)
            update(result, enqueued_at=self.get_result(result.id).enqueued_at)
            return result

        async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
            result = await super().aenqueue(task, args, kwargs)
            update(result, enqueued_at=(await self.aget_result(result.id)).enqueued_at)
            return result

        @property
        def results(self) -> list[Any]:
            jobs = self.app.inspect.page("default", "ready").jobs
            return [self.get_result(f"default:{job.id}") for job in jobs]

        def clear(self) -> None:
            server.command("FLUSHALL")

    class Immediate(TenureBackend):
        """Runs each job before `enqueue` returns."""

        def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
            result = super().enqueue(task, args, kwargs)
            self.app.testing().drain(raises=False)
            result.refresh()
            return result

        async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
            result = await super().aenqueue(task, args, kwargs)
            await self.app.testing().adrain(raises=False)
            await result.arefresh()
            return result

    dummy.DummyBackend, immediate.ImmediateBackend = Dummy, Immediate


def cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Yield the cases of a suite, without those that are skipped."""
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from cases(one)
        elif ".".join(one.id().rsplit(".", 2)[-2:]) not in SKIPPED:
            yield one


def main(folder: str) -> int:
    """Run the cases. Returns the exit status."""
    sys.path.insert(0, folder)
    binary = next(iter(available_binaries().values()))
    with RedisServer(binary, tcp=True, aof=False) as server:
        os.environ["TENURE_SYNC_ON_LOOP"] = "allow"  # async cases call sync methods
        settings.configure(
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
            INSTALLED_APPS=["tenure.integrations.django"],
            LOGGING_CONFIG=None,
            TENURE={"url": server.url, "retries": 0},
            TASKS={"default": {"BACKEND": "tenure.integrations.django.TenureBackend", "QUEUES": []}},
        )
        django.setup()
        replace_backends(server)
        found = unittest.defaultTestLoader.loadTestsFromNames([f"tasks.{name}" for name in MODULES])
        suite = unittest.TestSuite(cases(found))
        print(f"{suite.countTestCases()} cases of Django {django.get_version()}, {len(SKIPPED)} skipped")
        return int(not unittest.TextTestRunner().run(suite).wasSuccessful())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
