"""What others have written into a queue stops no worker: line by line as docs/reference/bad-inputs.md has it."""

import signal

import pytest

from tenure import State, Tenure
from tests.acceptance.test_bad_inputs import lines, words

JOBS = """
from tenure import Tenure

app = Tenure()

@app.task(name="shop.store", queue="q", retries=0)
def store(value=None, size: int = 1):
    return [value, size]

@app.task(name="shop.apart", queue="q", retries=0, run_in="process")
def apart(value=None): ...

@app.handler("spoilt")
def spoilt(job):
    return len(job.payload)
"""


@pytest.fixture
def app(redis_url, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    with Tenure(redis_url) as app:
        yield app


@pytest.fixture
def store(app):
    @app.task(name="shop.store", queue="q")
    def store(value: int, size: int = 1) -> None: ...

    return store


LEVELS = 100_000
MAX_PAYLOAD = 12_000_000
"""Of the worker: the payloads with 1,000,000 keys are smaller."""


def job(payload: bytes, task: bytes = b"shop.store") -> bytes:
    """A record as docs/reference/native-layout.md has it."""
    return b"1700000000000 %b\n%b" % (task, payload)


def foreign() -> dict[str, bytes]:
    """Return the records, 37 MB, by the lines of the page. Not made on import: each process of a run imports this."""
    keys = b"{" + b",".join(b'"k%d":1' % n for n in range(1_000_000)) + b"}"
    return {
        "no bytes": job(b""),
        "JSON that was cut off": job(b'[["s3cret"'),
        "JSON and trailing bytes": job(b'[["s3cret"],{}]s3cret'),
        "JSON after a byte order mark": job(b'\xef\xbb\xbf[["s3cret"],{}]'),
        "JSON in UTF-16": job('[["s3cret"],{}]'.encode("utf-16")),
        "text that is no UTF-8": job(b'[["s3cret\xff"],{}]'),
        "half of a surrogate pair": job(b'[["s3cret\\ud800"],{}]'),
        "NaN": job(b"[[NaN],{}]"),
        "a number above every float": job(b"[[1e999],{}]"),
        "a whole number of 100,000 digits": job(b"[[" + b"9" * LEVELS + b"],{}]"),
        "lists in lists, 100,000 levels": job(b"[" * LEVELS + b"]" * LEVELS),
        "objects in objects, 100,000 levels": job(
            b'[[{"s3cret":' + b'{"a":' * LEVELS + b"1" + b"}" * LEVELS + b"}],{}]"
        ),
        "100,000 levels, for a task in a process": job(b"[" * LEVELS + b"]" * LEVELS, b"shop.apart"),
        "1,000,000 keys": job(b"[[" + keys + b"],{}]"),
        "1,000,000 keys that the task does not know": job(b"[[]," + keys + b"]"),
        "a key twice in one object": job(b'[[],{"value":"s3cret","value":2}]'),
        "`null` in the place of the arguments": job(b"null"),
        "an argument of another type": job(b'[[],{"size":"s3cret"}]'),
        "a timeout of 4,000 digits": job(b"[[1],{}]", b"shop.store t=" + b"9" * 4_000),
        "a timeout of 20 digits": job(b"[[1],{}]", b"shop.store t=" + b"9" * 20),
        "a timeout below 0": job(b"[[1],{}]", b"shop.store t=-5"),
        "a record that begins as none does": b"s3cret s3cret\n[[],{}]",
        "a record without a payload": b"1700000000000 shop.store",
        "a call above `max_payload`": job(b'[["s3cret' + b"x" * MAX_PAYLOAD + b'"],{}]'),
        "a task that no worker knows": job(b'[["s3cret"],{}]', b"shop.\x1b[31m\n"[:-1]),
    }


def test_the_page_and_the_tests_speak_of_the_same():
    assert list(lines("What others have written into a queue")) == list(foreign())


def test_what_others_have_written_stops_no_worker(app, store, server, tenure, redis_url):
    good, records = [store.enqueue(n) for n in range(3)], foreign()
    for line, record in records.items():
        server.command("HSET", "{tenure:q}:jobs", line, record)
        server.command("RPUSH", "{tenure:q}:ready", line)
    server.command("RPUSH", "{tenure:q}:ready", "nobody", b"\xff\xfe", "NaN")
    good += [store.enqueue(n) for n in range(3)]
    most = {"TENURE_MAX_PAYLOAD": str(MAX_PAYLOAD)}
    log = tenure("worker", "jobs:app", "-q", "q", "--burst", url=redis_url, **most).end().err
    assert [job.result(timeout=0) for job in good] == [[n, 1] for n in (0, 1, 2, 0, 1, 2)]
    for line, (state, error) in lines("What others have written into a queue").items():
        view = app.queue("q").job(line).refresh()
        said = view.error.message if view.error else ""
        assert ([view.state], view.failures, view.crashes) == (words(state), 0, 0), f"{line}: {said}"
        assert all(word in said for word in words(error)), f"{line}: {said}"
        assert view.state is State.COMPLETED or records[line].endswith(view.payload), "the job keeps all its bytes"
        assert len(said) < 400
        assert "s3cret" not in said
    twice = app.queue("q").job("a key twice in one object")
    assert twice.result(timeout=0) == [2, 1]
    assert "s3cret" not in log
    assert max(map(len, log.splitlines())) < 600
    assert all(line.isprintable() for line in log.split("\n"))
    assert tenure("jobs", "q", url=redis_url).end().out.replace("\n", " ").isprintable()


@pytest.mark.parametrize("task", ["shop.store", "shop.apart", "*"])
def test_a_payload_above_the_limit_runs_once_the_limit_is_raised(app, server, tenure, redis_url, task):
    payload = b'[["' + b"x" * 2_000_000 + b'"],{}]'
    queue = "spoilt" if task == "*" else "q"
    server.command("HSET", f"{{tenure:{queue}}}:jobs", "large", job(payload, task.encode()))
    server.command("RPUSH", f"{{tenure:{queue}}}:ready", "large")
    large = app.queue(queue).job("large")
    tenure("worker", "jobs:app", "-q", queue, "--burst", url=redis_url).end()
    view = large.refresh()
    assert (view.state, view.payload, view.failures, view.crashes) == (State.BROKEN, payload, 0, 0)
    assert tenure("retry", queue, "large", url=redis_url).end().out
    more = {"TENURE_MAX_PAYLOAD": "3000000"}
    tenure("worker", "jobs:app", "-q", queue, "--burst", url=redis_url, **more).end()
    assert large.state() is State.COMPLETED


def test_a_spoilt_queue_leaves_the_others_alone_and_comes_back(app, store, server, tenure, redis_url):
    server.command("SET", "{tenure:spoilt}:ready", "x")
    run = tenure("worker", "jobs:app", "-q", "spoilt", "-q", "q", url=redis_url).wait_for("{tenure:spoilt}")
    assert [store.enqueue(n).result(timeout=120) for n in range(3)] == [[0, 1], [1, 1], [2, 1]]
    assert server.command("GET", "{tenure:spoilt}:ready") == b"x"
    server.command("DEL", "{tenure:spoilt}:ready")
    assert app.queue("spoilt").enqueue(b"four").result(timeout=120) == 4
    run.signal(signal.SIGTERM).end()
