"""The worker: claims jobs, runs handlers, settles outcomes. Knows the engine interface and a driver, never Redis."""

from tenure.runtime.assembly import UserCode, WorkerSettings
from tenure.runtime.jobs.job import Job, current_job
from tenure.runtime.ports import Driver, Keeper, KeeperGone
from tenure.runtime.shutdown import ExitStatus
from tenure.runtime.worker import Worker

__all__ = ["Driver", "ExitStatus", "Job", "Keeper", "KeeperGone", "UserCode", "Worker", "WorkerSettings", "current_job"]
