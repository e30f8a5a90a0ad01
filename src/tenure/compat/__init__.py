"""The Python interfaces of other queues, over the engines with their wire formats."""
