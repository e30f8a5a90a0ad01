"""Redis is killed in the middle of a write: what a script had done so far does not come back with a later restart."""

from __future__ import annotations

import os

from tests.faults.harness.torn import forget_torn_end, torn_ends

SCRIPT = "redis.call('RPOP', 'list') redis.call('SET', 'done', 1) redis.call('SET', 'end', 1)"


def test_half_of_a_script_does_not_come_back(make_server):
    # `everysec` may answer before it writes, while an earlier write is still on its way to the disk.
    server = make_server(args=["--appendfsync", "always"])
    server.command("RPUSH", "list", 1, 2, 3)
    server.command("EVAL", SCRIPT, 0)
    server.kill()
    (file,) = [path for path in server.directory.rglob("*.aof") if b"end" in path.read_bytes()]
    os.truncate(file, file.read_bytes().rindex(b"end") + 1)
    server.start()
    assert torn_ends(server) == 1
    forget_torn_end(server)
    server.command("EVAL", "redis.call('SET', 'a', 1) redis.call('SET', 'b', 1)", 0)
    server.restart(kill=True)
    assert server.command("LLEN", "list") == 3
    assert server.command("MGET", "done", "end", "a", "b") == [None, None, b"1", b"1"]
