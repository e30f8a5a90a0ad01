"""`tenure worker --metrics-port` and `tenure metrics`, alone and with a real Prometheus (Debian: prometheus)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tenure import Tenure
from tests.acceptance.conftest import SOURCE
from tests.acceptance.workers import ready
from tests.support.waiting import until

JOBS = """
import os, signal, time
from tenure import Backoff, Every, Tenure

app = Tenure()

@app.task
def ok(number: int) -> int:
    return number

@app.task(retries=1, backoff=Backoff(base=0.1))
def fails() -> None:
    raise ValueError("no")

@app.task(schedule=Every(seconds=1))
def tick() -> None: ...

@app.task
async def block() -> None:
    time.sleep(1.6)

@app.task
def die() -> None:
    if not os.path.exists("died"):
        open("died", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def jobs(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)


def enqueue(url: str, **counts: int) -> None:
    with Tenure(url) as app:
        for name, count in counts.items():

            def call() -> None: ...

            def numbered(number: int) -> int: ...

            task = app.task(name=f"jobs.{name}")(numbered if name == "ok" else call)
            for number in range(count):
                task.enqueue(*([number] if name == "ok" else []))


def address(run) -> str:
    return run.wait_for("metrics_served at=").err.split("metrics_served at=")[1].split()[0]


def scrape(at: str) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(f"http://{at}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return {(one.name, *sorted(one.labels.values())): one.value for family in families for one in family.samples}


@pytest.mark.usefixtures("jobs")
def test_the_counts_of_all_processes_are_one_and_outlive_them(tenure, redis_url, tmp_path):
    words = ["-c", "4", "--processes", "2", "--max-jobs", "25"]  # so that processes are replaced
    run = tenure("worker", "jobs:app", *words, "--metrics-port", "0", url=redis_url)
    at = address(run)
    ready(run, 2)
    enqueue(redis_url, ok=40, fails=1)
    ok = ("tenure_jobs_ended_total", "completed", "default", "jobs.ok")
    until(lambda: scrape(at).get(ok) == 40)
    until(lambda: scrape(at).get(("tenure_jobs_ended_total", "default", "failed", "jobs.fails")) == 1)
    found = scrape(at)
    assert found["tenure_retries_total", "default", "jobs.fails"] == 1
    assert found["tenure_job_run_seconds_count", "default", "jobs.ok"] == 40
    assert found["tenure_redis_call_seconds_count", "settle"] > 0
    enqueue(redis_url, die=1)
    until(lambda: scrape(at).get(("tenure_jobs_ended_total", "completed", "default", "jobs.die")) == 1)
    assert scrape(at)[ok] == 40
    until(lambda: scrape(at)["tenure_slots",] == 8)
    run.signal(signal.SIGTERM).end()


@pytest.mark.usefixtures("jobs")
def test_a_port_in_use_and_a_missing_package_are_said(tenure, redis_url, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['prometheus_client'] = None")
    path = os.pathsep.join([str(tmp_path), str(SOURCE)])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for command in (["worker", "jobs:app", "--metrics-port", port], ["metrics", "--port", port]):
            message = tenure(*command, url=redis_url).end(expect=2).err
            assert f"The metrics port 127.0.0.1:{port} cannot be opened" in message
            message = tenure(*command, url=redis_url, PYTHONPATH=path).end(expect=2).err
            assert "pip install 'tenure[prometheus]'" in message


def test_the_files_are_printed(command):
    assert json.loads(command("metrics", "--print-dashboard").end().out)["title"] == "Tenure"
    assert command("metrics", "--print-alerts").end().out.startswith("# Alert rules for Tenure")
    served = command("metrics", "--print-alerts", "--pages", "https://docs.example.com/tenure").end().out
    assert "runbook_url: https://docs.example.com/tenure/howto/prometheus.html#tenureredisaway\n" in served


# ---------------------------------------------------------------------------------------------------- a real Prometheus

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
needs_prometheus = pytest.mark.skipif(
    not (PROMETHEUS and PROMTOOL), reason="prometheus and promtool are not installed (Debian: prometheus)"
)


@needs_prometheus
def test_each_alert_fires_and_is_silent_when_all_is_well(tmp_path, command):
    (tmp_path / "alerts.yml").write_text(command("metrics", "--print-alerts").end().out)
    shutil.copy(Path(__file__).with_name("alerts_test.yml"), tmp_path)
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run([str(PROMTOOL), *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@needs_prometheus
@pytest.mark.usefixtures("jobs")
def test_each_expression_of_the_dashboard_has_values(tenure, command, redis_url, tmp_path):
    run = tenure("worker", "jobs:app", "-c", "4", "--metrics-port", "0", url=redis_url)
    fleet = tenure("metrics", "--port", "0", url=redis_url).wait_for("Metrics are at http://")
    at = [address(run), fleet.err.split("http://")[1].split("/")[0]]
    with Tenure(redis_url) as app:
        app.limits.set("stripe", concurrency=3, new=True)
    enqueue(redis_url, ok=5, fails=2, block=1)
    until(lambda: scrape(at[0]).get(("tenure_schedule_lateness_seconds_count", "default"), 0) >= 1)
    until(lambda: scrape(at[0]).get(("tenure_loop_blocked_total",), 0) >= 1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 500ms}\nscrape_configs:\n"
        f"  - {{job_name: tenure, static_configs: [{{targets: {json.dumps(at)}}}]}}\n"
    )
    words = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
    log = open(tmp_path / "prometheus.log", "w")  # noqa: SIM115
    prometheus = subprocess.Popen([str(PROMETHEUS), *words], cwd=tmp_path, stderr=log)
    dashboard = json.loads(command("metrics", "--print-dashboard").end().out)
    exprs = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    try:
        until(lambda: query(port, "up") and len(query(port, "rate(tenure_slots[5s])")) == 1)
        left = {one.replace("$queue", ".*").replace("$__rate_interval", "5s") for one in exprs}

        def left_without_values() -> set[str]:
            left.difference_update({one for one in left if query(port, one)})
            return left

        with suppress(AssertionError):
            until(lambda: not left_without_values(), 60)
    finally:
        prometheus.kill()
        prometheus.wait()
        log.close()
    assert not left
    fleet.signal(signal.SIGINT).end()
    run.signal(signal.SIGTERM).end()


def query(port: int, expr: str) -> list[object]:
    """The series of an expression; none while Prometheus starts. An error of the expression is raised."""
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': expr})}"
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            found: list[object] = json.load(answer)["data"]["result"]
            return found
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
        if error.code != 503:
            raise AssertionError(f"{expr}: {text!r}") from None
    except urllib.error.URLError:
        pass
    return []
