"""What the jobs of a run wrote down, judged: which were lost, which ran twice, and how soon the dead were replaced."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.journal import Line


@dataclass(frozen=True)
class Verdict:
    """Numbers of jobs, and seconds.

    `put`: the enqueue returned, so the job is promised. `unknown`: it raised, so the job may be there or not.
    `lost`: promised, without an end, and nothing of it is in Redis. `waiting`: still there at the end of the run.
    `again`: started more than once. `doubled`: ended more than once. `overlapped`: began while another run of it went
    on, in a worker that was neither killed nor stopped. `back_s`: the longest time from a kill of a worker to the next
    start of a job that it had. `silent_s`: the longest time without a start or an end while there was work.
    """

    put: int
    unknown: int
    lost: int
    waiting: int
    again: int
    doubled: int
    overlapped: int
    back_s: float | None
    silent_s: float


def judge(
    lines: Sequence[Line],
    put: Collection[str],
    unknown: Collection[str],
    left: Collection[str],
    kills: Mapping[str, float],
    stopped: Collection[str] = (),
) -> Verdict:
    """`left`: the jobs of which something is in Redis at the end. `kills`: when each dead worker was killed."""
    starts, ends = defaultdict[str, list[Line]](list), defaultdict[str, list[Line]](list)
    for line in sorted(lines, key=lambda line: line.at):
        (starts if line.what == "start" else ends)[line.token].append(line)
    open_jobs = [token for token in put if not ends[token]]
    harmed = {*kills, *stopped}
    backs = [
        again.at - kills[first.worker]
        for runs in starts.values()
        for first, again in pairwise(runs)
        if first.worker in kills and first.at < kills[first.worker] <= again.at
        if not _end_of(first, ends[first.token])
    ]
    return Verdict(
        put=len(put),
        unknown=len(unknown),
        lost=sum(token not in left for token in open_jobs),
        waiting=sum(token in left for token in open_jobs),
        again=sum(len(runs) > 1 for runs in starts.values()),
        doubled=sum(len(runs) > 1 for runs in ends.values()),
        overlapped=sum(_overlap(runs, ends[token], harmed) for token, runs in starts.items()),
        back_s=max(backs, default=None),
        silent_s=max(
            (later.at - line.at for line, later in pairwise(sorted(lines, key=lambda line: line.at))), default=0.0
        ),
    )


def _end_of(start: Line, ends: Sequence[Line]) -> float | None:
    """When this run of a job ended. A worker runs a job once at a time."""
    return next((end.at for end in ends if end.worker == start.worker and end.at >= start.at), None)


def _overlap(runs: Sequence[Line], ends: Sequence[Line], harmed: Collection[str]) -> bool:
    """Whether a run began before an earlier one of a healthy worker had ended."""
    for first, again in pairwise(runs):
        ended = _end_of(first, ends)
        if first.worker not in harmed and (ended is None or again.at < ended):
            return True
    return False
