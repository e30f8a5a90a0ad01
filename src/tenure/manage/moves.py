"""Moves queues to another server: checks both servers, then moves round by round until nothing is left."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tenure.client.connections import Connections
from tenure.core.engine import FullEngine
from tenure.core.errors import AccessDenied, QueueFull, ReplyError, TenureError, Unreachable
from tenure.core.steps import Command, Steps
from tenure.manage.preflight import combined, fields_of, inspect_server, inspect_use
from tenure.manage.transfer import Side, Transfer
from tenure.protocols.registry import engine_for, entry_of, rights_of
from tenure.redis.url import Target, is_cluster
from tenure.settings import Settings

T = TypeVar("T")

ROUND_S: Final = 1.0
"""How long a move that follows held jobs waits between two rounds."""


@dataclass(frozen=True, slots=True)
class Server:
    """One of the two servers."""

    settings: Settings
    engine: FullEngine
    connections: Connections

    @classmethod
    def at(cls, url: str, like: Settings, patience: float) -> Server:
        """Return another server, for the queues of these settings."""
        settings = Settings.load(
            url=url, namespace=like.namespace, protocol=like.protocol, durable=like.durable, patience=patience
        )
        return cls(settings, engine_for(settings.protocol, settings), Connections(settings))

    def side(self, queue: str) -> Side:
        """Return a queue of this server as one side of a move."""
        make = entry_of(self.engine).transfer
        assert make is not None
        return Side(self.connections.run, self.engine, make(self.engine), queue, self.settings.durable)


class MoveStopped(TenureError):
    """The destination is full. What has not moved waits where it was."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found before a move. `problems`: it cannot begin. `warnings`: a user may accept them."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def check_servers(here: Server, there: Server, pairs: Sequence[tuple[str, str]]) -> Checked:
    """Check whether both servers can do their part for these queues, and their names at the destination."""
    clustered = is_cluster(there.settings.url)
    found = combined(_of_all(there.connections.run_on_each(lambda: inspect_server(clustered))))
    more = there.connections.run(inspect_use(rights_of(there.engine))) if found.is_usable else ()
    problems = [*found.errors, *(str(one) for one in more if one.level.value == "error")]
    missing = here.connections.run(rights_of(here.engine).missing())
    if missing:
        problems.append(f"The user at the source lacks rights: {' '.join(missing)}.")
    ours, theirs = (dict(_of_all(one.connections.run_on_each(_info))) for one in (here, there))
    same = _ids(ours) & _ids(theirs) and Target.parse(here.settings.url).db == Target.parse(there.settings.url).db
    for queue, to in pairs:
        if same and here.engine.prefix(queue) == there.engine.prefix(to):
            problems.append("Both URLs are of the same server.")
            break
        for server, name in ((here, queue), (there, to)):
            if server.connections.run(server.engine.layout_of(name)) > server.engine.layout:
                problems.append(f"A newer release has written to queue {name!r}: use its `tenure migrate`.")
    warnings = (f"The destination: {warning}" for warning in found.warnings)
    return Checked(tuple(problems), (*_memory(ours, theirs), *warnings))


def move_all(moves: Mapping[str, Transfer], wait_s: float) -> None:
    """Move each queue, and those that are not over again until `wait_s` seconds have passed. Raises `MoveStopped`."""
    until = time.monotonic() + wait_s
    first = True
    while True:
        left = False
        for queue, move in moves.items():
            try:
                left = not move.run(first=first).is_over or left
            except QueueFull as error:
                count = "1 job" if move.done.jobs == 1 else f"{move.done.jobs:,} jobs"
                raise MoveStopped(
                    f"Queue {queue!r}: {count} moved; the others wait where they were, and the queue stays paused at "
                    f"the destination. {error} Then run the command again."
                ) from None
        first = False
        if not left or time.monotonic() >= until:
            return
        time.sleep(ROUND_S)


def _of_all(answers: list[tuple[str, T | Unreachable]]) -> list[tuple[str, T]]:
    """Return the answers. Raises `Unreachable` if a node is lost."""
    found: list[tuple[str, T]] = []
    for address, one in answers:
        if isinstance(one, Unreachable):
            raise one
        found.append((address, one))
    return found


def _info() -> Steps[dict[str, str]]:
    """Return the fields of INFO; empty for a user who may not read it."""
    try:
        return fields_of((yield Command(("INFO",))))
    except (AccessDenied, ReplyError):
        return {}


def _ids(servers: Mapping[str, Mapping[str, str]]) -> set[str]:
    return {info["run_id"] for info in servers.values() if "run_id" in info}


def _memory(ours: Mapping[str, Mapping[str, str]], theirs: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Warn of a destination with less memory than the source uses."""
    used = max((int(info.get("used_memory", 0)) for info in ours.values()), default=0)
    limited = [info for info in theirs.values() if info.get("maxmemory", "0") != "0"]
    free = min((int(info["maxmemory"]) - int(info.get("used_memory", 0)) for info in limited), default=used)
    if free >= used:
        return []
    return [
        f"A server of the destination has {free / 2**20:,.0f} MB of memory left, and the source uses "
        f"{used / 2**20:,.0f} MB. When it is full, the command stops, and the rest stays at the source."
    ]
