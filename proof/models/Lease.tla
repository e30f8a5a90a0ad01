---- MODULE Lease ----
\* The leases of one job (decisions 0003, 0006). A worker makes one call at a time, under numbers that grow. A message may
\* be repeated, arrive late or lose its reply; a worker may be stopped, lose its lease and continue, or die.
EXTENDS Naturals, FiniteSets
CONSTANTS Workers, MaxLost, MaxDeaths, MayJump,
          MaxOthers, \* retries and extensions
          Fenced,    \* an end counts only from the lease that is held
          Extends,   \* an extension, too
          Remembers, \* Redis keeps the answer of the last call of a session
          Refuses,   \* a message with an earlier number changes nothing
          Grows      \* a token is the last one + 1 or Redis' time, the higher; FALSE: the time alone
VARIABLES ready, held, token, clock, done, last, sent, call, number, mine, dead, lost, others, wrong
redis == <<ready, held, token, clock, done, last>>
worker == <<sent, call, number, mine, dead, lost, others>>
Max(a, b) == IF a > b THEN a ELSE b
Init == /\ ready = TRUE /\ held = {} /\ token = 0 /\ clock = 3 /\ done = {} /\ sent = {} /\ dead = {}
        /\ last = [w \in Workers |-> [number |-> 0, answer |-> 0]] /\ call = [w \in Workers |-> "none"]
        /\ number = [w \in Workers |-> 0] /\ mine = [w \in Workers |-> 0] /\ lost = 0 /\ others = 0 /\ wrong = {}
Send(w, kind) == /\ w \notin dead /\ call[w] = "none" /\ (kind = "claim" <=> mine[w] = 0) /\ (kind = "claim" => ready)
                 /\ others' = IF kind \in {"retry", "extend"} THEN others + 1 ELSE others
                 /\ others' <= MaxOthers
                 /\ call' = [call EXCEPT ![w] = kind] /\ number' = [number EXCEPT ![w] = @ + 1]
                 /\ sent' = sent \cup {[w |-> w, kind |-> kind, number |-> number'[w], token |-> mine[w]]}
                 /\ UNCHANGED <<redis, mine, dead, lost, wrong>>
\* @ claim/claim.lua | local token, rest = math.max(tonumber(last_token or 0), micros), ' ' .. time .. ' ' .. kind
New == IF Grows THEN Max(token, clock) + 1 ELSE clock + 1
DoClaim(m) == /\ IF ready THEN /\ ready' = FALSE /\ held' = held \cup {<<m.w, New>>} /\ token' = New /\ clock' = clock + 1
                               /\ wrong' = IF New <= token THEN wrong \cup {"token"} ELSE wrong
                          ELSE UNCHANGED <<ready, held, token, clock, wrong>>
              /\ UNCHANGED done
\* @ settle/settle.lua | if mine == token then
\* @ settle/settle_full.lua | if mine == ARGV[at + 1] then
\* @ claim/extend.lua | if mine ~= token then return remember(session, number, '0') end
Holds(m) == <<m.w, m.token>> \in held
Counts(m) == Holds(m) \/ (~(IF m.kind = "extend" THEN Extends ELSE Fenced) /\ done = {})
DoOther(m) == /\ wrong' = IF Counts(m) /\ ~Holds(m) THEN wrong \cup {m.kind} ELSE wrong
              /\ held' = IF Counts(m) /\ m.kind # "extend" THEN {e \in held : e[1] # m.w} ELSE held
              /\ ready' = (ready \/ (Counts(m) /\ m.kind = "retry"))
              /\ done' = IF Counts(m) /\ m.kind = "complete" THEN done \cup {<<m.w, m.number>>} ELSE done
              /\ UNCHANGED <<token, clock>>
\* @ engines/kit/lua/lib/answers.lua | if last == number then return answer end
IsKnown(m) == Remembers /\ last[m.w].number = m.number
\* @ engines/kit/lua/lib/answers.lua | if last and tonumber(last) > tonumber(number) then
IsStale(m) == Refuses /\ last[m.w].number > m.number
\* @ claim/lib/claimedagain.lua | if token >= tonumber(first) and token <= tonumber(last) then
Answer(m) == IF IsKnown(m) THEN IF m.kind = "claim" /\ <<m.w, last[m.w].answer>> \notin held THEN 0 ELSE last[m.w].answer
             ELSE IF m.kind = "claim" THEN IF ready THEN New ELSE 0 ELSE IF Counts(m) THEN 1 ELSE 0
Do(m) == IF IsKnown(m) \/ IsStale(m) THEN UNCHANGED <<redis, wrong>>
         ELSE /\ IF m.kind = "claim" THEN DoClaim(m) ELSE DoOther(m)
              /\ last' = [last EXCEPT ![m.w] = [number |-> m.number, answer |-> Answer(m)]]
Run(m) == Do(m) /\ UNCHANGED worker
\* The same, and the reply reaches the worker.
RunAndReply(w) == \E m \in sent :
  /\ m.w = w /\ m.number = number[w] /\ call[w] \notin {"none", "misled"} /\ w \notin dead /\ Do(m)
  /\ mine' = [mine EXCEPT ![w] = IF m.kind = "claim" THEN Answer(m) ELSE IF m.kind = "extend" /\ Answer(m) = 1 THEN @ ELSE 0]
  /\ call' = [call EXCEPT ![w] = IF Answer(m) = 0 /\ <<w, m.number>> \in done' THEN "misled" ELSE "none"]
  /\ UNCHANGED <<sent, number, dead, lost, others>>
\* @ engines/kit/lua/lib/silence.lua | collect(entries, worker, true)
Reclaim(w) == /\ \E e \in held : e[1] = w /\ held' = held \ {e} /\ ready' = TRUE
              /\ lost' = IF w \in dead THEN lost ELSE lost + 1
              /\ lost' <= MaxLost /\ UNCHANGED <<token, clock, done, last, sent, call, number, mine, dead, others, wrong>>
Die(w) == /\ w \notin dead /\ Cardinality(dead) < MaxDeaths /\ dead' = dead \cup {w}
          /\ UNCHANGED <<redis, sent, call, number, mine, lost, others, wrong>>
SetBack == MayJump /\ clock > 2 /\ clock' = 0 /\ UNCHANGED <<ready, held, token, done, last, worker, wrong>>
Lives(w) == Send(w, "claim") \/ Send(w, "complete") \/ RunAndReply(w)
Next == SetBack \/ (\E m \in sent : Run(m)) \/ \E w \in Workers : \/ Lives(w) \/ Send(w, "retry") \/ Send(w, "extend")
                                                                  \/ Reclaim(w) \/ Die(w)
Spec == Init /\ [][Next]_<<redis, worker, wrong>> /\ \A w \in Workers : WF_<<redis, worker, wrong>>(Lives(w))
        /\ WF_<<redis, worker, wrong>>(w \in dead /\ Reclaim(w))
OnePlace == Cardinality(held) + Cardinality(done) + (IF ready THEN 1 ELSE 0) = 1
Known == \A e \in held : e[1] \in dead \/ call[e[1]] = "claim" \/ mine[e[1]] = e[2]
Informed == \A w \in Workers : call[w] # "misled"
Fence == wrong \subseteq {"token"}
Growing == "token" \notin wrong
Done == <>[](done # {})
====
