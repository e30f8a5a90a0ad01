"""Metrics for Prometheus: which there are, how they are counted, and their text. It knows neither workers nor Redis."""
