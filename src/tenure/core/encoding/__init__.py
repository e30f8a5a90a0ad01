"""Payloads and results as JSON, and the signatures and types that they are checked against."""
