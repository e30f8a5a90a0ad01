"""Job processes: handlers that run in a process of their own, so that it can be killed."""
