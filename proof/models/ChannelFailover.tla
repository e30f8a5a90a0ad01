---- MODULE ChannelFailover ----
\* The numbered list while nodes fail: a replica that lacks the last writes takes over. Entries are ends of members; the
\* destination sets a bit for each, so that an end that comes again does no harm.
EXTENDS Naturals, Sequences
CONSTANTS Items, MaxFail, MaxNumber,
          Fresh,  \* a number is the last one + 1 or Redis' time, the higher; FALSE: the last one of this node + 1
          Durable \* the source forgets what a replica of the destination has; FALSE: what the destination has
VARIABLES out, ended, last, marked, copy, page, fails, high
vars == <<out, ended, last, marked, copy, page, fails, high>>
None == <<>>
Init == /\ out = <<>> /\ ended = {} /\ last = 0 /\ marked = {} /\ page = None /\ fails = 0 /\ high = 0
        /\ copy = [last |-> 0, marked |-> {}]
Above(list, n) == SelectSeq(list, LAMBDA e : e[1] > n)
Top(list) == IF Len(list) = 0 THEN 0 ELSE list[Len(list)][1]

\* @ flows/lib/sending.lua | call('HSET', key('meta'), 'sent', digits(first + count - 1))
End(i) == /\ i \notin ended /\ ended' = ended \cup {i}
          /\ LET n == IF Fresh THEN high + 1 ELSE Top(out) + 1 IN
             n <= MaxNumber /\ out' = Append(out, <<n, i>>) /\ high' = IF n > high THEN n ELSE high
          /\ UNCHANGED <<last, marked, copy, page, fails>>

Read == page = None /\ Len(out) > 0 /\ page' = out /\ UNCHANGED <<out, ended, last, marked, copy, fails, high>>

\* @ flows/take.lua | call('HSET', key('in'), source, digits(last))
Take == /\ page # None
        /\ marked' = marked \cup {page[k][2] : k \in {j \in 1..Len(page) : page[j][1] > last}}
        /\ last' = IF Top(page) > last THEN Top(page) ELSE last
        /\ UNCHANGED <<out, ended, copy, page, fails, high>>

\* @ engines/native/flows.py | reply: bytes = yield from engine.copied(taking, tuple(ids))
Trim == /\ page # None /\ Top(page) <= (IF Durable THEN copy.last ELSE last)
        /\ out' = Above(out, Top(page)) /\ page' = None /\ UNCHANGED <<ended, last, marked, copy, fails, high>>
GiveUp == page # None /\ page' = None /\ UNCHANGED <<out, ended, last, marked, copy, fails, high>>

Copy == /\ copy # [last |-> last, marked |-> marked] /\ copy' = [last |-> last, marked |-> marked]
        /\ UNCHANGED <<out, ended, last, marked, page, fails, high>>

\* The new node lacks the last entry and the end that wrote it: the job runs again there.
SourceFails == /\ fails < MaxFail /\ Len(out) > 0 /\ fails' = fails + 1
               /\ ended' = ended \ {out[Len(out)][2]} /\ out' = SubSeq(out, 1, Len(out) - 1)
               /\ UNCHANGED <<last, marked, copy, page, high>>
DestinationFails == /\ fails < MaxFail /\ fails' = fails + 1 /\ last' = copy.last /\ marked' = copy.marked
                    /\ UNCHANGED <<out, ended, copy, page, high>>
Next == Read \/ Take \/ Trim \/ GiveUp \/ Copy \/ SourceFails \/ DestinationFails \/ \E i \in Items : End(i)
Spec == /\ Init /\ [][Next]_vars /\ WF_vars(Read) /\ SF_vars(Take) /\ SF_vars(Trim) /\ WF_vars(Copy)
        /\ \A i \in Items : WF_vars(End(i))
\* An end that has left its list is marked.
NotLost == \A i \in ended : i \in marked \/ \E k \in 1..Len(out) : out[k][2] = i
All == <>[](marked = Items)
====
