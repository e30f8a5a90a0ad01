"""What both drivers promise: every call is answered or ends in a clear error, whatever happens on the way."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.core.backoff import RetryBudget
from tenure.core.errors import (
    AccessDenied,
    InvalidArgument,
    NotConfigured,
    QueueFull,
    RedisError,
    ReplyError,
    Unreachable,
    WrongState,
)
from tenure.core.limits import HOUR
from tenure.core.steps import Command, Draw, Nonce, Reply, Script, Steps, WaitLost
from tenure.redis.attempt import FirstContact
from tenure.redis.sync import SyncDriver
from tenure.testing.ports import Ports
from tenure.testing.server import RedisServer
from tests.redis.conftest import Drive
from tests.redis.operations import command, draw, invoke, record
from tests.redis.proxy import Answer, Cut, Proxy
from tests.redis.waits import until_blocked
from tests.support.waiting import until

pytestmark = pytest.mark.every_server

MakeDrive = Callable[..., Drive]
MakeServer = Callable[..., RedisServer]


@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_have_one_shape_whatever_the_url_says(server: RedisServer, drive: MakeDrive, protocol: int) -> None:
    one = drive(f"{server.url}?protocol={protocol}")
    one.run(command("HSET", "h", "a", 1, "b", 2.5))
    one.run(command("ZADD", "z", 1.5, "x", 2, "y"))
    one.run(command("SADD", "s", "m"))
    assert one.run(command("HGETALL", "h")) == [b"a", b"1", b"b", b"2.5"]
    assert one.run(command("ZRANGE", "z", 0, -1, "WITHSCORES")) == [b"x", b"1.5", b"y", b"2"]
    assert one.run(command("ZSCORE", "z", "x")) == b"1.5"
    assert one.run(command("ZPOPMIN", "z")) == [b"x", b"1.5"]
    assert one.run(command("SMEMBERS", "s")) == [b"m"]
    assert one.run(command("GET", "missing")) is None
    assert one.run(command("HMGET", "h", "a", "missing")) == [b"1", None]
    assert one.run(invoke(Script("s", "return {1, 'a', false, {2, {3}}}"))) == [1, b"a", None, [2, [3]]]


def test_payload_bytes_travel_unchanged(server: RedisServer, drive: MakeDrive) -> None:
    one = drive(server.tcp_url)
    payload = bytes(range(256)) * 5_000
    one.run(command("SET", "k", payload))
    assert one.run(command("GET", "k")) == payload


def test_a_lost_reply_is_asked_for_again_with_the_same_nonce(server: RedisServer, drive: MakeDrive) -> None:
    with Proxy(server.socket_path) as proxy:
        one = drive(proxy.url)
        first, _ = one.run(record())  # Redis knows the script from here on
        proxy.cuts.append(Cut(b"EVALSHA"))
        nonce, length = one.run(record())
    assert length == 3
    sent = f"{nonce.session}:{nonce.number}".encode()
    assert server.command("LRANGE", "log", 1, -1) == [sent, sent]
    assert nonce == Nonce(first.session, first.number + 1)


def test_a_reply_cut_at_any_byte_is_asked_for_again(server: RedisServer, drive: MakeDrive) -> None:
    server.command("RPUSH", "list", "one", "two")
    whole = len(b"*2\r\n$3\r\none\r\n$3\r\ntwo\r\n")
    with Proxy(server.socket_path) as proxy:
        one = drive(proxy.url)
        for keep in range(whole):
            proxy.cuts.append(Cut(b"LRANGE", keep))
            assert one.run(command("LRANGE", "list", 0, -1)) == [b"one", b"two"]
            assert not proxy.cuts
        assert proxy.connections == whole + 1


def test_a_call_that_was_repeated_is_freed_at_once(server: RedisServer, drive: MakeDrive) -> None:
    """And with it what it has sent."""

    def budgets() -> int:
        return sum(type(one) is RetryBudget for one in gc.get_objects())

    with Proxy(server.socket_path) as proxy:
        one = drive(proxy.url)
        one.run(command("GET", "k"))
        gc.collect()
        gc.disable()
        try:
            before = budgets()
            proxy.answers.append(Answer(b"GET", b"-LOADING Redis is loading the dataset in memory\r\n"))
            one.run(command("GET", "k"))
            assert not proxy.answers
            assert budgets() == before
        finally:
            gc.enable()


def test_a_connection_closed_while_idle_costs_no_patience(private_server: RedisServer, drive: MakeDrive) -> None:
    one = drive(private_server.url, patience_ms=0)
    one.run(command("SET", "k", "v"))
    private_server.restart()
    assert one.run(command("GET", "k")) == b"v"


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_call_outlives_a_restart(private_server: RedisServer, drive: MakeDrive, transport: str) -> None:
    down = threading.Event()

    def failed() -> float:
        down.set()
        return 0.0

    one = drive(private_server.url if transport == "unix" else private_server.tcp_url, draw_random=failed)
    one.run(command("SET", "k", "v"))
    private_server.kill()

    def start_again() -> None:
        assert down.wait(10)
        private_server.start()

    starter = threading.Thread(target=start_again)
    starter.start()
    try:
        assert one.run(command("GET", "k")) == b"v"
    finally:
        starter.join()
    assert down.is_set()


def test_a_wait_that_is_lost_with_its_connection_is_over(private_server: RedisServer, drive: MakeDrive) -> None:
    """Before its time is up: who waited looks for himself, and that call is sent until Redis is back."""
    one = drive(private_server.url)

    def restart() -> None:
        until_blocked(private_server)
        private_server.restart(kill=True)

    other = threading.Thread(target=restart)
    other.start()
    before = time.monotonic()
    try:
        with pytest.raises(WaitLost):
            one.run(command("BLPOP", "list", 60, block_ms=60_000))
        assert one.run(command("RPUSH", "list", "x")) == 1
        assert time.monotonic() - before < 30
    finally:
        other.join()
    assert one.run(command("BLPOP", "list", 60, block_ms=60_000)) == [b"list", b"x"]


def test_a_wait_without_redis_is_lost_at_once(drive: MakeDrive, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the patience, and without a word: the call that follows tells."""
    one = drive("redis://127.0.0.1:1")
    with pytest.raises(WaitLost):
        one.run(command("BLPOP", "list", 10, block_ms=10_000))
    assert not caplog.records


def test_a_frozen_server_is_unreachable_and_comes_back(private_server: RedisServer, drive: MakeDrive) -> None:
    one = drive(private_server.url, patience_ms=300, reply_timeout_ms=100)
    one.run(command("SET", "k", "v"))
    private_server.pause()
    before = time.monotonic()
    with pytest.raises(Unreachable, match="no reply in time") as caught:
        one.run(command("GET", "k"))
    took = time.monotonic() - before
    private_server.resume()
    assert 0.3 <= took < 5
    assert caught.value.__cause__ is not None
    assert one.run(command("GET", "k")) == b"v"


def test_a_server_that_is_not_there_is_unreachable(drive: MakeDrive) -> None:
    one = drive("redis://user:s3cret@127.0.0.1:1/0", patience_ms=50)
    with pytest.raises(Unreachable) as caught:
        one.run(command("PING"))
    assert "redis://***@127.0.0.1:1/0" in str(caught.value)
    assert "s3cret" not in str(caught.value) + repr(caught.value.__cause__) + repr(one.driver)


def test_a_slow_blocking_command_is_waited_for(server: RedisServer, drive: MakeDrive) -> None:
    one = drive(server.url, patience_ms=0, reply_timeout_ms=500)
    assert one.run(command("BLPOP", "nothing", "0.8", block_ms=800)) is None
    # The longer time is for that call alone.
    assert one.run(command("PING")) == b"PONG"


def test_a_forgotten_script_is_sent_again(server: RedisServer, drive: MakeDrive) -> None:
    one = drive(server.url)
    one.run(record())
    server.command("SCRIPT", "FLUSH")
    _, length = one.run(record())
    assert length == 2


def test_busy_is_waited_out(make_server: MakeServer, drive: MakeDrive) -> None:
    server = make_server(args=["--lua-time-limit", "20"])

    def kill_script() -> float:
        # A driver cannot: it names itself when it connects, and a busy server refuses that.
        with socket.socket(socket.AF_UNIX) as plain:
            plain.connect(server.socket_path)
            plain.sendall(b"SCRIPT KILL\r\n")
            plain.recv(100)
        return 0.0

    blocker = threading.Thread(target=_run_for_ever, args=(server.url,))
    blocker.start()
    try:
        until(lambda: _is_busy(server))
        assert drive(server.url, draw_random=kill_script).run(command("PING")) == b"PONG"
    finally:
        blocker.join()


def test_readonly_means_connect_anew(private_server: RedisServer, drive: MakeDrive) -> None:
    def promote() -> float:
        private_server.command("REPLICAOF", "NO", "ONE")
        return 0.0

    one = drive(private_server.url, draw_random=promote)
    before = one.run(command("CLIENT", "ID"))
    private_server.command("REPLICAOF", "127.0.0.1", "1")
    assert one.run(command("SET", "k", "v")) == b"OK"
    assert one.run(command("CLIENT", "ID")) != before


def test_a_wrong_password_is_denied_and_not_shown(make_server: MakeServer, drive: MakeDrive) -> None:
    server = make_server(args=["--requirepass", "r1ght"], password="r1ght")
    assert drive(server.url).run(command("PING")) == b"PONG"
    one = drive(server.url.replace("r1ght", "wr0ng%40%2F"))
    with pytest.raises(AccessDenied) as caught:
        one.run(command("PING"))
    for secret in ("r1ght", "wr0ng"):
        assert secret not in f"{caught.value!r} {caught.value.__cause__!r} {one.driver!r}"
    with pytest.raises(AccessDenied):
        drive(f"unix://{server.socket_path}").run(command("PING"))


def test_a_user_without_the_right_is_denied(private_server: RedisServer, drive: MakeDrive) -> None:
    private_server.command("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read", "+@connection")
    one = drive(private_server.url.replace("unix://", "unix://reader:pw@"))
    assert one.run(command("GET", "k")) is None
    with pytest.raises(AccessDenied):
        one.run(command("SET", "k", "v"))


def test_a_user_who_may_not_name_the_connection_can_work(private_server: RedisServer, drive: MakeDrive) -> None:
    private_server.command("ACL", "SETUSER", "nameless", "on", ">pw", "~*", "&*", "+@all", "-client")
    one = drive(private_server.url.replace("unix://", "unix://nameless:pw@"))
    assert one.run(command("SET", "k", "v")) == b"OK"
    named = drive(private_server.url)
    assert b"name=tenure " in named.run(command("CLIENT", "LIST"))


@pytest.mark.parametrize("inside_script", [False, True])
def test_full_memory_is_a_full_queue(private_server: RedisServer, drive: MakeDrive, inside_script: bool) -> None:
    private_server.command("CONFIG", "SET", "maxmemory", "1")
    script = Script("s", "return redis.call('SET', KEYS[1], 'v')")
    with pytest.raises(QueueFull):
        drive(private_server.url).run(invoke(script, ("k",)) if inside_script else command("SET", "k", "v"))


@pytest.mark.parametrize("inside_script", [False, True])
def test_a_key_of_another_kind_is_a_wrong_state(server: RedisServer, drive: MakeDrive, inside_script: bool) -> None:
    server.command("SET", "k", "v")
    script = Script("s", "return redis.call('LPUSH', KEYS[1], 'v')")
    with pytest.raises(WrongState, match="WRONGTYPE"):
        drive(server.url).run(invoke(script, ("k",)) if inside_script else command("LPUSH", "k", "v"))


@pytest.mark.parametrize(
    "text",
    ["return redis.error_reply('TNSTALE it is gone')", "return {err='TNSTALE it is gone'}", "error('TNSTALE it')"],
)
def test_a_refusal_of_a_script_keeps_its_first_word(server: RedisServer, drive: MakeDrive, text: str) -> None:
    with pytest.raises(ReplyError) as caught:
        drive(server.url).run(invoke(Script("s", text)))
    assert caught.value.prefix == "TNSTALE"


def test_an_unknown_error_keeps_its_first_word_and_shows_no_arguments(server: RedisServer, drive: MakeDrive) -> None:
    with pytest.raises(ReplyError, match="unknown command") as caught:
        drive(server.url).run(command("NOSUCH", "the payload"))
    assert caught.value.prefix == "ERR"
    assert "the payload" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_error_is_raised_into_the_steps(server: RedisServer, drive: MakeDrive) -> None:
    def steps() -> Steps[Reply]:
        try:
            yield Command(("LPUSH", "k", "a", "b", "c", "d"))
            yield Command(("INCR", "k"))
        except WrongState:
            return (yield Command(("LLEN", "k")))
        raise AssertionError("no error came")

    assert drive(server.url).run(steps()) == 4


def test_after_unreachable_a_new_session_is_used(private_server: RedisServer, drive: MakeDrive) -> None:
    def steps() -> Steps[tuple[Nonce, Nonce]]:
        before: Nonce = yield Draw()
        try:
            yield Command(("PING",))
        except Unreachable:
            private_server.resume()
        return before, (yield Draw())

    one = drive(private_server.url, patience_ms=0, reply_timeout_ms=100, connect_timeout_ms=100)
    [earlier] = one.run(draw())
    private_server.pause()
    before, after = one.run(steps())
    [later] = one.run(draw())
    assert before == Nonce(earlier.session, 2)
    assert after.session != before.session
    assert later == Nonce(after.session, 2)


def test_a_final_error_keeps_the_session(server: RedisServer, drive: MakeDrive) -> None:
    def steps() -> Steps[Nonce]:
        nonce: Nonce = yield Draw()
        with pytest.raises(ReplyError):
            yield Command(("NOSUCH",))
        return nonce

    one = drive(server.url)
    first = one.run(steps())
    [second] = one.run(draw())
    assert second == Nonce(first.session, first.number + 1)
    assert len(first.session) == 12


def test_liveness_moves_with_every_good_reply(server: RedisServer, drive: MakeDrive) -> None:
    one = drive(server.url)
    assert one.driver.liveness == 0.0
    one.run(command("PING"))
    first = one.driver.liveness
    one.run(command("PING"))
    assert time.monotonic() >= one.driver.liveness > first > 0


def test_idle_connections_are_used_again(server: RedisServer, drive: MakeDrive) -> None:
    one = drive(server.url)
    assert len({one.run(command("CLIENT", "ID")) for _ in range(20)}) == 1
    assert b"name=tenure" in one.run(command("CLIENT", "INFO"))


def test_nothing_happens_before_the_first_call_and_after_close(drive: MakeDrive, server: RedisServer) -> None:
    drive("redis://nowhere.invalid:1/0")
    one = drive(server.url)
    one.run(command("PING"))
    one.close_driver()
    with pytest.raises(InvalidArgument, match="closed"):
        one.run(command("PING"))


def test_a_missing_embedded_server_is_not_configured(drive: MakeDrive, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotConfigured, match="holds other files"):
        drive(f"embedded:{tmp_path}").run(command("PING"))


def _is_busy(server: RedisServer) -> bool:
    probe = SyncDriver(server.url, patience_ms=0)
    try:
        probe.run(command("PING"))
    except Unreachable as error:
        return "BUSY" in str(error)
    finally:
        probe.close()
    return False


def _run_for_ever(url: str) -> None:
    driver = SyncDriver(url, reply_timeout_ms=30_000)
    try:
        driver.run(invoke(Script("loop", "while true do end")))
    except RedisError:
        pass
    finally:
        driver.close()


def test_a_program_that_never_reached_its_redis_is_told_how_to_start_one(
    private_server: RedisServer, drive: MakeDrive
) -> None:
    ports = Ports()
    contact = FirstContact(patience_s=0.05, hint="Start one.")
    alone = drive(f"redis://127.0.0.1:{ports.take()}", first_contact=contact, patience_ms=HOUR)
    with pytest.raises(Unreachable, match=r"^No Redis listens at .*Start one\.$") as raised:
        alone.run(command("PING"))
    ports.close()
    assert raised.value.__suppress_context__, "the errors of the Redis client say nothing more"
    # Once it was reached, it was started: a restart takes longer than a program without a server should wait.
    reached = drive(private_server.tcp_url, first_contact=contact, patience_ms=200)
    reached.run(command("PING"))
    private_server.stop()
    with pytest.raises(Unreachable, match=r"did not respond for 0\.2 s"):
        reached.run(command("PING"))
