"""The engine for values of one type, and the operations that only the original's interface has."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from typing import Any, Final

import msgspec
from msgspec import structs

from tenure.core.encoding.codec import check_depth
from tenure.core.job import Lease, NewJob
from tenure.core.steps import Command, Steps
from tenure.engines.hworker import HworkerEngine
from tenure.engines.hworker.config import HworkerConfig
from tenure.engines.hworker.keys import BROKEN, DEFAULT_QUEUE, FAILED, JOBS
from tenure.engines.hworker.records import value_of
from tenure.engines.kit.encoding import as_text

PAGE: Final = 500
"""Entries that one call reads."""
PHANTOM: Final = b"false"
"""What an idle worker of the original writes and another one files under broken. It is no job."""
_LISTS = {"jobs": JOBS, "failed": FAILED}


class TypedEngine(HworkerEngine):
    """A pool of jobs with values of one type. A job with a value of another type is malformed and ends in broken."""

    def __init__(self, pool: str, config: HworkerConfig, kind: Any) -> None:
        super().__init__(pool, config)
        self._decode = msgspec.json.Decoder(kind, float_hook=_number).decode

    def value_in(self, payload: bytes) -> Any:
        """The value of a job. Raises `ValueError` when it has another type."""
        check_depth(payload)
        return self._decode(payload)

    def _lease(self, worker: str, queue: str, row: list[Any], alone_ms: int) -> Lease:
        lease = super()._lease(worker, queue, row, alone_ms)
        if lease.record.malformed or lease.record.task is not None:
            return lease
        try:
            self.value_in(lease.record.payload)
        except (ValueError, RecursionError) as error:
            return structs.replace(
                lease, record=structs.replace(lease.record, malformed=f"The value cannot be decoded: {error}")
            )
        return lease

    def push(self, value: bytes) -> Steps[None]:
        """Enqueue a job with a new id."""
        yield from self.enqueue([NewJob(DEFAULT_QUEUE, str(uuid.uuid4()), value)])

    def values_of(self, kind: str, most: int) -> Steps[list[Any]]:
        """The values of the jobs of a list, the newest first. Those that cannot be decoded are left out."""
        found: list[Any] = []
        for start in range(0, most, PAGE):
            page: list[bytes] = yield Command(("LRANGE", f"{_LISTS[kind]}{self.pool}", start, start + PAGE - 1))
            for data in page:
                value = value_of(data)
                try:
                    found += [] if value is None else [self.value_in(value)]
                except (ValueError, RecursionError):
                    continue
            if len(page) < PAGE:
                break
        return found

    def broken(self, most: int) -> Steps[list[tuple[bytes, str]]]:
        """The bytes of broken jobs, and when they were found to be."""
        found: dict[bytes, str] = {}
        cursor = "0"
        while len(found) < most:
            following, page = yield Command(("HSCAN", f"{BROKEN}{self.pool}", cursor, "COUNT", PAGE))
            found.update(zip(page[::2], (as_text(at).strip('"') for at in page[1::2]), strict=True))
            found.pop(PHANTOM, None)
            cursor = as_text(following)
            if cursor == "0":
                break
        return list(found.items())[:most]

    def destroy(self) -> Steps[None]:
        """Remove the keys of the pool."""
        yield from self._act("destroy", DEFAULT_QUEUE)


def _number(text: str) -> float | Decimal:
    """A number of a value without a type. Haskell has numbers that a float cannot hold."""
    value = float(text)
    return value if math.isfinite(value) else Decimal(text)
