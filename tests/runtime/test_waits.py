"""To catch up with what has come in takes turns of the event loop, and no time."""

from __future__ import annotations

import asyncio
import select
import socket
import sys
import time

from tenure.runtime.waits import catch_up


async def heard_after_catching_up(reader: asyncio.StreamReader, descriptor: int) -> list[bytes]:
    """What a listener has heard, when it lay there before anybody on the loop could look."""
    heard: list[bytes] = []

    async def listen() -> None:
        async with asyncio.timeout(30):
            heard.append(await reader.readline())

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    select.select([descriptor], [], [], 30)
    time.sleep(0.1)  # until the loop's own selector has word of it as well
    await catch_up()
    listening.cancel()
    return heard


async def test_what_a_subprocess_has_said_is_heard():
    program = "import sys, time; time.sleep(0.1); print('well', flush=True); sys.stdin.read()"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", program, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    descriptor = process._transport.get_pipe_transport(1).get_extra_info("pipe").fileno()  # type: ignore[attr-defined]
    assert await heard_after_catching_up(process.stdout, descriptor) == [b"well\n"]
    await process.communicate(b"")


async def test_what_came_through_a_socket_is_heard():
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    theirs.sendall(b"well\n")
    assert await heard_after_catching_up(reader, ours.fileno()) == [b"well\n"]
    writer.close()
    theirs.close()
