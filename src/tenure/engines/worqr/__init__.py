"""The wire format of worqr. Its layout is documented in docs/protocols/worqr.md."""

from tenure.engines.worqr.engine import WorqrEngine

__all__ = ["WorqrEngine"]
