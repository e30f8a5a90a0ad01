"""Mutants of the Lua scripts: each is a mistake that somebody could make, and some test must notice it.

LEASEHOLD_MUTANT=settle-without-token pytest tests/conformance      one of them
python -m tests.support.mutants                                     all of them, and which tests noticed
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

from leasehold.core.steps import Script
from leasehold.engines.native.scripts import SCRIPTS


@dataclass(frozen=True, slots=True)
class Mutant:
    """In these scripts (none named: in all that have it) `old` becomes `new`."""

    name: str
    old: str
    new: str
    scripts: tuple[str, ...] = ()

    def texts(self) -> dict[str, str]:
        """The scripts that change, with their new text."""
        among = self.scripts or tuple(SCRIPTS)
        changed = {name: SCRIPTS[name].text.replace(self.old, self.new) for name in among}
        return {name: text for name, text in changed.items() if text != SCRIPTS[name].text}


_REMEMBER: Final = "return remember(session, number, table.concat(answers))"
_FORGET: Final = "return table.concat(answers)"
_DOWN: Final = "function(a, b) return a[1] > b[1] end"
_UP: Final = "function(a, b) return a[1] < b[1] end"

MUTANTS: Final = (
    Mutant("settle-without-token", "if mine == token then", "if mine then", ("settle",)),
    Mutant("extend-without-token", "if mine ~= token then", "if not mine then", ("extend",)),
    Mutant("enqueue-forgets", _REMEMBER, _FORGET, ("enqueue",)),
    Mutant("settle-forgets", _REMEMBER, _FORGET, ("settle",)),
    Mutant("claim-forgets", "remember(session, number, cmsgpack.pack(answer))", "", ("claim",)),
    Mutant("late-copy-runs", "if last > tonumber(number) then", "if false then"),
    Mutant("claim-without-held", "call('HSET', held_key, unpack(claims))", "", ("claim",)),
    Mutant("claim-without-holder", "call('ZADD', key('holders'), time + lease_ms, worker)", "", ("claim",)),
    Mutant(
        "claim-keeps-ready",
        "call('LPOP', key('ready'), count)",
        "call('LRANGE', key('ready'), 0, count - 1)",
        ("claim",),
    ),
    Mutant(
        "put-back-at-the-end",
        "call('LPUSH', key('ready'), unpack(front))",
        "call('RPUSH', key('ready'), unpack(front))",
        ("heartbeat", "maintain", "claim", "leave", "settle"),
    ),
    Mutant("no-grace", "since + config.grace", "since"),
    Mutant("no-amnesty", "verdict = math.max(verdict, amnesty)", ""),
    Mutant("give-back-ascending", "return by_token(b, a)", "return by_token(a, b)"),
    Mutant("release-ascending", f"table.sort(front, {_DOWN})", f"table.sort(front, {_UP})"),
    Mutant("promote-keeps", "call('ZREM', key('scheduled'), unpack(due))", ""),
    Mutant("settle-keeps-held", "call('HDEL', held_key, unpack(gone))", "", ("settle",)),
    Mutant("complete-keeps-job", "call('HDEL', key('jobs'), unpack(completed))", "", ("settle",)),
    Mutant("ghosts-live", "if not is_ghost(id) then", "if true then", ("claim",)),
    Mutant("no-crash-limit", "if crashes >= config.max_crashes then", "if false then"),
    Mutant(
        "crash-is-a-failure", "failures .. ' ' .. crashes .. (string", "(failures + 1) .. ' ' .. crashes .. (string"
    ),
    Mutant("release-is-a-crash", "claimed, worker, false }", "claimed, worker, true }", ("settle",)),
    Mutant(
        "leave-is-a-crash",
        "collect(entries, worker, time, false, false)",
        "collect(entries, worker, time, false, true)",
        ("leave",),
    ),
    Mutant("beat-keeps-nothing", "call('ZADD', key('holders'), time + config.lease, worker)", "", ("heartbeat",)),
    Mutant("beat-leaves-suspicion", "call('ZREM', key('suspects'), worker)", "", ("heartbeat",)),
    Mutant("overdue-is-kept", "(deadline > 0 and deadline <= time)", "false"),
    Mutant("no-isolation", "or holds_suspect() then", "then", ("claim",)),
    Mutant("all-claims-crash", "n <= 2 * entry[5]", "true"),
    Mutant("two-leases-two-ends", "call('HEXISTS', key('jobs'), id) == 0 then", "false then", ("settle",)),
    Mutant("suspect-leaves-quietly", "woken = woken or crashes >= config.isolate", "", ("settle",)),
    Mutant("duplicate-overwrites", "added = call('HSETNX', ", "added = 1 + 0 * call('HSET', ", ("enqueue",)),
    Mutant("stops-when-full", "call('DEL', key('full'))", ""),
    Mutant("no-wake-up", "call('LPUSH', key('wake'), '1')", ""),
    Mutant("wakes-everybody", "if call('LLEN', key('wake')) == 0 then", "if true then"),
    Mutant("token-stands-still", "token = token + 1", "token = 1", ("claim",)),
    Mutant("clock-back-hides", "rewind(seen - time, beating)", ""),
    Mutant("retry-keeps-end", "call('HDEL', key('ended'), id)", "", ("retry",)),
    Mutant("purge-keeps-jobs", "call('HDEL', key('jobs'), unpack(ids))", "", ("purge",)),
    Mutant("unpark-backwards", "for n = #ids, 1, -1 do", "for n = 1, #ids do", ("maintain",)),
    Mutant("no-publish", "call('PUBLISH', key('ended:' .. id), state)", ""),
    Mutant("trim-nothing", "if over > 0 then", "if false then"),
    Mutant("unchecked-types", "\ncheck_types()\n", "\n"),
    Mutant("ghost-for-ever", "  lay_ghosts()\n", ""),
    Mutant("suspects-hide-others", "return looked < limit + 200", "return false"),
    Mutant("task-stays-listed", "call('SREM', key('unroutable'), detail)", ""),
    Mutant(
        "outage-for-ever", "amnesty, before = time + config.amnesty, seen", "amnesty, before = time + config.amnesty, 0"
    ),
    Mutant("clock-back-undoes-beat", "tend(config, time, config.tend, worker)", "tend(config, time, config.tend)"),
    Mutant("expired-id-is-taken", "not state or tonumber(expires) > time", "true"),
    Mutant("page-shows-ghosts", "if call('EXISTS', key('ghosts')) == 0 or", "if true or", ("page",)),
    Mutant("retried-is-no-failure", "(failures + 1) .. ' ' .. crashes .. '\\n' .. body", "failures .. ' ' .. crashes"),
    Mutant("prune-nothing", "forget(state, old, true)", "", ("maintain",)),
)


def apply(name: str) -> None:
    """Break the scripts of this process."""
    texts = next(mutant for mutant in MUTANTS if mutant.name == name).texts()
    assert texts, f"mutant {name!r} finds nothing to change"
    SCRIPTS.update({script: Script(script, text) for script, text in texts.items()})


def main(names: list[str]) -> int:
    """Run the suites once for each mutant. Exit status 1 when one was not noticed."""
    survivors = []
    for mutant in MUTANTS:
        if names and mutant.name not in names:
            continue
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "--no-header",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
        ]
        command += ["tests/conformance", "tests/faults/test_crash_matrix.py", "tests/property"]
        if os.environ.get("LEASEHOLD_ALL_TESTS"):
            command.remove("-x")
        run = subprocess.run(
            command, env={**os.environ, "LEASEHOLD_MUTANT": mutant.name}, capture_output=True, text=True
        )
        assert run.returncode in (0, 1), run.stdout + run.stderr
        caught = re.findall(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)
        print(f"{mutant.name:24} {caught[0] if caught else 'NOT NOTICED'}  ({len(caught)})", flush=True)
        if not caught:
            survivors.append(mutant.name)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
