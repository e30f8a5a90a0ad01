"""The Python interfaces of other queues, over the engines that speak their wire formats."""
