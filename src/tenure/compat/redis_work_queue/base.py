"""The part that both work queues share: the engine, the checks of arguments, and the steps of each operation."""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from tenure.compat.redis_work_queue.arguments import id_of, lease_ms, slice_s, timeout_s
from tenure.compat.redis_work_queue.calls import LEASE, Key, Nonces, exchange
from tenure.compat.redis_work_queue.cluster import check_client, check_tag
from tenure.compat.redis_work_queue.errors import read_end
from tenure.compat.redis_work_queue.item import Item
from tenure.compat.redis_work_queue.keyprefix import KeyPrefix
from tenure.core import limits, names
from tenure.core.errors import InvalidArgument
from tenure.core.job import JobRecord, Lease
from tenure.core.logfmt import log_line
from tenure.core.steps import Arg, Command, Draw, Invoke, Nonce, Steps
from tenure.core.waiting import led_by
from tenure.engines.kit.base import checking_layout
from tenure.engines.kit.encoding import as_text
from tenure.engines.kit.extras import Cleaned
from tenure.engines.redis_work_queue import clean
from tenure.engines.redis_work_queue.config import CALLERS_MARK_MS, COMPARED_MAX, STRAY_MS, RedisWorkQueueConfig
from tenure.engines.redis_work_queue.engine import RedisWorkQueueEngine
from tenure.engines.redis_work_queue.keys import DEFAULT_QUEUE, check_prefix
from tenure.engines.redis_work_queue.scripts import SCRIPTS
from tenure.engines.redis_work_queue.wire import take_while_waiting

GRACE_S: Final = STRAY_MS / limits.SECOND
"""How long an item of another client must have been seen without a lease, before a clean returns it to the queue."""
LOOK_S: Final = 0.5
"""How often a deep clean looks again for items in no list."""
EXPIRIES_WARNED: Final = 3
"""Leases of one item that expired, after which the next lease logs the first warning."""
EXPIRIES_EACH: Final = 10
"""After each of this many follows another warning."""
HASHED_MAX: Final = 65_536
"""Bytes that the hash of an item covers. The hash of a larger item covers its size as well."""
LOGGER: Final = logging.getLogger("tenure.compat")
ADD: Final = SCRIPTS["add"]
IDLE_S: Final = 0.002
"""After a wait that lasted longer, the next lease begins with a wait."""
VAIN_S: Final = 0.05
"""The pause after a wait that ended early without an item."""
DRAW: Final = Draw()
T = TypeVar("T")


class WorkQueueBase:
    """The work queue of a prefix, without a way to reach Redis."""

    _is_async: bool
    _execute: Callable[..., Coroutine[Any, Any, Any]]
    _sleep: Callable[[float], Coroutine[Any, Any, None]]

    def __init__(self, name: KeyPrefix, *, grace: float = GRACE_S) -> None:
        self._prefix = check_prefix(name.of(""), "the prefix of a work queue")
        stray_ms = names.duration_ms(grace, "grace", least_ms=0, most_ms=limits.MAX_LEASE_MS)
        self._config = RedisWorkQueueConfig(stray_ms=stray_ms, mark_ms=CALLERS_MARK_MS, creates_meta=False)
        self._engine = RedisWorkQueueEngine(self._prefix, self._config)
        self._begin()
        # The names of the original's attributes.
        self._main_queue_key, self._processing_key = name.of(":queue"), name.of(":processing")
        self._cleaning_key = name.of(":cleaning")
        self._lease_key = KeyPrefix.concat(name, ":leased_by_session:")
        self._item_data_key = KeyPrefix.concat(name, ":item:")

    def _begin(self) -> None:
        """Begin a session."""
        self._session = uuid.uuid4().hex
        self._nonces = Nonces(self._prefix)
        self._waits = False
        self._checked: type | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("_session", "_nonces", "_waits", "_checked", "_kept")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make a copy. It has a session of its own: two processes must not draw the same nonces."""
        vars(self).update(state)
        self._begin()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._prefix!r}>"

    def _run(self, db: Any, steps: Steps[T], key: Key | None = None) -> Coroutine[Any, Any, T]:
        if type(db) is not self._checked:
            check_client(db, self._prefix, self._is_async)
            self._checked = type(db)
        return exchange(self._nonces, partial(self._execute, db), steps, key)

    async def _lease(self, db: Any, lease_secs: object, block: bool, limit: object) -> Item | None:
        wanted_ms = lease_ms(lease_secs)
        until = time.monotonic() + timeout_s(limit) if block else 0
        item = None
        # If the caller's last lease had to wait, it begins with the wait: to ask first costs its place in the line.
        if not (block and self._waits) or self._nonces.has_doubts:
            item = await self._run(db, self._claim(wanted_ms), LEASE)
        while item is None and (left := until - time.monotonic()) > 0:
            block_ms = max(limits.MIN_WAIT_MS, round(min(left, slice_s(db)) * limits.SECOND))
            began = time.monotonic()
            wait = take_while_waiting(self._prefix, block_ms)
            item = await self._run(db, led_by(wait, self._claim(wanted_ms)), LEASE)
            waited_s = time.monotonic() - began
            self._waits = waited_s > IDLE_S
            if item is None and waited_s < block_ms / limits.SECOND / 2:
                # Another client was faster, or Redis is at its memory limit and refuses to move anything.
                await self._sleep(min(VAIN_S, left))
        return item

    def _add(self, item: Item, replace: bool) -> Steps[bool]:
        id = id_of(item)
        nonce: Nonce = yield DRAW
        args = (id, item.data(), nonce.session, nonce.number, self._config.stray_ms, *((1,) if replace else ()))
        reply: int = yield Invoke(ADD, (self._prefix,), args)
        if reply < 0:
            ended = yield Command(("HGET", f"{self._prefix}:ended", id))
            raise read_end(item.id(), ended, self._prefix)
        return reply == 1

    def _add_command(self, pipeline: Any, item: Item, replace: bool) -> tuple[Any, ...]:
        """Return the command of a pipeline that adds an item. The first removes the answers of earlier pipelines."""
        check_tag(pipeline, self._prefix)
        groups, args = self._nonces.groups, (1, self._prefix, id_of(item), item.data())
        group = groups.pending(pipeline)
        if group is None:
            ended = groups.ended()
            return ("EVAL", ADD.text, *args, groups.begin(pipeline).name, 1, "", int(replace), *ended)
        # Few arguments: they are half of the cost.
        return ("EVALSHA", ADD.sha, *args, group.name, next(group.places), *(("", 1) if replace else ()))

    async def _close(self, db: Any) -> None:
        await self._nonces.clear(partial(self._execute, db), sessions=True)

    def _claim(self, lease_ms: int) -> Steps[Item | None]:
        nonce: Nonce = yield DRAW
        short = (nonce.session, nonce.number, self._session, lease_ms, self._config.timing.grace_ms)
        reply = yield Invoke(SCRIPTS["take"], (self._prefix,), short)
        if reply == 0:
            reply = yield from checking_layout(self._prefix, self._claim_at_length(nonce, lease_ms))
        if not reply:
            return None
        data, id, token, *expiries = reply
        item = Item(data, as_text(id))
        item.token, item._leased = f"{as_text(token)} {self._session}", data
        if expiries:
            self._warn(item, int(expiries[0]), lease_ms)
        return item

    def _warn(self, item: Item, expiries: int, lease_ms: int) -> None:
        """Log that leases of an item ended before it was completed, if that has happened often."""
        if expiries == EXPIRIES_WARNED or expiries % EXPIRIES_EACH == 0:
            fields = {"queue": self._prefix, "id": item.id(), "expiries": expiries, "lease_ms": lease_ms}
            log_line(LOGGER, "lease_expired", None, fields)

    def _claim_at_length(self, nonce: Nonce, lease_ms: int) -> Steps[list[Any]]:
        """Claim an item. A single call may not get past entries that it cannot lease, so it repeats."""
        for _ in range(limits.LEASE_LOOKS):
            head: tuple[Any, ...] = (nonce.session, nonce.number, self._config.as_argument(), self._session)
            next_ms, rows, *_ = yield Invoke(SCRIPTS["claim"], (self._prefix,), (*head, 1, lease_ms, "n", "", 1))
            if rows or next_ms != 0:
                return [rows[0][1], rows[0][0], rows[0][2], *rows[0][5:]] if rows else []
            nonce = yield DRAW
        return []

    def _complete(self, item: Item, token: str | None) -> Steps[bool]:
        """Complete an item by the token of its lease, or without a token by its id."""
        number, worker = _parts_of(item, token)
        # A text that is no token proves no lease.
        leased = _encoded(item["data"] if item._leased is None else item._leased) if worker else b""
        nonce: Nonce = yield DRAW
        args: tuple[Arg, ...] = (nonce.session, nonce.number, id_of(item), number, worker)
        reply: bytes = b""
        if worker:
            same = leased if len(leased) <= COMPARED_MAX else _hash(leased)
            reply = yield Invoke(SCRIPTS["complete"], (self._prefix,), (*args, same))
        if not reply:
            reply = yield Invoke(SCRIPTS["finish"], (self._prefix,), (*args, _hash(leased) if worker else ""))
        return reply == b"1"

    def _extend(self, item: Item, lease_secs: object, token: str | None) -> Steps[bool]:
        ms, (number, worker) = lease_ms(lease_secs), _parts_of(item, token)
        if not number:
            raise InvalidArgument("The item has no token, so its lease is unknown. Pass an item that lease() returned.")
        record = JobRecord(item.id(), DEFAULT_QUEUE, b"", 0)
        return self._engine.extend(Lease(worker, int(number), record, 0, 0), ms)

    def _light(self) -> Steps[Cleaned]:
        return clean.light_clean(self._prefix, self._config)

    async def _deep_clean(self, db: Any) -> None:
        """Clean, and wait for items in no list that are younger than the grace: their producers may list them yet."""
        _, left = await self._run(db, clean.clean(self._prefix, self._config, deep=True))
        until = time.monotonic() + self._config.stray_ms / limits.SECOND + LOOK_S
        while left and time.monotonic() < until:
            await self._sleep(LOOK_S)
            left = await self._run(db, clean.search_again(self._prefix, self._config, left))

    def _length(self, suffix: str) -> Steps[int]:
        length: int = yield Command(("LLEN", f"{self._prefix}:{suffix}"))
        return length


def _parts_of(item: Item, token: str | None) -> tuple[str, str]:
    """Return the number and the worker of a token; two empty texts: there is no token."""
    token = item.token if token is None else token
    if token is None:
        return "", ""
    number, _, worker = token.partition(" ")
    if not (number.isascii() and number.isdigit()):
        return "0", ""  # no lease has this token
    return number[:18], worker


def add_key(item: Item, replace: bool) -> Key:
    """Return the key of an add. An item with the same id and other data is another item."""
    return ("replace" if replace else "add", item.id(), item.data())


def complete_key(item: Item, token: str | None) -> Key:
    """Return the key of a complete: the token names the lease. Without one, a repeated call has the same data; a
    later item of the id mostly has not."""
    token = item.token if token is None else token
    return ("complete", item.id(), f"data {_digest(item.get('data'))}" if token is None else token)


def _hash(raw: bytes) -> str:
    """Return the hash of leased data, as lua/lib/hash.lua does."""
    if len(raw) > HASHED_MAX:
        raw = b"%d " % len(raw) + raw[:HASHED_MAX]
    return hashlib.sha1(raw, usedforsecurity=False).hexdigest()[:16]


def _encoded(data: object) -> bytes:
    """Return an item's data as bytes. It may be text: an item is a dict, which a caller may build by hand."""
    return data if isinstance(data, bytes) else str(data).encode("utf-8", "surrogatepass")


def _digest(data: object) -> str:
    """Return a digest of an item's data."""
    return hashlib.sha256(_encoded(data)).hexdigest()
