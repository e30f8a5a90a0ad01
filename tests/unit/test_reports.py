"""The stream of reports: each subscriber receives those that it overrides, and nothing else."""

from __future__ import annotations

from tenure.runtime.jobs.reports import Reports, Subscriber


class Ends(Subscriber):
    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen = name, seen

    def redis_back(self, away: float) -> None:
        self.seen.append(f"{self.name} {away}")


class Stops(Ends):
    def worker_stopping(self, running: int) -> None:
        self.seen.append(f"{self.name} stops {running}")


def test_subscribers_get_their_reports_in_the_order_of_subscription() -> None:
    seen: list[str] = []
    reports = Reports([Ends("a", seen)])
    reports.redis_back(1.0)
    reports.subscribe(Stops("b", seen))
    reports.redis_back(2.0)
    reports.worker_stopping(3)
    reports.worker_started(("q",), 1)
    assert seen == ["a 1.0", "a 2.0", "b 2.0", "b stops 3"]
