"""What the suite has found, as lines for a terminal and as a table for the docs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.faults.harness.scenario import Result

BEGIN: Final = "<!-- scoreboard: written by make faults -->"
END: Final = "<!-- end of the scoreboard -->"


def line(result: Result) -> str:
    """One scenario. The faults are those that have hit."""
    score, good = result.report.score, "good  " if result.ok else "BROKEN"
    hits = ", ".join(f"{count:,} {what}" for what, count in sorted(score.hits().items()) if count)
    text = f"{result.name}  {good} seed {result.seed:<7} {result.seconds:6.1f} s"
    text += f"  {score.jobs:>6,} jobs {score.runs:>6,} runs"
    worst = f"  worst recovery {score.worst_recovery_s:.1f} s" if score.worst_recovery_s else ""
    return f"{text}  lost {score.lost}, doubled {score.doubled}{worst}  [{hits}]"


def total(results: Sequence[Result], what: str = "scenarios") -> str:
    scores = [result.report.score for result in results]
    bad = [result.name for result in results if not result.ok]
    return (
        f"{len(results)} {what}, {sum(one.jobs for one in scores):,} jobs, "
        f"{sum(one.all_faults for one in scores):,} faults: "
        f"{sum(one.lost for one in scores)} lost, {sum(one.doubled for one in scores)} doubled, "
        f"worst recovery {max((one.worst_recovery_s for one in scores), default=0):.1f} s. "
        + (f"BROKEN: {', '.join(bad)}" if bad else "All good.")
    )


def table(results: Sequence[Result]) -> str:
    """For the docs. Scenarios that other tests play have no numbers, and one that only makes calls has no jobs."""
    rows = [
        "| scenario | jobs | runs | faults | lost | doubled | worst recovery | continued after |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        score = result.report.score
        if score.jobs or score.all_faults:
            worst = f"{score.worst_recovery_s:.1f} s" if score.worst_recovery_s else ""
            went_on = f"{score.went_on_s:.1f} s" if score.went_on_s < math.inf else ""
            rows.append(
                f"| {result.name} | {score.jobs:,} | {score.runs:,} | {score.all_faults:,} | {score.lost} "
                f"| {score.doubled} | {worst} | {went_on} |"
            )
    return "\n".join([*rows, "", f"Seed {results[0].seed}. {total(results)}"])


def write(results: Sequence[Result], page: Path) -> None:
    """Put the table between the marks of the page."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{after}")
