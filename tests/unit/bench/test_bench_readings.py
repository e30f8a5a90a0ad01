"""What is read from Redis, from Linux and from journals, as numbers."""

import os
import subprocess
import sys
from typing import Any

import pytest

from bench.journal import Line
from bench.speed.fairness import busy, idle_within
from bench.speed.gauges import Gauge, commands, fields, parsed
from bench.speed.proc import cpu_s, proportional_mb, resident_mb, spent_s, threads_ns


class Server:
    """Answers every command with the same text."""

    def __init__(self, reply: bytes) -> None:
        self.reply = reply

    def command(self, *args: object) -> bytes:
        return self.reply


def answering(reply: bytes) -> Any:
    return Server(reply)


def test_what_clients_send_is_counted_without_what_their_scripts_call():
    said = (
        b"+OK\r\n"
        b'1339518083.107412 [0 127.0.0.1:60866] "BLPOP" "wake" "1"\r\n'
        b'1339518083.107413 [0 lua] "LPOP" "ready"\r\n'
        b'1339518084.107412 [0 unix:/s] "evalsha" "5d" "1" "with \\"quotes\\""\r\n'
        b'1339518085.107412 [0 127.0.0.1:60866] "blpop" "wa'
    )
    assert parsed(said) == {"blpop": 2, "evalsha": 1}


def test_calls_and_time_are_read_for_each_command():
    text = b"# Commandstats\r\ncmdstat_evalsha:calls=3,usec=90,usec_per_call=30.00\r\n"
    text += b"cmdstat_client|info:calls=1,usec=2\r\n"
    assert commands(answering(text)) == {"evalsha": (3, 90), "client|info": (1, 2)}
    assert fields("a:1\r\nb:2:3\r\n# c\r\n") == {"a": "1", "b": "2:3"}


def test_two_readings_make_a_difference():
    assert Gauge(10, 3.0, 500).since(Gauge(4, 1.0, 200)) == Gauge(6, 2.0, 300)


def test_processor_time_and_memory_of_a_process():
    code = "x = b'1' * 30_000_000\nn = sum(i for i in range(2_000_000))\nprint('done', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        pid = process.pid
        assert cpu_s([pid]) > 0.01
        assert resident_mb(pid) > 30
        assert proportional_mb(pid) > 28
        first = threads_ns([pid])
        assert first[pid] > 10_000_000
        assert spent_s({}, first) == sum(first.values()) / 1e9
        assert spent_s(first, first) == 0
        process.communicate(b"\n")


def test_a_process_that_has_ended_has_nothing():
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert (cpu_s([process.pid]), threads_ns([process.pid]), resident_mb(process.pid)) == (0.0, {}, 0)


def test_a_thread_that_ended_is_left_out_and_a_new_one_counts_whole():
    assert spent_s({1: 100, 2: 50}, {1: 300, 3: 40}) == 240 / 1e9


def journal(*lines):
    return [Line(what, token, worker, at) for what, token, worker, at in lines]


SEEN = journal(
    ("start", "long", "a", 1.0),
    ("start", "s1", "b", 1.1),
    ("end", "s1", "b", 1.2),
    ("start", "s2", "b", 1.7),
    ("end", "s2", "b", 1.8),
    ("end", "long", "a", 2.0),
)


def test_when_each_worker_ran_something():
    assert sorted(busy(SEEN)) == [[(1.0, 2.0)], [(1.1, 1.2), (1.7, 1.8)]]


@pytest.mark.parametrize(
    ("span", "idle"),
    [
        ((1.0, 1.1), 0.1),  # b had nothing yet
        ((1.15, 1.7), 0.5),  # b had ended s1 and did not take s2
        ((1.1, 1.2), 0.0),  # both ran something
        ((1.75, 1.9), 0.1),
        ((0.5, 0.9), 0.4),
    ],
)
def test_what_counts_is_the_longest_time_that_one_worker_had_nothing_while_a_job_waited(span, idle):
    assert idle_within(span, SEEN) == pytest.approx(idle)


def test_own_process_has_threads():
    assert os.getpid() in threads_ns([os.getpid()])
