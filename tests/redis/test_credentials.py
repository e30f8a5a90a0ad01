"""Users and passwords that change: a function gives them for each new connection."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import redis

from tenure import InvalidArgument, State, Tenure
from tenure.core.engine import Timing
from tenure.core.errors import AccessDenied, Unreachable
from tenure.engines.native.engine import NativeConfig
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.processes.link import KeeperLink
from tenure.protocols.registry import engine_spec_of
from tenure.redis.credentials import CALLS_MOST, Login, NoCredentials, blocking_login
from tenure.redis.drivers import asyncio_driver, blocking_driver
from tenure.redis.url import Target, master_of, sentinel_of
from tenure.testing.server import RedisServer
from tests.redis.operations import command
from tests.support.waiting import LIMIT_S, until


class Vault:
    """A server with one user, whose password changes. `given`: how often the password was asked for."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.given = 0
        self.stale: list[str] = []
        """Passwords to give before the right one."""
        self.password = ""
        self.rotate()

    def rotate(self) -> None:
        """Change the password, and end the connections that used the one before."""
        self.password = f"secret-{time.monotonic_ns()}"
        rules = ("reset", "on", f">{self.password}", "~*", "&*", "+@all")
        self.server.command("ACL", "SETUSER", "shop", *rules)
        self.server.command("CLIENT", "KILL", "USER", "shop")

    def login(self) -> tuple[str, str]:
        self.given += 1
        return "shop", self.stale.pop() if self.stale else self.password

    async def alogin(self) -> tuple[str, str]:
        await asyncio.sleep(0)
        return self.login()


class Provider(redis.CredentialProvider):
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def get_credentials(self) -> tuple[str, str]:
        return self._vault.login()


@pytest.fixture
def vault(private_server: RedisServer) -> Vault:
    return Vault(private_server)


SOURCES: dict[str, Callable[[Vault], Any]] = {
    "function": lambda vault: vault.login,
    "async function": lambda vault: vault.alogin,
    "provider": Provider,
}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, vault: Vault) -> Any:
    return SOURCES[request.param](vault)


Run = Callable[..., Any]


@pytest.fixture(params=["sync", "asyncio"])
def run(request: pytest.FixtureRequest, vault: Vault) -> Iterator[Callable[..., Run]]:
    """Makes a driver with these credentials: a function that runs steps."""
    with asyncio.Runner() as loop:
        closers: list[Callable[[], object]] = []

        def make(credentials: object, **options: Any) -> Run:
            if request.param == "sync":
                blocking = blocking_driver(vault.server.url, credentials, **options)
                closers.append(blocking.close)
                return blocking.run
            driver = asyncio_driver(vault.server.url, credentials, **options)
            closers.append(lambda: loop.run(driver.close()))
            return lambda steps: loop.run(driver.run(steps))

        yield make
        for close in closers:
            close()


def test_each_new_connection_has_the_password_of_that_moment(
    vault: Vault, source: Any, run: Callable[..., Run]
) -> None:
    call = run(source)
    for _ in range(3):
        assert call(command("ACL", "WHOAMI")) == b"shop"
        vault.rotate()
    assert vault.given == 3


def test_after_a_refusal_the_function_is_called_once_more(vault: Vault, source: Any, run: Callable[..., Run]) -> None:
    vault.stale = ["the password before"]
    assert run(source)(command("PING")) == b"PONG"
    assert vault.given == 2
    vault.stale = ["wrong", "wrong"]
    with pytest.raises(AccessDenied):
        run(source)(command("PING"))
    assert vault.given == 4


def test_a_function_that_fails_is_called_again_and_its_text_is_not_shown(run: Callable[..., Run], vault: Vault) -> None:
    fails = [ValueError("the token s3cret-t0ken is over")]

    def login() -> tuple[str, str]:
        if fails:
            raise fails.pop()
        return vault.login()

    assert run(login)(command("PING")) == b"PONG"
    fails = [ValueError("the token s3cret-t0ken is over")] * 1_000
    with pytest.raises(Unreachable) as raised:
        run(login, patience_ms=0)(command("PING"))
    assert "the function for credentials failed (ValueError)" in str(raised.value)
    assert "Nothing was done" in str(raised.value)
    assert "s3cret-t0ken" not in str(raised.value)


def chained(error: BaseException) -> Iterator[BaseException]:
    """The error, and all errors that it, or a reporter of errors, can reach from it."""
    yield error
    for link in (error.__cause__, error.__context__):
        if link is not None:
            yield from chained(link)


async def aleak() -> Login:
    raise RuntimeError("the token s3cret-t0ken is over")


def leak() -> Login:
    raise RuntimeError("the token s3cret-t0ken is over")


@pytest.mark.parametrize("source", [leak, aleak])
@pytest.mark.parametrize("refused", [0, 1], ids=["first answer", "after a refusal"])
def test_no_traceback_has_the_text_of_the_functions_error(
    vault: Vault, source: Callable[[], Any], refused: int
) -> None:
    answers = [("shop", "wrong")] * refused * 2

    def login() -> Any:
        return answers.pop() if answers else source()

    with Tenure(vault.server.url, credentials=login, patience=0) as app:
        queue = app.queue("q")
        calls = (lambda: queue.enqueue(b"x"), lambda: asyncio.run(queue.aenqueue(b"x")))
        for call in calls:
            answers = [("shop", "wrong")] * refused
            with pytest.raises(Unreachable, match="RuntimeError") as raised:
                call()
            found = [*traceback.format_exception(raised.value), *map(repr, chained(raised.value))]
            assert not [text for text in found if "s3cret-t0ken" in text]


@pytest.mark.parametrize("is_async", [False, True], ids=["function", "async function"])
def test_a_function_that_does_not_return_is_given_up_and_named(
    is_async: bool, run: Callable[..., Run], caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()

    async def ahang() -> Login:
        return await asyncio.Event().wait()  # type: ignore[return-value]

    def hang() -> Login:
        released.wait()
        return ()

    with pytest.raises(Unreachable) as raised:
        run(ahang if is_async else hang, patience_ms=500, connect_timeout_ms=200)(command("PING"))
    released.set()
    why = "the function for credentials did not return within"
    assert why in str(raised.value)
    assert "Nothing was done" in str(raised.value)
    assert "Check the function" in str(raised.value)
    assert why in caplog.text


def test_the_calls_that_hang_at_once_are_limited() -> None:
    released = threading.Event()

    def hang() -> tuple[str]:
        released.wait()
        return ("secret",)

    def is_over() -> bool:
        try:
            return blocking_login(hang, 10) == ("secret",)
        except NoCredentials:
            return False

    for _ in range(CALLS_MOST):
        with pytest.raises(NoCredentials, match="did not return"):
            blocking_login(hang, 0.001)
    with pytest.raises(NoCredentials, match=f"{CALLS_MOST} calls"):
        blocking_login(hang, 10)
    released.set()
    until(is_over)


@pytest.mark.parametrize("wrong", [None, "password", ("a", "b", "c"), (1, "b"), ("a", None)])
def test_what_is_no_user_and_password_is_named_by_its_type(wrong: object, run: Callable[..., Run]) -> None:
    with pytest.raises(Unreachable, match="credentials must return a user and a password"):
        run(lambda: wrong, patience_ms=0)(command("PING"))


def test_the_option_must_be_a_function() -> None:
    with pytest.raises(InvalidArgument, match="credentials must be a function, or a CredentialProvider, got str"):
        Tenure("redis://nowhere.invalid", credentials="secret")  # type: ignore[arg-type]


def test_an_app_uses_its_function_for_blocking_code_and_on_event_loops(vault: Vault, source: Any) -> None:
    with Tenure(vault.server.url, credentials=source) as app:
        assert app.inspect.queues() == []

        async def look() -> object:
            return await app.inspect.aqueues()

        assert asyncio.run(look()) == []
    assert vault.password not in repr(app.settings)


def test_masters_and_nodes_get_them_and_sentinels_have_their_own() -> None:
    def login() -> tuple[str, str]:
        return "shop", "secret"

    target = Target("redis+sentinel", sentinels=(("a", 1),), service="s", credentials=login)
    assert master_of(target, ("b", 2)).credentials is login
    assert sentinel_of(target, ("a", 1)).credentials is None


async def test_a_keeper_process_asks_its_worker_and_keeps_the_last_for_a_worker_that_does_not_respond(
    vault: Vault,
) -> None:
    spec = engine_spec_of(PartitionedEngine("lh", NativeConfig(timing=Timing(beat_ms=50))))
    keeper = KeeperLink(vault.server.url, spec, credentials=vault.alogin)
    await keeper.start("w", ["q"])
    keeper.keep(frozenset({"q"}))
    for _ in range(3):
        while await keeper.report() is None or "q" not in keeper.kept_at:
            pass
        given = vault.given
        await asyncio.to_thread(vault.rotate)
        while vault.given == given:
            await keeper.report()
    await keeper.stop()


SHOP = """
import os
from tenure import Tenure

def login():
    with open("password") as file:
        return "shop", file.read()

app = Tenure(os.environ["SHOP_URL"], credentials=login)

@app.task
def add(a: int, b: int) -> int:
    return a + b

@app.task(timeout=600)
def die_once() -> int:
    if not os.path.exists("died"):
        open("died", "w").close()
        os._exit(1)
    return 1
"""


def test_a_worker_and_its_parent_outlive_a_change_of_the_password(
    vault: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = tmp_path / "password"
    password.write_text(vault.password)
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_URL", vault.server.url)
    with Tenure(vault.server.url, credentials=lambda: ("shop", password.read_text())) as app:

        @app.task(name="shop.add")
        def add(a: int, b: int) -> int: ...

        @app.task(name="shop.die_once")
        def die_once() -> int: ...

        worker = subprocess.Popen([sys.executable, "-m", "tenure", "worker", "shop:app"])
        try:
            for _ in range(3):
                assert add.enqueue(1, 2).result(timeout=30) == 3
                password.write_text("wrong for a moment")
                vault.rotate()
                password.write_text(vault.password)
            assert die_once.enqueue().result(timeout=30) == 1, "the parent has released it"
            until(lambda: app.inspect.queue("default").counts.get(State.ACTIVE, 0) == 0)
        finally:
            worker.terminate()
            worker.wait(30)
    assert worker.returncode == 0


def test_a_caller_that_wakes_late_names_the_same_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the thread's own limit ends an async function before its caller gives it up."""

    class Late(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            return super().result(LIMIT_S)

    async def hang() -> Login:
        return await asyncio.Event().wait()  # type: ignore[return-value]

    monkeypatch.setattr("tenure.redis.credentials.Future", Late)
    with pytest.raises(NoCredentials, match="did not return within"):
        blocking_login(hang, 0.05)
