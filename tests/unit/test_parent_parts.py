"""The parts of a parent process that need no processes: health, wear, pauses, command lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys

import click
import pytest

from tenure.cli.work.processes import arguments_of
from tenure.core import limits
from tenure.core.errors import InvalidArgument, NotConfigured
from tenure.processes.config import HealthOutputs
from tenure.processes.health import HEALTH_LIVE_MS, HEALTH_READY_MS, Health, HealthReporter
from tenure.processes.link import ParentSocket
from tenure.processes.messages import StatusReport, WorkerState
from tenure.processes.recycling import MB, RECYCLE_CHECK_MS, Wear, memory_bytes
from tenure.processes.slots import PAUSE_CAP_MS, Slot
from tenure.testing.ports import Ports

READY_S = HEALTH_READY_MS / limits.SECOND
LIVE_S = HEALTH_LIVE_MS / limits.SECOND


def status(state: WorkerState = WorkerState.RUNNING, good_at: float = 100.0) -> StatusReport:
    return StatusReport(7, state, good_at, 3, "w")


class TestHealth:
    @pytest.mark.parametrize(
        ("age_s", "ready", "live"),
        [(0, True, True), (READY_S - 1, True, True), (READY_S, False, True), (LIVE_S, False, False)],
    )
    def test_it_goes_by_the_age_of_the_last_good_reply(self, age_s, ready, live):
        health = Health.of([status()], 100.0 + age_s)
        assert (health.ready, health.live) == (ready, live)
        shown = json.loads(health.text)
        assert (shown["ready"], shown["live"]) == (ready, live)
        assert shown["workers"] == [
            {"worker": "w", "pid": 7, "state": "running", "last_good_reply_s": age_s, "active": 3}
        ]

    @pytest.mark.parametrize("state", [WorkerState.STARTING, WorkerState.RETIRING, WorkerState.STOPPING])
    def test_only_one_that_takes_up_jobs_is_ready(self, state):
        assert not Health.of([status(state)], 100.0).ready
        assert Health.of([status(state)], 100.0).live

    def test_it_says_why_one_is_not_as_it_should_be(self):
        health = Health.of([StatusReport(7, WorkerState.RETIRING, 100.0, reason="all slots are occupied")], 100.0)
        assert not health.ready
        assert json.loads(health.text)["workers"][0]["reason"] == "all slots are occupied"

    def test_one_of_several_is_enough_and_none_is_not(self):
        deaf = status(good_at=0.0)
        assert Health.of([deaf, status()], 100.0).ready
        assert not Health.of([deaf], 100.0).live
        assert not Health.of([], 100.0).live


class TestOutlets:
    @pytest.mark.parametrize(
        ("text", "address"),
        [("8099", ("127.0.0.1", 8099)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:8099", ("::1", 8099)), ("0", None)],
    )
    def test_a_port_may_have_a_host(self, text, address):
        assert HealthOutputs.of(None, text).address == (address or ("127.0.0.1", 0))

    @pytest.mark.parametrize("text", ["", "web", "host:", ":", "70000", "1.5", "-1", "8099:host", "٣"])
    def test_anything_else_is_refused(self, text):
        with pytest.raises(InvalidArgument, match="HOST"):
            HealthOutputs.of(None, text)

    def test_the_file_needs_a_folder_that_can_be_written_to(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "access", lambda *_: False)
        with pytest.raises(InvalidArgument, match="may write to"):
            HealthOutputs.of(str(tmp_path / "health.json"), None)

    def test_the_file_needs_a_folder(self, tmp_path):
        assert HealthOutputs.of(str(tmp_path / "health.json"), None)
        assert not HealthOutputs()
        for wrong in (tmp_path / "no" / "health.json", tmp_path):
            with pytest.raises(InvalidArgument, match="health file"):
                HealthOutputs.of(str(wrong), None)


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


class TestTeller:
    @pytest.fixture
    async def port(self, free_port):
        self.now = 100.0
        teller = HealthReporter(lambda: Health.of([status()], self.now), HealthOutputs(None, ("127.0.0.1", free_port)))
        await teller.open()
        task = asyncio.create_task(teller.run())
        yield free_port
        task.cancel()
        await asyncio.wait({task})

    @pytest.fixture
    def free_port(self):
        ports = Ports()
        yield ports.take()
        ports.close()

    async def test_live_and_ready(self, port):
        for self.now, live, ready in ((100.0, 200, 200), (100 + READY_S, 200, 503), (100 + LIVE_S, 503, 503)):
            for path, status in ((b"/live", live), (b"/ready?from=k8s", ready)):
                answer = await ask(port, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
                head, _, body = answer.partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 %d " % status)
                assert b"Content-Length: %d" % len(body) in head
                assert json.loads(body)["workers"][0]["worker"] == "w"

    async def test_idle_connections_keep_no_probe_from_its_answer(self, port):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        assert (await ask(port, b"GET /live HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        for _, writer in idle:
            writer.close()

    @pytest.mark.parametrize(
        ("request_", "status"),
        [(b"GET / HTTP/1.1\r\n\r\n", b"404"), (b"POST /live HTTP/1.1\r\n\r\n", b"405"), (b"\r\n\r\n", b"40")],
    )
    async def test_other_questions(self, port, request_, status):
        assert (await ask(port, request_)).startswith(b"HTTP/1.1 " + status)

    async def test_head_has_no_body(self, port):
        answer = await ask(port, b"HEAD /live HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"\r\n\r\n")

    async def test_too_long_or_unfinished_questions_end_and_others_are_answered(self, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /live HT")  # and no more
        with contextlib.suppress(ConnectionError):
            assert await ask(port, b"x" * 100_000) == b""
        assert (await ask(port, b"GET /live HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await reader.read() == b""  # within its limit
        writer.close()

    async def test_a_port_that_is_taken_is_said(self, port):
        with pytest.raises(NotConfigured, match=r"health port 127\.0\.0\.1"):
            await HealthReporter(lambda: Health.of([], 0.0), HealthOutputs(None, ("127.0.0.1", port))).open()

    async def test_the_file_is_there_while_it_runs(self, tmp_path):
        path = tmp_path / "health.json"
        running = asyncio.create_task(
            HealthReporter(lambda: Health.of([status()], 100.0), HealthOutputs(str(path))).run()
        )
        while not path.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert json.loads(path.read_text())["live"] is True
        running.cancel()
        await asyncio.wait({running})
        assert os.listdir(tmp_path) == []

    async def test_a_link_of_another_user_beside_the_file_is_not_followed(self, tmp_path):
        path, others = tmp_path / "health.json", tmp_path / "others"
        others.write_text("kept")
        os.symlink(others, f"{path}.{os.getpid()}")
        running = asyncio.create_task(
            HealthReporter(lambda: Health.of([status()], 100.0), HealthOutputs(str(path))).run()
        )
        while not path.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait({running})
        assert others.read_text() == "kept"

    async def test_a_file_that_cannot_be_written_is_said_once_and_ends_nothing(self, tmp_path, caplog, monkeypatch):
        monkeypatch.setattr("tenure.processes.health.HEALTH_MS", 1)
        rounds: list[int] = []

        def look() -> Health:
            rounds.append(1)
            return Health.of([], 0.0)

        outlets = HealthOutputs(str(tmp_path / "gone" / "health.json"))
        running = asyncio.create_task(HealthReporter(look, outlets).run())
        while len(rounds) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait({running})
        assert caplog.text.count("loop_failed loop=health_file") == 1


class TestWear:
    def test_after_so_many_jobs(self):
        wear = Wear(max_jobs=3)
        assert [wear(started) for started in (0, 2, 3, 500)] == [None, None, "3 jobs", "500 jobs"]

    def test_when_it_has_grown_and_it_looks_only_now_and_then(self):
        now, sizes = [0.0], [300 * MB]
        looks = []

        def memory() -> int:
            looks.append(now[0])
            return sizes[0]

        wear = Wear(max_memory_mb=300, clock=lambda: now[0], memory=memory)
        assert wear(1) is None
        sizes[0] += 1
        assert wear(2) is None
        now[0] = RECYCLE_CHECK_MS / limits.SECOND
        assert wear(3) == "300 MB"
        assert len(looks) == 2

    def test_without_limits_it_is_never_enough(self):
        assert Wear()(10**9) is None

    def test_memory_grows_with_what_is_held(self):
        before = memory_bytes()
        held = b"x" * (64 * MB)
        assert memory_bytes() - before > 32 * MB
        assert held


class TestPauses:
    def test_they_grow_up_to_a_cap_and_begin_again_after_a_long_life(self):
        slot = Slot(0, lambda: 1.0)
        found = [slot.pause_s(0.1) for _ in range(12)]
        assert found[:4] == [0.0, 0.25, 0.5, 1.0]
        assert found[-1] == PAUSE_CAP_MS / limits.SECOND
        assert slot.pause_s(3600.0) == 0.0
        assert [slot.pause_s(0.1) for _ in range(3)] == [0.0, 0.25, 0.5]

    def test_half_of_a_pause_is_chance(self):
        slot = Slot(0, lambda: 0.0)
        assert [slot.pause_s(0.1) for _ in range(3)] == [0.0, 0.125, 0.25]


class TestCommands:
    @pytest.mark.parametrize(
        "words",
        [
            ["a:b"],
            ["-q", "x", "--queue=y:2", "a:b", "--burst"],
            ["--num", "-1", "--", "a:b"],
            ["--num=3", "--processes", "4", "a:b"],
        ],
    )
    def test_arguments_are_spelled_anew_but_for_some(self, words):
        seen: list[dict[str, object]] = []

        @click.command()
        @click.argument("app")
        @click.option("queues", "--queue", "-q", multiple=True)
        @click.option("--burst", is_flag=True)
        @click.option("--num", type=int, default=7)
        @click.option("--processes", type=int, default=1)
        @click.pass_context
        def command(context: click.Context, /, **params: object) -> None:
            seen.append(params)
            if len(seen) == 1:
                again = arguments_of(context, frozenset({"processes"}))
                command.main(again, standalone_mode=False)

        command.main(words, standalone_mode=False)
        first, second = seen
        assert second == {**first, "processes": 1}


class TestParentSocket:
    def test_what_is_no_socket_is_refused(self):
        with pytest.raises(InvalidArgument, match="--parent"):
            ParentSocket(987)

    @pytest.mark.parametrize("how", ["a message", "the end"])
    def test_until_it_is_taken_whatever_comes_ends_the_process(self, how):
        """The app may be loading, or hang in it: it has no job."""
        ours, theirs = socket.socketpair()
        program = f"from tenure.processes.link import ParentSocket; ParentSocket({theirs.fileno()}); input()"
        command = [sys.executable, "-c", program]
        with ours, subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[theirs.fileno()]) as child:
            theirs.close()
            if how == "a message":
                ours.send(b"{}")
            else:
                ours.close()
            assert child.wait(30) == 0

    def test_after_that_it_is_left_to_the_worker(self):
        ours, theirs = socket.socketpair()
        with ours:
            taken = ParentSocket(theirs.detach()).taken()
            ours.send(b"x")
            with taken:
                assert taken.recv(1) == b"x"
