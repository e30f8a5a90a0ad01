"""What the duties of one worker share."""

from __future__ import annotations

import os
import re
import secrets
import socket
from dataclasses import dataclass

from leasehold.core.engine import Engine
from leasehold.runtime.loops import MonitoredDriver
from leasehold.runtime.observe.dispatcher import EventDispatcher
from leasehold.runtime.ports import Env


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """One worker: its id and queues, and the way to Redis. `events`: None where there are no listeners."""

    worker: str
    queues: tuple[str, ...]
    engine: Engine
    driver: MonitoredDriver
    env: Env
    events: EventDispatcher | None = None


def fresh_worker_id() -> str:
    """A name that no other worker has: host, process and a random part."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:60]
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
