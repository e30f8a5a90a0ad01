"""`tenure monitor` for a pool of originals with a timeout of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenure.cli import commands
from tenure.cli.errors import run
from tests.wire.hworker.bench import Bench

DEFAULT_MS = 120_000
TEXT = "hworker:{}?timeout=600&failed_queue_size=5"


@pytest.fixture
def monitor(bench: Bench, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run one round. Returns what it wrote."""

    def monitor(*options: str, status: int = 0) -> str:
        assert run(commands, ["monitor", "default", "--once", "--url", bench.server.url, *options]) == status
        return "".join(capsys.readouterr())

    return monitor


@pytest.mark.parametrize("by_option", [False, True])
def test_a_job_that_runs_for_less_than_the_timeout_of_its_workers_runs_once(
    bench: Bench, monitor: Callable[..., str], by_option: bool
) -> None:
    pool = f"hworker:{bench.pool}"
    given = ["--protocol", pool, "--timeout", "600"] if by_option else ["--protocol", TEXT.format(bench.pool)]
    job = bench.original.queue("long")
    assert bench.original.pop() == job
    assert "0 jobs returned" in monitor(*given)
    bench.pass_time(DEFAULT_MS + 1_000)
    assert "0 jobs returned" in monitor(*given)
    assert bench.waiting() == []
    bench.pass_time(600_000 - DEFAULT_MS)
    assert "1 job returned" in monitor(*given)


@pytest.mark.parametrize("text", ["native", "worqr:jobs"])
def test_a_timeout_for_a_protocol_without_one_is_refused(monitor: Callable[..., str], text: str) -> None:
    assert "has no timeout" in monitor("--protocol", text, "--timeout", "5", status=2)
