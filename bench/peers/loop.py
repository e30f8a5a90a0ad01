# mypy: ignore-errors
"""A bare loop on redis-py: the least that claims jobs, runs them and ends them without losing one, and nothing more.

Jobs lie as in Leasehold's layout: a list of ready ids, a hash of payloads, a hash of who holds what. One script adds
jobs; another ends those of the call before, if their tokens are still theirs, claims the next, and remembers its
answer, so that a call whose reply was lost can be sent again. No attempts, no leases, no errors, no records: what a
queue with all of that costs is its distance from this.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from typing import Any

import contract
from contract import Arguments
from redis import Redis

KEYS = ("bench:ready", "bench:jobs", "bench:held", "bench:wake", "bench:answer", "bench:token")
WAKE = KEYS[3]
WAIT_S = 2

ADD = """
local ids = {}
for i = 1, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
redis.call('HSET', KEYS[2], unpack(ARGV))
redis.call('RPUSH', KEYS[1], unpack(ids))
if redis.call('EXISTS', KEYS[4]) == 0 then redis.call('RPUSH', KEYS[4], 1) end
return #ids
"""

TURN = """
local said = redis.call('GET', KEYS[5])
if said then
  local before = cmsgpack.unpack(said)
  if before[1] == ARGV[2] then return before[2] end
end
for i = 3, #ARGV, 2 do
  if redis.call('HGET', KEYS[3], ARGV[i]) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[3], ARGV[i])
    redis.call('HDEL', KEYS[2], ARGV[i])
  end
end
local ids, rows, kept = redis.call('LPOP', KEYS[1], ARGV[1]) or {}, {}, {}
local token = redis.call('INCRBY', KEYS[6], #ids)
for i, id in ipairs(ids) do
  redis.call('HSET', KEYS[3], id, token)
  rows[i] = {id, redis.call('HGET', KEYS[2], id), token}
  kept[i] = {id, token}
  token = token - 1
end
redis.call('SET', KEYS[5], cmsgpack.pack({ARGV[2], kept}), 'PX', 600000)
return rows
"""


def client() -> Any:
    return Redis.from_url(contract.url())


def put(jobs: Iterable[Arguments], size: int) -> None:
    """Add jobs, so many with a call. The payload is the token: as long as the arguments of other peers, see below."""
    redis = client()
    script, session = redis.script_load(ADD), redis.client_id()
    numbers = itertools.count()
    lines = ((f"{session:06x}{next(numbers):010x}", payload(job)) for job in jobs)
    while part := list(itertools.islice(lines, size)):
        redis.evalsha(script, len(KEYS), *KEYS, *itertools.chain.from_iterable(part))


def payload(job: Arguments) -> str:
    """The arguments, as JSON would have them."""
    journal, token, seconds = job
    return f'["{journal}","{token}",{seconds}]'


async def work(limit: int) -> None:
    """Claim and run, so many with a call, without end. An async job costs it one coroutine, a sync one a call."""
    redis = client()
    script, session, kind = redis.script_load(TURN), redis.client_id(), contract.kind()
    ended: list[bytes | int] = []
    for turn in itertools.count():
        rows = redis.evalsha(script, len(KEYS), *KEYS, limit, f"{session}-{turn}", *ended)
        if not rows:
            redis.blpop([WAKE], WAIT_S)
        for _, raw, _ in rows:
            # While jobs are counted nobody reads what is in them; the others say in their token which they are.
            journal, name = ("", "") if contract.counting() else raw.decode().split('"')[1:4:2]
            if kind == "async":
                await contract.anoop(journal, name, 0.0)
            else:
                contract.noop(journal, name, 0.0)
        ended = [part for id, _, token in rows for part in (id, token)]


def command(limit: int) -> list[str]:
    return [sys.executable, "-c", f"import asyncio, loop; asyncio.run(loop.work({limit}))"]
