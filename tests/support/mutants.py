"""Mutants of the Lua scripts: each is a mistake that somebody could make, and some test must notice it.

TENURE_MUTANT=settle-without-token pytest tests/conformance      one of them
make mutants                                                     all of them, see tests/support/mutation.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tenure.core.steps import Script
from tenure.engines.native.scripts import SCRIPTS


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


_REMEMBER: Final = "return remember(session, number, answers"
_FORGET: Final = "return (answers"
_DOWN: Final = "function(a, b) return a[1] > b[1] end"
_UP: Final = "function(a, b) return a[1] < b[1] end"

_SCHEDULES: Final = (
    Mutant("tick-without-planned", " or state.planned ~= expected", "", ("tick",)),
    Mutant("tick-without-digest", "digests[name] ~= digest or ", "", ("tick",)),
    Mutant("tick-of-a-paused-schedule", " or state.paused ~= '0')", ")", ("tick",)),
    Mutant("tick-before-its-time", "tonumber(run_fire) > time or ", "", ("tick",)),
    Mutant("tick-does-not-move-on", "state.planned, state.fire = planned, fire", "", ("tick",)),
    Mutant("tick-in-a-full-queue", "if most > 0 and have >= most then", "if false then", ("tick",)),
    Mutant("tick-forgets-its-time", "string.match(record, '^[^\\n]* s=(%d+)')", "nil", ("tick",)),
    Mutant("tick-waits-for-an-earlier-task", "return task == task_of(", "return true or task_of(", ("tick",)),
    Mutant("tick-beside-a-parked-job", "task == task_of('0 ' .. record) or not", "not", ("tick",)),
    Mutant("tick-forgets-a-key-of-its-call", "owners[unique] or uniques", "uniques", ("tick",)),
    Mutant("tick-takes-room-twice", "have = have + 1", "", ("tick",)),
    Mutant(
        "tick-counts-a-job-that-joins", "if most > 0 and adds(job, time, taken) then", "if most > 0 then", ("tick",)
    ),
    Mutant("tick-reads-all-records", "n > some or ", "", ("tick",)),
    Mutant(
        "tick-moves-on-before-a-cancel",
        "for _, id in ipairs(canc",
        "schedules.write(changed) for _, id in ipairs(canc",
        ("tick",),
    ),
    Mutant("trigger-counts-as-a-tick", "if is_tick then state.last", "if true then state.last", ("tick",)),
    Mutant("trigger-moves-on", "if is_tick then\n", "if true then\n", ("tick",)),
    Mutant("put-repeats-a-tick", " or has_run then", " then", ("schedule_put",)),
    Mutant("put-beside-its-new-name", " or not schedules.has_moved(name, past))\n", " or true)\n", ("schedule_put",)),
    Mutant("announce-beside-its-new-name", " or schedules.has_moved(name, past))", ")", ("schedule_announce",)),
    Mutant("put-keeps-the-earlier-name", "schedules.remove(one[1], one[2], one[3])", "", ("schedule_put",)),
    Mutant("the-living-give-their-names", "return not last or tonumber(last) <= past", "return true"),
    Mutant("the-dead-keep-their-names", "return not last or tonumber(last) <= past", "return not last"),
    Mutant("due-is-not-kept", "time + keep_ms, name", "0, name", ("schedule_due",)),
    Mutant("put-over-another", "if (old or '') ~= ARGV[5] or", "if", ("schedule_put",)),
    Mutant(
        "announce-flips-back",
        "is_announced(member) and is_announced(",
        "false and is_announced(",
        ("schedule_announce",),
    ),
    Mutant("announce-ends-at-once", "if since <= past then", "if true then", ("schedule_announce",)),
    Mutant("announce-ends-others", "and owner == source and not mine[name]", "", ("schedule_announce",)),
)

_PLAIN: Final = (
    Mutant("settle-without-token", "if mine == token then", "if mine then", ("settle",)),
    Mutant("extend-without-token", "if mine ~= token then", "if not mine then", ("extend",)),
    Mutant("enqueue-forgets", _REMEMBER, _FORGET, ("enqueue",)),
    Mutant("settle-forgets", _REMEMBER, _FORGET, ("settle",)),
    Mutant(
        "claim-forgets",
        "remember(session, number, #ids > 0 and jobs[1][3] .. ' ' .. jobs[#jobs][3] or '')",
        "",
        ("claim",),
    ),
    Mutant("late-copy-runs", "if last and tonumber(last) > tonumber(number) then", "if false then"),
    Mutant(
        "claim-plain-while-paused", "has_settings > 0 and call('HGET', key('settings'), 'paused')", "false", ("claim",)
    ),
    Mutant("claim-plain-while-work-is-due", "next_ms == 0 or since < 0", "since < 0", ("claim",)),
    Mutant("claim-plain-in-a-newer-layout", " or (tonumber(layout) or 1) ~= 1 then", " then", ("claim",)),
    Mutant("claim-calm-beside-limits", "  and not limited_jobs and not expired", "  and not expired", ("claim_full",)),
    Mutant("claim-calm-beside-expired", " and not expired and (tonumber", " and (tonumber", ("claim_full",)),
    Mutant("claim-from-unchecked-lists", "  check_waiting()\n  has_only_lanes", "  has_only_lanes", ("claim_full",)),
    Mutant("claim-plain-after-an-outage", " or since >= 100 and since > number_in(ARGV[3], 'outage')", "", ("claim",)),
    Mutant(
        "claim-plain-beside-suspects", "'EXISTS', key('isolated'), key('turns')", "'EXISTS', key('turns')", ("claim",)
    ),
    Mutant("claim-plain-beside-lanes", "key('turns'), key('priorities'), key('holds')", "key('holds')", ("claim",)),
    Mutant("claim-plain-on-hold", "key('holds'), key('ghosts'),", "key('ghosts'),", ("claim",)),
    Mutant("claim-counts-no-tries", "if has_tries > 0 then", "if false then", ("claim",)),
    Mutant("claim-wakes-no-other", "#ids >= most and call('LLEN', key('ready')) or 0", "0", ("claim",)),
    Mutant("claim-plain-beside-tombstones", "key('ghosts'),\n  key('suspects'),", "key('suspects'),", ("claim",)),
    Mutant("settle-plain-while-watched", "key('watched'), key('cancelling')", "key('cancelling')", ("settle",)),
    Mutant(
        "settle-plain-with-tries", "'EXISTS', key('tries'), key('watched')", "'EXISTS', key('watched')", ("settle",)
    ),
    Mutant(
        "claim-plain-of-a-shape",
        "and not string.find(shape, '^f=%S+$') then return '+' end",
        "false then end",
        ("claim",),
    ),
    Mutant(
        "settle-plain-of-a-shape",
        "if held[n] and string.find(held[n], '=', 1, true) then",
        "if false then",
        ("settle",),
    ),
    Mutant("claim-again-is-new", "if recall(session, number) then return '-' end", "", ("claim",)),
    Mutant("settle-again-is-new", "if again then return again end", "", ("settle",)),
    Mutant("full-claim-forgets", "remember(session, number, #jobs > 0 and", "tostring(#jobs > 0 and", ("claim_full",)),
    Mutant("full-claim-again-is-new", "if again then return claimed_again(again, held_key) end", "", ("claim_full",)),
    Mutant("full-claim-without-held", "call('HSET', held_key, unpack(claim.texts))", "", ("claim_full",)),
    Mutant("full-claim-without-holder", "call('ZADD', key('holders'), time + lease_ms, worker)", "", ("claim_full",)),
    Mutant("full-claim-keeps-its-list", "call('LTRIM', key(list), #ids, '-1')", "", ("claim_full",)),
    Mutant(
        "full-token-stands-still", "claim.read + #record, claim.token + 1", "claim.read + #record, 1", ("claim_full",)
    ),
    Mutant("full-settle-keeps-held", "call('HDEL', held_key, unpack(ids, 1, gone))", "0", ("settle_full",)),
    Mutant("full-complete-keeps-job", "if call('HDEL', jobs, id) == 0 then", "if false then", ("settle_full",)),
    Mutant("claim-without-held", "call('HSET', held_key, unpack(claims))", "", ("claim",)),
    Mutant("claim-without-holder", "call('ZADD', key('holders'), time + lease_ms, worker)", "", ("claim",)),
    Mutant("claim-keeps-ready", "call('LTRIM', key('ready'), #ids, '-1')", "", ("claim",)),
    Mutant(
        "put-back-at-the-end",
        "call('LPUSH', key('ready'), unpack(out.front))",
        "call('RPUSH', key('ready'), unpack(out.front))",
        ("heartbeat", "maintain", "claim", "leave", "settle"),
    ),
    Mutant("no-grace", "since + config.grace", "since"),
    Mutant("no-amnesty", "verdict = math.max(verdict, amnesty)", ""),
    Mutant("give-back-ascending", f"table.sort(entries, {_DOWN})", f"table.sort(entries, {_UP})"),
    Mutant("part-is-all", "  return done, left", "  return done, false"),
    Mutant("earliest-first", "for n = first, count do", "for n = 1, count - first + 1 do"),
    Mutant("part-forgets-the-rest", "no_longer_held(entries)\n", "call('DEL', key('held:' .. workers[1]))\n"),
    Mutant("claim-between-parts", "if rest then", "if false then", ("claim_full",)),
    Mutant(
        "release-ascending",
        "table.sort(all.front, function(a, b) return a[1] > b[1] end)",
        "table.sort(all.front, function(a, b) return a[1] < b[1] end)",
    ),
    Mutant("promote-keeps", "call('ZREM', key('scheduled'), unpack(promoted))", ""),
    Mutant("settle-keeps-held", "call('HDEL', held_key, unpack(ids, 1, gone))", "0", ("settle",)),
    Mutant(
        "complete-keeps-job",
        "call('HDEL', jobs, id) == 1 then",
        "call('HEXISTS', jobs, id) == 1 then",
        ("settle",),
    ),
    Mutant(
        "gone-is-completed",
        "call('HDEL', jobs, id) == 1 then",
        "call('HDEL', jobs, id) >= 0 then",
        ("settle",),
    ),
    Mutant("ghosts-live", "if is_tombstone(list, id) then return end", "", ("claim_full",)),
    Mutant("no-crash-limit", "is_limit(config, crash, crashes, doubtful)", "false"),
    Mutant(
        "crash-is-a-failure",
        "blame.tries_text(failures, crashes, doubtful) ..",
        "blame.tries_text(failures + 1, crashes, 0) ..",
    ),
    Mutant("release-is-a-crash", "kind == 'k' and 'known')", "'known')", ("settle_full",)),
    Mutant(
        "leave-is-a-crash",
        "collect(entries, worker, crashed == '1')",
        "collect(entries, worker, true)",
        ("leave",),
    ),
    Mutant("beat-keeps-nothing", "call('ZADD', key('holders'), time + config.lease, worker)", "", ("heartbeat",)),
    Mutant("beat-leaves-suspicion", "call('ZREM', key('suspects'), worker)", "", ("heartbeat",)),
    Mutant("all-claims-crash", "n <= 2 * (tonumber(kind) or 1000)", "true"),
    Mutant("suspects-all-together", "company.count >= most_together(slots, worst)", "false", ("claim_full",)),
    Mutant(
        "suspects-never-leave-their-place", "and not is_steady(config, time, claim[1], claim[2])", "", ("claim_full",)
    ),
    Mutant(
        "all-are-asked-to-prepare",
        "if till and till > time and till <= time + config.steady",
        "if false",
        ("claim_full",),
    ),
    Mutant("asked-once-for-ever", "till > time and till <= time + config.steady", "true", ("claim_full",)),
    Mutant("alone-beside-others", "kind ~= '' and alone or {}", "alone", ("claim_full",)),
    Mutant("others-beside-one-alone", "if window > 0 then claim.limit = #claim.jobs end", "", ("claim_full",)),
    Mutant("alone-for-one-span", "4 ^ math.max(0, math.min(2, doubtful - config.alone))", "1", ("claim_full",)),
    Mutant("latest-claim-last", "doubtful >= config.alone and 1 or", "false and 1 or"),
    Mutant("company-of-one-alone-is-blamed", "(how ~= 'shared' or not alone[entry[4]]) and how", "how"),
    Mutant("one-own-death-is-enough", "and crashes - doubtful >= math.min(2, config.max_crashes - config.alone)", ""),
    Mutant("shared-deaths-end-in-broken", "is_own(how) and crashes >=", "crashes >="),
    Mutant("own-process-is-suspected", "(how and not is_own(how) and 1 or 0)", "(how and 1 or 0)"),
    Mutant("persistent-stays-alone", "and is_steady(config, time, claimed, '')\n", "and false\n"),
    Mutant("two-leases-two-ends", "if call('HEXISTS', jobs, id) == 0 then return false end", "", ("settle_full",)),
    Mutant(
        "suspect-leaves-quietly", "woken = woken or doubtful > 0 and doubtful >= config.isolate", "", ("settle_full",)
    ),
    Mutant(
        "duplicate-overwrites",
        "call('HSETNX', key('jobs'), job[1], record) == 0",
        "call('HSET', key('jobs'), job[1], record) < 0",
        ("enqueue_shaped",),
    ),
    Mutant("stops-when-full", "call('DEL', key('full'))", ""),
    Mutant("no-wake-up", "call('LPUSH', key('wake'), '1')", ""),
    Mutant("wakes-everybody", "if not is_awake() then", "if true then"),
    Mutant("token-stands-still", "token, taken[id] = token + 1, true", "token, taken[id] = 1, true", ("claim",)),
    Mutant("clock-back-hides", "rewind(seen - time, beating)", ""),
    Mutant("retry-keeps-end", "call('HDEL', key('ended'), id)", "", ("retry",)),
    Mutant("purge-keeps-jobs", "call('HDEL', key('jobs'), unpack(ids))", "", ("sweep",)),
    Mutant("unpark-backwards", "call('ZREVRANGE', parked,", "call('ZRANGE', parked,", ("maintain",)),
    Mutant("no-publish", "call('PUBLISH', string.gsub(prefix, '/%d+%-%d+}$', '}') .. ':ended:' .. id, state)", ""),
    Mutant("trim-nothing", "if over > 0 then", "if false then"),
    Mutant("unchecked-types", "\ncheck_types()\n", "\n"),
    Mutant("settle-unchecked-types", "  check_types()\n", "", ("settle_full",)),
    Mutant("settle-unchecked-lanes", "  check_waiting()\n  is_awake()\n", "", ("settle_full",)),
    Mutant("ghost-for-ever", "if not waiting and not isolated then drop_tombstones() end", "", ("claim_full",)),
    Mutant(
        "suspects-hide-others",
        "claim.looked < claim.limit + 200 and",
        "claim.looked < claim.limit and",
        ("claim_full",),
    ),
    Mutant("task-stays-listed", "call('SREM', key('unroutable'), found)", ""),
    Mutant(
        "outage-for-ever", "amnesty, before = time + config.amnesty, seen", "amnesty, before = time + config.amnesty, 0"
    ),
    Mutant("clock-back-undoes-beat", "run_due(config, time, 200, worker)", "run_due(config, time, 200)"),
    Mutant("expired-id-is-taken", "not state or tonumber(expires) > time", "true"),
    Mutant("cursor-forgets-its-score", "if is_greater(cursor.entry, ", "if type(", ("page",)),
    Mutant(
        "cursor-beside-its-entry",
        "passed = passed + 1\n    end\n  end\n  read_place",
        "end\n  end\n  read_place",
        ("page",),
    ),
    Mutant("cursor-follows-a-retry", "not at or mark ~= '' and mark ~= cursor.mark", "not at", ("page",)),
    Mutant("cursor-follows-to-the-end", "size - (tonumber(cursor.number) or 0)", "size", ("page",)),
    Mutant("page-shows-ghosts", "and not (is_counted and is_passed(tombstone_name(list, id)))", "", ("page",)),
    Mutant("retried-is-no-failure", "blame.tries_text(lease.failures + 1,", "blame.tries_text(lease.failures,"),
    Mutant("prune-nothing", "forget(state, old, true)", "", ("maintain",)),
)

# Lanes.
_LANES: Final = (
    Mutant("lane-one-too-many", "busy[n] < lane_limits.of(lane)", "busy[n] <= lane_limits.of(lane)"),
    Mutant("parked-lane-runs", "not (parked[i] or holds[i]", "not (holds[i]"),
    Mutant("held-lane-runs", "parked[i] or holds[i] or", "parked[i] or"),
    Mutant("lane-turns-twice", "if after[n] and not before[n] then", "if after[n] then"),
    Mutant("lane-turn-stays", "call('LREM', key('turns'), 1, share and '$' .. share or lane)", ""),
    Mutant("lane-returns-at-random", "return other and tonumber(other) <= rank", "return false"),
    Mutant("lane-hint-is-believed", "if hint and is_before(hint - 1) and not is_before(hint) then", "if hint then"),
    Mutant(
        "turns-have-no-end", "math.min(goal - #claim.jobs, 100 - claim.turned)", "goal - #claim.jobs", ("claim_full",)
    ),
    Mutant("claim-reads-all", "return has_large() and {", "return false and {", ("claim_full",)),
    Mutant("large-is-not-noted", "if bytes > 2048 and", "if false and"),
    Mutant("spoilt-list-unnoticed", "checked[list] or call('LLEN', key(list))", "true"),
    Mutant("spoilt-lane-has-no-turn", "if claim.refused then turns.add({ lane }, true) end", "", ("claim_full",)),
    Mutant("lane-limit-stays", "if not is_internal(lane) then lane_limits.set(lane, 1) end", ""),
    Mutant("lane-limit-forgotten", "call('HSET', key('limits'), lane, limit)", ""),
    Mutant("lane-counts-zero", "busy[n] ~= stored[n] and busy[n] > 0", "busy[n] ~= stored[n]"),
    Mutant("lane-of-uncounted-jobs", "waiting[n] = call('RPUSH'", "call('RPUSH'"),
    Mutant("lane-is-still-occupied", "busy[at[n]] = busy[at[n]] - 1", ""),
    Mutant(
        "full-lane-goes-on",
        "if turn.busy >= limited_to and not claim.refused then return false end",
        "",
        ("claim_full",),
    ),
    Mutant(
        "lane-retry-at-the-end",
        "place(id, shape, call('HEXISTS', key('busy'), id) == 1)\n  end",
        "place(id, shape, false)\n  end",
    ),
    Mutant("lane-goes-on-in-silence", "turns.add(added, first)\n      wake_one()", "turns.add(added, first)"),
    Mutant("due-shape-forgotten", "return id or entry, mark == '*'", "return id or entry, false"),
    Mutant("batch-of-all-tasks", "task_of(record) ~= task_of(turn.taken) or", "", ("claim_full",)),
    Mutant(
        "batch-with-suspects",
        "(task_of(record) ~= task_of(turn.taken) or is_suspect)",
        "task_of(record) ~= task_of(turn.taken)",
    ),
    Mutant(
        "batch-beyond-limit",
        "limited_to == 1 and most or math.min(most, limited_to - turn.busy)",
        "most",
        ("claim_full",),
    ),
    Mutant("lanes-unfair", "call('RPUSH', key('turns'), unpack(on))", "call('LPUSH', key('turns'), unpack(on))"),
    Mutant("lanes-left-behind", "call('LPUSH', key('turns'), unpack(left))", "", ("claim_full",)),
    Mutant("lanes-before-all", "chosen[1] == '1'", "true", ("claim_full",)),
    Mutant("all-before-lanes", "chosen[1] == '1'", "false", ("claim_full",)),
    Mutant("suspect-frees-its-lane", "    occupied[#occupied + 1] = turn.lane\n", "", ("claim_full",)),
    Mutant("block-goes-on", "if rule == 'block' then", "if false then"),
    Mutant("block-expires", "blocks and 9999999999999 or ", ""),
    Mutant("block-for-ever", "unblock(id)\n    lane_ends.leave(shape, id)\n", "unblock(id)\n"),
    Mutant("blockers-stay", "    lane_ends.unblock(id)\n", ""),
    Mutant("blocker-runs-again-and-is-listed", "  lane_ends.unblock(id)\n", "", ("retry",)),
    Mutant("block-frees-key", "if shape ~= '' and not blocks then", "if shape ~= '' then"),
    Mutant("blocker-has-no-key", " or call('HEXISTS', key('busy'), id) == 1) and id", ") and id"),
    Mutant(
        "removed-keeps-key",
        "    uniques.free_key(shape, id, true)\n    local lane",
        "    local lane",
        ("discard", "sweep"),
    ),
    Mutant(
        "hand-back-is-limited",
        "crash and is_limit(config, crash, crashes, doubtful)",
        "crashes >= config.max_crashes",
    ),
    Mutant("full-for-what-adds-nothing", "or not adds(job, taken)", ""),
    Mutant("full-for-equal-keys", "not taken['key ' .. unique] and ", "", ("enqueue_shaped",)),
    Mutant("rerun-needs-no-room", "(not other or follows)", "not other", ("enqueue_shaped",)),
    Mutant("sweep-starts-behind-nothing", "return rank and rank + 1 or 0", "return rank or 0", ("sweep",)),
    Mutant("cancelled-blocks", "state ~= 'cancelled' and call('HGET', key('settings')", "call('HGET', key('settings')"),
    Mutant("parks-nothing", "if rule == 'park' and", "if false and"),
    Mutant("parked-twice", "rule == 'park' and call('HEXISTS', key('parked'), lane) == 0 then", "rule == 'park' then"),
    Mutant("completed-stays-in-lane", "if #laned > 0 then lanes.leave(lanes_of, laned) end", "", ("settle_full",)),
    Mutant(
        "removed-stays-in-lane",
        "      lane_ends.leave(shape, id)\n      uniques",
        "      uniques",
        ("discard", "sweep"),
    ),
    Mutant("collect-loses-shape", "crash, shape or '', kind }", "crash, '', kind }"),
    Mutant("unpark-loses-shape", "shapes.place(id, placed[n], true)", "shapes.place(id, '', true)", ("maintain",)),
    Mutant("park-again", "or call('HEXISTS', key('parked'), lane) == tonumber(parked) then", "then"),
    Mutant("retry-behind-its-lane", "place(id, shape, parked == id or", "place(id, shape, false and", ("retry",)),
)

# Priorities, and what is set for a queue.
_QUEUE: Final = (
    Mutant("lowest-first", "'ZREVRANGE', key('priorities')", "'ZRANGE', key('priorities')", ("claim_full",)),
    Mutant(
        "level-at-its-end",
        "call(first and 'LPUSH' or 'RPUSH', key(my.list_of(shape)), id)",
        "call('RPUSH', key(my.list_of(shape)), id)",
    ),
    Mutant("lower-never", "local is_low = #found > 1 and passed >= 10 - 1", "local is_low = false", ("claim_full",)),
    Mutant(
        "lower-too-often",
        "local is_low = #found > 1 and passed >= 10 - 1",
        "local is_low = #found > 1 and passed >= 4",
    ),
    Mutant("lowest-never", "turn = found[n] < served and n or turn", "", ("claim_full",)),
    Mutant("level-stays-listed", "call('ZREM', key('priorities'), level)", "", ("claim_full",)),
    Mutant("paused-runs", "(paused or hold", "(hold", ("claim_full",)),
    Mutant("held-queue-runs", " or hold_left('', time) > 0) then", ") then", ("claim_full",)),
    Mutant("resumes-in-silence", "if ARGV[i] == 'paused' and ARGV[i + 1] == '' then", "if false then"),
    Mutant("length-unchecked", "if room > 0 and have + room > most then", "if false then", ("enqueue_shaped",)),
    Mutant("length-and-one", "+ room > most then", "+ room > most + 1 then", ("enqueue_shaped",)),
    Mutant(
        "configure-forgets",
        "return remember(session, number, table.concat(words, ' '))",
        "return table.concat(words, ' ')",
    ),
    Mutant("quiet-for-ever", "call('ZREM', key('quiet'), worker)", "", ("quiet",)),
)

# Unique keys.
_UNIQUE: Final = (
    Mutant("key-outlives-bad-end", "free_key(shape, id, state == 'cancelled')", ""),
    Mutant(
        "key-outlives-completion",
        "if shape and has_key(shape) then uniques.free_key(shape, id, false) end",
        "",
        ("settle_full",),
    ),
    Mutant("key-outlives-removal", "free_key(shape, id, true)", "", ("discard", "sweep")),
    Mutant("key-outlives-start", "uniques.key_of(shape) == 's' then", "false then", ("claim_full",)),
    Mutant("window-ends-with-job", "(gone or mode ~= 'w'", "(true or mode ~= 'w'"),
    Mutant("window-outlives-cancel", "free_key(shape, id, state == 'cancelled')", "free_key(shape, id, false)"),
    Mutant("window-for-ever", "return tonumber(lasts) > time and id or nil", "return id"),
    Mutant("expiry-not-noted", "  deadlines.note(job[1], job.shape, all.time)\n", "", ("enqueue_shaped", "tick")),
    Mutant("expiry-of-begun-jobs", "      deadlines.forget(id, shape)\n      start(", "      start(", ("claim_full",)),
    Mutant("expiry-not-of-retries", "      deadlines.note_again(lease.id, lease.shape)\n", "", ("settle_full",)),
    Mutant("expiry-not-of-released", "    deadlines.note_again(id, shape)\n    line_up_again", "    line_up_again"),
    Mutant("expiry-outlives-end", "  deadlines.forget(id, shape)\n  notes.clear", "  notes.clear"),
    Mutant(
        "expiry-outlives-removal", "      deadlines.forget(id, shape)\n    end\n    watched", "    end\n    watched"
    ),
    Mutant(
        "expiry-of-another-job", "if shapes.word(shape_of(record), 'x') then end_waiting", "if true then end_waiting"
    ),
    Mutant("expiry-of-a-part", "has_more = expire(config, time, limit) >= limit", "expire(config, time, limit)"),
    Mutant(
        "expiry-outlives-retry", "local new = without_deadline(edit(record))", "local new = edit(record)", ("retry",)
    ),
    Mutant("windows-pile-up", "drop_key(unique)\n  pruned = pruned + 1", "pruned = pruned + 1", ("maintain",)),
    Mutant("follower-forgotten", "shapes.place_late(following, shape_of(call('HGET', key('jobs'), following)))", ""),
    Mutant("follower-listed-on", "following)))\n      call('HDEL', key('again'), unique)", "following)))"),
    Mutant(
        "follower-gone-stays",
        "if following == id then\n      call('HDEL', key('again'), unique)",
        "if following == id then",
    ),
    Mutant(
        "followers-many", "local following = call('HGET', key('again'), unique)", "local following", ("enqueue_shaped",)
    ),
    Mutant(
        "replace-what-runs",
        "local waits = state == 'scheduled' or",
        "local waits = state == 'active' or state == 'scheduled' or",
    ),
    Mutant("replace-keeps-payload", "call('HSET', key('jobs'), id, line .. '\\n' .. payload)", "", ("enqueue_shaped",)),
    Mutant("replace-loses-age", "(string.match(old, '^%d+ ') or", "(", ("enqueue_shaped",)),
    Mutant("replace-loses-shape", "plain .. ' ' .. shape", "plain", ("enqueue_shaped",)),
    Mutant("postpone-nothing", "call('ZADD', key('scheduled'), math.max(due, all.time), entry)", ""),
    Mutant("postpone-for-ever", "math.min(all.time + wait,", "math.max(all.time + wait,", ("enqueue_shaped",)),
    Mutant("existing-rejects", "(policy == 'e' or policy == 'a') and 'e' or 'j'", "'j'", ("enqueue_shaped",)),
    Mutant("retry-steals-key", "if owner and owner ~= id then", "if false then", ("retry",)),
    Mutant("retry-without-key", "if lasts then uniques.own_key(unique, id, lasts) end", "", ("retry",)),
    Mutant("edit-keeps-key", "if new_key then shape = uniques.with_key(shape, new_key) end", "", ("retry",)),
    Mutant(
        "edit-keeps-earlier-key", "if unique ~= before then uniques.free_key(earlier, id, true) end", "", ("retry",)
    ),
    Mutant("edit-takes-key-again", "if has_ended and mode ~= 'w' then lasts", "if mode ~= 'w' then lasts", ("retry",)),
    Mutant("edit-blocked-without-key", "unique ~= before or call(", "call(", ("retry",)),
)

# Wishes to cancel, progress, persistent jobs.
_WISHES: Final = (
    Mutant("cancel-outlives-hold", "call('HDEL', key('cancelling'), unpack(ids))", ""),
    Mutant("progress-outlives-hold", "call('HDEL', key('progress'), unpack(ids))", ""),
    Mutant("cancel-lost-by-retry", "cancel = others.cancels[n],", "", ("settle_full",)),
    Mutant("reschedule-stays-in-line", "take_out(id, state, place_of(id, state, detail, record))", "", ("reschedule",)),
    Mutant("reschedule-forgets-priority", "call('HSET', key('jobs'), id, record)", "", ("reschedule",)),
    Mutant("reschedule-in-silence", "== entry then wake_one() end", "== entry then end", ("reschedule",)),
    Mutant(
        "reschedule-takes-a-rerun", "state == 'scheduled' and detail ~= ''", "state == 'scheduled'", ("reschedule",)
    ),
    Mutant("reschedule-gives-lanes-priority", "and not is_plain then return", "and false then return", ("reschedule",)),
    Mutant("reschedule-during-a-hold", "hold_left('', time) > 0", "false", ("reschedule",)),
    Mutant("cancel-lost-by-crash", "local asked = notes.cancels(ids)", "local asked = {}"),
    Mutant("cancel-in-silence", "call('PUBLISH', signal .. detail, queue)", "", ("cancel",)),
    Mutant("beat-tells-no-wish", "asked[#asked + 1] = { id, tokens[id], body }", "", ("heartbeat",)),
    Mutant("sweep-takes-all-lanes", "return lane == '' or shapes.word(", "return true or shapes.word(", ("sweep",)),
    Mutant("sweep-asks-nobody", "call('HSET', key('cancelling'), unpack(asked))", "", ("sweep",)),
    Mutant("sweep-in-silence", "call('PUBLISH', signal .. worker, queue)", "", ("sweep",)),
    Mutant("sweep-leaves-place", "call('ZREM', place, entry)", "", ("sweep",)),
    Mutant("sweep-skips-what-is-left", "      after = entries[n]\n", "", ("sweep",)),
    Mutant("hold-lets-jobs-become-due", "held_ms > 0 and 0 or promote(", "promote("),
    Mutant("hold-stays", "end_old_holds(time, limit)\nlocal", "local", ("maintain",)),
    Mutant("due-by-id", "(string.match(record or '', '^%d+') or '0')", "'0'"),
    Mutant("due-by-id-at-once", "micros .. string.format('%03d', n % 1000)", "micros .. '000'"),
    Mutant("progress-of-anybody", "if mine ~= token then", "if not mine then", ("progress",)),
    Mutant(
        "persistent-completes",
        "local persists = shape ~= '' and ARGV[at + 2] == 'c' and shapes.word(shape, 'k')",
        "local persists = false",
        ("settle_full",),
    ),
    Mutant(
        "persistent-counts-on",
        "call('HDEL', key('tries'), lease.id)\n    call('HINCRBY', key('meta'), 'rounds', 1)",
        "",
    ),
)
_PLACES: Final = "if #placed > 0 then places.free(placed) end"
_LIMITS: Final = (
    Mutant("place-not-taken", "call('SADD', shared_key('places:' .. limit.name), unpack(", "tostring(unpack("),
    Mutant("place-stays-after-the-end", _PLACES, "", ("settle_full",)),
    Mutant("place-stays-after-death", _PLACES, "", ("claim", "heartbeat", "maintain", "leave")),
    Mutant(
        "place-without-lease",
        "redis.pcall('SREM', shared_key('places:' .. limit.name),",
        "redis.pcall('GET', 'x' ..",
        ("settle_full",),
    ),
    Mutant("gate-stays-shut", "      open_lanes.open_all(name)\n", ""),
    Mutant(
        "only-own-gate-opens",
        "my.open(queue, name)\n    end",
        "if queue == prefix then my.open(queue, name) end\n    end",
    ),
    Mutant("rate-unwritten", "state.used_until = used\n        rates.write(name, state, time, micros)", ""),
    Mutant("rate-stays-ahead", "state.used_until, state.is_cut = most, true", "state.used_until = most"),
    Mutant("chance-is-lost", "    open_lanes.open(prefix, pass.name)\n", "", ("claim_full",)),
    Mutant(
        "room-is-left",
        "limits.forget(name)\n          open_lanes.open(prefix, name)",
        "limits.forget(name)",
        ("claim_full",),
    ),
    Mutant("moment-is-lost", "if moment then my.note_moment(name, moment) end", ""),
    Mutant("moment-of-the-next-is-lost", "gates.note_moment(name, moment)\n        end", "end", ("claim_full",)),
    Mutant("newcomers-first", "if not entered and state.gated > 0 then return limit.name end", ""),
    Mutant(
        "parked-lane-keeps-its-chance",
        "if before[n] and not after[n] and has_limits() then passes.pass_on(lane) end",
        "",
    ),
    Mutant("change-opens-nothing", "use_limits()\nopen_lanes.open_all(name)", "", ("set_limit",)),
    Mutant("code-only", "tonumber(state.most) or limit.most", "limit.most"),
    Mutant("cost-is-one", "most and math.min(limit.cost, most) or 1", "1"),
    Mutant(
        "all-limits-but-the-first",
        "if stops then return limit.name, (",
        "if stops and limit == limits.of(word)[1] then return limit.name, (",
    ),
    Mutant("rest-is-forgotten", "if state.rests_until > time and", "if false and"),
    Mutant(
        "deferred-is-counted",
        "if kind == 'd' then return my.defer(all, lease) end",
        "if kind == 'd' then return my.retry(all, lease) end",
        ("settle_full",),
    ),
    Mutant("weight-is-one", "type(weight) == 'string' and tonumber(weight) or 1", "1", ("claim_full",)),
    Mutant("share-has-two-turns", " == 1 and my.serving ~= key('share:' .. share) then", " == 1 then", ("claim_full",)),
    Mutant(
        "empty-lane-at-a-gate",
        "if has_limits() then gates.leave(lane) end\n      end\n      if before",
        "end\n      if before",
    ),
)
_TRANSFER: Final = (
    Mutant("export-loses-tries", "call('HGET', key('tries'), id) or '', place", "'', place", ("export",)),
    Mutant(
        "export-from-the-front",
        "call('LRANGE', key(list), -page.left, -1)",
        "call('LRANGE', key(list), 0, page.left - 1)",
    ),
    Mutant("export-takes-tombstones", "if list == 'isolated' or call('HEXISTS', key('ghosts'), name) == 0", "if true"),
    Mutant("export-without-follower", "if following then take('f', following, '', true) end", "", ("export",)),
    Mutant("export-again", "if begins and not answer then", "if not answer then", ("export",)),
    Mutant("page-is-not-returned", "if stays and not has_ended(row[2], time) then", "if false then", ("end_export",)),
    Mutant("page-is-returned-backwards", "for n = #lines, 1, -1 do", "for n = 1, #lines do", ("end_export",)),
    Mutant("held-lane-is-empty", "and lanes.busy_of(lane) == 0\n", "\n", ("remains",)),
)
_FLOWS: Final = (
    Mutant("take-twice", "if number > last then", "if true then", ("take",)),
    Mutant("take-without-a-note", "call('HSET', key('in'), source, digits(last))", "", ("take",)),
    Mutant("sent-is-forgotten-early", "if tonumber(cmsgpack.unpack(text)[1]) > number then break end", ""),
    Mutant("sent-is-never-forgotten", "call('LTRIM', list, taken, -1)", "", ("forget_sent",)),
    Mutant("sent-under-one-number", "local first = 1 + math.max(", "local first = math.max("),
    Mutant("follow-up-not-added", "for _, after in ipairs(following_jobs) do follow(config, after) end\n", ""),
    Mutant("follow-up-needs-room", "add_jobs(found.own, 0)", "add_jobs(found.own, #found.own)"),
    Mutant("followers-not-seen", ", key('then')) > 0\n", ") > 0\n", ("settle",)),
    Mutant("followers-stay", "    call('HDEL', key('then'), unpack(ids))\n  end", "  end", ("settle_full",)),
    Mutant(
        "followers-outlive-record", "if uses_features then call('HDEL', key('then'), unpack(ids)) end\n  end", "end"
    ),
    Mutant(
        "follows-a-failed-job",
        "if state == 'completed' then\n  sending",
        "if state then\n  sending",
    ),
    Mutant("report-of-a-cancel", "state ~= 'cancelled' and shapes.word(shape, 'o')", "shapes.word(shape, 'o')"),
    Mutant("no-report-of-an-expiry", "body == deadlines.BODY and 'expired' or state", "state"),
    Mutant("no-word-of-a-removal", "report_end(id, shape_of(records[n]), 'discarded')", ""),
    Mutant("report-with-one-id", "own_id .. '-' .. number", "own_id"),
    Mutant("report-names-no-job", " h=failed_job=' .. ended .. headers", "' .. rest"),
    Mutant("member-counts-twice", "n, 1) == 1 then return end", "n, 1) == 2 then return end"),
    Mutant("group-ends-unsealed", "group.sealed ~= '1' or ", ""),
    Mutant("group-ends-early", "tonumber(group.ended) ~= total or ", ""),
    Mutant("group-ends-twice", " or group.state ~= 'open' then return end", " then return end"),
    Mutant(
        "success-after-a-failure", "if is_complete then follow(group.on_success", "if true then follow(group.on_success"
    ),
    Mutant("end-with-one-id", "group.on_end, '-' .. round", "group.on_end, ''"),
    Mutant("retry-without-word", "sending.send({ sending.word_of(id, shape, 'again') })", "", ("retry",)),
    Mutant("retry-counts-on", "or 'completed', '^%S+'), -1)", "or 'completed', '^%S+'), 0)"),
    Mutant("completion-without-word", "note_words(words)\n", "", ("settle_full",)),
    Mutant("word-before-an-earlier-one", "members.place and call('EXISTS', key('out:' .. members.place)) == 0", "true"),
    Mutant("bad-end-without-word", "  sending.send({ sending.word_of(id, shape, state) })\n", ""),
    Mutant("results-are-dropped", "elseif group.results == '1' then", "elseif false then", ("take",)),
    Mutant("sealed-group-grows", "group.state ~= 'open' or group.sealed == '1'", "false"),
    Mutant("first-failure-stops-nothing", "if group.policy == 'cancel' and not group.reason", "if false", ("take",)),
    Mutant("numbers-come-twice", "'total', group.total + count, ", "", ("flow_grow",)),
    Mutant("added-member-not-counted", "group.total = group.total + 1", "", ("take",)),
    Mutant("inner-end-without-word", "  report(id, state, result)\n", "\n"),
    Mutant("inner-retry-without-word", "report(id, 'again', '')", ""),
    Mutant("inner-result-is-lost", "  report(id, state, result)\n", "  report(id, state, '')\n"),
    Mutant("empty-inner-group-stays", "flow.end_if_over(id, flow.of(id))", ""),
    Mutant("unsealed-for-ever", "call('SADD', key('stopping'), id)", "", ("maintain",)),
    Mutant("flow-starts-again", "and not flow.of(word[2]) then flow.start", "then flow.start", ("take",)),
    Mutant("sealed-but-still-listed", "call('ZREM', key('flows_unsealed'), id)\n  flow.end", "flow.end"),
    Mutant("cancelled-chain-stays", "count(group, n, 'completed', -1)\n", "", ("flow_change",)),
    Mutant("open-chain-goes-on", "not group.chain or group.state == 'open' or", "not group.chain or"),
    Mutant("goes-on-behind-a-failure", "or call('HLEN', flow.key(id, ':failed')) > 0 then", "then"),
    Mutant("forgotten-flow-goes-on", "call('HSET', flow.key(id), 'gone_ms', '0')\n", "", ("flow_change",)),
    Mutant("all-elements-begin-at-once", "if is_chain and n > 1 then", "if false then"),
)
SUBJECTS: Final = {
    "Leases, answers, deaths": _PLAIN,
    "Lanes": _LANES,
    "Priorities and settings of a queue": _QUEUE,
    "Unique keys and deadlines": _UNIQUE,
    "Cancelling, progress, persistent jobs": _WISHES,
    "Schedules": _SCHEDULES,
    "Limits": _LIMITS,
    "Moves between servers and formats": _TRANSFER,
    "Flows": _FLOWS,
}
MUTANTS: Final = tuple(mutant for mutants in SUBJECTS.values() for mutant in mutants)


def apply(name: str) -> None:
    """Break the scripts of this process."""
    texts = next(mutant for mutant in MUTANTS if mutant.name == name).texts()
    assert texts, f"mutant {name!r} finds nothing to change"
    SCRIPTS.update({script: Script(script, text) for script, text in texts.items()})
