"""The proxy harms what it is told to harm, in the way it says, and passes on everything else whole."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator

import pytest

from leasehold.testing.server import RedisServer
from tests.faults.lanes.proxy import Dice, Harm, Proxy

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
    ("harm", "weights", "reply", "done"),
    [
        (Harm.LOST, (1, 0, 0), b"", b"1"),
        (Harm.TORN, (0, 1, 0), b":1", b"1"),
        (Harm.UNSENT, (0, 0, 1), b"", None),
    ],
)
def test_what_each_harm_does(through, server, harm, weights, reply, done):
    proxy, ask = through(Dice([b"INCR"], 1.0, weights))
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
