"""The worker: claims jobs, runs handlers, settles outcomes. Knows the engine interface and a driver, never Redis."""

from leasehold.runtime.assembly import UserCode, WorkerSettings
from leasehold.runtime.jobs.job import Job, current_job
from leasehold.runtime.ports import Driver, Keeper, KeeperGone
from leasehold.runtime.shutdown import ExitStatus
from leasehold.runtime.worker import Worker

__all__ = ["Driver", "ExitStatus", "Job", "Keeper", "KeeperGone", "UserCode", "Worker", "WorkerSettings", "current_job"]
