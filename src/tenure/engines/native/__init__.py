"""The native engine: Tenure's own wire format. Its layout is documented in docs/reference/native-layout.md."""

from tenure.engines.native.engine import NativeEngine

__all__ = ["NativeEngine"]
