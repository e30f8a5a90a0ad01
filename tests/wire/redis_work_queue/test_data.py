"""What a job is as the data of an item: the same comes back, and other clients can read it."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenure.core.job import NewJob
from tenure.engines.kit.envelope import read_record, write_data
from tests.support import untimed  # noqa: F401

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
)
CALLS = st.tuples(st.lists(JSON), st.dictionaries(st.text(), JSON)).map(lambda call: json.dumps(call).encode())
TASKS = st.none() | st.from_regex(r"[A-Za-z0-9_.:][A-Za-z0-9_.:-]{0,20}", fullmatch=True)


@given(
    payload=st.binary() | CALLS | st.text().map(lambda text: text.encode("utf-8", "ignore")),
    task=TASKS,
    timeout_ms=st.none() | st.integers(0, 604_800_000),
    retries=st.none() | st.integers(0, 10_000),
    headers=st.none() | st.dictionaries(st.text(), st.text(), min_size=1, max_size=3),
)
@example(payload=b'{"tenure":1}', task=None, timeout_ms=None, retries=None, headers=None)
@example(
    payload=b'{"tenure":1,"task":"x","args":[],"kwargs":{}}', task=None, timeout_ms=None, retries=None, headers=None
)
@example(payload=b' {"tenure":', task=None, timeout_ms=None, retries=None, headers=None)
@example(payload=b'[[1, 2.50, 1e400], {"a" : "\\u00e9"}]', task="t", timeout_ms=None, retries=None, headers=None)
@example(payload=b"[[],{}] x", task="t", timeout_ms=5, retries=0, headers=None)
def test_what_goes_in_comes_out(payload, task, timeout_ms, retries, headers) -> None:
    job = NewJob("q", "id", payload, task=task, timeout_ms=timeout_ms, retries=retries, headers=headers)
    record = read_record("q", b"id", write_data(job))
    assert (record.task, record.timeout_ms, record.retries, record.malformed) == (task, timeout_ms, retries, "")
    assert record.headers == headers
    try:
        json.loads(payload)
    except ValueError:
        assert record.payload == payload
    else:  # between the arguments and the names there may be other white space
        assert record.payload == payload or json.dumps(json.loads(record.payload)) == json.dumps(json.loads(payload))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"0",
        b'""',
        b"plain",
        b"\xff",
        b'{"task":"x","args":[]}',
        b"[[],{}]",
        b'{"tenure":1}',
        b'{"tenure":true}',
        b'{"tenure":null}',
        b'{"tenure":1,"flat":"12b"}',
        b'{"tenure":1,"task":5,"args":[1]}',
        b'{"tenure":1,"text":null}',
        b'{"tenure":"yes","task":"t"}',
        b'{"tenure":1.0,"task":"t"}',
        b'{"tenure":1,"timeout_ms":50,"kwargs":{"task":"t"}}',
    ],
)
def test_a_raw_payload_is_the_data_as_it_is(payload: bytes) -> None:
    assert write_data(NewJob("q", "id", payload)) == payload
    record = read_record("q", b"id", payload)
    assert (record.payload, record.task, record.timeout_ms, record.malformed) == (payload, None, None, "")


def test_the_call_of_a_task_is_one_object() -> None:
    data = write_data(
        NewJob("q", "id", b'[["cat.png"],{"size":64}]', task="shop.thumbnail", timeout_ms=30_000, retries=5)
    )
    assert json.loads(data) == {
        "tenure": 1,
        "timeout_ms": 30_000,
        "retries": 5,
        "task": "shop.thumbnail",
        "args": ["cat.png"],
        "kwargs": {"size": 64},
    }


@pytest.mark.parametrize(
    "data",
    [
        b'{"tenure":1,"task":"os.system; x"}',
        b'{"tenure":1,"task":"' + b"x" * 10_000 + b'"}',
        b'{"tenure":1,"timeout_ms":-1,"task":"t"}',
        b'{"tenure":1,"headers":{"a":1},"text":"x"}',
        b'{"tenure":1,"retries":99999999,"text":"x"}',
        b'{"tenure":99999999999999999999,"task":"t"}',
        b'{"tenure":1,"task":"t","text":5}',
        b'{"tenure":1,"base64":"*"}',
        b'{"tenure":2,"task":"t"}',
        b'{"tenure":-5,"task":"t"}',
    ],
)
def test_an_envelope_that_is_none_comes_out_whole_and_says_so(data: bytes) -> None:
    record = read_record("q", b"id", data)
    assert record.malformed
    assert (record.task, record.payload) == (None, data)
    assert b"os.system" not in record.malformed.encode()


def test_an_envelope_that_is_cut_short_is_no_raw_payload() -> None:
    call = NewJob("q", "id", b'[["cat.png"],{}]', task="shop.thumbnail", timeout_ms=5, retries=2)
    whole = write_data(call)
    spaced = json.dumps(json.loads(whole)).encode()
    for data in (whole, spaced, b" \r\n" + whole):
        for end in range(data.index(b"1") + 1, len(data)):
            record = read_record("q", b"id", data[:end])
            assert (record.task, record.payload) == (None, data[:end])
            assert (
                record.malformed == "The envelope cannot be read: it is cut short, or not what an envelope is made of."
            )


@pytest.mark.parametrize(
    "payload",
    [
        b'{"tenure":',
        b'{"tenure":"x',
        b'{"tenure":1.5,',
        b'{"tenure":1}x',
        b'{"a":1,"tenure":1,',
        b'["tenure":1,',
    ],
)
def test_other_data_that_is_no_json_is_a_raw_payload(payload: bytes) -> None:
    record = read_record("q", b"id", payload)
    assert (record.task, record.payload, record.malformed) == (None, payload, "")


def test_a_raw_payload_that_looks_cut_short_comes_out_as_it_went_in() -> None:
    payload = b'{"tenure":1,"task":"t"'
    record = read_record("q", b"id", write_data(NewJob("q", "id", payload)))
    assert (record.task, record.payload, record.malformed) == (None, payload, "")


def test_an_envelope_of_another_version_is_not_run() -> None:
    record = read_record("q", b"id", b'{"tenure":2,"task":"t","args":[]}')
    assert (record.task, record.malformed) == (None, "The envelope cannot be read: its version is 2; expected 1.")


def test_deep_nesting_is_no_envelope_and_no_crash() -> None:
    data = b'{"tenure":' + b"[" * 100_000
    assert read_record("q", b"id", data).payload == data


@pytest.mark.parametrize("key", [b"\xff", b"\xed\xa0\x80"])
def test_what_is_no_text_is_no_envelope(key: bytes) -> None:
    data = b'{"tenure":1,"task":"t","args":[],"' + key + b'":1}'
    record = read_record("q", b"id", data)
    assert (record.task, record.payload, record.malformed) == (None, data, "")


@pytest.mark.parametrize("levels", [63, 500, 5_000, 100_000])
def test_an_envelope_that_is_nested_too_deeply_is_not_taken_for_a_raw_payload(levels: int) -> None:
    data = b'{"tenure":1,"task":"t","args":[' + b"[" * levels + b"]" * levels + b"]}"
    record = read_record("q", b"id", data)
    assert record.malformed
    assert record.payload == data
