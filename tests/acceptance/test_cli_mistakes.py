"""A user's mistake: one message that says what happened, what was expected and what to do; status 2; no password."""

import re
from pathlib import Path

import pytest

from tenure._version import __version__
from tenure.cli.errors import safe
from tenure.cli.output.text import ago, amount
from tenure.cli.table import COMMANDS, SECTIONS
from tenure.cli.work.weights import current_spelling, parse_weights

NOWHERE = "redis://me:s3cret@127.0.0.1:1/0"

JOBS = """
from tenure import Tenure
app = Tenure()
other = Tenure(namespace="other")
number = 7

@app.task
def add(a: int, b: int) -> int:
    return a + b

def needs_more(name): ...
def makes_nothing(): ...
def fails(): raise RuntimeError("no database")
async def makes_later(): return app
def makes_number(): return 7
class holder: pass

class Shop:
    @property
    def app(self): return self.connect("s3cret")
    def connect(self, password): raise RuntimeError("no database")
    @property
    def jobs(self): return self._jbos

shop = Shop()
"""


@pytest.fixture(autouse=True)
def jobs(tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)


def mistake(run, *words: str) -> str:
    """The message of a run that ended because of a mistake; it has these words."""
    message = run.end(expect=2).err
    assert message.startswith("Error: ")
    for word in words:
        assert word in message
    return message


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("jobs", ["does not name the app of the module", "jobs:app, jobs:other"]),
        ("jobs:", ["does not name the app of the module", "jobs:app"]),
        ("jobs.py:app", ["names a file", "did you mean jobs:app?"]),
        ("./jobs.py", ["names a file", "did you mean jobs:app?"]),
        ("jobs:ap", ["has no 'ap'", "jobs:app, jobs:other"]),
        ("jobs:holder.ap", ["has no 'holder.ap'", "jobs:app, jobs:other"]),
        ("jobs:needs_more", ["needs arguments", "expected a Tenure"]),
        ("jobs:makes_nothing", ["jobs:makes_nothing must return a Tenure, got NoneType. It has: jobs:app"]),
        ("jobs:makes_number", ["jobs:makes_number must return a Tenure, got int. It has: jobs:app"]),
        ("jobs:makes_later", ["must return a Tenure, got coroutine. Make the app in a function without `async`."]),
        ("jobs:fails", ["jobs:fails could not make the app", "RuntimeError: no database", "in fails"]),
        ("jobs:shop.app", ["jobs:shop.app could not be read. It raised:\n  RuntimeError: no database", "in connect"]),
        ("jobs:shop.jobs", ["jobs:shop.jobs could not be read", "AttributeError", "'_jbos'", "in jobs"]),
        ("jobs:add", ["jobs:add must be a Tenure, got Task. It has: jobs:app"]),
        ("jobs:number", ["jobs:number must be a Tenure, got int. It has: jobs:app"]),
        ("jbos:app", ["no module 'jbos'", "Did you mean 'jobs'?"]),
        ("nothing.like.it:app", ["no module 'nothing'", "Run the command where the module is"]),
        ("jobs.inner:app", ["no module 'jobs.inner'"]),
        ("a b:app", ["does not name an app", "MODULE:APP"]),
        ("..:app", ["does not name an app"]),
    ],
)
def test_an_app_that_cannot_be_found(command, target, words):
    message = mistake(command("info", "--app", target), *words)
    assert not re.search("Warning|Traceback|s3cret", message)


@pytest.mark.parametrize("args", [["info", "--app", "jobs:app"], ["info"]], ids=" ".join)
@pytest.mark.parametrize("variable", ["TENURE_URL", "REDIS_URL"])
def test_a_wrong_url_in_the_environment_is_no_fault_of_the_module(command, args, variable):
    message = mistake(command(*args, **{variable: "https://me:s3cret@example.org"}), variable, "https://")
    assert "imported" not in message
    assert "s3cret" not in message
    message = mistake(command(*args, "--url", "https://me:s3cret@example.org"), "https://")
    assert not re.search("imported|TENURE_URL|s3cret", message)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\nraise RuntimeError('no database')", ["RuntimeError: no database", "broken.py:2 in <module>"]),
        ("def f():\n    return 1 / 0\nf()", ["ZeroDivisionError", "broken.py:3 in <module>", "broken.py:2 in f"]),
        ("x = = 1", ["SyntaxError", "broken.py:1"]),
        ("import not_installed_here", ["ModuleNotFoundError", "'not_installed_here'", "broken.py:1"]),
        ("import sys\nsys.exit(0)", ["SystemExit", "broken.py:2"]),
        ("from tenure import Tenure\napp = Tenure('redis:s3cret')", ["NotConfigured", "no scheme"]),
        ("raise ValueError('cannot reach redis://me:s3cret@example.org/0')", ["redis://***@example.org/0"]),
    ],
)
def test_a_module_that_raises(command, tmp_path, text, words):
    (tmp_path / "broken.py").write_text(text)
    message = mistake(command("info", "--app", "broken:app"), *words)
    assert "s3cret" not in message
    assert "importlib" not in message


def test_an_app_without_tasks(tenure):
    mistake(tenure("worker", "jobs:other"), "no tasks and no handlers", "@app.task")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-c", "0"], ["--concurrency", "0"]),
        (["-c", "many"], ["--concurrency", "many"]),
        (["--grace", "-1"], ["--grace"]),
        (["--weight", "a:5"], ["QUEUE=N", "1 to 100", "'a:5'"]),
        (["--weight", "a=0"], ["1 to 100", "'a=0'"]),
        (["--weight", "a=101"], ["1 to 100"]),
        (["--weight", "a=0.5"], ["1 to 100"]),
        (["--weight", "a=" + "9" * 5000], ["1 to 100"]),
        (["--weight", "a=5", "--weight", "a=6"], ["'a' two weights, 5 and 6"]),
        (["--brust"], ["--brust"]),
        (["--log-level", "loud"], ["--log-level", "warning"]),
        (["more"], ["unexpected extra argument"]),
    ],
)
def test_options_that_cannot_be_right(command, args, words):
    mistake(command("worker", "jobs:app", *args), *words)


def test_a_name_that_no_queue_may_have(tenure):
    mistake(tenure("worker", "jobs:app", "-q", "a/b"), "queue must be", "'a/b'")


def test_a_command_that_does_not_exist(command):
    mistake(command("wroker"), "no command 'wroker'", "Did you mean 'worker'?", "tenure --help")
    mistake(command("zzz"), "no command 'zzz'", "info, jobs, job, why, flows, flow, dashboard, metrics, enqueue")


@pytest.mark.parametrize(
    "url", ["localhost:s3cret", "redis://:s3cret@h:port/0", "http://u:s3cret@h", "redis://h/s3cret"]
)
def test_a_url_that_cannot_be_read(command, url):
    assert "s3cret" not in mistake(command("info", url=url), "Redis URL")
    assert "s3cret" not in mistake(command("info", "--url", url), "Redis URL")


def test_a_url_that_a_worker_cannot_read(tenure):
    assert "s3cret" not in mistake(tenure("worker", "jobs:app", url="redis://h/s3cret"), "Redis URL")


@pytest.mark.parametrize(
    "args", [["info"], ["pause", "q"], ["cancel", "q", "id"], ["job", "q", "id", "--watch"]], ids=" ".join
)
def test_a_redis_that_is_not_there(command, args):
    message = command(*args, url=NOWHERE).end(expect=1).err
    assert "redis://***@127.0.0.1:1/0 did not respond" in message
    assert "there was no connection" in message
    assert "s3cret" not in message


def test_a_database_that_is_not_there(command, private_server):
    private_server.command("CONFIG", "SET", "requirepass", "s3cret")
    url = private_server.tcp_url.replace("redis://", "redis://:s3cret@").replace("/0", "/99")
    message = command("info", url=url).end(expect=1).err
    assert f"127.0.0.1:{private_server.port}/99 has no such database" in message
    assert "Use another database" in message
    assert "s3cret" not in message


def test_a_setting_that_cannot_be_right(command):
    mistake(command("info", TENURE_MAX_PAYLOAD="big"), "TENURE_MAX_PAYLOAD", "must be a whole number")
    mistake(command("info", "--namespace", "a{b}"), "namespace")


def test_an_app_that_names_its_own_redis(tenure, tmp_path):
    (tmp_path / "own.py").write_text("from tenure import Tenure\napp = Tenure('redis://here:s3cret@h')\n")
    assert "s3cret" not in mistake(tenure("worker", "own:app", "--url", "redis://there"), "sets the URL")


def test_an_embedded_redis_that_nobody_shares(tenure):
    mistake(tenure("worker", "jobs:app", url="embedded:"), "embedded:./tenure-data")


@pytest.mark.parametrize("path", ["", "./not-there", "./empty"])
def test_to_look_makes_no_embedded_redis(command, tmp_path, path):
    (tmp_path / "empty").mkdir()
    mistake(command("info", url=f"embedded:{path}"), "no embedded Redis", "embedded:./tenure-data")
    assert not (tmp_path / "not-there").exists()
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("info --lane x", ["--lane goes with a queue"]),
        ("info --lanes parked", ["--lanes goes with a queue", "info QUEUE --lanes parked"]),
        ("info q id", ["unexpected extra argument"]),
        ("info q --lanes idle", ["--lanes", "'idle'", "parked"]),
        ("info q --lanes busy --lane x", ["--lanes and --lane"]),
        ("info q --lanes busy --watch", ["--lanes and --watch"]),
        ("jobs q --state lost", ["--state", "'lost'"]),
        ("jobs q --offset 20", ["--offset goes with --state"]),
        ("jobs q --after x", ["--after goes with --state"]),
        ("jobs q --state failed --after x", ["after must be the whole cursor of a page", "'x'"]),
        ("jobs q --state failed --after x --offset 1", ["--offset and --after do not go together"]),
        ("jobs q --limit 0", ["--limit"]),
        ("jobs q --limit 1001", ["--limit", "1000"]),
        ("jobs a/b", ["queue must be", "'a/b'"]),
        ("job", ["Missing argument"]),
        ("retry", ["JOB_ID and --all"]),
        ("retry q id --all", ["JOB_ID and --all"]),
        ("retry q --all", ["--all and --state"]),
        ("retry q id --state failed", ["--all and --state"]),
        ("retry q --all --state completed", ["--state", "'completed'"]),
        ("retry q --all --state failed", ["pass --yes"]),
        ("retry q --all --state failed --payload x", ["goes with JOB_ID"]),
        ("retry q id --payload x --edit", ["--payload and --edit"]),
        ("discard", ["Missing argument"]),
        ("purge --state failed --yes", ["Expected QUEUE, or --all"]),
        ("purge q", ["--state", "Choose from: scheduled, ready,"]),
        ("purge q --state active", ["--state", "'active'"]),
        ("purge q --state failed", ["pass --yes"]),
        ("enqueue", ["MODULE:APP and TASK", "--queue and --payload"]),
        ("enqueue no.such:app", ["TASK after MODULE:APP"]),
        ("enqueue --payload x", ["--queue and --payload"]),
        ("enqueue jobs:app jobs.add --payload x", ["--payload goes with a queue"]),
        ("enqueue jobs:app jobs.ad", ["no task 'jobs.ad'", "Did you mean 'jobs.add'?"]),
        ("enqueue jobs:app nothing", ["no task 'nothing'", "It has: jobs.add"]),
        ("enqueue jobs:app jobs.add 7", ["ARGS must be a JSON array"]),
        ("enqueue jobs:app jobs.add [1,", ["ARGS", "Expected JSON"]),
        ("enqueue jobs:app jobs.add [NaN,1]", ["ARGS", "JSON"]),
        ("enqueue jobs:app jobs.add [1] [2]", ["ARGS must be", "one of each"]),
        ("enqueue jobs:app jobs.add [1]", ["jobs.add", "'b'"]),
        ('enqueue jobs:app jobs.add [1,"s3cret"]', ["jobs.add", "argument 'b'", "Expected `int`, got `str`"]),
        ("enqueue jobs:app jobs.add [1,2] --queue a/b", ["queue must be", "'a/b'"]),
        ("enqueue --queue q --payload x --lane l --priority 3", ["priority", "lane"]),
        ("enqueue --queue q --payload x --priority 101", ["--priority"]),
        ("enqueue --queue q --payload x --delay -1", ["--delay"]),
        ("enqueue --queue q --payload x --id @x", ["id must be", "'@x'"]),
        ("completion tcsh", ["'tcsh'", "bash"]),
        ("cancel", ["Expected one of JOB_ID"]),
        ("cancel q id --all", ["Expected one of"]),
        ("cancel --lane x", ["Expected one of"]),
        ("cancel q id --state ready", ["go with --all"]),
        ("cancel q --all --state failed", ["--state", "'failed'"]),
        ("cancel q --all", ["pass --yes"]),
        ("cancel a/b id", ["queue must be", "'a/b'"]),
        ("pause", ["QUEUE"]),
        ("pause a/b", ["queue must be", "'a/b'"]),
        ("resume q --lane x --all-lanes", ["--lane and --all-lanes"]),
        ("configure q --max-length -1", ["--max-length", "-1"]),
        ("configure q --max-length many", ["--max-length", "many"]),
        ("configure q --lane-failure stop", ["--lane-failure", "'stop'", "skip", "block", "park"]),
        ("quiet", ["WORKER"]),
    ],
)
def test_what_cannot_be_right(command, redis_url, args, words):
    message = mistake(command(*args.split(), url=redis_url), *words)
    assert "s3cret" not in message


def test_a_lane_without_a_name(command, redis_url):
    for name in ("info", "cancel", "pause", "resume"):
        mistake(command(name, "q", "--lane", "", url=redis_url), "lane must be 1 to 200 characters")


def test_a_bad_url_is_shown_as_it_should_be(command):
    mistake(command("info", url="http://example.org"), "redis://[user:password@]host:6379/0")


def test_version_and_help(tenure):
    assert tenure("--version").end().out == f"tenure {__version__}\n"
    helped = tenure("--help").end().out
    assert tenure().end().out == helped
    assert tenure("-h").end().out == helped
    assert re.findall(r"^  (\w[\w-]*)  ", helped, re.MULTILINE) == list(COMMANDS)
    assert re.findall(r"^(\w[\w ]+):$", helped, re.MULTILINE) == ["Options", *SECTIONS]
    assert "Exit status: 0" in tenure("worker", "--help").end().out


def test_the_options_of_the_connection_have_a_page_of_their_own(command):
    short = command("info", "--help").end().out
    assert "--app, --url, --namespace, --protocol" in short
    assert "TENURE_PROTOCOL" not in short
    page = command("help", "connection").end().out
    assert page.startswith("Usage: tenure COMMAND [OPTIONS]")
    assert all(f"  {option}" in page for option in ("--app", "--url", "--namespace", "--protocol"))
    assert command("help", "info").end().out == short
    assert command("help").end().out == command("--help").end().out
    mistake(command("help", "retr"), "Did you mean 'retry'?")


def test_no_line_of_the_reference_is_longer_than_a_terminal_of_100_columns():
    page = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"
    assert [line for line in page.read_text("utf-8").splitlines() if len(line) > 100] == []


def test_help_is_fast_because_it_loads_no_command(tenure):
    loaded = tenure("--help", PYTHONPROFILEIMPORTTIME="1").end().err
    assert "click" in loaded
    for heavy in (
        "asyncio",
        "redis",
        "rich",
        "msgspec",
        "tenure.app.app",
        "tenure.cli.work.worker",
        "tenure.cli.info",
    ):
        assert not re.search(rf"\| +{re.escape(heavy)}$", loaded, re.MULTILINE), f"{heavy} was imported"


def test_output_is_safe_to_show():
    assert safe("redis://u:p@h and rediss://:a@b@h:1/0") == "redis://***@h and rediss://***@h:1/0"
    example = "Expected redis://[user:password@]host:6379/0, rediss://... for TLS"
    assert safe(example) == example
    assert "s3cret" not in safe("redis://[user:password@]host:6379/0s3cret@h redis://[user:password@]s3cret@h:6379/0")
    assert safe("\x1b[2Jgone\r\n\u202e") == "\\x1b[2Jgone\\r\n\\u202e"
    assert [ago(ms) for ms in (-5, 0, 59_999, 60_000, 3_600_000, 90_000_000)] == ["0s", "0s", "59s", "1m", "1h", "1d"]


def test_weights():
    assert parse_weights([]) == {}
    assert parse_weights(["critical=5", "critical=5", "a=b=100", "user:42,x=1"]) == {
        "critical": 5,
        "a=b": 100,
        "user:42,x": 1,
    }


@pytest.mark.parametrize(
    ("value", "named", "words"),
    [
        ("critical:5", ["critical"], "-q critical --weight critical=5"),
        ("critical:5, mails,more:2", ["mails"], "-q critical --weight critical=5 -q mails -q more --weight more=2"),
        ("mail box:5", ["mail box"], "-q 'mail box' --weight 'mail box=5'"),
        ("critical:5", ["critical", "critical:5"], None),
        ("a,b", ["a,b", "a"], None),
        ("user:42", ["orders"], None),
        ("a,", ["b"], None),
        ("", ["b"], None),
    ],
)
def test_the_spelling_of_earlier_releases(value, named, words):
    assert current_spelling(value, named) == words


ODD = """
from tenure import Tenure
app = Tenure()
@app.task(queue="a,b")
def comma() -> None: ...
@app.task(queue="jobs:7")
def colon() -> None: ...
@app.task(queue="jobs")
def plain() -> None: ...
"""


def test_queues_are_named_as_they_are_called_and_earlier_spellings_refused(tenure, tmp_path, redis_url):
    (tmp_path / "odd.py").write_text(ODD)
    message = mistake(tenure("worker", "odd:app", "--burst", "-q", "jobs:5,a", url=redis_url))
    assert "got 'jobs:5,a'. Write -q jobs --weight jobs=5 -q a instead." in message
    message = mistake(tenure("worker", "odd:app", "--burst", "-q", "jobs", "--weight", "a,b=2", url=redis_url))
    assert "--weight must be of a queue of this worker ('jobs'), got 'a,b'" in message
    run = tenure("worker", "odd:app", "--burst", "-q", "a,b", "-q", "jobs:7", "--weight", "a,b=2", url=redis_url)
    assert "names the queue" not in run.end().err


@pytest.mark.parametrize(
    ("current", "total", "text"),
    [
        (37, None, "37"),
        (37, 120, "37 of 120 (30%)"),
        (0.5, 2, "0.5 of 2 (25%)"),
        (999, 1000, "999 of 1,000 (99%)"),
        (1000, 1000, "1,000 of 1,000 (100%)"),
        (3, 0, "3 of 0"),
        (float("inf"), 5, "inf of 5"),
        (float("nan"), 5, "nan of 5"),
        (1e300, 1e-300, "1e+300 of 1e-300"),
    ],
)
def test_how_progress_is_written(current, total, text):
    assert amount(current, total) == text


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["retry"], "For the whole queue: tenure retry default --all --state failed"),
        (["cancel"], "For the whole queue: tenure cancel default --all"),
        (["discard"], "For the whole queue: tenure purge default --state failed"),
        (["job"], "For the whole queue: tenure jobs default"),
    ],
)
def test_a_queue_in_place_of_a_job(command, app, redis_url, words, advice):
    app.queue("default").enqueue(b"x")
    mistake(command(*words, "default", "--url", redis_url), "'default' is a queue, not a job.", advice)


def test_commands_for_other_formats_name_what_native_has(command):
    mistake(command("monitor", "orders", "--url", NOWHERE), "needs no monitor: its workers return the jobs")
    mistake(command("migrate", "orders", "--url", NOWHERE), "To move a queue to another server, add --to-url URL.")


def test_arguments_that_do_not_fit_are_no_earlier_job(command):
    message = mistake(command("enqueue", "jobs:app", "jobs.add", '{"aa": 1}', "--url", NOWHERE), "Did you mean 'a'?")
    assert "accepts=" not in message
