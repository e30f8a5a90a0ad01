"""`tenure completion`, and what a shell is offered after TAB."""

import shutil
import subprocess
import time

import pytest

from tenure import Tenure

LINES = {
    "tenure jo": ["jobs", "job"],
    "tenure jobs em": ["emails"],
    "tenure jobs --namespace shop im": ["images"],
    "tenure jobs emails --state fa": ["failed"],
    "tenure retry em": ["emails"],
    "tenure completion z": ["zsh"],
    "tenure jobs zz": [],
}


@pytest.fixture
def offered(command, redis_url):
    def offered(line, url=redis_url):
        variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
        ended = command(url=url, _TENURE_COMPLETE="bash_complete", **variables).end()
        assert ended.err == ""
        return [word.partition(",")[2] for word in ended.out.split()]

    return offered


@pytest.mark.parametrize("line", LINES)
def test_what_is_offered(offered, redis_url, line):
    with Tenure(redis_url) as app, Tenure(redis_url, namespace="shop") as shop:
        app.queue("emails").enqueue(b"x")
        shop.queue("images").enqueue(b"x")
    assert offered(line) == LINES[line]


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "embedded:./nowhere", "nonsense"])
def test_a_redis_that_is_not_there_offers_nothing(offered, tmp_path, url):
    assert offered("tenure jobs em", url=url) == []
    assert list(tmp_path.iterdir()) == []


def test_a_redis_that_does_not_answer_is_not_waited_for(offered, make_server):
    server = make_server()
    server.pause()
    began = time.monotonic()
    assert offered("tenure jobs em", url=server.url) == []
    assert time.monotonic() - began < 10
    server.resume()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_reads(command, shell):
    script = command("completion", shell).end().out
    assert "_TENURE_COMPLETE" in script
    program = shutil.which(shell)
    if program is not None:
        check = subprocess.run([program, "-n"], input=script, text=True, capture_output=True, timeout=120)
        assert (check.returncode, check.stderr) == (0, "")
