---- MODULE Group ----
\* A group counts a bit for each member (decision 0036). Words of a member reach its group through a numbered list, in
\* their order and once (model Channel). The last member is added by the completion of the first.
EXTENDS Naturals, Sequences, FiniteSets
CONSTANTS Size, MaxLost, MaxRetries, MayStop,
          Fenced,    \* an end without a valid lease changes nothing
          Bits,      \* an end counts if its bit was 0
          Ordered,   \* a word goes directly to a group of the same place only if none is on the way
          AddsFirst, \* the word of a new member comes before the end of the one that adds it
          Awaits     \* a member that is on its way to its queue is not noted as missing
VARIABLES state, late, way, g, lost, retries
vars == <<state, late, way, g, lost, retries>>
Members == 1..Size
Init == /\ state = [m \in Members |-> IF m < Size THEN "ready" ELSE "absent"] /\ late = {} /\ lost = 0 /\ retries = 0
        /\ way = [m \in Members |-> <<>>]
        /\ g = [bits |-> {}, done |-> {}, ended |-> 0, total |-> Size - 1, sealed |-> FALSE, open |-> TRUE,
                stops |-> FALSE, succeeded |-> 0]
\* @ flows/lib/flow.lua | if group.sealed ~= '1' or tonumber(group.ended) ~= total or group.state ~= 'open' then return end
Over(h) == IF h.sealed /\ h.open /\ h.ended = h.total
           THEN [h EXCEPT !.open = FALSE, !.succeeded = IF Cardinality(h.done) = h.total THEN @ + 1 ELSE @] ELSE h
\* @ flows/lib/flow.lua | if call('SETBIT', flow.key(id, ':ended'), n, 1) == 1 then return end
\* @ flows/lib/flow.lua | if call('SETBIT', flow.key(id, ':ended'), n, 0) == 0 then return end
\* @ flows/lib/flow.lua | if group.state ~= 'open' then return end
Note(h, m, word) ==
  IF word = "add" THEN IF h.open THEN [h EXCEPT !.total = @ + 1] ELSE h
  ELSE IF word = "again" THEN
    IF m \notin h.bits THEN h ELSE [h EXCEPT !.bits = @ \ {m}, !.done = @ \ {m}, !.ended = @ - 1, !.open = TRUE]
  ELSE IF m \in h.bits /\ Bits THEN h
  ELSE Over([h EXCEPT !.bits = @ \cup {m}, !.ended = @ + 1, !.done = IF word = "completed" THEN @ \cup {m} ELSE @])
Words(m, end) == IF m # 1 \/ end # "completed" THEN <<end>> ELSE IF AddsFirst THEN <<"add", end>> ELSE <<end, "add">>

Claim(m) == state[m] = "ready" /\ state' = [state EXCEPT ![m] = "held"] /\ UNCHANGED <<late, way, g, lost, retries>>
Reclaim(m) == /\ state[m] = "held" /\ lost < MaxLost /\ lost' = lost + 1 /\ late' = late \cup {m}
              /\ state' = [state EXCEPT ![m] = "ready"] /\ UNCHANGED <<way, g, retries>>
\* @ settle/settle_full.lua | words[#words + 1] = sending.word_of(id, shape, 'completed', result)
\* @ settle/lib/ends.lua | sending.send({ sending.word_of(id, shape, state) })
Settle(m, end) == /\ state[m] = "held" /\ state' = [state EXCEPT ![m] = end]
                  /\ way' = [way EXCEPT ![m] = @ \o Words(m, end)] /\ UNCHANGED <<late, g, lost, retries>>
\* @ flows/lib/members.lua | local is_free = members.place and call('EXISTS', key('out:' .. members.place)) == 0
SettleHere(m) == /\ state[m] = "held" /\ m # 1 /\ (way[m] = <<>> \/ ~Ordered)
                 /\ state' = [state EXCEPT ![m] = "completed"] /\ g' = Note(g, m, "completed")
                 /\ UNCHANGED <<late, way, lost, retries>>
\* @ settle/settle_full.lua | if mine == ARGV[at + 1] then
SettleLate(m) == /\ m \in late /\ late' = late \ {m}
                 /\ way' = IF Fenced THEN way ELSE [way EXCEPT ![m] = Append(@, "completed")]
                 /\ UNCHANGED <<state, g, lost, retries>>
\* @ control/retry.lua | sending.send({ sending.word_of(id, shape, 'again') })
Retry(m) == /\ state[m] = "failed" /\ retries < MaxRetries /\ retries' = retries + 1
            /\ state' = [state EXCEPT ![m] = "ready"] /\ way' = [way EXCEPT ![m] = Append(@, "again")]
            /\ UNCHANGED <<late, g, lost>>
\* @ flows/take.lua | flow.note(words)
Deliver(m) == /\ way[m] # <<>> /\ way' = [way EXCEPT ![m] = Tail(@)] /\ g' = Note(g, m, Head(way[m]))
              /\ state' = IF Head(way[m]) = "add" /\ g.open THEN [state EXCEPT ![Size] = "sent"] ELSE state
              /\ UNCHANGED <<late, lost, retries>>
Arrive(m) == state[m] = "sent" /\ state' = [state EXCEPT ![m] = "ready"] /\ UNCHANGED <<late, way, g, lost, retries>>
\* @ flows/flow_change.lua | if action == 'seal' and group.state == 'open' then
Seal == ~g.sealed /\ g' = Over([g EXCEPT !.sealed = TRUE]) /\ UNCHANGED <<state, late, way, lost, retries>>
Stop == MayStop /\ g.open /\ ~g.stops /\ g' = [g EXCEPT !.stops = TRUE] /\ UNCHANGED <<state, late, way, lost, retries>>
Cancel(m) == g.stops /\ g.open /\ state[m] = "ready" /\ state' = [state EXCEPT ![m] = "cancelled"]
             /\ way' = [way EXCEPT ![m] = Append(@, "cancelled")] /\ UNCHANGED <<late, g, lost, retries>>
\* @ flows/flow_change.lua | for i = 4, #ARGV, 2 do words[#words + 1] = { '', id .. '.' .. ARGV[i], ARGV[i + 1] } end
\* @ engines/native/flows.py | on_way = bool((yield from self.hand_over(queue)))
NoteMissing(m) == /\ g.stops /\ g.open /\ m \notin g.bits /\ state[m] \notin {"absent", "ready", "held"}
                  /\ (state[m] = "sent" => ~Awaits) /\ g' = Note(g, m, "cancelled")
                  /\ UNCHANGED <<state, late, way, lost, retries>>
Go(m) == Claim(m) \/ Settle(m, "completed") \/ Deliver(m) \/ Arrive(m)
Next == \/ Seal \/ Stop \/ \E m \in Members : \/ Go(m) \/ Settle(m, "failed") \/ SettleHere(m) \/ Reclaim(m)
                                             \/ SettleLate(m) \/ Retry(m) \/ Cancel(m) \/ NoteMissing(m)
Spec == Init /\ [][Next]_vars /\ WF_vars(Seal) /\ \A m \in Members : WF_vars(Go(m))
Once == g.succeeded <= 1 /\ g.ended = Cardinality(g.bits)
NotEarly == g.succeeded = 1 => \A m \in Members : state[m] = "completed"
NotAfter == ~g.open => \A m \in Members : state[m] \in {"sent", "ready", "held"} => \E k \in 1..Len(way[m]) : way[m][k] = "again"
Done == <>[](~g.open)
====
