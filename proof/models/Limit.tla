---- MODULE Limit ----
\* The places of a limit (decision 0024). Each job has a lane of its own. A lane with a job that the limit stops waits at
\* the gate; a lane that was opened tries first. Tokens name leases. The limit may be raised once, from 1 to 3.
EXTENDS Naturals, FiniteSets
CONSTANTS Jobs, MaxLost, MayRaise, MayCancel,
          Entries, \* the places are entries with tokens; FALSE: a number, which each end lowers
          Awaits,  \* a worker settles a job when its handler has ended
          Stops,   \* a worker that is cut off stops its handlers before their jobs are reclaimed
          Frees,   \* a reclaim frees places
          Opens,   \* a place that is free opens the gate
          Passes   \* an opened lane that takes no job, or leaves room for more, passes its chance on
VARIABLES state, token, last, places, count, running, opened, most, late, lost
vars == <<state, token, last, places, count, running, opened, most, late, lost>>
Init == /\ state = [j \in Jobs |-> "turn"] /\ token = [j \in Jobs |-> 0] /\ last = 0 /\ places = {} /\ count = 0
        /\ running = {} /\ opened = {} /\ most = 1 /\ late = {} /\ lost = 0
Gate(s) == {j \in Jobs : s[j] = "gate"}
Taken == IF Entries THEN Cardinality(places) ELSE count
\* The next lane at the gate leaves it, if `does`.
\* @ limits/lib/openlanes.lua | call('HSET', key('opened'), lane, since .. ' ' .. name)
Open(does, s, o) == IF ~does \/ Gate(s) = {} THEN state' = s /\ opened' = o
                    ELSE \E j \in Gate(s) : state' = [s EXCEPT ![j] = "turn"] /\ opened' = o \cup {j}
\* @ limits/lib/places.lua | if redis.pcall('SREM', shared_key('places:' .. limit.name), unpack(entries)) ~= #entries then return end
Free(t) == places' = places \ {t} /\ count' = IF count > 0 THEN count - 1 ELSE 0
\* @ limits/lib/limits.lua | if most and state.taken + math.min(cost, most) + math.min(kept, most) > most then return true, look end
\* @ limits/lib/starts.lua | if not entered and state.gated > 0 then return limit.name end
IsStopped(j) == Taken >= most \/ (j \notin opened /\ Gate(state) # {})
\* @ limits/lib/gates.lua | call('HSET', key('gated'), lane, name)
Shut(j) == /\ state[j] = "turn" /\ IsStopped(j) /\ state' = [state EXCEPT ![j] = "gate"] /\ opened' = opened \ {j}
           /\ UNCHANGED <<token, last, places, count, running, most, late, lost>>
\* @ limits/lib/places.lua | call('SADD', shared_key('places:' .. limit.name), unpack(entries_of(limit, token, count)))
\* @ limits/lib/starts.lua | open_lanes.open(prefix, name)
Claim(j) == /\ state[j] = "turn" /\ ~IsStopped(j)
            /\ last' = last + 1 /\ token' = [token EXCEPT ![j] = last'] /\ running' = running \cup {last'}
            /\ places' = places \cup {last'} /\ count' = count + 1
            /\ Open(Passes /\ Taken + 1 < most, [state EXCEPT ![j] = "held"], opened \ {j})
            /\ UNCHANGED <<most, late, lost>>
HandlerEnds(t) == /\ t \in running /\ running' = running \ {t}
                  /\ UNCHANGED <<state, token, last, places, count, opened, most, late, lost>>
\* @ settle/settle_full.lua | if #placed > 0 then places.free(placed) end
\* @ runtime/jobs/held.py | OVERRUN_GRACE_MS: Final = 25 * limits.SECOND
Settle(j) == /\ state[j] = "held" /\ (token[j] \notin running \/ ~Awaits)
             /\ Free(token[j]) /\ Open(Opens, [state EXCEPT ![j] = "done"], opened)
             /\ UNCHANGED <<token, last, running, most, late, lost>>
\* The worker has died, or could not reach Redis and has stopped the handler.
\* @ settle/lib/back.lua | if #placed > 0 then places.free(placed) end
\* @ runtime/canceller.py | self._stop(run, Stop.SILENCE, now)
Reclaim(j) == /\ state[j] = "held" /\ lost < MaxLost /\ lost' = lost + 1 /\ late' = late \cup {token[j]}
              /\ running' = IF Stops THEN running \ {token[j]} ELSE running
              /\ (IF Frees THEN Free(token[j]) ELSE UNCHANGED <<places, count>>)
              /\ Open(Opens, [state EXCEPT ![j] = "turn"], opened) /\ UNCHANGED <<token, last, most>>
\* The end of a lease that was lost: a number would be lowered again.
\* @ limits/lib/places.lua | for n = first or 1, last do entries[#entries + 1] = prefix .. ' ' .. token .. ' ' .. n end
SettleLate(t) == /\ t \in late /\ late' = late \ {t} /\ Free(t)
                 /\ UNCHANGED <<state, token, last, running, opened, most, lost>>
\* @ limits/lib/openlanes.lua | if pass then open_lanes.open(prefix, pass.name) end
Cancel(j) == /\ MayCancel /\ state[j] \in {"turn", "gate"}
             /\ Open(Passes /\ j \in opened, [state EXCEPT ![j] = "done"], opened \ {j})
             /\ UNCHANGED <<token, last, places, count, running, most, late, lost>>
\* @ limits/set_limit.lua | open_lanes.open_all(name)
Raise == MayRaise /\ most = 1 /\ most' = 3 /\ Open(Opens, state, opened) /\ UNCHANGED <<token, last, places, count, running, late, lost>>
Next == \/ Raise \/ (\E t \in running : HandlerEnds(t)) \/ (\E t \in late : SettleLate(t))
        \/ \E j \in Jobs : Shut(j) \/ Claim(j) \/ Settle(j) \/ Reclaim(j) \/ Cancel(j)
Spec == /\ Init /\ [][Next]_vars /\ WF_vars(\E t \in running : HandlerEnds(t))
        /\ \A j \in Jobs : WF_vars(Shut(j) \/ Claim(j)) /\ WF_vars(Settle(j))
InLimit == Cardinality(running) <= most
Exact == Entries => places = {token[j] : j \in {i \in Jobs : state[i] = "held"}}
NoIdle == Taken < most /\ Gate(state) # {} => opened # {}
Done == <>[](\A j \in Jobs : state[j] = "done")
====
