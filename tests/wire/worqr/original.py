"""A client of the original, command by command, in its order: worqr 1.2.3 for Node."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Generator
from typing import Any, Final

R: Final = "worqr"
TIMER_S: Final = 3


def md5(task: str) -> str:
    return hashlib.md5(task.encode(), usedforsecurity=False).hexdigest()


class Original:
    """One worker of the original, and a producer. What it decides between two commands is a step of a generator."""

    def __init__(self, db: Any, worker: str = "original", prefix: str = R) -> None:
        self.db = db
        self.worker = worker
        self.prefix = prefix

    def key(self, *words: str) -> str:
        return ":".join((self.prefix, *words))

    # Producers.

    def enqueue(self, queue: str, *tasks: str) -> None:
        multi = self.db.pipeline()
        multi.lpush(self.key("queues", queue), *tasks)
        multi.publish(f"{self.prefix}_{queue}_work", len(tasks))
        multi.execute()

    def enqueue_unique(self, queue: str, task: str) -> bool:
        key = self.key("uniqueTasks", md5(task))
        with self.db.pipeline() as multi:
            multi.watch(key)
            if multi.exists(key):
                return False  # without UNWATCH
            multi.multi()
            multi.set(key, " ")
            multi.lpush(self.key("queues", queue), task)
            multi.publish(f"{self.prefix}_{queue}_work", 1)
            multi.execute()
        return True

    def cancel_tasks(self, queue: str, task: str) -> None:
        multi = self.db.pipeline()
        multi.lrem(self.key("queues", queue), 0, task)
        multi.publish(f"{self.prefix}_{queue}_cancel", task)
        multi.execute()

    def delete_queue(self, queue: str) -> None:
        multi = self.db.pipeline()
        multi.delete(self.key("queues", queue))
        multi.publish(f"{self.prefix}_{queue}_delete", "")
        multi.execute()

    # Workers.

    def start_worker(self, permanent: bool = False) -> None:
        multi = self.db.pipeline()
        multi.sadd(self.key("workers"), self.worker)
        multi.sadd(self.key("permanentWorkers" if permanent else "expiringWorkers"), self.worker)
        if not permanent:
            multi.set(self.key("workerTimers", self.worker), "RUN", ex=TIMER_S)
        multi.execute()

    def heartbeat(self) -> bool:
        return bool(self.db.set(self.key("workerTimers", self.worker), "RUN", ex=TIMER_S, xx=True))

    def die(self) -> None:
        """Its timer ends."""
        self.db.delete(self.key("workerTimers", self.worker))

    def start_work(self, queue: str) -> None:
        self.db.sadd(self.key("workingQueues", self.worker), queue)

    def dequeue(self, queue: str) -> tuple[str, str] | None:
        """None: the queue was empty."""
        found = list(self.dequeue_steps(queue))
        return found[-1]

    def dequeue_steps(self, queue: str) -> Generator[tuple[str, str] | None, None, None]:
        """Stops before the second of the two round trips that an empty queue takes."""
        pid = f"{queue}_{uuid.uuid4()}"
        multi = self.db.pipeline()
        multi.rpoplpush(self.key("queues", queue), self.key("processes", pid))
        multi.sadd(self.key("workingProcesses", queue), pid)
        task, _ = multi.execute()
        if task is not None:
            yield pid, task.decode()
            return
        yield None
        multi.delete(self.key("processes", pid))
        multi.srem(self.key("workingProcesses", queue), pid)
        multi.execute()
        yield None

    def finish(self, pid: str, result: Any = None) -> None:
        queue = pid.rpartition("_")[0]
        tasks = self.db.lrange(self.key("processes", pid), 0, 0)
        task = tasks[0].decode() if tasks else ""
        multi = self.db.pipeline()
        multi.delete(self.key("uniqueTasks", md5(task)))
        multi.delete(self.key("processes", pid))
        multi.srem(self.key("workingProcesses", queue), pid)
        multi.execute()
        done = {"workerId": self.worker, "task": task} | ({} if result is None else {"result": result})
        self.db.publish(f"{self.prefix}_{queue}_done", json.dumps(done))

    def stop(self, pid: str) -> None:
        queue = pid.rpartition("_")[0]
        multi = self.db.pipeline()
        multi.rpoplpush(self.key("processes", pid), self.key("queues", queue))
        multi.srem(self.key("workingProcesses", queue), pid)
        multi.execute()

    def fail_worker(self, worker: str) -> None:
        for _ in self.fail_steps(worker):
            pass

    def fail_steps(self, worker: str) -> Generator[None, None, None]:
        """Stops between reading the processes of a queue and returning them."""
        queues = [queue.decode() for queue in self.db.smembers(self.key("workingQueues", worker))]
        for queue in queues:
            pids = [pid.decode() for pid in self.db.smembers(self.key("workingProcesses", queue))]
            yield
            multi = self.db.pipeline()
            for pid in pids:
                multi.rpoplpush(self.key("processes", pid), self.key("queues", queue))
            multi.delete(self.key("workingProcesses", queue))
            multi.execute()
        multi = self.db.pipeline()
        multi.srem(self.key("workers"), worker)
        multi.srem(self.key("expiringWorkers"), worker)
        multi.delete(self.key("workerTimers", worker), self.key("workingQueues", worker))
        multi.execute()

    def cleanup_workers(self) -> list[str]:
        """Fail each expiring worker without a timer, as originals do every ten seconds. Its pattern search is the only
        command that is replaced here: the ids of the tests hold no pattern."""
        gone = []
        for worker in self.db.smembers(self.key("expiringWorkers")):
            if not self.db.exists(self.key("workerTimers", worker.decode())):
                self.fail_worker(worker.decode())
                gone.append(worker.decode())
        return gone
