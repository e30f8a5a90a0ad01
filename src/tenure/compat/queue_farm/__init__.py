"""The interface of the npm package `queue-farm` for Python, on Tenure's engine.

    from tenure.compat.queue_farm import Manager, Worker

    manager = Manager("redis://localhost")
    manager.push("user:42", {"send": "welcome"})

    def handle(queue, jobs):
        print(queue, jobs)

    Worker(handle, "redis://localhost").listen()

`AsyncManager` and `AsyncWorker` are for asyncio.
"""

from tenure.compat.queue_farm.emitter import JobEnded
from tenure.compat.queue_farm.logger import Logger
from tenure.compat.queue_farm.manager import AsyncManager, Manager
from tenure.compat.queue_farm.worker import AsyncWorker, Worker

__all__ = ["AsyncManager", "AsyncWorker", "JobEnded", "Logger", "Manager", "Worker"]
