"""A small engine for the tests: text tokens, waiting by pub/sub, leases that settle together, and few features.

It shows what a wire protocol needs: this folder, `PROTOCOL` (its registry entry) and an entry in
tests/support/engines.py.
"""

from tests.support.sixth.engine import SixthEngine
from tests.support.sixth.protocol import PROTOCOL, Sixth

__all__ = ["PROTOCOL", "Sixth", "SixthEngine"]
