"""Queues in several partitions: the native engine for one queue over many slots of a cluster."""
