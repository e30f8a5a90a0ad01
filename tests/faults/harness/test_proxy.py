"""The proxy harms what it is told to harm, in the way it says, and passes on everything else whole."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from tenure.testing.server import RedisServer
from tests.faults.harness.proxy import LATE_S, Cut, Dice, Harm, Hole, Proxy, Weather

INCR = b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"
GET = b"*2\r\n$3\r\nGET\r\n$1\r\nn\r\n"

Ask = Callable[[bytes], bytes]


@pytest.fixture
def through(server: RedisServer) -> Iterator[Callable[[Dice], tuple[Proxy, Ask]]]:
    """Makes a proxy, and a way to ask through it, on a fresh connection, for the first line of the reply."""
    proxies: list[Proxy] = []

    def make(dice: Dice) -> tuple[Proxy, Ask]:
        proxy = Proxy(server.socket_path, dice, random.Random(1)).__enter__()
        proxies.append(proxy)

        def ask(request: bytes) -> bytes:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(10)
                connection.connect(proxy.url.removeprefix("unix://"))
                connection.sendall(request)
                with connection.makefile("rb") as replies:
                    return replies.readline()

        return proxy, ask

    yield make
    for proxy in proxies:
        proxy.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("harm", "reply", "done"),
    [
        (Harm.LOST, b"", b"1"),
        (Harm.TORN, b":1", b"1"),
        (Harm.UNSENT, b"", None),
        (Harm.ERROR, b"-LOADING\r\n", None),
    ],
)
def test_what_each_harm_does(through, server, harm, reply, done):
    proxy, ask = through(Dice([b"INCR"], 1.0, {harm: 1}, [b"-LOADING\r\n"]))
    assert ask(INCR) == reply
    assert server.command("GET", "n") == done
    assert proxy.harmed == {harm: 1}
    assert ask(GET) == (b"$1\r\n" if done else b"$-1\r\n")
    proxy.calm = True
    assert ask(INCR) == (b":2\r\n" if done else b":1\r\n")


def test_the_rate_and_the_seed_decide(through):
    proxy, ask = through(Dice([b"INCR"], 0.5))
    fates = [ask(INCR).endswith(b"\n") for _ in range(40)]
    assert 5 < sum(proxy.harmed.values()) == fates.count(False) < 35
    _, again = through(Dice([b"INCR"], 0.5))
    assert [again(INCR).endswith(b"\n") for _ in range(40)] == fates


def test_long_requests_and_replies_pass_whole(through, server):
    _, ask = through(Dice([b"INCR"], 1.0))
    value = b"v" * 300_000
    assert ask(b"*3\r\n$3\r\nSET\r\n$1\r\nv\r\n$300000\r\n" + value + b"\r\n") == b"+OK\r\n"
    assert ask(b"*2\r\n$4\r\nECHO\r\n$300000\r\n" + value + b"\r\n") == b"$300000\r\n"
    assert server.command("GET", "v") == value


def test_a_server_that_is_away_is_a_closed_connection(private_server):
    with Proxy(private_server.socket_path, Dice([], 0.0), random.Random(1)) as proxy:
        private_server.kill()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(proxy.url.removeprefix("unix://"))
            assert connection.recv(1) == b""


def test_a_late_request_arrives_after_its_sender_has_gone_on(through, server):
    proxy, ask = through(Dice([b"INCR"], 1.0, {Harm.LATE: 1}))
    assert ask(INCR) == b""
    proxy.calm = True
    assert ask(INCR) == b":1\r\n"
    until = time.monotonic() + 10 * LATE_S
    while server.command("GET", "n") != b"2":
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("keep", "of_reply", "reply", "done"), [(9, False, b"", None), (0, True, b"", b"1"), (2, True, b":1", b"1")]
)
def test_a_cut_is_at_its_byte(through, server, keep, of_reply, reply, done):
    proxy, ask = through(Dice())
    proxy.cut = Cut(b"INCR", keep, of_reply)
    assert ask(GET) == b"$-1\r\n"
    assert ask(INCR) == reply
    assert server.command("GET", "n") == done
    assert ask(GET).startswith(b"$1" if done else b"$-1")


def test_a_hole_swallows_everything_and_says_nothing(server):
    with Proxy(server.socket_path, Dice(), random.Random(1)) as proxy:

        def connect() -> socket.socket:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(proxy.url.removeprefix("unix://"))
            connection.settimeout(10)
            return connection

        with connect() as old, connect() as new:
            old.sendall(INCR)
            assert old.recv(10) == b":1\r\n"
            proxy.dig(Hole.ALL)
            for one in (old, new):
                one.sendall(INCR)
                one.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    one.recv(10)
            proxy.dig(Hole.OLD)
            with connect() as newer:
                newer.sendall(INCR)
                assert newer.recv(10) == b":2\r\n"
        assert proxy.swallowed >= 2


def test_slow_replies_are_whole(server):
    weather = Weather(delay_s=0.01, drip=True)
    with Proxy(server.socket_path, Dice(), random.Random(1), weather) as proxy, socket.socket(socket.AF_UNIX) as client:
        client.connect(proxy.url.removeprefix("unix://"))
        client.settimeout(10)
        client.sendall(INCR)
        with client.makefile("rb") as replies:
            assert replies.readline() == b":1\r\n"
