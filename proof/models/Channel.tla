---- MODULE Channel ----
\* The numbered list through which jobs and the ends of members reach another place (decision 0035). Relays read a page,
\* hand it over, and trim the list. A relay may die after any call; each call may be repeated or arrive late.
EXTENDS Naturals
CONSTANTS N,       \* entries 1..N, in the order of their numbers
          Relays, MaxDeaths,
          Numbers, \* the destination ignores numbers that it has taken; FALSE: it knows pages by marks that expire
          Named    \* the source forgets what the destination has named; FALSE: what a relay has read
VARIABLES written, trimmed, last, applied, page, sent, deaths
vars == <<written, trimmed, last, applied, page, sent, deaths>>
None == [from |-> 0, to |-> 0, named |-> 0]
Max(a, b) == IF a > b THEN a ELSE b

Init == /\ written = 0 /\ trimmed = 0 /\ last = 0 /\ applied = [i \in 1..N |-> 0]
        /\ page = [r \in Relays |-> None] /\ sent = {} /\ deaths = 0

\* @ flows/lib/sending.lua | local first = 1 + math.max(tonumber(call('HGET', key('meta'), 'sent') or 0), micros)
Send == written < N /\ written' = written + 1 /\ UNCHANGED <<trimmed, last, applied, page, sent, deaths>>

\* @ flows/outgoing.lua | for _, text in ipairs(call('LRANGE', key('out:' .. queue), 0, limit - 1)) do
Read(r) == /\ page[r] = None /\ trimmed < written
           /\ \E to \in (trimmed + 1)..written :
                /\ page' = [page EXCEPT ![r] = [from |-> trimmed + 1, to |-> to, named |-> 0]]
                /\ sent' = sent \cup {<<trimmed + 1, to>>}
           /\ UNCHANGED <<written, trimmed, last, applied, deaths>>

\* @ flows/take.lua | if number > last then
TakeUp(from, to) ==
  /\ applied' = [i \in 1..N |-> IF i \in from..to /\ (i > last \/ ~Numbers) THEN applied[i] + 1 ELSE applied[i]]
  /\ last' = Max(last, to)

Take(r) == /\ page[r] # None /\ page[r].named = 0 /\ TakeUp(page[r].from, page[r].to)
           /\ page' = [page EXCEPT ![r].named = last']
           /\ UNCHANGED <<written, trimmed, sent, deaths>>

\* A call of which the reply was lost, or of a relay that has died.
TakeLate(p) == TakeUp(p[1], p[2]) /\ UNCHANGED <<written, trimmed, page, sent, deaths>>

\* @ flows/forget_sent.lua | if tonumber(cmsgpack.unpack(text)[1]) > number then break end
Trim(r) == /\ page[r] # None /\ (page[r].named > 0 \/ ~Named)
           /\ trimmed' = Max(trimmed, IF Named THEN page[r].named ELSE page[r].to)
           /\ page' = [page EXCEPT ![r] = None] /\ UNCHANGED <<written, last, applied, sent, deaths>>

Die(r) == /\ page[r] # None /\ deaths < MaxDeaths /\ deaths' = deaths + 1
          /\ page' = [page EXCEPT ![r] = None] /\ UNCHANGED <<written, trimmed, last, applied, sent>>

Next == Send \/ (\E r \in Relays : Read(r) \/ Take(r) \/ Trim(r) \/ Die(r)) \/ \E p \in sent : TakeLate(p)
Spec == Init /\ [][Next]_vars /\ WF_vars(Send) /\ \A r \in Relays : WF_vars(Read(r)) /\ WF_vars(Take(r)) /\ WF_vars(Trim(r))
Once == \A i \in 1..N : applied[i] <= 1
NotLost == \A i \in 1..N : i <= trimmed => applied[i] >= 1
All == <>[](\A i \in 1..N : applied[i] = 1)
====
