---- MODULE Repartition ----
\* A lane belongs to partition 0 by map 1, and to partition 1 by map 2 (decision 0027). Map 3 is map 2 when the change is
\* over: both have version 2. Job 1 waits at the beginning, and so does the delayed job Late. Redis may be restored.
EXTENDS Naturals, Sequences, FiniteSets
CONSTANTS Producers, Jobs, Late, MayPark, MayRestore,
          Refuses,  \* a partition refuses another version than the one that it has noted
          Asks,     \* during the change, a producer asks the old partition first
          OnWay,    \* which refuses while the lane is on its way
          Stays,    \* a delayed job that is due stays delayed if its lane has left
          Believes, \* a process that is refused reads the map in Redis; FALSE: it writes the one that it remembers
          Trusts    \* a change begins only when no process trusts a map from before the restore
VARIABLES map, note, line, run, later, aside, moving, ended, acked, before, know, job, step, restored
maps == <<map, note>>  adding == <<acked, before, know, job, step>>
vars == <<maps, line, run, later, aside, moving, ended, adding, restored>>
\* `aside`: where word is that the lane is parked: in a partition, on its way, or nowhere.
Both == {0, 1}  OnItsWay == 2  Nowhere == 3
None == [q \in Both |-> {}]  Old == [q \in Both |-> IF q = 0 THEN <<1>> ELSE <<>>]
Init == /\ map = 1 /\ note = [q \in Both |-> 1 - q] /\ line = Old /\ run = None /\ later = [None EXCEPT ![0] = {Late}]
        /\ aside = Nowhere /\ moving = {} /\ ended = {} /\ acked = {1} /\ before = [j \in Jobs |-> {}] /\ restored = FALSE
        /\ know = [p \in Producers |-> 1] /\ job = [p \in Producers |-> 0] /\ step = [p \in Producers |-> "old"]
Restore == /\ MayRestore /\ ~restored /\ map' = 1 /\ note' = [q \in Both |-> 1 - q] /\ line' = Old /\ run' = None
           /\ later' = [None EXCEPT ![0] = {Late}] /\ aside' = Nowhere /\ moving' = {} /\ ended' = {} /\ acked' = {1}
           /\ before' = [j \in Jobs |-> {}] /\ restored' = TRUE /\ UNCHANGED <<know, job, step>>
\* @ partitions/lib/homes.lua | return call('EXISTS', key('lane:' .. lane)) == 1 or lanes.busy_of(lane) > 0 or lanes.is_aside(lane)
HasLane(q) == line[q] # <<>> \/ run[q] # {} \/ aside = q
\* @ partitions/note_map.lua | if more > 0 or more == 0 and number == ARGV[2] and before ~= '0' and ARGV[3] == '0' then
Note == /\ \/ note[0] = 1 /\ note' = [note EXCEPT ![0] = 2] /\ (Trusts => \A p \in Producers : know[p] <= map)
           \/ note[0] = 2 /\ note[1] = 0 /\ note' = [note EXCEPT ![1] = 2]
        /\ UNCHANGED <<map, line, run, later, aside, moving, ended, adding, restored>>
\* @ partitions/partitions.lua | if version > stored_version or is_end then
Write == note[1] > map /\ map' = note[1] /\ UNCHANGED <<note, line, run, later, aside, moving, ended, adding, restored>>
\* @ partitions/move.lua | local is_clean = stuck == 0 and not dirty and call('EXISTS', key('outs')) == 0
End == /\ map = 2 /\ note[0] = 2 /\ ~HasLane(0) /\ later[0] = {} /\ moving = {} /\ aside # OnItsWay
       /\ note' = [q \in Both |-> 3] /\ UNCHANGED <<map, line, run, later, aside, moving, ended, adding, restored>>
FirstStep(m) == IF m = 3 \/ (m = 2 /\ ~Asks) THEN "new" ELSE "old"
Start(p, j) == /\ job[p] = 0 /\ j \notin acked /\ \A q \in Producers : job[q] # j
               /\ job' = [job EXCEPT ![p] = j] /\ step' = [step EXCEPT ![p] = FirstStep(know[p])] /\ before' = [before EXCEPT ![j] = acked]
               /\ UNCHANGED <<maps, line, run, later, aside, moving, ended, acked, know, restored>>
\* @ partitions/lib/noted.lua | if found ~= version then return redis.error_reply('TNMAP ' .. (noted or '')) end
IsRefused(p, q) == Refuses /\ (IF note[q] = 3 THEN 2 ELSE note[q]) # (IF know[p] = 3 THEN 2 ELSE know[p])
Add(p, q) == /\ line' = [line EXCEPT ![q] = Append(@, job[p])] /\ acked' = acked \cup {job[p]} /\ job' = [job EXCEPT ![p] = 0]
             /\ UNCHANGED <<maps, run, later, aside, moving, ended, before, know, step, restored>>
\* @ partitions/lib/asked.lua | local is_here = call('HEXISTS', key('jobs'), id) == 1 or has_ended(id, time) or lane and homes.has_lane(lane)
\* @ partitions/lib/asked.lua | if on_way['id ' .. id] or lane and on_way['lane ' .. lane] or unique and on_way['key ' .. unique] then
CallOld(p) == /\ job[p] # 0 /\ step[p] = "old" /\ ~IsRefused(p, 0) /\ ~(know[p] = 2 /\ OnWay /\ aside = OnItsWay)
              /\ IF know[p] = 1 \/ HasLane(0) THEN Add(p, 0) ELSE step' = [step EXCEPT ![p] = "new"]
                 /\ UNCHANGED <<maps, line, run, later, aside, moving, ended, acked, before, know, job, restored>>
CallNew(p) == job[p] # 0 /\ step[p] = "new" /\ ~IsRefused(p, 1) /\ Add(p, 1)
\* @ engines/native/partitions/maps.py | map = yield from self.ask(queue)
Learn(p) == /\ know[p] # map /\ (job[p] = 0 \/ IsRefused(p, IF step[p] = "old" THEN 0 ELSE 1))
            /\ IF Believes \/ know[p] < map THEN know' = [know EXCEPT ![p] = map] /\ UNCHANGED maps
               ELSE map' = know[p] /\ note' = [q \in Both |-> know[p]] /\ UNCHANGED know
            /\ step' = [step EXCEPT ![p] = FirstStep(know'[p])] /\ UNCHANGED <<line, run, later, aside, moving, ended, acked, before, job, restored>>
Claim(q) == /\ line[q] # <<>> /\ run[q] = {} /\ aside # q /\ run' = [run EXCEPT ![q] = {Head(line[q])}] /\ line' = [line EXCEPT ![q] = Tail(@)]
            /\ UNCHANGED <<maps, later, aside, moving, ended, adding, restored>>
Complete(q) == /\ run[q] # {} /\ ended' = ended \cup run[q] /\ run' = [run EXCEPT ![q] = {}] /\ UNCHANGED <<maps, line, later, aside, moving, adding, restored>>
\* @ claim/lib/duework.lua | return homes_here.changes and call('HEXISTS', key('busy'), id) == 0 and not homes_here.has_lane(lane)
Promote(q) == /\ later[q] # {} /\ ~(Stays /\ q = 0 /\ note[0] = 2 /\ ~HasLane(0))
              /\ later' = [later EXCEPT ![q] = {}] /\ line' = [line EXCEPT ![q] = Append(@, Late)]
              /\ UNCHANGED <<maps, run, aside, moving, ended, adding, restored>>
Park == MayPark /\ map = 1 /\ note[0] = 1 /\ aside' = 0 /\ UNCHANGED <<maps, line, run, later, moving, ended, adding, restored>>
\* @ partitions/move.lua | if not due or must_stay(id, shape) then return STAYS end
MoveJob == /\ note[0] = 2 /\ ~HasLane(0) /\ later[0] # {} /\ moving' = later[0] /\ later' = [later EXCEPT ![0] = {}]
           /\ UNCHANGED <<maps, line, run, aside, ended, adding, restored>>
\* @ partitions/move.lua | if call('EXISTS', key('lane:' .. lane)) == 1 or lanes.busy_of(lane) > 0 or call('ZSCORE', key('holds'), lane) then
MoveLane == /\ note[0] = 2 /\ aside = 0 /\ line[0] = <<>> /\ run[0] = {} /\ aside' = OnItsWay
            /\ UNCHANGED <<maps, line, run, later, moving, ended, adding, restored>>
\* @ moves/arrive.lua | lanes.change({ id }, false, function() call('HSETNX', key('parked'), id, text) end)
Arrive == /\ map = 2 /\ (moving # {} \/ aside = OnItsWay) /\ later' = [later EXCEPT ![1] = @ \cup moving] /\ moving' = {}
          /\ aside' = (IF aside = OnItsWay THEN 1 ELSE aside) /\ UNCHANGED <<maps, line, run, ended, adding, restored>>
Serve == \E q \in Both : Claim(q) \/ Complete(q) \/ Promote(q)
Goes(p) == CallOld(p) \/ CallNew(p) \/ Learn(p) \/ \E j \in Jobs \ {Late} : Start(p, j)
Next == Restore \/ Note \/ Write \/ End \/ Park \/ MoveJob \/ MoveLane \/ Arrive \/ Serve \/ \E p \in Producers : Goes(p)
Spec == /\ Init /\ [][Next]_vars /\ WF_vars(Note) /\ WF_vars(Write) /\ WF_vars(End) /\ WF_vars(MoveJob) /\ WF_vars(Arrive)
        /\ WF_vars(Serve) /\ \A p \in Producers : WF_vars(Goes(p))
OneRuns == run[0] = {} \/ run[1] = {}
Order == \A q \in Both : \A j \in run[q] : before[j] \subseteq ended
Parked == aside # Nowhere => run[1] = {}
All == <>[](ended = Jobs)
====
