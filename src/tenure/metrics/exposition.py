"""The text that Prometheus reads, by the package prometheus-client (the extra `prometheus`)."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from tenure._version import __version__
from tenure.core.errors import NotConfigured
from tenure.metrics.counts import Key, Measured, totals
from tenure.metrics.families import BUCKETS, FAMILIES, Family, Kind

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS: Final = (*map(str, BUCKETS), "+Inf")


def check_prometheus() -> None:
    """Raises `NotConfigured` when the package is missing."""
    if importlib.util.find_spec("prometheus_client") is None:
        raise NotConfigured(
            "Metrics need the package prometheus-client, which is not installed. Install it with "
            "`pip install 'tenure[prometheus]'`."
        )


class Snapshot:
    """A collector of prometheus-client over values at one moment. `families`: those that are named even without values.

    text = exposition(Snapshot(counts.snapshot(), OF_WORKERS))
    """

    def __init__(self, measured: Measured, families: Mapping[str, Family]) -> None:
        self._values = totals(measured, families)

    def collect(self) -> Iterable[Metric]:
        for name, values in self._values.items():
            yield _metric(name, values)
        yield _metric("tenure_build_info", [((__version__, platform.python_version()), (1.0,))])


def exposition(snapshot: Snapshot) -> bytes:
    """Return the text for Prometheus."""
    from prometheus_client import generate_latest

    text: bytes = generate_latest(snapshot)
    return text


def _metric(name: str, values: Sequence[tuple[Key, tuple[float, ...]]]) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    family = FAMILIES[name]
    if family.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(name, family.help, labels=family.labels)
        for labels, (*counts, total) in values:
            histogram.add_metric(labels, list(zip(_BOUNDS, accumulate(counts), strict=True)), total)
        return histogram
    kind = CounterMetricFamily if family.kind is Kind.COUNTER else GaugeMetricFamily
    metric = kind(name.removesuffix("_total"), family.help, labels=family.labels)
    for labels, (number,) in values:
        metric.add_metric(labels, number)
    if not family.labels and not values and family.kind is Kind.COUNTER:
        metric.add_metric((), 0.0)
    return metric
