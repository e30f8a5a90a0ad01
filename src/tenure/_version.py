"""The version of Tenure. No other file has it."""

__version__ = "0.1.0"
