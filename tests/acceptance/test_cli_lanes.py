"""`tenure info` on what shapes a queue: settings, lanes, priorities, unique keys, persistent jobs."""

import json
import re

import pytest

from tenure import Tenure, Unique
from tenure.cli.output import overview
from tenure.cli.output.tables import plain
from tenure.core.job import QueueView, State
from tenure.core.shape import LaneFailure, QueueSettings
from tenure.core.worker_view import WorkerView


@pytest.fixture
def app(redis_url):
    with Tenure(redis_url) as app:
        yield app


@pytest.fixture
def run(command, redis_url):
    """Runs the command to its end; answers what it wrote on stdout, line by line in words, or as JSON."""

    def run(*args):
        out = command(*args, url=redis_url).end().out
        return json.loads(out) if "--json" in args else [line.split() for line in out.splitlines()]

    return run


def test_settings_are_shown_where_there_are_some(app, run):
    app.queue("plain").enqueue(b"x")
    app.queue("emails").enqueue(b"x")
    assert run("info")[0][-2:] == ["oldest", "notes"]
    app.control.configure("emails", max_length=1_000, lane_failure="park")
    app.control.pause("emails")
    head, emails, plain_row, *_ = run("info")
    assert head[-2:] == ["oldest", "notes"]
    assert emails[-1] == "paused,no_worker,max_length=1000,lane_failure=park"
    assert plain_row[-1] == "no_worker"
    shown = run("info", "--json")["queues"][0]
    assert shown["settings"] == {"paused": True, "max_length": 1_000, "lane_failure": "park"}
    assert shown["parked_lanes"] == 0


def test_the_number_of_partitions_is_shown(app, run):
    app.queue_options("emails", partitions=4)
    app.queue("emails").enqueue(b"x")
    assert ["no", "none", "skip", "4", "0", "0"] in run("info", "emails")
    assert run("info")[1][-1] == "no_worker,partitions=4"
    assert run("info", "emails", "--json")["queues"][0]["partitions"] == 4


def test_one_queue_with_its_settings_and_parked_lanes(app, run):
    app.queue("emails").enqueue(b"x", lane="user:42")
    lines = run("info", "emails")
    assert ["paused", "max_length", "lane_failure", "parked_lanes", "blocked_lanes"] in lines
    assert ["no", "none", "skip", "0", "0"] in lines
    assert ["user:42", "1"] not in [line[:2] for line in lines]
    app.control.park_lane("emails", "user:42")
    lines = run("info", "emails")
    assert ["no", "none", "skip", "1", "0"] in lines
    assert ["user:42", "1"] in [line[:2] for line in lines]
    shown = run("info", "emails", "--json")
    assert [lane["name"] for lane in shown["parked"]] == ["user:42"]
    assert shown["blocked"] == []
    assert shown["queues"][0]["parked_lanes"] == 1


def test_lanes_by_state(app, run):
    queue = app.queue("emails")
    for lane in ("a", "b", "b", "c c"):
        queue.enqueue(b"x", lane=lane)
    assert queue.lease(seconds=60).id
    app.control.park_lane("emails", "c c")
    assert run("info", "emails", "--lanes", "ready") == [["lane", "waiting", "busy", "limit"], ["b", "2", "0", "1"]]
    assert run("info", "emails", "--lanes", "busy")[1:] == [["a", "0", "1", "1"]]
    assert run("info", "emails", "--lanes", "parked")[1][:3] == ["c", "c", "1"]
    shown = run("info", "emails", "--lanes", "parked", "--json")
    assert (shown["lanes"][0]["name"], shown["lanes"][0]["state"], shown["more"]) == ("c c", "parked", False)
    assert run("info", "other", "--lanes", "busy") == [["No", "busy", "lanes", "in", "other."]]


NAMES = [
    "two words",
    "under_score",
    "a  b",
    "tab-free,comma",
    "田中　太郎",
    "https://me@example.org/a",
    "b\u202ec",
    "-",
]


def test_lanes_are_shown_by_their_very_names_a_line_each(app, command, redis_url):
    for name in NAMES:
        app.queue("my mails").enqueue(b"x", lane=name)
    out = command("info", "my mails", "--lanes", "ready", url=redis_url).end().out
    rows = [line.rpartition("  ")[0].rsplit(maxsplit=2) for line in out.splitlines()[1:]]
    assert [name for name, *_ in rows] == [name.replace("\u202e", r"\u202e") for name in NAMES]
    for name in NAMES:
        lines = command("info", "my mails", "--lane", name, url=redis_url).end().out.splitlines()
        assert lines[0] == f"lane        {name}".replace("\u202e", r"\u202e")


def test_texts_of_jobs_are_on_one_line_and_without_passwords(app, command, redis_url):
    queue = app.queue("emails")
    queue.enqueue(b"x", id="my job")
    queue.fail(queue.lease(seconds=60), "no answer from redis://me:s3cret@example.org/0\tat\x1b[31mall\nsecond line")
    row = command("jobs", "emails", "--state", "failed", url=redis_url).end().out.splitlines()[1]
    assert row.startswith("my job  ")
    assert row.endswith(r"  no answer from redis://***@example.org/0\tat\x1b[31mall")
    assert re.search(r"  \d+s_ago  ", row)
    shown = command("job", "emails", "my job", url=redis_url).end().out
    assert "s3cret" not in shown
    assert "redis://***@example.org/0" in shown


@pytest.fixture
def blocked(app):
    """A lane whose first job failed, with one more that waits; and another lane."""
    queue = app.queue("my mails")
    app.control.configure("my mails", lane_failure="block")
    for name in ("user 42", "user 42", "fine"):
        queue.enqueue(b"x", lane=name)
    job = queue.lease(seconds=60)
    queue.fail(job, "no such customer")
    return job.id


def test_a_lane_that_a_failed_job_blocks(app, command, redis_url, blocked):
    hint = f"`tenure retry 'my mails' {blocked}` or `tenure discard 'my mails' {blocked}`"
    ended = command("info", "my mails", "--lanes", "blocked", url=redis_url).end()
    head, row = (re.split("  +", line) for line in ended.out.splitlines())
    assert head == ["lane", "waiting", "busy", "limit", "blocked_by"]
    assert row == ["user 42", "1", "1", "1", blocked]
    assert hint in ended.err
    shown = json.loads(command("info", "my mails", "--lanes", "blocked", "--json", url=redis_url).end().out)
    assert [(lane["state"], lane["blocked_by"]) for lane in shown["lanes"]] == [("blocked", blocked)]
    lines = command("info", "my mails", "--lane", "user 42", url=redis_url).end().out.splitlines()
    assert "state       blocked (a failed job keeps a place of it until it is retried or discarded)" in lines
    assert f"blocked by  {blocked}" in lines
    assert f"to go on    {hint}" in lines
    ended = command("info", "my mails", url=redis_url).end()
    assert re.search(r"^no +none +block +0 +1$", ended.out, re.MULTILINE)
    assert re.search(rf"^user 42 .* {blocked}$", ended.out, re.MULTILINE)
    assert "blocked_lanes=1" in command("info", url=redis_url).end().out
    assert app.control.discard("my mails", blocked)
    ended = command("info", "my mails", "--lanes", "blocked", url=redis_url).end()
    assert (ended.out, ended.err) == ("No blocked lanes in my mails.\n", "")


def test_to_resume_a_lane_that_a_failed_job_blocks(app, command, redis_url, blocked):
    ended = command("resume", "my mails", "--lane", "user 42", url=redis_url).end(expect=1)
    assert ended.out == ""
    assert f"A failed job blocks lane 'user 42': '{blocked}'." in ended.err
    assert f"`tenure retry 'my mails' {blocked}` or `tenure discard " in ended.err
    assert "is not parked but blocked; nothing was changed" in ended.err
    err = command("resume", "my mails", url=redis_url).end().err
    assert err == "Note: Lanes that a failed job blocks: 1. To see them: tenure info 'my mails' --lanes blocked\n"


@pytest.mark.parametrize("count", [100, 101])
def test_many_lanes(app, command, redis_url, count):
    for number in range(count):
        app.queue("emails").enqueue(b"x", lane=f"user:{number}")
        app.control.park_lane("emails", f"user:{number}")
    ended = command("info", "emails", "--lanes", "parked", url=redis_url).end()
    assert len(ended.out.splitlines()) == 101
    assert ended.err == ("Note: There are more parked lanes than these 100.\n" if count > 100 else "")
    shown = json.loads(command("info", "emails", "--lanes", "parked", "--json", url=redis_url).end().out)
    assert (len(shown["lanes"]), shown["more"]) == (100, count > 100)


def test_one_lane_and_the_jobs_that_wait_in_it(app, run):
    for number in range(3):
        app.queue("emails").enqueue(b"x", lane="user:42", id=f"job{number}")
    assert app.queue("emails").lease(seconds=60).id == "job0"
    lines = run("info", "emails", "--lane", "user:42")
    assert lines[:5] == [["lane", "user:42"], ["queue", "emails"], ["state", "busy"], ["waiting", "2"], ["busy", "1"]]
    assert [line[0] for line in lines[6:]] == ["job", "job1", "job2"]
    shown = run("info", "emails", "--lane", "user:42", "--json")
    assert (shown["lane"]["state"], [job["id"] for job in shown["jobs"]], shown["total"]) == (
        "busy",
        ["job1", "job2"],
        2,
    )


def test_a_lane_that_nothing_is_known_of_is_idle(app, run):
    app.queue("emails").enqueue(b"x")
    lines = run("info", "emails", "--lane", "nope")
    assert ["state", "idle", "(no", "job", "of", "it", "waits", "or", "runs)"] in lines
    assert run("info", "emails", "--lane", "nope", "--json")["lane"]["state"] == "idle"


def test_a_job_with_a_shape(app, run):
    queue = app.queue("emails")
    queue.enqueue(b"x", id="laned", lane="user:42", lane_limit=3, unique="welcome:7")
    queue.enqueue(b"x", id="first", priority=50, unique=Unique(until="started"))
    queue.enqueue(b"x", id="always", persistent=True)
    queue.enqueue(b"x", id="plain")
    laned = run("job", "emails", "laned")
    assert ["lane", "user:42", "(up", "to", "3", "at", "a", "time)"] in laned
    assert ["unique", "welcome:7", "(until", "ended)"] in laned
    first = run("job", "emails", "first")
    assert ["priority", "50"] in first
    assert ["persistent", "yes"] in run("job", "emails", "always")
    assert ["unique", "by", "arguments:"] in [line[:3] for line in first]
    assert ["(until", "started)"] in [line[-2:] for line in first]
    shape = {"lane", "priority", "unique", "persistent", "progress", "cancelling"}
    assert not shape & {line[0] for line in run("job", "emails", "plain")}
    shown = run("job", "emails", "laned", "--json")
    assert (shown["lane"], shown["lane_limit"], shown["priority"], shown["persistent"]) == ("user:42", 3, 0, False)
    assert shown["unique"] == {"key": "welcome:7", "until": "ended"}
    assert run("job", "emails", "plain", "--json").keys() == shown.keys()


def test_a_page_has_the_columns_that_say_something(app, run):
    app.queue("emails").enqueue(b"x", id="plain")
    head = ["job", "task", "failures", "crashes", "when"]
    assert run("jobs", "emails", "--state", "ready")[0] == head
    app.queue("emails").enqueue(b"x", id="laned", lane="user:42")
    lines = run("jobs", "emails", "--state", "ready")
    assert lines[0] == ["job", "task", "lane", *head[2:]]
    assert ["laned", "-", "user:42"] in [line[:3] for line in lines]
    assert ["plain", "-", "-"] in [line[:3] for line in lines]


def test_what_is_out_of_the_ordinary_in_one_word():
    settings = QueueSettings(max_length=5, lane_failure=LaneFailure.BLOCK, paused=True)
    table = overview.queue_table([QueueView("q", {State.READY: 1}, {}, settings, 3, 2)], 0.0)
    assert plain(table).endswith("  paused,parked_lanes=3,blocked_lanes=2,max_length=5,lane_failure=block")
    sending = QueueView("q", {State.READY: 1}, outgoing=7, outgoing_ms=1_000)
    assert "outgoing" not in plain(overview.queue_table([sending], 6_000.0))
    assert plain(overview.queue_table([sending], 6_001.0)).endswith("  outgoing=7")
    # On a terminal lines are broken at the commas, and nowhere else.
    shown = table.fitted(60)
    assert shown.rows[0]["notes"] == "paused, parked_lanes=3, blocked_lanes=2, max_length=5, lane_failure=block"


def test_quiet_and_silent_workers_are_marked():
    def worker(name: str, quiet: bool) -> WorkerView:
        return WorkerView(name, ("q",), "host", 7, 0, 0, 4, quiet=quiet)

    assert "state" not in overview.worker_table([worker("a", False)], 0).head
    table = overview.worker_table([worker("a", False), worker("b", True)], 0)
    assert [row["state"] for row in table.rows] == ["", "quiet"]
    late = overview.worker_table([worker("a", False), worker("b", True)], 15_001)
    assert [row["state"] for row in late.rows] == ["silent", "quiet,silent"]
