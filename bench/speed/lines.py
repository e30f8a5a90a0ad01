"""The lines that open the page: what a user asks first, computed from what was kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.speed.goals import Kept
from bench.speed.measures import BY_NAME
from bench.speed.options import PLAIN, OptionsFound
from bench.speed.results import Run
from bench.speed.tables import number, peers_of, ratio, times

ASKED: Final = ("celery", "rq", "dramatiq", "arq", "huey", "taskiq", "saq")
"""The queues that most users come from."""
NOTHING: Final = ("drain_async", "drain_sync")


def lines(found: Kept) -> list[str]:
    """The numbered lines; a line is left out if nothing of it was measured."""
    run, shown = found.run, []
    if run is not None:
        rates = [
            f"Jobs that {what}: {_rate(run, *names)}."
            for what, names in (("wait 1 ms for something outside", ("drain_io",)), ("do nothing", NOTHING))
            if run.median("tenure", names[0]) is not None
        ]
        shown += [
            " ".join(["**Jobs a second**, one worker process.", *rates]),
            f"**Latency**: on an idle queue a job starts {_value(run, 'latency_p50')} after the call (median), and "
            f"{_value(run, 'latency_p99')} in the worst hundredth. {_longer(run, 'latency_p50')}.",
            f"**Redis and memory**: Redis spends {_value(run, 'server_enqueue')} on a job that is enqueued alone and "
            f"{_value(run, 'server_drain')} on its run in a full queue. A waiting job takes "
            f"{_value(run, 'memory_job')}, an idle worker {_value(run, 'worker_total')}.",
        ]
    if found.options is not None:
        shown.append(f"**Options**: {_options(found.options)}.")
    if run is not None and run.median("tenure", "start") is not None:
        shown.append(
            f"**Start**: a worker runs its first job {_value(run, 'start')} after its start. {_longer(run, 'start')}."
        )
    return [f"{place}. {line}" for place, line in enumerate(shown, 1)]


def _value(run: Run, name: str) -> str:
    value, measure = run.median("tenure", name), BY_NAME[name]
    return "-" if value is None else f"{number(value, measure.digits)} {measure.unit}"


def _rate(run: Run, *names: str) -> str:
    parts = [f"{times(one)} times {title}" for title, one in _ratios(run, names)]
    return f"{number(run.median('tenure', names[0]) or 0, 0)}, which is {', '.join(parts)}"


def _longer(run: Run, name: str) -> str:
    """How many times as long the queues take that users ask for."""
    return "Times as long: " + ", ".join(f"{title} {times(one)}" for title, one in _ratios(run, (name,)))


def _ratios(run: Run, names: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    """How many times as good Tenure is, by the first of these figures that a queue has."""
    more = BY_NAME[names[0]].better == "more"
    titles = {peer.name: peer.title for peer in peers_of(run)}
    for peer in (peer for peer in ASKED if peer in titles):
        pairs = [(run.median("tenure", name), run.median(peer, name)) for name in names]
        found = [one for ours, theirs in pairs if (one := ratio(*((ours, theirs) if more else (theirs, ours))))]
        if found:
            yield titles[peer], found[0]


def _options(found: OptionsFound) -> str:
    names = {one.option for one in found.rounds} - {PLAIN}
    rates, enqueues, runs = (
        sorted(found.ratio(name, figure) for name in names) for figure in ("rate", "enqueue_us", "drain_us")
    )
    return (
        f"with one option for each job, a worker runs {rates[0]:.2f} to {rates[-1]:.2f} of its plain jobs a second. "
        f"Redis needs {enqueues[0]:.1f} to {enqueues[-1]:.1f} times as long for the enqueue, and {runs[0]:.1f} to "
        f"{runs[-1]:.1f} times for the run"
    )
