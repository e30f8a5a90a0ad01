"""`tenure worker --processes N`: the supervisor and its worker processes, with real signals and real deaths."""

import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from tenure import State
from tests.acceptance.workers import SLEEP, ended, gone, pids, ready, view, with_tasks, written
from tests.support.waiting import until

JOBS = f"""
import os, signal, subprocess, sys, time
from tenure import Tenure

with open("imported", "a") as file:
    print(os.getpid(), file=file)

app = Tenure()
{SLEEP}
@app.task
def where() -> int:
    return os.getpid()

PROGRAM = '''
import os, time
with open("converting", "a") as file:
    print(os.getpid(), file=file)
while not os.path.exists("continue"):
    time.sleep(0.01)
'''

@app.task(retries=0)
def convert() -> int:
    return subprocess.run([sys.executable, "-c", PROGRAM]).returncode

@app.task(retries=0, run_in="process")
def convert_in_process() -> int:
    return subprocess.run([sys.executable, "-c", PROGRAM]).returncode
"""

pytestmark = pytest.mark.usefixtures("jobs")


@pytest.fixture
def app(app):
    return with_tasks(app)


def test_processes_are_workers_like_any_other_and_end_with_their_supervisor(tenure, app, redis_url, tmp_path):
    run = ready(tenure("worker", "jobs:app", "--processes", "2", "-c", "3", url=redis_url), 2)
    shown = json.loads(tenure("info", "--json", url=redis_url).end().out)["workers"]
    assert {worker["pid"] for worker in shown} == set(pids(run))
    assert {worker["concurrency"] for worker in shown} == {3}
    assert app.tasks["jobs.where"].enqueue().result(timeout=120) in pids(run)
    run.signal(signal.SIGTERM).end()
    assert all(gone(pid) for pid in pids(run))
    assert set(written(tmp_path / "imported")) == set(pids(run))  # and not the supervisor


def test_a_killed_process_is_replaced_and_its_job_runs_again(tenure, app, redis_url, tmp_path):
    run = ready(tenure("worker", "jobs:app", "--log-level=debug", "--max-jobs=1000", url=redis_url), 1)
    job = app.tasks["jobs.sleep"].enqueue(3.0)
    until(lambda: written(tmp_path / "sleeping"))
    victim = pids(run)[0]
    os.kill(victim, signal.SIGKILL)
    run.wait_for(f"worker_process_ended slot=0 child={victim} how=SIGKILL")
    run.wait_for("worker_died")
    ready(run, 2)
    assert job.result(timeout=120) == pids(run)[1]
    assert (view(app, job).crashes, view(app, job).failures) == (1, 0)
    run.signal(signal.SIGTERM).end()


def test_the_death_of_a_worker_is_told_in_the_form_of_its_log(tenure, app, redis_url, tmp_path):
    run = tenure("worker", "jobs:app", "--log-format=json", url=redis_url)
    job = app.tasks["jobs.sleep"].enqueue(30.0)
    until(lambda: written(tmp_path / "sleeping"))
    os.kill(run.worker, signal.SIGKILL)
    run.wait_for('"event": "worker_died"')
    until(lambda: view(app, job).state is State.READY)
    assert view(app, job).crashes == 1


def test_an_unknown_module_ends_the_whole_with_its_message(tenure, redis_url):
    run = tenure("worker", "nothing_here:app", "--processes", "3", url=redis_url)
    ended(run, expect=2)
    assert run.err.count("There is no module 'nothing_here'") == 1


def test_an_unknown_option_or_value_is_said_before_anything_is_started(tenure, redis_url):
    for words in (["--processes", "0"], ["--max-jobs", "0"], ["--processes", "2", "--health-port", "web"]):
        assert "parent_started" not in tenure("worker", "jobs:app", *words, url=redis_url).end(expect=2).err


def test_without_redis_a_burst_ends_as_that_of_a_worker_does(tenure, tmp_path):
    url = f"unix://{tmp_path}/none.sock"
    run = tenure("worker", "jobs:app", "--burst", "--processes", "2", url=url).end(expect=1)
    assert run.err.count("Error:") == 1


@pytest.mark.parametrize("task", ["convert", "convert_in_process"])
def test_a_stop_of_the_parent_alone_lets_the_programs_of_jobs_finish(task, tenure, app, redis_url, tmp_path):
    """As systemd does with KillMode=mixed, and Docker."""
    run = tenure("worker", "jobs:app", url=redis_url)
    job = app.task(name=f"jobs.{task}")(lambda: 0).enqueue()
    until(lambda: written(tmp_path / "converting"))
    os.kill(run.process.pid, signal.SIGTERM)
    run.wait_for("worker_stopping")
    (tmp_path / "continue").touch()
    ended(run)
    assert job.result(timeout=120) == 0
    assert (view(app, job).failures, view(app, job).crashes) == (0, 0)


def test_a_stop_lets_jobs_finish_also_when_everybody_gets_the_signal(tenure, app, redis_url, tmp_path):
    """As from a terminal, or from systemd: all processes get it, and it is one ask all the same."""
    run = ready(tenure("worker", "jobs:app", "--processes", "2", "-c", "1", url=redis_url), 2)
    running = [app.tasks["jobs.sleep"].enqueue(1.5) for _ in range(2)]
    until(lambda: len(written(tmp_path / "sleeping")) == 2)
    for pid in (*pids(run), run.process.pid):
        os.kill(pid, signal.SIGTERM)
    run.end()
    assert {job.result(timeout=0) for job in running} == set(pids(run))


def test_the_end_of_its_terminal_stops_it(redis_url, tmp_path):
    outside, inside = pty.openpty()
    command = [sys.executable, "-m", "tenure", "worker", "jobs:app", "--url", redis_url]
    with subprocess.Popen(command, cwd=tmp_path, stdin=inside, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("worker_started" in line for line in iter(process.stderr.readline, ""))
        os.close(inside)
        os.close(outside)
        process.send_signal(signal.SIGHUP)
        assert "worker_stopped" in process.stderr.read()
    assert process.returncode == 0


def test_a_second_signal_stops_hard(tenure, app, redis_url, tmp_path):
    run = ready(tenure("worker", "jobs:app", "--processes", "2", url=redis_url), 2)
    job = app.tasks["jobs.sleep"].enqueue(60.0)
    until(lambda: written(tmp_path / "sleeping"))
    run.signal(signal.SIGTERM).wait_for("signal_received name=SIGTERM then=stopping")
    run.signal(signal.SIGTERM).end(expect=3)
    assert view(app, job).state is State.READY
    assert view(app, job).crashes == 0
    assert all(gone(pid) for pid in pids(run))


def test_after_the_grace_time_jobs_are_handed_back(tenure, app, redis_url, tmp_path):
    run = ready(tenure("worker", "jobs:app", "--processes", "2", "--grace", "0.3", url=redis_url), 2)
    job = app.tasks["jobs.sleep"].enqueue(60.0)
    until(lambda: written(tmp_path / "sleeping"))
    run.signal(signal.SIGTERM).end()
    assert (view(app, job).state, view(app, job).crashes) == (State.READY, 0)


def test_a_process_that_does_not_end_is_killed(tenure, app, redis_url):
    run = ready(tenure("worker", "jobs:app", "--processes", "2", "--grace", "0", url=redis_url), 2)
    stuck = pids(run)[0]
    os.kill(stuck, signal.SIGSTOP)
    ended(run.signal(signal.SIGTERM))
    assert f"worker_process_killed slot=0 child={stuck}" in run.err
    assert gone(stuck)


def test_processes_end_in_order_when_their_supervisor_dies(tenure, app, redis_url, tmp_path):
    run = ready(tenure("worker", "jobs:app", "--processes", "2", "-c", "1", url=redis_url), 2)
    job = app.tasks["jobs.sleep"].enqueue(1.5)
    until(lambda: written(tmp_path / "sleeping"))
    children = pids(run)
    run.signal(signal.SIGKILL)
    assert job.result(timeout=120) in children
    until(lambda: all(gone(pid) for pid in children))
    assert view(app, job).crashes == 0
    assert "parent_lost" in run.err


def test_sighup_replaces_one_after_the_other_and_loses_nothing(tenure, app, redis_url, tmp_path):
    run = ready(tenure("worker", "jobs:app", "--processes", "2", "-c", "1", url=redis_url), 2)
    old = set(pids(run))
    running = app.tasks["jobs.sleep"].enqueue(4.0)
    until(lambda: written(tmp_path / "sleeping"))
    run.signal(signal.SIGHUP)
    ready(run, 4)
    assert running.result(timeout=120) in old
    until(lambda: all(gone(pid) for pid in old))
    assert app.tasks["jobs.where"].enqueue().result(timeout=120) in set(pids(run)) - old
    assert view(app, running).crashes == 0
    run.signal(signal.SIGTERM).end()


def test_a_rolling_restart_stops_at_a_process_that_does_not_start(tenure, app, redis_url, tmp_path):
    run = ready(tenure("worker", "jobs:app", "--processes", "2", url=redis_url), 2)
    (tmp_path / "jobs.py").write_text("raise RuntimeError('a bad deploy')")
    run.signal(signal.SIGHUP).wait_for("restart_failed")
    assert app.tasks["jobs.where"].enqueue().result(timeout=120) in pids(run)
    run.signal(signal.SIGTERM).end()


def test_a_burst_ends_when_nothing_is_left(tenure, app, redis_url):
    added = [app.tasks["jobs.where"].enqueue() for _ in range(50)]
    run = tenure("worker", "jobs:app", "--processes", "2", "--burst", url=redis_url)
    ended(run)
    assert {job.result(timeout=0) for job in added} <= set(pids(run))
