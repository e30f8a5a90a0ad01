"""The work queue for blocking code."""

from __future__ import annotations

import time
from typing import Any

from leasehold.compat.redis_work_queue.base import Base, add_key, complete_key, lease_ms, slice_s, timeout_s
from leasehold.compat.redis_work_queue.calls import LEASE, run
from leasehold.compat.redis_work_queue.item import Item


class WorkQueue(Base):
    """A work queue of items, at the keys of a prefix.

        queue = WorkQueue(KeyPrefix("jobs"))

    Every method takes a client of the redis package. `grace`: for how many seconds an item that another client took
    must have been seen without a lease, before `light_clean` or `deep_clean` put it back; 10 by default. It should not
    be shorter than the leases of other clients. Raises `InvalidArgument` for a prefix whose keys would be those of
    another queue.
    """

    def add_item(self, db: Any, item: Item) -> bool:
        """Add an item. False: there is one of this id already, and nothing was changed."""
        return run(db, self._add(item), self._nonces.turn(add_key(item)))

    def add_unique_item(self, db: Any, item: Item) -> bool:
        """Add an item whose id nobody else has. Should there be one all the same, it is left alone: False."""
        return self.add_item(db, item)

    def add_unique_item_to_pipeline(self, pipeline: Any, item: Item) -> None:
        """Put the command that adds an item whose id nobody else has on a pipeline of the caller's.

        Its result is 1, or 0 when there was one of this id. A pipeline that watches keys sends it at once, and not with
        the others, before its `multi()`.
        """
        pipeline.execute_command(*self._add_command(item))

    add_item_to_pipeline = add_unique_item_to_pipeline

    def lease(self, db: Any, lease_secs: float, block: bool = True, timeout: float = 0) -> Item | None:
        """Take the next item for `lease_secs` (at least 1). Without one: None if not `block`, or after `timeout`
        seconds; 0: for ever. An item that is not completed in time may be given to somebody else."""
        wanted_ms, slice = lease_ms(lease_secs), slice_s(db)
        until = time.monotonic() + timeout_s(timeout)
        while True:
            item = run(db, self._claim(wanted_ms), self._nonces.turn(LEASE))
            left = until - time.monotonic()
            if item is not None or not block or left <= 0:
                return item
            run(db, self._wait(min(left, slice)), self._nonces.turn())

    def extend(self, db: Any, item: Item, lease_secs: float, token: str | None = None) -> bool:
        """Hold a leased item for `lease_secs` from now. False: it is ours no longer, and nothing was changed."""
        steps = self._extend(item, lease_ms(lease_secs), token)
        return run(db, steps, self._nonces.turn())

    def complete(self, db: Any, item: Item, token: str | None = None) -> bool:
        """Remove an item for good. True for one call per item; False: somebody else did, or holds it now.

        A call whose reply was lost may be made again: it then gets the answer of the first. `token`: that of the item,
        where it is not known here, `item.token` of what `lease` gave.
        """
        return run(db, self._complete(item, token), self._nonces.turn(complete_key(item, token)))

    def light_clean(self, db: Any) -> None:
        """Put back what was taken by somebody who has died: at once if our lease has ended, else after `grace`.

        Call it now and then; a worker of ours does it by itself.
        """
        run(db, self._light(), self._nonces.turn())

    def deep_clean(self, db: Any) -> None:
        """The same, and put back items that are in no list: their producer, or a cleaner, died half-way."""
        run(db, self._deep(), self._nonces.turn())

    def queue_len(self, db: Any) -> int:
        """How many items wait."""
        return run(db, self._length("queue"), self._nonces.turn())

    def processing(self, db: Any) -> int:
        """How many items are leased, or were and wait to be put back."""
        return run(db, self._length("processing"), self._nonces.turn())
