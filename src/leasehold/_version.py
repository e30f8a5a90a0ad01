"""The version of Leasehold, said in this one place."""

__version__ = "0.1.0"
