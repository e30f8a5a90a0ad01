"""The interface of the package `redis-work-queue` on Tenure's engine: change the import, and keep the rest.

    from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue

    queue = WorkQueue(KeyPrefix("jobs"))
    queue.add_item(db, Item.from_json_data({"to": "a@example.org"}))
    item = queue.lease(db, 5)
    send(item.data_json())
    queue.complete(db, item)

`db` is any client of the redis package, with `decode_responses` on or off. `AsyncWorkQueue` is for asyncio.
"""

from tenure.compat.redis_work_queue.errors import ItemEnded
from tenure.compat.redis_work_queue.item import Item
from tenure.compat.redis_work_queue.keyprefix import KeyPrefix
from tenure.compat.redis_work_queue.workqueue import AsyncWorkQueue, WorkQueue

__all__ = ["AsyncWorkQueue", "Item", "ItemEnded", "KeyPrefix", "WorkQueue"]
