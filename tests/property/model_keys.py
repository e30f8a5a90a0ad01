"""Unique keys, said plainly: who has each, until when, and who waits to run after."""

from __future__ import annotations

from typing import Final, NamedTuple

from tenure.core.job import ENDS, Enqueued, State
from tenure.core.shape import Conflict, UniqueRule, Until
from tenure.engines.kit.config import POSTPONE_MOST
from tests.property.model_lines import Job, Lines

WAITS: Final = (State.READY, State.SCHEDULED, State.UNROUTABLE)


class Owner(NamedTuple):
    """`lasts`: until when a time window keeps the key, 0: as long as the job keeps it."""

    id: str
    lasts: int


class Keys:
    """The unique keys of one queue."""

    def __init__(self, jobs: dict[str, Job], lines: Lines) -> None:
        self.jobs = jobs
        self.lines = lines
        self.owners: dict[str, Owner] = {}
        self.following: dict[str, str] = {}

    def owner(self, now: int, key: str) -> str | None:
        owner = self.owners.get(key)
        return owner.id if owner and not 0 < owner.lasts <= now else None

    def contend(self, now: int, job: Job, rule: UniqueRule) -> Enqueued | None:
        """What an enqueue of this job answers when another has its key. None: it is to be added."""
        other = self.owner(now, rule.key)
        if other is None:
            self.owners[rule.key] = Owner(job.id, now + rule.window_ms if rule.until is Until.WINDOW else 0)
            return None
        have = self.jobs.get(other)
        if have is not None and have.state in ENDS and have.expires <= now:
            have = None
        if rule.conflict is Conflict.EXISTING:
            return Enqueued(other, False, Conflict.EXISTING)
        if rule.conflict is Conflict.RERUN:
            return self._rerun(job, rule, other, have)
        waits = have is not None and have.state in WAITS
        if have is not None and waits and have.state is State.UNROUTABLE:
            waits = have.task == job.task
        if have is None or not waits or rule.conflict is Conflict.REJECT:
            return Enqueued(other, False, Conflict.REJECT)
        _rewrite(have, job)
        if rule.conflict is Conflict.POSTPONE and have.state is State.SCHEDULED:
            have.due = max(now, min(now + rule.wait_ms, have.made + POSTPONE_MOST * rule.wait_ms))
        return Enqueued(other, False, rule.conflict)

    def _rerun(self, job: Job, rule: UniqueRule, other: str, have: Job | None) -> Enqueued | None:
        if have is None or have.state is not State.ACTIVE:
            return Enqueued(other, False, Conflict.EXISTING)
        following = self.following.get(rule.key)
        if following is not None:
            _rewrite(self.jobs[following], job)
            return Enqueued(following, False, Conflict.RERUN)
        self.following[rule.key] = job.id
        self.owners[rule.key] = Owner(other, 0)
        job.follows = True
        return None

    def free(self, job: Job, *, gone: bool = False) -> None:
        """A job needs its key no longer. `gone`: it was cancelled or removed, so that its window is over, too."""
        rule = job.shape.unique
        if rule is None:
            return
        owner, following = self.owners.get(rule.key), self.following.get(rule.key)
        if following == job.id:
            del self.following[rule.key]
        elif owner is not None and owner.id == job.id and following is not None:
            del self.following[rule.key]
            self.owners[rule.key] = Owner(following, 0)
            self.jobs[following].follows = False
            self.lines.place(self.jobs[following], first=False)
        elif owner is not None and owner.id == job.id and (gone or not owner.lasts):
            del self.owners[rule.key]

    def take(self, now: int, job: Job) -> bool:
        """A job that had ended is run again. False: another job has its key."""
        rule = job.shape.unique
        if rule is None:
            return True
        other = self.owner(now, rule.key)
        if other is not None and other != job.id:
            return self.lines.occupies(job)
        if rule.until is not Until.WINDOW:
            self.owners[rule.key] = Owner(job.id, 0)
        return True

    def prune(self, now: int) -> None:
        for key, owner in list(self.owners.items()):
            if 0 < owner.lasts <= now:
                del self.owners[key]


def _rewrite(old: Job, new: Job) -> None:
    """It keeps its place, its shape and its age."""
    old.payload, old.task, old.timeout_ms = new.payload, new.task, new.timeout_ms
