"""Processes around a worker: the supervisor, the lease keeper, health, restarts and reloads. They run no user code."""
