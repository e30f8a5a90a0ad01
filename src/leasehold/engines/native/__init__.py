"""The native engine: Leasehold's own wire format. Its layout is documented in docs/reference/native-layout.md."""

from leasehold.engines.native.engine import NativeEngine

__all__ = ["NativeEngine"]
