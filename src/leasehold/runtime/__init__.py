"""The worker: claims jobs, runs handlers, settles outcomes. Knows the engine interface and a driver, never Redis."""

from leasehold.runtime.jobs.job import Job, current_job
from leasehold.runtime.ports import Driver, Keeper, KeeperGone
from leasehold.runtime.worker import ExitStatus, Worker

__all__ = ["Worker", "ExitStatus", "Job", "current_job", "Driver", "Keeper", "KeeperGone"]
