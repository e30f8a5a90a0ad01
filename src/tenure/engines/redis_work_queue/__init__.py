"""The wire format of redis-work-queue. Its layout is documented in docs/protocols/redis-work-queue.md."""

from tenure.engines.redis_work_queue.engine import RedisWorkQueueEngine

__all__ = ["RedisWorkQueueEngine"]
