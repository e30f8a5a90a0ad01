"""The engine of queue-farm: many queues in one namespace, each strictly in order."""

from tenure.engines.queue_farm.engine import QueueFarmEngine

__all__ = ["QueueFarmEngine"]
