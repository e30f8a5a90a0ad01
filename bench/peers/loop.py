# mypy: ignore-errors
"""A bare loop on redis-py: the least that claims jobs, runs them and ends them without losing one, and nothing more.

Jobs lie as in Tenure's layout: a list of ready ids, a hash of payloads, a hash of who holds what. One script adds
jobs; another ends those of the call before, if their token is still that call's, claims the next, and remembers its
answer, so that a call whose reply was lost can be sent again. It decodes nothing. It has no attempts, leases, errors
or records: the difference from it is what a queue with these costs.
"""

from __future__ import annotations

import asyncio
import itertools
import json
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
if redis.call('HGET', KEYS[5], 'call') == ARGV[2] then return redis.call('HMGET', KEYS[5], 'token', 'ids') end
local count = #ARGV - 3
if count > 0 then
  local held, ended = redis.call('HMGET', KEYS[3], unpack(ARGV, 4)), {}
  for i = 1, count do
    if held[i] == ARGV[3] then ended[#ended + 1] = ARGV[i + 3] end
  end
  if #ended > 0 then
    redis.call('HDEL', KEYS[3], unpack(ended))
    redis.call('HDEL', KEYS[2], unpack(ended))
  end
end
local ids = redis.call('LPOP', KEYS[1], ARGV[1])
if not ids then return {} end
local token, claims = redis.call('INCR', KEYS[6]), {}
for i = 1, #ids do claims[2 * i - 1], claims[2 * i] = ids[i], token end
redis.call('HSET', KEYS[3], unpack(claims))
redis.call('HSET', KEYS[5], 'call', ARGV[2], 'token', token, 'ids', table.concat(ids, ' '))
return {token, ids, redis.call('HMGET', KEYS[2], unpack(ids))}
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
    if contract.is_dict():
        return json.dumps(job)
    return f'["{journal}","{token}",{seconds}]'


async def work(limit: int) -> None:
    """Claim and run, so many with a call, without end. An async job costs it one coroutine, a sync one a call."""
    redis = client()
    script, session, kind = redis.script_load(TURN), redis.client_id(), contract.kind()
    seconds = contract.seconds()
    ended: list[bytes | int] = [0]
    for turn in itertools.count():
        found = redis.evalsha(script, len(KEYS), *KEYS, limit, f"{session}-{turn}", *ended)
        if not found:
            redis.blpop([WAKE], WAIT_S)
            ended = [0]
            continue
        token, ids, payloads = found
        if seconds:  # all of a call wait together
            await asyncio.gather(*(contract.anoop("", "", seconds) for _ in ids))
        for raw in () if seconds else payloads:
            # While jobs are counted nobody reads what is in them; the others say in their token which they are.
            journal, name = ("", "") if contract.counting() else raw.decode().split('"')[1:4:2]
            if kind == "async":
                await contract.anoop(journal, name, 0.0)
            else:
                contract.noop(journal, name, 0.0)
        ended = [token, *ids]


def command(limit: int) -> list[str]:
    return [sys.executable, "-c", f"import asyncio, loop; asyncio.run(loop.work({limit}))"]
