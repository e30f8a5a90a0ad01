"""Drives the original Python package: a command a line on stdin, an answer a line on stdout, both JSON."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from typing import Any

import redis
from redis_work_queue import Item, KeyPrefix, WorkQueue  # type: ignore[import-not-found]

TAKES_NO_ITEM = {"light_clean", "queue_len", "processing"}


def consume(queue: Any, db: Any, path: str, secs: int) -> None:
    """Work until killed. Every step is written down at once."""
    with open(path, "ab", buffering=0) as log:
        while True:
            item = queue.lease(db, secs, True, 1)
            if item is None:
                continue
            log.write(f"start {item.id()}\n".encode())
            time.sleep(0.002)
            done = queue.complete(db, item)
            log.write(f"done {item.id()} {int(done)}\n".encode())


def main() -> None:
    url, prefix = sys.argv[1:3]
    db, queue = redis.Redis.from_url(url), WorkQueue(KeyPrefix(prefix))
    out = os.fdopen(os.dup(1), "w", buffering=1)
    sys.stdout = sys.stderr  # the package prints when it cleans
    for line in sys.stdin:
        op, *args = json.loads(line)
        answer: Any
        if op == "add":
            answer = queue.add_item(db, Item(base64.b64decode(args[1]), args[0]))
        elif op == "lease":
            item = queue.lease(db, args[0], args[1] > 0, args[1])
            answer = None if item is None else [item.id(), base64.b64encode(item.data()).decode()]
        elif op == "complete":
            answer = queue.complete(db, Item(b"", args[0]))
        elif op == "consume":
            consume(queue, db, args[0], args[1])
        else:
            assert op in TAKES_NO_ITEM
            answer = getattr(queue, op)(db)
        out.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
