"""Draw panels of bars, given as JSON on stdin: `python draw.py OUT.png`. Runs in the environment `plot`."""

from __future__ import annotations

import json
import sys
from typing import Any

import matplotlib  # type: ignore[import-not-found]

matplotlib.use("Agg")
from matplotlib import pyplot

COLORS = {"ours": "#1f6f54", "loop": "#b8b8b8", "peer": "#5b7fa6"}
COLUMNS = 2


def draw(panels: list[dict[str, Any]], path: str) -> None:
    rows = -(-len(panels) // COLUMNS)
    figure, places = pyplot.subplots(rows, COLUMNS, figsize=(12, 3.6 * rows), squeeze=False, layout="constrained")
    for place in places.flat[len(panels) :]:
        place.remove()
    for panel, place in zip(panels, places.flat, strict=False):
        bars = panel["bars"][::-1]
        values = [bar["ratio"] for bar in bars]
        drawn = place.barh([bar["title"] for bar in bars], values, color=[COLORS[bar["group"]] for bar in bars])
        place.bar_label(
            drawn, [f"{value:.2g}" if value < 10 else f"{value:.0f}" for value in values], padding=3, size=8
        )
        place.set_xscale("log")
        place.set_xlim(min(values) * 0.6, max(values) * 2.5)
        place.axvline(1, color="#404040", linewidth=0.8, linestyle=":")
        place.set_title(panel["title"], loc="left", size=10, weight="bold")
        place.set_xlabel("times as good as the best peer", size=8)
        place.tick_params(labelsize=8)
        place.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    draw(json.load(sys.stdin), sys.argv[1])
