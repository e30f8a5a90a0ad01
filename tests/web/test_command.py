"""`tenure dashboard` as users run it."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure.cli import commands
from tenure.cli.errors import run
from tests.web.conftest import Browser
from tests.web.test_access import basic
from tests.web.test_live import events

Start = Callable[..., tuple[subprocess.Popen[str], Browser]]


@pytest.fixture
def start(redis_url: str, tmp_path: Path) -> Iterator[Start]:
    """Starts the command at a free port, and returns its process and a browser."""
    begun: list[subprocess.Popen[str]] = []

    def start(*args: str) -> tuple[subprocess.Popen[str], Browser]:
        command = [sys.executable, "-m", "tenure", "dashboard", "--port", "0", *args]
        environment = os.environ | {"TENURE_URL": redis_url}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment)
        begun.append(process)
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://[^ ]*:(\d+)/", line)
        assert found, line + process.stderr.read()
        return process, Browser(int(found[1]))

    yield start
    for process in begun:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_and_logs_each_change(start: Start, end: signal.Signals) -> None:
    process, browser = start("--title", "Shop")
    assert "Shop" in browser.page("").text
    assert browser.page("", Host="evil.example").status == 400
    browser.headers = {"X-Forwarded-For": "6.6.6.6"}  # a client may write what it likes
    browser.post("pause", {"queue": "q"})
    with events(browser) as page:  # it is open when the dashboard ends
        page.readline()
        process.send_signal(end)
        _, log = process.communicate(timeout=20)
    assert process.returncode == 0, log
    assert "Traceback" not in log
    assert "user=unnamed address=127.0.0.1 action=pause" in log


def test_a_user_is_added_and_let_in(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse\n"))
    assert run(commands, ["dashboard", "--add-user", "ada", "--password-file", str(tmp_path / "users")]) == 0
    assert capsys.readouterr().err == ""
    _, browser = start("--host", "0.0.0.0", "--password-file", "users", "--allow-host", "ops.example.org")
    assert browser.page("").status == 401
    assert browser.page("", Host="ops.example.org", **basic("ada", "correct horse")).status == 200


def test_what_is_refused_is_one_line(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENURE_URL", redis_url)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = {
            ("--port", str(taken.getsockname()[1])): (1, "in use"),
            ("--host", "0.0.0.0"): (2, "--password-file"),
            ("--password-file", "none"): (2, "No such file"),
            ("--add-user", "ada"): (2, "--password-file"),
            ("nothing:app",): (2, "nothing"),
        }
        for args, (status, part) in refused.items():
            assert run(commands, ["dashboard", *args]) == status
            assert part in capsys.readouterr().err


def test_the_demo_can_be_watched(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.txt").write_text("a line\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
    command = [sys.executable, "-m", "tenure", "demo", "--dashboard", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path) as demo:
        assert demo.stdout is not None
        lines: list[str] = []
        for line in demo.stdout:
            lines.append(line)
            if "until Ctrl-C" in line:
                break
        found = re.search(r"http://127.0.0.1:(\d+)/", "".join(lines))
        assert found, lines
        assert ">files</a>" in Browser(int(found[1])).page("queues").text
        demo.send_signal(signal.SIGINT)
        assert demo.wait(30) == 130


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    code = (
        "import importlib.util, sys; real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'starlette' else real(name, *more)\n"
        "from tenure.cli import main; main(['dashboard'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 2
    assert "pip install 'tenure[web]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_other_commands_load_nothing_of_the_dashboard() -> None:
    code = "import sys, tenure, tenure.app.app, tenure.cli.info; print([m for m in sys.modules if 'starlette' in m])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
