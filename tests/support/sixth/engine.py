"""The engine. Everything that it has in common with others comes from the kit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from tenure.core import limits
from tenure.core.engine import Feature, Maintained, Trait
from tenure.core.job import Enqueued, JobRecord, JobView, Lease, NewJob, Page, State
from tenure.core.outcome import Outcome
from tenure.core.shape import CancelAnswer, CancelCount, Shape
from tenure.core.steps import Command, Steps
from tenure.core.values import replace
from tenure.core.waiting import Listen
from tenure.core.worker_view import WorkerView
from tenure.engines.kit.base import check_purge
from tenure.engines.kit.chunks import Part, args_of
from tenure.engines.kit.config import META_TTL_MS, EngineConfig
from tenure.engines.kit.encoding import as_bytes, as_text, cancelled, read_error
from tenure.engines.kit.engine import ScriptedEngine
from tenure.engines.kit.outcomes import encode_outcome
from tenure.engines.kit.pages import check_page, read_cursor, write_cursor
from tests.support.sixth.scripts import LAYOUT, SCRIPTS


class SixthEngine(ScriptedEngine):
    name: ClassVar[str] = "sixth"
    features: ClassVar[frozenset[Feature]] = frozenset(
        {
            Feature.IDS,
            Feature.OWN_ID,
            Feature.TASKS,
            Feature.BYTES,
            Feature.TEXT,
            Feature.TIMEOUT,
            Feature.RETRIES,
            Feature.RECORDS,
            Feature.EXTEND,
        }
    )
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.ENQUEUE_TIME, Trait.GROUPS, Trait.RETRY_DELAY, Trait.UNLANED})
    scripts = SCRIPTS
    layout = LAYOUT

    def __init__(self, namespace: str = "sixth", config: EngineConfig | None = None) -> None:
        self.namespace = namespace
        self.config = config or EngineConfig()
        super().__init__(self.config.timing, self.config.as_argument())

    def prefix(self, queue: str) -> str:
        return f"sixth:{{{self.namespace}:{quote(queue, safe='', errors='surrogateescape')}}}"

    def shared(self) -> str:
        return f"sixth:{{{self.namespace}}}"

    # What producers and workers need.

    @staticmethod
    def _new_part(position: int, job: NewJob) -> Part:
        numbers = ("" if number is None else number for number in (job.timeout_ms, job.retries))
        args = (as_bytes(job.id), job.payload, job.task or "", *numbers)
        return Part(position, args, len(job.payload))

    def _add(self, jobs: Sequence[NewJob], queue: str, chunk: list[Part], room: int) -> Steps[Iterable[Enqueued]]:
        reply = yield from self._act("enqueue", queue, *args_of(chunk))
        return (Enqueued(jobs[part.position].id, letter == ord("1")) for part, letter in zip(chunk, reply, strict=True))

    @staticmethod
    def _token(text: bytes) -> str:
        return text.decode()

    def _lease(self, worker: str, queue: str, row: list[Any], alone_ms: int) -> Lease:
        view = _view(queue, row)
        record = JobRecord(
            view.id,
            queue,
            view.payload or b"",
            view.enqueued_ms or 0,
            task=view.task,
            timeout_ms=view.timeout_ms,
            retries=number_or_none(row[5]),
        )
        return Lease(worker, view.token or "", record, view.failures, 0, group=row[15].decode())

    @staticmethod
    def _outcome_part(position: int, lease: Lease, outcome: Outcome) -> Part:
        kind, ms, body = encode_outcome(outcome)
        return Part(position, (as_bytes(lease.record.id), lease.token, kind, ms, body), len(body), group=lease.group)

    def _tidy(self, queue: str, tasks: Sequence[str], limit: int) -> Steps[Maintained]:
        promoted, reclaimed, pruned, more = yield from self._ask("maintain", queue, self._config, limit, META_TTL_MS)
        return Maintained(promoted, reclaimed, pruned, 0, more == 1)

    def wait(self, worker: str, queues: Sequence[str], timeout_ms: int) -> Listen:
        names = {f"{self.prefix(queue)}:news": queue for queue in queues}
        return Listen(tuple(names), lambda channel, message: names.get(channel))

    # Reading.

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        row = yield from self._ask("show", queue, as_bytes(id))
        return _view(queue, row) if row else None

    def page(
        self,
        queue: str,
        state: State,
        offset: int = 0,
        limit: int = limits.PAGE_MAX,
        lane: str | None = None,
        after: str | None = None,
        heads: bool = False,
    ) -> Steps[Page]:
        check_page(offset, limit)
        score, *_ = read_cursor(after, state, lane)
        total, last, *rows = yield from self._ask("page", queue, state.value, offset, limit, score)
        cursor = write_cursor([last, b"", b"", b""] if last else [], state, lane)
        return Page(tuple(_view(queue, row) for row in rows), total, cursor)

    def workers(self) -> Steps[list[WorkerView]]:
        seen = yield from self.announced()
        shown = []
        for view in seen:
            active = 0
            for queue in view.queues:
                active += yield Command(("ZCARD", f"{self.prefix(queue)}:held:{view.id}"))
            shown.append(replace(view, active=active))
        return shown

    # Acting.

    def retry(self, queue: str, id: str, payload: bytes | None = None, reshaped: Shape | None = None) -> Steps[bool]:
        return (yield from self._act("retry", queue, as_bytes(id), int(payload is not None), payload or b"")) == b"1"

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        reply = yield from self._act("cancel", queue, self._config, cancelled(reason), as_bytes(id))
        return CancelAnswer.CANCELLED if reply == b"1" else CancelAnswer.NOTHING

    def cancel_all(self, queue: str, lane: str | None = None, reason: str = "") -> Steps[CancelCount]:
        return CancelCount(int((yield from self._act("cancel", queue, self._config, cancelled(reason)))))

    def purge(self, queue: str, state: State) -> Steps[int]:
        check_purge(state)
        return (yield from self._in_rounds("purge", queue, state.value))


def _view(queue: str, row: list[Any]) -> JobView:
    """The fields are those of `row_of` in lua/lib/jobs.lua."""
    id, state, payload, task, timeout, _, failures, enqueued, due, worker, token, started, ended, expires, error = row[
        :15
    ]
    return JobView(
        as_text(id),
        queue,
        State(state.decode()),
        task=as_text(task) or None,
        payload=payload,
        failures=failures,
        enqueued_ms=enqueued,
        due_ms=due or None,
        worker=as_text(worker) or None,
        token=token.decode() or None,
        started_ms=started or None,
        ended_ms=ended or None,
        expires_ms=expires or None,
        error=read_error(error) if error else None,
        timeout_ms=number_or_none(timeout),
    )


def number_or_none(text: bytes) -> int | None:
    return int(text) if text else None
