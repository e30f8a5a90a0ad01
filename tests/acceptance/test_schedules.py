"""`tenure schedules`, and schedules in the code of a worker process."""

import json
import re
import signal
import time

from tenure import Cron, Every

MODULE = """
from tenure import Every, Tenure, Schedule, current_job

app = Tenure()

@app.task(queue="feeds", schedule=Schedule(Every(seconds=1), name="poll", args=("eu",), overlap="allow"))
def poll(region: str) -> None:
    with open("ran", "a") as file:
        print(region, current_job().scheduled_for.isoformat(), file=file)
"""


def test_a_schedule_from_its_list_to_its_removal(app, run):
    assert run("schedules") == ("No schedules.\n", "")
    app.schedules.add("nightly", b"x", Cron("0 2 * * *", tz="Europe/Berlin"), queue="reports")
    app.schedules.add("feed", b"x", Every(minutes=5), queue="feeds")
    out, _ = run("schedules")
    assert re.search(r"feeds +feed +- +Every 5 minutes +in_\d+[ms] +- +0", out)
    assert re.search(r"reports +nightly +- +At 02:00 every day \(Europe/Berlin\) +in_\d+[hms] +-", out)
    assert "feed " not in run("schedules", "reports")[0]
    out, _ = run("schedules", "reports", "nightly", "--pause", "--reason", "the disk is full")
    assert out.endswith("is paused. To resume: tenure schedules reports nightly --resume\n")
    out, _ = run("schedules", "reports", "nightly")
    assert "paused" in out
    assert ": the disk is full\n" in out
    assert app.schedules.get("reports", "nightly").reason == "the disk is full"
    run("schedules", "reports", "nightly", "--resume")
    document = json.loads(run("schedules", "reports", "nightly", "--trigger", "--json")[0])
    assert app.queue("reports").lease(seconds=60).id == document["id"]
    run("schedules", "reports", "nightly", "--remove")
    assert app.schedules.get("reports", "nightly") is None


def test_what_is_not_there_and_what_does_not_go_together(app, run):
    app.schedules.add("feed", b"x", Every(minutes=5), queue="feeds")
    _, err = run("schedules", "feeds", "fed", "--pause", expect=1)
    assert err == "Error: Queue 'feeds' has no schedule 'fed'. Did you mean 'feed'?\n"
    for action in ("--resume", "--trigger", "--remove"):
        run("schedules", "feeds", "none", action, expect=1)
    assert "cannot both be given" in run("schedules", "feeds", "feed", "--pause", "--resume", expect=2)[1]
    assert "--pause needs a queue" in run("schedules", "feeds", "--pause", expect=2)[1]
    assert "--reason goes with --pause" in run("schedules", "feeds", "feed", "--reason", "x", expect=2)[1]
    assert "schedules" in run("schedules", "--protocol", "hworker:h", expect=2)[1]


def test_a_worker_runs_the_schedules_of_its_code(app, tenure, redis_url, tmp_path):
    (tmp_path / "feeds.py").write_text(MODULE)
    worker = tenure("worker", "feeds:app", url=redis_url)
    ran = tmp_path / "ran"
    end = time.monotonic() + 60
    while not ran.exists() or len(ran.read_text().splitlines()) < 2:
        assert time.monotonic() < end
        time.sleep(0.05)
    (view,) = app.schedules.list()
    assert (view.source, view.name, view.task) == ("feeds:app", "poll", "feeds.poll")
    worker.signal(signal.SIGTERM).end()
    lines = ran.read_text().splitlines()
    assert len(lines) == len(set(lines))
    assert lines[0].startswith("eu 20")
