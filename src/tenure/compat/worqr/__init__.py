"""The interface of worqr, a queue for Node, for Python: on the same keys, with the same names in Python's spelling.

    from tenure.compat.worqr import Worqr

    with Worqr("redis://localhost:6379/0") as worqr:
        worqr.start_worker()
        worqr.start_work("images")
        worqr.on("images", lambda event, message: print(event, message))
        worqr.enqueue("images", ["cat.png", "dog.png"])
        if process := worqr.dequeue("images"):
            worqr.finish_process(process.id, {"width": 128})

`AsyncWorqr` is for asyncio.
"""

from tenure.compat.worqr.aio import AsyncWorqr, Process
from tenure.compat.worqr.sync import Worqr

__all__ = ["AsyncWorqr", "Process", "Worqr"]
