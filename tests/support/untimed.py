"""Imported by tests with Hypothesis: on a busy machine, neither an example nor the making of one may be too slow."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
