"""The `flows` and `flow` commands: groups of jobs, what they wait for, and their changes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import click

from tenure.app.app import Tenure
from tenure.cli.output.tables import Answer, Table
from tenure.cli.output.text import ago
from tenure.cli.reach import reaching
from tenure.core import limits as bounds
from tenure.core.flows import FlowState, FlowTree, FlowView, MemberRange
from tenure.core.job import JobView
from tenure.manage.documents import flow_document, job_document, tree_document


@click.argument("queue", required=False)
@click.option("--limit", type=click.IntRange(1, bounds.PAGE_MAX), default=20, show_default=True, help="Flows to show.")
@click.option("--offset", type=click.IntRange(0), default=0, help="Leave out this many of the newest.")
@reaching()
def flows(queue: str | None, limit: int, offset: int, app: Tenure) -> Answer:
    """\b
    tenure flows                 of all queues, the newest of each
    tenure flows images          of one queue

    A flow is listed with the queue of its first call, where it was made. Its members may be in others.
    """
    queues = app.inspect.queues() if queue is None else [queue]
    views = [view for name in queues for view in app.inspect.flows(name, offset, limit)]
    return Answer({"flows": [flow_document(view) for view in views]}, [_table(views)])


@click.argument("id")
@click.option("--cancel", "reason", metavar="REASON", help="Cancel the members that have not ended.")
@click.option("retries", "--retry", is_flag=True, help="Run the members again that did not complete.")
@click.option("seals", "--seal", is_flag=True, help="Let it end with the members that it has: its producer has died.")
@reaching()
def flow(id: str, reason: str | None, retries: bool, seals: bool, app: Tenure) -> Answer:
    """\b
    tenure flow images/Kx3q...                   what it waits for, and members that did not complete
    tenure flow images/Kx3q... --cancel "why"    cancel the members that have not ended
    tenure flow images/Kx3q... --retry           run those again that failed, broke or were cancelled
    """
    found = app.flow(id)
    view = found.view()
    if sum((reason is not None, retries, seals)) > 1:
        raise click.UsageError("--cancel, --retry and --seal do not go together; expected one of them.")
    notes = []
    if reason is not None:
        found.cancel(reason)
    elif retries:
        notes = [f"Members that run again: {found.retry():,}."]
    elif seals:
        found.seal()
    if reason is not None or retries or seals:
        view = found.view()
    jobs, after = found.failed()
    tree = found.tree()
    document = {"flow": tree_document(tree), "failed": [job_document(job) for job in jobs]}
    more = "There are more: `app.flow(id).failed(after)` reads all." if after else ""
    shown: list[str | Table] = [_table([view])]
    shown += ["\n".join(_branches(tree))] if tree.members else []
    shown += [_failed(jobs, more)] if jobs else []
    return Answer(document, shown, [*notes, *_waits(view)])


def _table(views: Sequence[FlowView]) -> Table:
    now_ms = time.time() * bounds.SECOND
    rows = tuple(
        {
            "flow": view.id,
            "state": view.state.value,
            "members": f"{view.total:,}",
            "left": f"{view.left:,}",
            "failed": f"{view.failed:,}",
            "cancelled": f"{view.cancelled:,}",
            "made": f"{ago(now_ms - view.made_ms)} ago",
        }
        for view in views
    )
    right = ("members", "left", "failed", "cancelled")
    return Table("Flows", rows, right, "No flow has been made, or all have expired.")


def _failed(jobs: Sequence[JobView], more: str) -> Table:
    rows = tuple(
        {
            "id": job.id,
            "queue": job.queue,
            "state": job.state.value,
            "task": job.task or "",
            "error": job.error.type if job.error else "",
        }
        for job in jobs
    )
    return Table("Members that did not complete", rows, below=more)


def _branches(tree: FlowTree, before: str = "") -> Iterator[str]:
    """The members in lines, one for each row of them in one state."""
    width = len(f"{tree.view.total - 1:,}")
    for n, one in enumerate(tree.members, 1):
        is_last = n == len(tree.members) and not tree.has_more
        line = f"{before}{'└' if is_last else '├'} "
        if isinstance(one, FlowTree):
            kind, view = "chain" if one.view.is_chain else "group", one.view
            yield f"{line}{one.number:>{width},}  {kind}: {view.state.value}, {view.left:,} of {view.total:,} left"
            yield from _branches(one, f"{before}{' ' if is_last else '│'} ")
        else:
            state = "has not ended" if one.state == FlowState.OPEN else one.state
            yield f"{line}{_numbers(one):>{width}}  {state}"
    if tree.has_more:
        yield f"{before}└ more"


def _numbers(members: MemberRange) -> str:
    return f"{members.first:,}" if members.first == members.last else f"{members.first:,} to {members.last:,}"


def _waits(view: FlowView) -> list[str]:
    """What an open flow waits for, in words."""
    if view.state is not FlowState.OPEN:
        return [f"It was cancelled: {view.reason}"] if view.reason else []
    if view.reason is not None:
        return [f"It is being cancelled: {view.reason}"]
    if not view.sealed:
        return ["More members may come: the block of `open_group`, or the enqueue, has not ended. See --seal."]
    return [f"It waits for {view.left:,} of {view.total:,} members."]
