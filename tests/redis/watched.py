"""A master, a replica and sentinels that watch them: real processes on 127.0.0.1, quick to fail over."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from tenure.core.errors import RedisError, ReplyError
from tenure.core.steps import Arg, Reply
from tenure.redis.sync import SyncDriver
from tenure.testing.death_signal import dies_with_parent
from tenure.testing.ports import Ports
from tenure.testing.server import RedisServer
from tests.redis.operations import command
from tests.support.waiting import LIMIT_S

SERVICE = "shop"
LOG_LINES = 20


def until(condition: Callable[[], object], seconds: float = LIMIT_S) -> None:
    """Wait for it. Raises `AssertionError` when it does not come about; errors of Redis count as "not yet"."""
    end = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except RedisError:
            pass
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


class Pair:
    """A master and its replica. They change places in the course of time."""

    def __init__(self, binary: str, password: str | None = None) -> None:
        args = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
        if password:
            args += ["--requirepass", password, "--masterauth", password]
        self.password = password
        quoted = quote(password, safe="") if password else None
        self.master = RedisServer(binary, tcp=True, aof=False, args=args, password=quoted)
        at_master = ["--replicaof", "127.0.0.1", str(self.master.port)]
        self.replica = RedisServer(binary, tcp=True, aof=False, args=[*args, *at_master], password=quoted)

    def __enter__(self) -> Self:
        self.master.start()
        self.replica.start()
        until(lambda: self.linked)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for server in (self.replica, self.master):
            server.close()

    @property
    def linked(self) -> bool:
        """Whether one of them is the master and the other has all its data."""
        roles = sorted((role[0], role) for role in (self.master.command("ROLE"), self.replica.command("ROLE")))
        return [one[0] for one in roles] == [b"master", b"slave"] and roles[1][1][3] == b"connected"

    def settle(self) -> None:
        """Start what does not run, and wait until all is well."""
        for server in (self.master, self.replica):
            if not server.running:
                server.start()
        self._until(self._is_well)

    def _is_well(self) -> bool:
        return self.linked

    def _until(self, condition: Callable[[], bool]) -> None:
        until(condition)


class Watched(Pair):
    """A pair under sentinels."""

    def __init__(
        self, binary: str, sentinels: int = 3, password: str | None = None, sentinel_password: str | None = None
    ) -> None:
        super().__init__(binary, password)
        self._binary = binary
        self._folder = Path(tempfile.mkdtemp(prefix="tenure-"))
        self._sentinel_password = sentinel_password
        self._reserved = Ports()
        self.ports = [self._reserved.take() for _ in range(sentinels)]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="sentinels")

    def __enter__(self) -> Self:
        super().__enter__()
        self._starter.submit(self._launch).result()
        for port in self.ports:
            until(lambda port=port: self.ask(port, "PING"))  # type: ignore[misc]
            with contextlib.suppress(ReplyError):  # before Redis 7 they have only their own pace, which is slower
                # A replica is good while its INFO is younger than 5 pings; with its master down it comes once a second.
                self.ask(port, "SENTINEL", "DEBUG", "INFO-PERIOD", 300, "PUBLISH-PERIOD", 200, "PING-PERIOD", 300)
        self.settle()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._starter.shutdown()
        self._reserved.close()
        super().__exit__(kind, error, tb)
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, *ports: int, **options: str) -> str:
        """The URL through these sentinels, or through all of them."""
        secret = f":{quote(self.password, safe='')}@" if self.password else ""
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports or self.ports)
        if self._sentinel_password:
            options = {"sentinel_password": quote(self._sentinel_password, safe=""), **options}
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"redis+sentinel://{secret}{hosts}/{SERVICE}/0" + (f"?{query}" if query else "")

    def ask(self, port: int, *args: Arg) -> Reply:
        secret = f":{quote(self._sentinel_password, safe='')}@" if self._sentinel_password else ""
        driver = SyncDriver(f"redis://{secret}127.0.0.1:{port}", patience_ms=0)
        try:
            return driver.run(command(*args))
        finally:
            driver.close()

    def fail_over(self) -> None:
        """Have the sentinels make the replica the master, and the master its replica."""
        old, new = self.master, self.replica

        def asked() -> bool:
            if self._named_by(self.ports[0]) == new.port:
                return True
            # A sentinel that does not hear of the promotion within its `failover-timeout` gives up, and says nothing.
            # While a failover is under way, it refuses another: the errors count as "not yet".
            self.ask(self.ports[0], "SENTINEL", "FAILOVER", SERVICE)
            return False

        self._until(asked)
        self._until(self._has_one_master)
        assert [server.command("ROLE")[0] for server in (old, new)] == [b"slave", b"master"]

    def _is_well(self) -> bool:
        # On a busy machine the sentinels may change the master once more, unasked.
        return self._has_one_master() and self.linked and all(self._agrees(port) for port in self.ports)

    def _until(self, condition: Callable[[], bool]) -> None:
        try:
            until(condition)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._log_tails()}") from None

    def _has_one_master(self) -> bool:
        """Whether all sentinels name the same master. Make the other server its replica: they would do it 8 s later."""
        servers = {server.port: server for server in (self.master, self.replica)}
        named, *others = {self._named_by(port) for port in self.ports}
        if others or servers[named].command("ROLE")[0] != b"master":
            return False
        self.master = servers.pop(named)
        (self.replica,) = servers.values()
        if self.replica.command("ROLE")[0] == b"master":
            self.replica.command("REPLICAOF", "127.0.0.1", named)
            for kind in ("normal", "pubsub"):
                self.replica.command("CLIENT", "KILL", "TYPE", kind)
        return True

    def _named_by(self, port: int) -> int:
        return int(self.ask(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)[1])

    def _log_tails(self) -> str:
        logs = [(port, (self._folder / f"{port}.log").read_text(errors="replace")) for port in self.ports]
        return "\n".join(f"sentinel {port}:\n" + "\n".join(log.splitlines()[-LOG_LINES:]) for port, log in logs)

    def _agrees(self, port: int) -> bool:
        row = self.ask(port, "SENTINEL", "MASTER", SERVICE)
        facts = dict(zip(row[::2], row[1::2], strict=True))
        return (
            facts[b"port"] == str(self.master.port).encode()
            and facts[b"flags"] == b"master"
            and facts[b"num-slaves"] == b"1"
            and facts[b"num-other-sentinels"] == str(len(self.ports) - 1).encode()
            and b"disconnected" not in (replica := self.ask(port, "SENTINEL", "REPLICAS", SERVICE)[0])[9]
            and b"s_down" not in replica[9]
        )

    def _launch(self) -> None:
        for port in self.ports:
            lines = [
                f"port {port}",
                "bind 127.0.0.1",
                f"dir {self._folder}",
                f"sentinel monitor {SERVICE} 127.0.0.1 {self.master.port} {len(self.ports) // 2 + 1}",
                f"sentinel down-after-milliseconds {SERVICE} 1000",
                f"sentinel failover-timeout {SERVICE} 1500",
            ]
            if self.password:
                lines.append(f'sentinel auth-pass {SERVICE} "{self.password}"')
            if self._sentinel_password:
                word = self._sentinel_password
                lines += [f'requirepass "{word}"', f'sentinel sentinel-pass "{word}"']
            config = self._folder / f"{port}.conf"
            config.write_text("\n".join(lines) + "\n")
            with open(self._folder / f"{port}.log", "ab") as log:
                process = subprocess.Popen(
                    dies_with_parent([self._binary, str(config), "--sentinel"]),
                    cwd=self._folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            self._processes.append(process)
