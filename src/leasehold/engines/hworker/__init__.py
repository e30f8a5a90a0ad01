"""The engine for the wire format of hworker."""

from leasehold.engines.hworker.engine import HworkerEngine

__all__ = ["HworkerEngine"]
