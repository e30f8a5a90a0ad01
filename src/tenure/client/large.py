"""Large payloads: to the store before the enqueue, a store in the file system, and the removal of what no job names."""

from __future__ import annotations

import inspect
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import quote, unquote

from msgspec import structs

from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, PayloadTooLarge, TenureError, UnsupportedFeature, invalid
from tenure.core.job import ErrorInfo, JobView, Lease, Leased
from tenure.core.outcome import Broken, Released
from tenure.core.shape import Conflict
from tenure.core.steps import Steps, Work
from tenure.core.stores import PAYLOAD_HEADER, PayloadStore, data_of, is_own, job_of, key_of, new_key
from tenure.core.values import replace

if TYPE_CHECKING:
    from tenure.core.engine import Engine, FullEngine
    from tenure.core.job import NewJob

Run: TypeAlias = Callable[[Steps[Any]], Any]

MAX_STORED: Final = 2**30
"""Bytes of a payload in a store."""
NO_ARGUMENTS: Final = b"[[],{}]"
"""What Redis has in place of arguments that are in the store."""
_TAKES_OVER: Final = (Conflict.REPLACE, Conflict.RERUN, Conflict.POSTPONE)
_BESIDE: Final = ".tenure-"
"""How the name of a file begins that is being written."""
_PART: Final = 200
"""Characters of a key in one name of a directory or a file."""


class FileStore:
    """A store of large payloads in a directory that producers and workers share, such as a network file system.

        app = Tenure(large=FileStore("/srv/payloads"))

    A payload is one file, written under another name, synchronized to the disk and renamed, so that no reader sees half
    of it. A relative path is made absolute now.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory).absolute()

    def __repr__(self) -> str:
        return f"FileStore({str(self._directory)!r})"

    def put(self, key: str, data: bytes) -> None:
        """Write a payload. Raises `OSError`."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{_BESIDE}{secrets.token_hex(8)}")
        try:
            with open(beside, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        for folder in (path.parent, self._directory):  # the second may have the first one since now
            _synchronize(folder)

    def get(self, key: str) -> bytes:
        """Read a payload. Raises `KeyError` if it is missing, and `OSError`."""
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            raise KeyError(key) from None

    def delete(self, key: str) -> None:
        """Remove a payload, if it is there. Raises `OSError`."""
        self._path(key).unlink(missing_ok=True)

    def old(self, before: datetime) -> Iterator[str]:
        """Yield the keys of payloads that were written before a time. Removes what killed writers left."""
        for folder, _, files in os.walk(self._directory):
            for name in files:
                path = Path(folder, name)
                if not name.startswith((_BESIDE, "%_")):
                    continue
                try:
                    if path.stat().st_mtime >= before.timestamp():
                        continue
                    if name.startswith(_BESIDE):
                        path.unlink()
                        continue
                except FileNotFoundError:
                    continue
                yield unquote("".join(path.relative_to(self._directory).parts[1:]).replace("%_", ""))

    def _path(self, key: str) -> Path:
        # A key may be longer than a file's name; directories with millions of files are slow.
        text = quote(key, safe="")
        parts = [text[start : start + _PART] for start in range(0, len(text), _PART)]
        return self._directory.joinpath(sha256(key.encode()).hexdigest()[:2], *(f"%_{part}" for part in parts))


class NotedStore:
    """A store that notes the payloads put into it, so that a test can delete them."""

    def __init__(self, store: PayloadStore) -> None:
        self._store = store
        self._keys: set[str] = set()
        self.get = store.get
        self.old = store.old

    def put(self, key: str, data: bytes) -> None:
        self._keys.add(key)
        self._store.put(key, data)

    def delete(self, key: str) -> None:
        self._store.delete(key)
        self._keys.discard(key)

    def delete_all(self) -> None:
        """Delete what was put and is still there."""
        for key in self._keys:
            self._store.delete(key)


def _synchronize(directory: Path) -> None:
    """Write a directory's entries to the disk."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def checked_store(store: object) -> PayloadStore | None:
    """Refuse what is no store. Raises `InvalidArgument`."""
    if store is None:
        return None
    methods = [getattr(store, name, None) for name in ("put", "get", "delete", "old")]
    if isinstance(store, type) or not all(map(callable, methods)) or not isinstance(store, PayloadStore):
        kind = store.__name__ if isinstance(store, type) else type(store).__name__
        raise invalid("large", "a FileStore, or an object with the methods put, get, delete and old", kind)
    for method in methods:
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            name = getattr(method, "__name__", "method")
            raise InvalidArgument(f"large: {name} of the store must be a plain function: it is called in a thread.")
    return store


class LargePayloads:
    """What a client does with payloads above its limit. `store`: None, if the app has none."""

    def __init__(self, store: PayloadStore | None) -> None:
        self.store = store

    def check(self, engine: Engine, job: NewJob, most: int) -> None:
        """Refuse a payload above `most` bytes that the store cannot take, before anything is sent."""
        size = len(job.payload)
        if self.store is not None and job.task is None and Feature.BYTES not in engine.features:
            raise UnsupportedFeature(
                f"The protocol {engine.name} has no place for the key of a large raw payload. Enqueue a call of a task."
            )
        if self.store is None or size > MAX_STORED:
            raise PayloadTooLarge(size, most if self.store is None else MAX_STORED)
        if job.shape.unique is not None and job.shape.unique.conflict in _TAKES_OVER:
            raise InvalidArgument(
                f"The payload has {size:,} bytes and goes to the store, so it cannot replace the payload of another "
                "job. Use a unique key that rejects the job or keeps the existing one."
            )

    def put(self, engine: FullEngine, jobs: Sequence[NewJob], most: int) -> Steps[Sequence[NewJob]]:
        """Write payloads above `most` bytes to the store. Return the jobs with their keys instead."""
        if self.store is None or all(len(job.payload) <= most for job in jobs):
            return jobs
        sent: list[NewJob] = []
        for job in jobs:
            if len(job.payload) > most:
                key = new_key(engine.prefix(job.queue), job.queue, job.id)
                yield Work(partial(self.store.put, key, job.payload))
                headers = {**(job.headers or {}), PAYLOAD_HEADER: key}
                job = structs.replace(job, payload=b"" if job.task is None else NO_ARGUMENTS, headers=headers)
            sent.append(job)
        return sent

    def remove(self, jobs: Iterable[NewJob]) -> Steps[None]:
        """Remove the payloads of jobs that were not enqueued, because another job has their id or key."""
        for job in jobs:
            key = key_of(job.headers)
            if self.store is not None and key is not None:
                yield Work(partial(_deleted, self.store, key))

    def withdraw(self, engine: FullEngine, jobs: Iterable[NewJob]) -> Steps[None]:
        """Remove the payloads of jobs for which their queue had no room. Some of the jobs may be enqueued."""
        stored = [job for job in jobs if key_of(job.headers) is not None]
        with suppress(TenureError):  # `clean` does it later
            for job in stored:
                if (yield from engine.job(job.queue, job.id)) is None:
                    yield from self.remove([job])

    def remove_read(self, lease: Lease) -> Steps[None]:
        """Remove the payload of a job leased by hand that has completed. If that fails, `clean` does it later."""
        key = key_of(lease.record.headers)
        if key is None or self.store is None or lease.record.shape.persistent:
            return
        if is_own(key, lease.record.id):
            yield Work(partial(_deleted, self.store, key))

    def payload_of(self, view: JobView) -> Steps[bytes | None]:
        """Return the payload of a job that waits; None if the store has none."""
        key = key_of(view.headers)
        if self.store is None or key is None or not is_own(key, view.id):
            return view.payload
        data, error = yield Work(partial(_found, self.store, key))
        if error is not None:
            raise error
        return cast(bytes | None, data)

    def read(self, engine: Engine, leased: Leased) -> Steps[Leased]:
        """Read the payload of a job leased by hand. A job without its payload ends in `broken`: look for the next."""
        [lease] = leased.leases
        key = key_of(lease.record.headers)
        if key is None:
            return leased
        is_mine = is_own(key, lease.record.id)
        data, error = (None, None)
        if self.store is not None and is_mine:
            data, error = yield Work(partial(_found, self.store, key))
        if error is not None:
            yield from engine.settle([(lease, Released())])
            raise error
        if data is None:
            reason = "this app has no store: Tenure(large=...)" if self.store is None else f"the store has no {key}"
            reason = reason if is_mine else "the record names the payload of another job"
            yield from engine.settle([(lease, Broken(ErrorInfo("PayloadMissing", f"The payload: {reason}.")))])
            return Leased(next_ms=0)
        read = structs.replace(lease, record=structs.replace(lease.record, payload=data))
        return replace(leased, leases=(read,))

    def clean(self, engine: FullEngine, run: Run, age_s: float) -> Iterator[str]:
        """Delete old payloads that no job names. Yields what became of each: "deleted", "used" or "unknown".

        Unknown: it is of another namespace or wire format, or its queue is not in this Redis. Raises `InvalidArgument`
        without a store.
        """
        if self.store is None:
            raise InvalidArgument("The app has no store of large payloads: Tenure(large=...).")
        queues = set(run(engine.queues()))
        for key in self.store.old(datetime.fromtimestamp(time.time() - age_s, UTC)):
            found = job_of(key)
            if found is None or found[1] not in queues or engine.prefix(found[1]) != found[0]:
                yield "unknown"
                continue
            _, queue, id = found
            view = run(engine.job(queue, id))
            if view is not None and key_of(view.headers) == key:
                yield "used"
            else:
                self.store.delete(key)
                yield "deleted"


def _deleted(store: PayloadStore, key: str) -> None:
    with suppress(Exception):
        store.delete(key)


def _found(store: PayloadStore, key: str) -> tuple[bytes | None, Exception | None]:
    """The payload, or None if it is missing; and the error of the store."""
    try:
        return data_of(store, key), None
    except LookupError:
        return None, None
    except Exception as error:
        return None, error
