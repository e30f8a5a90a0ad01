---- MODULE Move ----
\* A delayed job moves from the node of one partition to the node of another (decision 0027), with durable = 1. A replica
\* that lacks the last writes may take over either node. The process that moves the job may die after any call.
EXTENDS Naturals
CONSTANTS MaxFail,
          SourceWaits, \* the job goes to the destination when a replica of the source has that it has left
          Waits,       \* the source forgets the job when a replica of the destination has it
          Ends         \* the destination takes no job that has ended there
\* A node: "here" the job waits there, "moving" it is on its way, "ended" it has ended, "none" nothing is known of it.
VARIABLES source, copy, there, copied, runs, fails, lacking
vars == <<source, copy, there, copied, runs, fails, lacking>>
Init == source = "here" /\ copy = "here" /\ there = "none" /\ copied = "none" /\ runs = 0 /\ fails = 0 /\ lacking = FALSE
\* @ partitions/move.lua | note(row, home)
Take == source = "here" /\ source' = "moving" /\ UNCHANGED <<copy, there, copied, runs, fails, lacking>>
\* @ moves/arrive.lua | elseif call('HEXISTS', key('jobs'), id) == 1 or has_ended(id, time) then
\* @ engines/native/partitions/changes.py | moving = engine.move_out(source, f"{nonce.session}-{nonce.number}", only, (only or queue,))
Arrive == /\ source = "moving" /\ (SourceWaits => copy = "moving")
          /\ there' = IF there = "none" \/ (there = "ended" /\ ~Ends) THEN "here" ELSE there
          /\ UNCHANGED <<source, copy, copied, runs, fails, lacking>>
\* @ engines/native/partitions/changes.py | answer = yield from (arriving if lacking else engine.copied(arriving, names))
\* @ moves/end_export.lua | call('DEL', page.moving)
Forget == /\ source = "moving" /\ there # "none" /\ (Waits => copied # "none") /\ source' = "none"
          /\ UNCHANGED <<copy, there, copied, runs, fails, lacking>>
Run == there = "here" /\ there' = "ended" /\ runs' = runs + 1 /\ UNCHANGED <<source, copy, copied, fails, lacking>>
CopySource == copy # source /\ copy' = source /\ UNCHANGED <<source, there, copied, runs, fails, lacking>>
CopyThere == copied # there /\ copied' = there /\ UNCHANGED <<source, copy, there, runs, fails, lacking>>
SourceFails == fails < MaxFail /\ fails' = fails + 1 /\ source' = copy /\ UNCHANGED <<copy, there, copied, runs, lacking>>
\* An end that no replica has is lost: the job runs again, which is allowed.
ThereFails == /\ fails < MaxFail /\ fails' = fails + 1 /\ there' = copied /\ lacking' = (lacking \/ (there = "ended" /\ copied # "ended"))
              /\ UNCHANGED <<source, copy, copied, runs>>
Next == Take \/ Arrive \/ Forget \/ Run \/ CopySource \/ CopyThere \/ SourceFails \/ ThereFails
Spec == /\ Init /\ [][Next]_vars /\ WF_vars(Take) /\ WF_vars(Arrive) /\ WF_vars(Forget) /\ WF_vars(Run)
        /\ WF_vars(CopySource) /\ WF_vars(CopyThere)
NotLost == source # "none" \/ there # "none"
NotTwice == ~(source = "here" /\ there # "none") /\ (runs > 1 => lacking)
Done == <>[](there = "ended")
====
