"""Helpers for tests: Redis servers to start, stop, freeze and kill."""
