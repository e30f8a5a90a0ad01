---- MODULE Lane ----
\* The order of one lane through failures, retries, crashes and retries by hand (decision 0009). Jobs 1..Jobs are enqueued
\* in this order, each with the same lane. A job out of line that has not ended occupies its lane.
EXTENDS Naturals, Sequences, FiniteSets
CONSTANTS Jobs, Workers, Limit, MaxBack,
          Policy,  \* after a failure: "continue", "block" or "park"
          Back,    \* a job that comes back stands behind the jobs "before" it; or at the "front", or at the "end"
          Keeps,   \* a job that waits for its retry occupies its lane
          Blocks,  \* with "block", a failed job occupies its lane
          Follows  \* an end compares whether the lane may run before and after it
VARIABLES line, busy, rank, holder, turns, token, ended, parked, added, back
vars == <<line, busy, rank, holder, turns, token, ended, parked, added, back>>
All == 1..Jobs
None == "none"
Init == /\ line = <<>> /\ busy = {} /\ rank = [j \in All |-> 0] /\ holder = [j \in All |-> None] /\ turns = FALSE
        /\ token = 0 /\ ended = {} /\ parked = FALSE /\ added = 0 /\ back = 0
\* @ lanes/lib/lanes.lua | if waiting[n] > 0 and busy[n] < lane_limits.of(lane) then
\* @ lanes/lib/lanes.lua | for i, n in ipairs(numbers) do may[n] = not (parked[i] or holds[i] or gated[i]) end
MayRun(queue, occupied, aside) == queue # <<>> /\ Cardinality(occupied) < Limit /\ ~aside
\* @ lanes/lib/lanes.lua | if after[n] and not before[n] then
Change == turns' = MayRun(line', busy', parked')
\* How many jobs at the front come before this one.
\* @ lanes/lib/laneline.lua | return other and tonumber(other) <= rank
Before(j) == Cardinality({k \in 1..Len(line) : rank[line[k]] > 0 /\ rank[line[k]] <= rank[j]})
At(j, n) == SubSeq(line, 1, n) \o <<j>> \o SubSeq(line, n + 1, Len(line))
\* @ lanes/lib/laneline.lua | call('LINSERT', list, 'AFTER', call('LINDEX', list, before - 1), entry)
Requeue(j) == /\ line' = At(j, IF Back = "before" THEN Before(j) ELSE IF Back = "front" THEN 0 ELSE Len(line))
              /\ busy' = busy \ {j}
\* @ lanes/lib/laneline.lua | waiting[n] = call('RPUSH', key('lane:' .. lane), unpack(ids))
Enqueue == /\ added < Jobs /\ added' = added + 1 /\ line' = Append(line, added') /\ UNCHANGED <<busy, parked>> /\ Change
           /\ UNCHANGED <<rank, holder, token, ended, back>>
\* @ lanes/lib/laneturns.lua | local popped = call('LPOP', key('turns'), math.min(goal - #claim.jobs, @TURNS_MOST@ - claim.turned)) or {}
\* @ lanes/lib/laneturns.lua | texts[#texts + 1], texts[#texts + 2] = id, (rank or token_text(claim.token + 1)) .. ' ' .. turn.lane
Claim(w) == /\ turns /\ line # <<>> /\ \A j \in All : holder[j] # w
            /\ LET j == Head(line) IN
               /\ line' = Tail(line) /\ busy' = busy \cup {j} /\ holder' = [holder EXCEPT ![j] = w]
               /\ token' = IF rank[j] = 0 THEN token + 1 ELSE token
               /\ rank' = IF rank[j] = 0 THEN [rank EXCEPT ![j] = token'] ELSE rank
            /\ UNCHANGED parked /\ Change /\ UNCHANGED <<ended, added, back>>
\* @ settle/settle_full.lua | if #laned > 0 then lanes.leave(lanes_of, laned) end
Complete(j) == /\ holder[j] # None /\ holder' = [holder EXCEPT ![j] = None] /\ ended' = ended \cup {j}
               /\ busy' = busy \ {j} /\ UNCHANGED <<line, parked>> /\ (IF Follows THEN Change ELSE UNCHANGED turns)
               /\ UNCHANGED <<rank, token, added, back>>
\* @ settle/lib/laneends.lua | if rule == 'block' then
\* @ settle/lib/laneends.lua | if rule == 'park' and call('HEXISTS', key('parked'), lane) == 0 then
Fail(j) == /\ holder[j] # None /\ holder' = [holder EXCEPT ![j] = None]
           /\ busy' = IF Policy = "block" /\ Blocks THEN busy ELSE busy \ {j}
           /\ ended' = IF Policy = "block" THEN ended ELSE ended \cup {j}
           /\ parked' = (Policy = "park") /\ UNCHANGED line /\ Change /\ UNCHANGED <<rank, token, added, back>>
\* The job waits for its retry.
\* @ settle/lib/outcomes.lua | call('ZADD', key('scheduled'), moment, entry)
RetryLater(j) == /\ holder[j] # None /\ back < MaxBack /\ back' = back + 1 /\ holder' = [holder EXCEPT ![j] = None]
                 /\ busy' = (IF Keeps THEN busy ELSE busy \ {j}) /\ UNCHANGED <<line, parked>> /\ Change
                 /\ UNCHANGED <<rank, token, ended, added>>
\* It is due; or a user retries the failed job that blocks the lane.
\* @ claim/lib/duework.lua | for _, one in ipairs(shaped) do shapes.place_again(one[1], one[2]) end
\* @ control/retry.lua | shapes.place(id, shape, parked == id or call('HEXISTS', key('busy'), id) == 1)
Waits(j) == rank[j] > 0 /\ holder[j] = None /\ j \notin ended /\ \A k \in 1..Len(line) : line[k] # j
Return(j) == Waits(j) /\ Requeue(j) /\ UNCHANGED parked /\ Change /\ UNCHANGED <<rank, holder, token, ended, added, back>>
\* @ settle/lib/back.lua | elseif lane or shape ~= '' and shapes.word(shape, 'p') then
Reclaim(j) == /\ holder[j] # None /\ back < MaxBack /\ back' = back + 1 /\ holder' = [holder EXCEPT ![j] = None]
              /\ Requeue(j) /\ UNCHANGED parked /\ Change /\ UNCHANGED <<rank, token, ended, added>>
\* @ lanes/park.lua | call('HDEL', key('parked'), lane)
Resume == parked /\ parked' = FALSE /\ UNCHANGED <<line, busy>> /\ Change /\ UNCHANGED <<rank, holder, token, ended, added, back>>
Goes(j) == Complete(j) \/ Return(j)
Next == Enqueue \/ Resume \/ (\E w \in Workers : Claim(w)) \/ \E j \in All : Goes(j) \/ Fail(j) \/ RetryLater(j) \/ Reclaim(j)
Spec == /\ Init /\ [][Next]_vars /\ WF_vars(Enqueue) /\ WF_vars(Resume) /\ WF_vars(\E w \in Workers : Claim(w))
        /\ \A j \in All : WF_vars(Complete(j)) /\ WF_vars(Return(j))
\* A job runs only while fewer than Limit jobs before it have not ended, and the line is in order.
Order == \A j \in All : holder[j] # None => Cardinality({i \in 1..(j - 1) : i \notin ended}) < Limit
Sorted == \A k \in 1..(Len(line) - 1) : line[k] < line[k + 1]
OneTurn == turns = MayRun(line, busy, parked)
Done == <>[](ended = All)
====
