---- MODULE ChannelFailover ----
\* The numbered list while nodes fail: a replica that lacks the last writes takes over. Entries are ends of members; the
\* destination sets a bit for each, so that an end that comes again does no harm. A job that follows or a member that is
\* added has no such bit once it has ended: it must not come again.
EXTENDS Naturals, Sequences
CONSTANTS Items, MaxFail, MaxNumber,
          Fresh,  \* a number is the last one + 1 or Redis' time, the higher; FALSE: the last one of this node + 1
          Known,  \* a page has only what the replica of the source has; FALSE: all that the source has
          Durable \* the source forgets what a replica of the destination has; FALSE: what the destination has
VARIABLES out, ended, last, marked, copy, page, fails, high, kept, twice
vars == <<out, ended, last, marked, copy, page, fails, high, kept, twice>>
None == <<>>
Init == /\ out = <<>> /\ ended = {} /\ last = 0 /\ marked = {} /\ page = None /\ fails = 0 /\ high = 0
        /\ kept = 0 /\ twice = FALSE
        /\ copy = [last |-> 0, marked |-> {}]
Above(list, n) == SelectSeq(list, LAMBDA e : e[1] > n)
Top(list) == IF Len(list) = 0 THEN 0 ELSE list[Len(list)][1]

\* @ flows/lib/sending.lua | call('HSET', key('meta'), 'sent', digits(first + count - 1))
End(i) == /\ i \notin ended /\ ended' = ended \cup {i}
          /\ LET n == IF Fresh THEN high + 1 ELSE Top(out) + 1 IN
             n <= MaxNumber /\ out' = Append(out, <<n, i>>) /\ high' = IF n > high THEN n ELSE high
          /\ UNCHANGED <<last, marked, copy, page, fails, kept, twice>>

\* @ engines/native/flows.py | pages = yield from self._engine.copied(asking, ())
Read == /\ page = None
        /\ LET known == IF Known THEN SelectSeq(out, LAMBDA e : e[1] <= kept) ELSE out IN Len(known) > 0 /\ page' = known
        /\ UNCHANGED <<out, ended, last, marked, copy, fails, high, kept, twice>>

\* @ flows/take.lua | call('HSET', key('in'), source, digits(last))
Take == /\ page # None
        /\ marked' = marked \cup {page[k][2] : k \in {j \in 1..Len(page) : page[j][1] > last}}
        /\ last' = IF Top(page) > last THEN Top(page) ELSE last
        /\ twice' = (twice \/ \E k \in 1..Len(page) : page[k][1] > last /\ page[k][2] \in marked)
        /\ UNCHANGED <<out, ended, copy, page, fails, high, kept>>

\* @ engines/native/flows.py | reply: bytes = yield from engine.copied(taking, tuple(ids))
Trim == /\ page # None /\ Top(page) <= (IF Durable THEN copy.last ELSE last)
        /\ out' = Above(out, Top(page)) /\ page' = None /\ UNCHANGED <<ended, last, marked, copy, fails, high, kept, twice>>
GiveUp == page # None /\ page' = None /\ UNCHANGED <<out, ended, last, marked, copy, fails, high, kept, twice>>

Copy == /\ copy # [last |-> last, marked |-> marked] /\ copy' = [last |-> last, marked |-> marked]
        /\ UNCHANGED <<out, ended, last, marked, page, fails, high, kept, twice>>
\* The replica of the source has what the source has.
Keep == Top(out) > kept /\ kept' = Top(out) /\ UNCHANGED <<out, ended, last, marked, copy, page, fails, high, twice>>

\* The new node lacks the last entry and the end that wrote it: the job runs again there.
SourceFails == /\ fails < MaxFail /\ Top(out) > kept /\ fails' = fails + 1
               /\ ended' = ended \ {out[Len(out)][2]} /\ out' = SubSeq(out, 1, Len(out) - 1)
               /\ UNCHANGED <<last, marked, copy, page, high, kept, twice>>
DestinationFails == /\ fails < MaxFail /\ fails' = fails + 1 /\ last' = copy.last /\ marked' = copy.marked
                    /\ UNCHANGED <<out, ended, copy, page, high, kept, twice>>
Next == Read \/ Take \/ Trim \/ GiveUp \/ Copy \/ Keep \/ SourceFails \/ DestinationFails \/ \E i \in Items : End(i)
Spec == /\ Init /\ [][Next]_vars /\ WF_vars(Read) /\ SF_vars(Take) /\ SF_vars(Trim) /\ WF_vars(Copy) /\ WF_vars(Keep)
        /\ \A i \in Items : WF_vars(End(i))
\* An end that has left its list is marked.
NotLost == \A i \in ended : i \in marked \/ \E k \in 1..Len(out) : out[k][2] = i
NotTwice == ~twice
All == <>[](marked = Items)
====
