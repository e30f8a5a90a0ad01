"""Processes around a worker: the parent, the lease keeper, health, restarts and reloads. They run no user code."""
