"""Draw panels of points, given as JSON on stdin: `python draw.py OUT.png`. Runs in the environment `plot`."""

from __future__ import annotations

import json
import sys
from typing import Any

import matplotlib  # type: ignore[import-not-found]

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter, NullFormatter  # type: ignore[import-not-found]

COLORS = {"ours": "#1f6f54", "loop": "#9a9a9a", "peer": "#5b7fa6"}
COLUMNS = 2


def draw(panels: list[dict[str, Any]], path: str) -> None:
    """Draw a panel for each measure: a point for each queue on a log axis, and its ratio next to it."""
    rows = -(-len(panels) // COLUMNS)
    figure, places = pyplot.subplots(rows, COLUMNS, figsize=(12, 4.2 * rows), squeeze=False, layout="constrained")
    for place in places.flat[len(panels) :]:
        place.remove()
    for panel, place in zip(panels, places.flat, strict=False):
        points = panel["points"][::-1]
        values = [point["ratio"] for point in points]
        for height, point in enumerate(points):
            color = COLORS[point["group"]]
            place.plot([point["ratio"]], [height], "o", color=color, markersize=7)
            label = f"{point['ratio']:.2g}" if point["ratio"] < 10 else f"{point['ratio']:.0f}"
            place.annotate(label, (point["ratio"], height), (8, 0), textcoords="offset points", va="center", size=8)
        place.set_yticks(range(len(points)), [point["title"] for point in points])
        for label, point in zip(place.get_yticklabels(), points, strict=True):
            label.set_color(COLORS[point["group"]])
            label.set_fontweight("bold" if point["group"] == "ours" else "normal")
        place.set_xscale("log")
        place.set_xlim(min(values) * 0.6, max(values) * 2.5)
        place.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        place.xaxis.set_minor_formatter(NullFormatter())
        place.axvline(1, color="#404040", linewidth=0.8, linestyle=":")
        place.grid(axis="y", color="#e4e4e4", linewidth=0.6)
        place.set_axisbelow(True)
        place.set_title(panel["title"], loc="left", size=10, weight="bold")
        place.set_xlabel("times as good as Tenure: more to the right is better", size=8)
        place.tick_params(labelsize=8)
        place.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    draw(json.load(sys.stdin), sys.argv[1])
