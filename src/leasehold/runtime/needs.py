"""What handlers that run in processes of their own need of a worker, asked when it is made."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from leasehold.core.errors import InvalidArgument
from leasehold.core.task import RunIn, TaskSpec
from leasehold.runtime.child import Launch


def launch_needed(specs: Sequence[TaskSpec], launch: Launch | None) -> Launch | None:
    """How processes for these are started; None: none needs one. Refuses what this worker could not run as it is asked
    for: raises `InvalidArgument`."""
    needed = None
    for spec in specs:
        if spec.run_in is not RunIn.PROCESS:
            continue
        what = f"The handler of queue {spec.queue!r}" if spec.name is None else f"Task {spec.name}"
        if launch is None:
            raise InvalidArgument(
                f'{what} says run_in="process", and this worker does not know how such a process finds the app. Run it '
                "with `leasehold worker MODULE:APP`."
            )
        if spec.max_memory and not sys.platform.startswith("linux"):
            raise InvalidArgument(
                f"{what} says max_memory, which this system ({sys.platform}) cannot enforce. Leave it out here."
            )
        needed = launch
    return needed
