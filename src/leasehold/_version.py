"""The version of Leasehold. No other file has it."""

__version__ = "0.1.0"
