---- MODULE Tick ----
\* The ticks of one schedule (decision 0023), at times 1..Last. Definition 1 has all of them, definition 2 those with even
\* numbers. A call may have ticks of other schedules, too, but only one of this schedule. Any worker makes a tick, or puts the definition of its code. Messages may be repeated or late.
EXTENDS Naturals, FiniteSets
CONSTANTS Last, MaxPuts, MayJump,
          Catches,  \* each tick has a job, however late; FALSE: only the latest one that is due
          Compares, \* a tick runs if its planned time is the stored one
          Digests,  \* and if its definition is the stored one
          ByRedis,  \* and if Redis' clock has reached it
          MovesOn,  \* the step that enqueues the job moves the planned time on
          Checks    \* a definition is refused if the time that it plans has run
VARIABLES clock, definition, planned, ran, count, ticks, puts, sent, wrong, jumped
vars == <<clock, definition, planned, ran, count, ticks, puts, sent, wrong, jumped>>
Times == 1..Last
Of(d) == IF d = 1 THEN Times ELSE {t \in Times : t % 2 = 0}
Max(a, b) == IF a > b THEN a ELSE b
\* The first tick of a definition after a time; 0: there is none.
\* @ core/schedules/rules.py | return next(ticks(spec, planned_ms), NO_MORE)
Following(d, t) == LET after == {u \in Of(d) : u > t} IN
                   IF after = {} THEN 0 ELSE CHOOSE u \in after : \A v \in after : u <= v
Init == /\ clock = 0 /\ definition = 1 /\ planned = 1 /\ ran = 0 /\ count = [t \in Times |-> 0] /\ ticks = {} /\ puts = {}
        /\ sent = 0 /\ wrong = {} /\ jumped = FALSE
Pass == clock < Last /\ clock' = clock + 1 /\ UNCHANGED <<definition, planned, ran, count, ticks, puts, sent, wrong, jumped>>
SetBack == /\ MayJump /\ ~jumped /\ clock > 0 /\ jumped' = TRUE /\ clock' = 0
           /\ UNCHANGED <<definition, planned, ran, count, ticks, puts, sent, wrong>>
\* A worker finds a tick that is due, and sends it.
\* @ schedules/schedule_due.lua | local names = call('ZRANGEBYSCORE', key('due'), '-inf', time, 'LIMIT', 0, limit)
\* @ core/schedules/rules.py | run_ms = latest(spec, planned_ms, now_ms)
Due == /\ planned \in 1..clock
       /\ LET run == IF Catches THEN planned ELSE CHOOSE t \in Of(definition) : t <= clock /\ Following(definition, t) \notin 1..clock IN
          ticks' = ticks \cup {[definition |-> definition, expected |-> planned, run |-> run, next |-> Following(definition, run)]}
       /\ UNCHANGED <<clock, definition, planned, ran, count, puts, sent, wrong, jumped>>
\* @ schedules/tick.lua | if not digests[name] or is_tick and (digests[name] ~= digest or state.planned ~= expected or state.paused ~= '0') then
IsStale(m) == (Digests /\ definition # m.definition) \/ (Compares /\ planned # m.expected)
\* @ schedules/tick.lua | elseif n > some or is_tick and (tonumber(run_fire) > time or tonumber(state.fire) > time) then
IsEarly(m) == ByRedis /\ (m.run > clock \/ planned > clock)
\* @ schedules/tick.lua | state.planned, state.fire = planned, fire
Tick(m) == /\ ~IsStale(m) /\ ~IsEarly(m)
           /\ count' = [count EXCEPT ![m.run] = @ + 1] /\ ran' = m.run
           /\ planned' = IF MovesOn THEN m.next ELSE planned
           /\ wrong' = wrong \cup (IF m.run > clock THEN {"early"} ELSE {}) \cup (IF m.run \in Of(definition) THEN {} ELSE {"other"})
           /\ UNCHANGED <<clock, definition, ticks, puts, sent, jumped>>
\* A worker of other code reads the schedule, and sends its definition.
\* @ core/schedules/rules.py | after_ms = planned_ms - 1 if NO_MORE < planned_ms <= now_ms else now_ms
Announce == /\ sent < MaxPuts /\ sent' = sent + 1
            /\ LET after == IF planned \in 1..clock THEN planned - 1 ELSE clock
                   new == 3 - definition IN
               puts' = puts \cup {[expected |-> definition, new |-> new, first |-> Following(new, Max(after, ran))]}
            /\ UNCHANGED <<clock, definition, planned, ran, count, ticks, wrong, jumped>>
\* @ schedules/schedule_put.lua | local has_run = ARGV[6] ~= '0' and tonumber(ARGV[6]) <= tonumber(state.last_planned)
Put(m) == /\ definition = m.expected /\ ~(Checks /\ m.first # 0 /\ m.first <= ran)
          /\ definition' = m.new /\ planned' = m.first /\ UNCHANGED <<clock, ran, count, ticks, puts, sent, wrong, jumped>>
Next == Pass \/ SetBack \/ Due \/ Announce \/ (\E m \in ticks : Tick(m)) \/ \E m \in puts : Put(m)
Spec == Init /\ [][Next]_vars /\ WF_vars(Pass) /\ WF_vars(Due) /\ WF_vars(\E m \in ticks : Tick(m))
Once == \A t \in Times : count[t] <= 1
NotEarly == "early" \notin wrong
OfDefinition == "other" \notin wrong
All == <>[](\A t \in Times : count[t] = 1)
====
