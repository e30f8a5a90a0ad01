"""Leasehold: a reliable work queue on Redis. Workers lease jobs, and a lost worker's jobs run again.

    from leasehold import Leasehold

    app = Leasehold()

    @app.task(queue="images", timeout=30, retries=5)
    def thumbnail(path: str, size: int = 128) -> str: ...

    job = thumbnail.enqueue("cat.png")
    job.result(timeout=10)

Names are loaded at their first use, so `import leasehold` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from leasehold._version import __version__

if TYPE_CHECKING:
    from leasehold import events as events
    from leasehold.app.app import Leasehold as Leasehold
    from leasehold.app.policy import TaskDefaults as TaskDefaults
    from leasehold.app.tasks import Task as Task
    from leasehold.client.call import TaskCall as TaskCall
    from leasehold.client.handle import JobHandle as JobHandle
    from leasehold.client.large import FileStore as FileStore
    from leasehold.client.limit import Limit as Limit
    from leasehold.client.outgoing import Outgoing as Outgoing
    from leasehold.client.queue import HeldJob as HeldJob
    from leasehold.client.queue import Queue as Queue
    from leasehold.client.schedule import Schedule as Schedule
    from leasehold.client.unique import Debounce as Debounce
    from leasehold.client.unique import Throttle as Throttle
    from leasehold.client.unique import Unique as Unique
    from leasehold.core.backoff import Backoff as Backoff
    from leasehold.core.conversion import Codec as Codec
    from leasehold.core.engine import Feature as Feature
    from leasehold.core.errors import AccessDenied as AccessDenied
    from leasehold.core.errors import DuplicateJob as DuplicateJob
    from leasehold.core.errors import DuplicateSchedule as DuplicateSchedule
    from leasehold.core.errors import InvalidArgument as InvalidArgument
    from leasehold.core.errors import JobFailed as JobFailed
    from leasehold.core.errors import JobNotFound as JobNotFound
    from leasehold.core.errors import LeaseholdError as LeaseholdError
    from leasehold.core.errors import LeaseLost as LeaseLost
    from leasehold.core.errors import NewerLayout as NewerLayout
    from leasehold.core.errors import NotConfigured as NotConfigured
    from leasehold.core.errors import NotDurable as NotDurable
    from leasehold.core.errors import NotUnique as NotUnique
    from leasehold.core.errors import PayloadInvalid as PayloadInvalid
    from leasehold.core.errors import PayloadTooLarge as PayloadTooLarge
    from leasehold.core.errors import QueueFull as QueueFull
    from leasehold.core.errors import RedisError as RedisError
    from leasehold.core.errors import ReplyError as ReplyError
    from leasehold.core.errors import ResultError as ResultError
    from leasehold.core.errors import ResultTimeout as ResultTimeout
    from leasehold.core.errors import ScheduleNotFound as ScheduleNotFound
    from leasehold.core.errors import SyncOnLoop as SyncOnLoop
    from leasehold.core.errors import SyncOnLoopWarning as SyncOnLoopWarning
    from leasehold.core.errors import Unreachable as Unreachable
    from leasehold.core.errors import UnsupportedFeature as UnsupportedFeature
    from leasehold.core.errors import WrongState as WrongState
    from leasehold.core.job import ErrorInfo as ErrorInfo
    from leasehold.core.job import JobView as JobView
    from leasehold.core.job import Page as Page
    from leasehold.core.job import QueueView as QueueView
    from leasehold.core.job import Repartition as Repartition
    from leasehold.core.job import State as State
    from leasehold.core.job import WorkerView as WorkerView
    from leasehold.core.latency import Latency as Latency
    from leasehold.core.latency import Percentiles as Percentiles
    from leasehold.core.latency import Times as Times
    from leasehold.core.rates import LimitRule as LimitRule
    from leasehold.core.rates import LimitView as LimitView
    from leasehold.core.schedule import CatchUp as CatchUp
    from leasehold.core.schedule import Overlap as Overlap
    from leasehold.core.schedule import ScheduleView as ScheduleView
    from leasehold.core.shape import CancelAnswer as CancelAnswer
    from leasehold.core.shape import CancelCount as CancelCount
    from leasehold.core.shape import Conflict as Conflict
    from leasehold.core.shape import LaneFailure as LaneFailure
    from leasehold.core.shape import LanePage as LanePage
    from leasehold.core.shape import LaneState as LaneState
    from leasehold.core.shape import LaneView as LaneView
    from leasehold.core.shape import Progress as Progress
    from leasehold.core.shape import QueueSettings as QueueSettings
    from leasehold.core.shape import Shape as Shape
    from leasehold.core.signals import Fail as Fail
    from leasehold.core.signals import JobCancelled as JobCancelled
    from leasehold.core.signals import RateLimited as RateLimited
    from leasehold.core.signals import Retry as Retry
    from leasehold.core.stores import PayloadStore as PayloadStore
    from leasehold.core.when import Cron as Cron
    from leasehold.core.when import Every as Every
    from leasehold.protocols.hworker import Hworker as Hworker
    from leasehold.protocols.native import Native as Native
    from leasehold.protocols.queue_farm import QueueFarm as QueueFarm
    from leasehold.protocols.redis_work_queue import RedisWorkQueue as RedisWorkQueue
    from leasehold.protocols.worqr import Worqr as Worqr
    from leasehold.runtime.handlers.middleware import CallNext as CallNext
    from leasehold.runtime.handlers.middleware import CallNextSync as CallNextSync
    from leasehold.runtime.jobs.job import Job as Job
    from leasehold.runtime.jobs.job import check_cancelled as check_cancelled
    from leasehold.runtime.jobs.job import current_job as current_job
    from leasehold.runtime.jobs.job import must_stop as must_stop
    from leasehold.runtime.jobs.job import progress as progress
    from leasehold.runtime.observe.format import JsonFormatter as JsonFormatter
    from leasehold.settings import Settings as Settings

_ERRORS = (
    "AccessDenied DuplicateJob DuplicateSchedule InvalidArgument JobFailed JobNotFound LeaseholdError LeaseLost "
    "NewerLayout NotConfigured NotDurable NotUnique PayloadInvalid PayloadTooLarge QueueFull RedisError ReplyError "
    "ResultError ResultTimeout ScheduleNotFound SyncOnLoop SyncOnLoopWarning Unreachable UnsupportedFeature WrongState"
)
# The module of each public name. No other name can be loaded.
_HOMES = {
    "app.app": "Leasehold",
    "app.policy": "TaskDefaults",
    "app.tasks": "Task",
    "client.call": "TaskCall",
    "client.handle": "JobHandle",
    "client.large": "FileStore",
    "client.limit": "Limit",
    "client.outgoing": "Outgoing",
    "client.queue": "HeldJob Queue",
    "client.schedule": "Schedule",
    "client.unique": "Debounce Throttle Unique",
    "core.backoff": "Backoff",
    "core.conversion": "Codec",
    "core.engine": "Feature",
    "core.errors": _ERRORS,
    "core.job": "ErrorInfo JobView Page QueueView Repartition State WorkerView",
    "core.latency": "Latency Percentiles Times",
    "core.rates": "LimitRule LimitView",
    "core.schedule": "CatchUp Overlap ScheduleView",
    "core.shape": (
        "CancelAnswer CancelCount Conflict LaneFailure LanePage LaneState LaneView Progress QueueSettings Shape"
    ),
    "core.signals": "Fail JobCancelled RateLimited Retry",
    "core.stores": "PayloadStore",
    "core.when": "Cron Every",
    "protocols.hworker": "Hworker",
    "protocols.native": "Native",
    "protocols.queue_farm": "QueueFarm",
    "protocols.redis_work_queue": "RedisWorkQueue",
    "protocols.worqr": "Worqr",
    "runtime.handlers.middleware": "CallNext CallNextSync",
    "runtime.jobs.job": "Job check_cancelled current_job must_stop progress",
    "runtime.observe.format": "JsonFormatter",
    "settings": "Settings",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", "events", *sorted(_HOME_OF)]


def __getattr__(name: str) -> Any:
    if name == "events":  # a module: importing it sets the attribute
        return import_module("leasehold.events")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'leasehold' has no attribute {name!r}")
    value = getattr(import_module(f"leasehold.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
