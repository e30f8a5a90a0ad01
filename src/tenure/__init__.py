"""Tenure: a reliable work queue on Redis. Workers lease jobs, and a lost worker's jobs run again.

    from tenure import Tenure

    app = Tenure()

    @app.task(queue="images", timeout=30, retries=5)
    def thumbnail(path: str, size: int = 128) -> str: ...

    job = thumbnail.enqueue("cat.png")
    job.result(timeout=10)

Names are loaded at their first use, so `import tenure` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tenure._version import __version__

if TYPE_CHECKING:
    from tenure import events as events
    from tenure.app.app import Tenure as Tenure
    from tenure.app.policy import TaskDefaults as TaskDefaults
    from tenure.app.router import Router as Router
    from tenure.app.tasks import Task as Task
    from tenure.client.call import TaskCall as TaskCall
    from tenure.client.chains import Chain as Chain
    from tenure.client.chains import chain as chain
    from tenure.client.flows import Flow as Flow
    from tenure.client.groups import Group as Group
    from tenure.client.groups import OpenGroup as OpenGroup
    from tenure.client.groups import group as group
    from tenure.client.handle import JobHandle as JobHandle
    from tenure.client.large import FileStore as FileStore
    from tenure.client.limit import Limit as Limit
    from tenure.client.outgoing import Outgoing as Outgoing
    from tenure.client.queue import HeldJob as HeldJob
    from tenure.client.queue import Queue as Queue
    from tenure.client.results import as_completed as as_completed
    from tenure.client.results import gather_results as gather_results
    from tenure.client.results import wait_all as wait_all
    from tenure.client.schedule import Schedule as Schedule
    from tenure.client.unique import Debounce as Debounce
    from tenure.client.unique import Throttle as Throttle
    from tenure.client.unique import Unique as Unique
    from tenure.core.backoff import Backoff as Backoff
    from tenure.core.encoding.conversion import Codec as Codec
    from tenure.core.engine import Feature as Feature
    from tenure.core.errors import AccessDenied as AccessDenied
    from tenure.core.errors import DuplicateJob as DuplicateJob
    from tenure.core.errors import DuplicateSchedule as DuplicateSchedule
    from tenure.core.errors import FlowNotFound as FlowNotFound
    from tenure.core.errors import GroupEnded as GroupEnded
    from tenure.core.errors import InvalidArgument as InvalidArgument
    from tenure.core.errors import JobFailed as JobFailed
    from tenure.core.errors import JobNotFound as JobNotFound
    from tenure.core.errors import LeaseLost as LeaseLost
    from tenure.core.errors import NewerLayout as NewerLayout
    from tenure.core.errors import NotConfigured as NotConfigured
    from tenure.core.errors import NotDurable as NotDurable
    from tenure.core.errors import NotUnique as NotUnique
    from tenure.core.errors import PayloadInvalid as PayloadInvalid
    from tenure.core.errors import PayloadTooLarge as PayloadTooLarge
    from tenure.core.errors import QueueFull as QueueFull
    from tenure.core.errors import RedisError as RedisError
    from tenure.core.errors import ReplyError as ReplyError
    from tenure.core.errors import ResultError as ResultError
    from tenure.core.errors import ResultTimeout as ResultTimeout
    from tenure.core.errors import ScheduleNotFound as ScheduleNotFound
    from tenure.core.errors import SyncOnLoop as SyncOnLoop
    from tenure.core.errors import SyncOnLoopWarning as SyncOnLoopWarning
    from tenure.core.errors import TenureError as TenureError
    from tenure.core.errors import Unreachable as Unreachable
    from tenure.core.errors import UnsupportedFeature as UnsupportedFeature
    from tenure.core.errors import WorkerFailed as WorkerFailed
    from tenure.core.errors import WrongState as WrongState
    from tenure.core.flows import FlowState as FlowState
    from tenure.core.flows import FlowView as FlowView
    from tenure.core.job import ErrorInfo as ErrorInfo
    from tenure.core.job import JobView as JobView
    from tenure.core.job import Page as Page
    from tenure.core.job import QueueView as QueueView
    from tenure.core.job import Repartition as Repartition
    from tenure.core.job import State as State
    from tenure.core.latency import Latency as Latency
    from tenure.core.latency import Percentiles as Percentiles
    from tenure.core.latency import Times as Times
    from tenure.core.minutes import MinuteCounts as MinuteCounts
    from tenure.core.minutes import Minutes as Minutes
    from tenure.core.minutes import QuarterLatency as QuarterLatency
    from tenure.core.rates import LimitHolder as LimitHolder
    from tenure.core.rates import LimitRule as LimitRule
    from tenure.core.rates import LimitView as LimitView
    from tenure.core.schedules.schedule import CatchUp as CatchUp
    from tenure.core.schedules.schedule import Overlap as Overlap
    from tenure.core.schedules.schedule import ScheduleView as ScheduleView
    from tenure.core.schedules.when import Cron as Cron
    from tenure.core.schedules.when import Every as Every
    from tenure.core.shape import CancelAnswer as CancelAnswer
    from tenure.core.shape import CancelCount as CancelCount
    from tenure.core.shape import Conflict as Conflict
    from tenure.core.shape import LaneFailure as LaneFailure
    from tenure.core.shape import LanePage as LanePage
    from tenure.core.shape import LaneState as LaneState
    from tenure.core.shape import LaneView as LaneView
    from tenure.core.shape import Progress as Progress
    from tenure.core.shape import QueueSettings as QueueSettings
    from tenure.core.shape import Shape as Shape
    from tenure.core.signals import Fail as Fail
    from tenure.core.signals import JobCancelled as JobCancelled
    from tenure.core.signals import RateLimited as RateLimited
    from tenure.core.signals import Retry as Retry
    from tenure.core.signals import Snooze as Snooze
    from tenure.core.stores import PayloadStore as PayloadStore
    from tenure.core.why import Culprit as Culprit
    from tenure.core.why import Why as Why
    from tenure.core.why import WhyCode as WhyCode
    from tenure.core.why import WhyCount as WhyCount
    from tenure.core.worker_view import JobStack as JobStack
    from tenure.core.worker_view import WorkerView as WorkerView
    from tenure.manage.audit import AuditEntry as AuditEntry
    from tenure.manage.bulk import BulkChange as BulkChange
    from tenure.manage.bulk import QueueChange as QueueChange
    from tenure.manage.bulk import UnchangedJob as UnchangedJob
    from tenure.manage.failures import ErrorGroup as ErrorGroup
    from tenure.manage.failures import ErrorGroups as ErrorGroups
    from tenure.manage.search import Found as Found
    from tenure.protocols.hworker import Hworker as Hworker
    from tenure.protocols.native import Native as Native
    from tenure.protocols.queue_farm import QueueFarm as QueueFarm
    from tenure.protocols.redis_work_queue import RedisWorkQueue as RedisWorkQueue
    from tenure.protocols.worqr import Worqr as Worqr
    from tenure.runtime.handlers.middleware import CallNext as CallNext
    from tenure.runtime.handlers.middleware import CallNextSync as CallNextSync
    from tenure.runtime.jobs.job import Job as Job
    from tenure.runtime.jobs.job import check_cancelled as check_cancelled
    from tenure.runtime.jobs.job import current_job as current_job
    from tenure.runtime.jobs.job import must_stop as must_stop
    from tenure.runtime.jobs.job import progress as progress
    from tenure.runtime.jobs.job import then as then
    from tenure.runtime.observe.format import JsonFormatter as JsonFormatter
    from tenure.settings import Settings as Settings

_ERRORS = (
    "AccessDenied DuplicateJob DuplicateSchedule FlowNotFound GroupEnded InvalidArgument JobFailed JobNotFound "
    "TenureError LeaseLost "
    "NewerLayout NotConfigured NotDurable NotUnique PayloadInvalid PayloadTooLarge QueueFull RedisError ReplyError "
    "ResultError ResultTimeout ScheduleNotFound SyncOnLoop SyncOnLoopWarning Unreachable UnsupportedFeature "
    "WorkerFailed WrongState"
)
# The module of each public name. No other name can be loaded.
_HOMES = {
    "app.app": "Tenure",
    "app.policy": "TaskDefaults",
    "app.router": "Router",
    "app.tasks": "Task",
    "client.call": "TaskCall",
    "client.chains": "Chain chain",
    "client.flows": "Flow",
    "client.groups": "Group OpenGroup group",
    "client.handle": "JobHandle",
    "client.large": "FileStore",
    "client.limit": "Limit",
    "client.outgoing": "Outgoing",
    "client.queue": "HeldJob Queue",
    "client.results": "as_completed gather_results wait_all",
    "client.schedule": "Schedule",
    "client.unique": "Debounce Throttle Unique",
    "core.backoff": "Backoff",
    "core.encoding.conversion": "Codec",
    "core.engine": "Feature",
    "core.errors": _ERRORS,
    "core.flows": "FlowState FlowView",
    "core.job": "ErrorInfo JobView Page QueueView Repartition State",
    "core.latency": "Latency Percentiles Times",
    "core.minutes": "MinuteCounts Minutes QuarterLatency",
    "core.rates": "LimitHolder LimitRule LimitView",
    "core.schedules.schedule": "CatchUp Overlap ScheduleView",
    "core.shape": (
        "CancelAnswer CancelCount Conflict LaneFailure LanePage LaneState LaneView Progress QueueSettings Shape"
    ),
    "core.signals": "Fail JobCancelled RateLimited Retry Snooze",
    "core.stores": "PayloadStore",
    "core.schedules.when": "Cron Every",
    "core.why": "Culprit Why WhyCode WhyCount",
    "core.worker_view": "JobStack WorkerView",
    "manage.audit": "AuditEntry",
    "manage.bulk": "BulkChange QueueChange UnchangedJob",
    "manage.failures": "ErrorGroup ErrorGroups",
    "manage.search": "Found",
    "protocols.hworker": "Hworker",
    "protocols.native": "Native",
    "protocols.queue_farm": "QueueFarm",
    "protocols.redis_work_queue": "RedisWorkQueue",
    "protocols.worqr": "Worqr",
    "runtime.handlers.middleware": "CallNext CallNextSync",
    "runtime.jobs.job": "Job check_cancelled current_job must_stop progress then",
    "runtime.observe.format": "JsonFormatter",
    "settings": "Settings",
}
# Classes that programs make: an unknown keyword gets a hint.
_MADE = (
    "Backoff Codec Cron Debounce Every Fail FileStore Hworker Limit Native QueueFarm RateLimited RedisWorkQueue Retry "
    "Schedule Settings Snooze Tenure Throttle Unique Worqr"
)
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", "events", *sorted(_HOME_OF)]


def __getattr__(name: str) -> Any:
    if name == "events":  # a module: importing it sets the attribute
        return import_module("tenure.events")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'tenure' has no attribute {name!r}")
    value = getattr(import_module(f"tenure.{home}"), name)
    if name in _MADE.split():
        import_module("tenure.core.hints").hint_at_keywords(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
