"""Small operations for the driver tests."""

from __future__ import annotations

from tenure.core.steps import Arg, Command, Draw, Invoke, Nonce, Reply, Script, Steps

RECORD = Script("record", "redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('LLEN', KEYS[1])")
"""Appends its argument to a list: shows how often, and with what, it was run."""


def command(*args: Arg, block_ms: int = 0) -> Steps[Reply]:
    return (yield Command(args, block_ms))


def invoke(script: Script, keys: tuple[str, ...] = (), args: tuple[Arg, ...] = ()) -> Steps[Reply]:
    return (yield Invoke(script, keys, args))


def draw(count: int = 1) -> Steps[list[Nonce]]:
    nonces = []
    for _ in range(count):
        nonces.append((yield Draw()))
    return nonces


def record(key: str = "log") -> Steps[tuple[Nonce, Reply]]:
    """One call with a nonce, as an engine makes them."""
    nonce: Nonce = yield Draw()
    reply = yield Invoke(RECORD, (key,), (f"{nonce.session}:{nonce.number}",))
    return nonce, reply
