"""The engine for the wire format of hworker."""

from tenure.engines.hworker.engine import HworkerEngine

__all__ = ["HworkerEngine"]
