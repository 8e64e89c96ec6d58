---------------------- MODULE CompleteVsTakeoverLocking ----------------------
(*****************************************************************************)
(* A completion beside a takeover in a store with row locks (PostgreSQL),    *)
(* statement by statement.  Every transaction here is READ COMMITTED:        *)
(*                                                                           *)
(*   - each statement reads a snapshot of its own, taken when it starts;     *)
(*   - a row that it locks is read again under the lock if it has changed,   *)
(*     and that row only: everything else stays as the snapshot has it;      *)
(*   - FOR KEY SHARE does not count a change as one unless it was made       *)
(*     under FOR UPDATE.                                                     *)
(*                                                                           *)
(* A handler's transaction that is REPEATABLE READ is judged by an older     *)
(* snapshot, and aborted where one that is READ COMMITTED reads a row again: *)
(* both are behaviours of this module, too.                                  *)
(*                                                                           *)
(* So a completion that judged its lane before a takeover is refused only    *)
(* because the takeover locks FOR UPDATE before it writes.  The module also  *)
(* follows a handler's transaction whose COMMIT got no answer: committed,    *)
(* rolled back or still open, and how it is settled.                         *)
(*                                                                           *)
(* A client may stop at any step and never act again, with its transaction   *)
(* open: nothing obliges an action to be taken.  The server may end any      *)
(* transaction at any time (idle timeout, lock timeout, deadlock): Abort.    *)
(*                                                                           *)
(* Left out: time (a lease may run out at any moment), keys, charges,        *)
(* commits that get lost (AsyncCommit.tla), late calls but one kind          *)
(* (Lease.tla has the others).  One lane; a claim grants at most one         *)
(* delivery; a call has one number.  CompleteVsTakeoverSnapshot.tla is the   *)
(* same for stores with snapshots and write conflicts.                       *)
(*****************************************************************************)
EXTENDS Naturals, FiniteSets, Guards

CONSTANTS
  MaxDeliveries,  \* published before the start
  MaxNumber,      \* claims and takeovers of one worker
  Transactional,  \* handlers own a transaction; otherwise CompleteMany is used
  Sweeps          \* an operator may delete what is pending (Unsubscribe)

VARIABLES
  lane,           \* as committed
  rows,           \* ids of pending deliveries, as committed
  calls,          \* of each worker: the claim or takeover that is under way
  number,         \* of each worker: the last number that it used
  runs,           \* leases in their workers' hands, and their transactions
  completions,    \* ghost: committed deletions by completions, by delivery
  effects,        \* ghost: committed effects of transactional handlers
  swept,          \* ghost: what the operator deleted
  wrong           \* ghost: what should never have happened

vars == <<lane, rows, calls, number, runs, completions, effects, swept, wrong>>

Workers == {1, 2}
Nobody == 0
Deliveries == 1..MaxDeliveries
Numbers == 1..MaxNumber

-----------------------------------------------------------------------------
(* Locks *)

(* PostgreSQL's table of row-level lock conflicts, for the modes in use. *)
Conflict(a, b) ==
  \/ a = "UPDATE" \/ b = "UPDATE"
  \/ a = "NO KEY UPDATE" /\ b = "NO KEY UPDATE"

(* A takeover locks FOR UPDATE, or it would not stand against KEY SHARE. *)
TakeOverLocks == IF Rule("update") THEN "UPDATE" ELSE "NO KEY UPDATE"

CallLocks(w) ==
  CASE calls[w].step = "claiming" -> {"NO KEY UPDATE"}
    [] calls[w].step = "taking" -> {TakeOverLocks}
    [] OTHER -> {}

RunLocks(r) ==
  (IF r.tx \in {"shared", "deleted", "sent"} /\ Rule("lane") THEN {"KEY SHARE"} ELSE {})
    \cup (IF r.phase = "snoozing" THEN {"NO KEY UPDATE"} ELSE {})

LaneFreeForCall(w, mode) ==
  /\ \A v \in Workers \ {w} : \A held \in CallLocks(v) : ~ Conflict(mode, held)
  /\ \A r \in runs : \A held \in RunLocks(r) : ~ Conflict(mode, held)

LaneFreeForRun(r, mode) ==
  /\ \A w \in Workers : \A held \in CallLocks(w) : ~ Conflict(mode, held)
  /\ \A s \in runs \ {r} : \A held \in RunLocks(s) : ~ Conflict(mode, held)

(* Only a completion holds a delivery's row for longer than a step. *)
RowHeld(d) == \E r \in runs : r.id = d /\ r.tx \in {"deleted", "sent"}

-----------------------------------------------------------------------------
(* Leases *)

(* phase, what the worker does with the run:                                  *)
(*   running     the handler runs, or may be started again                    *)
(*   completing  CompleteMany was sent (plain handlers)                       *)
(*   committing  COMMIT was sent, the answer is awaited                       *)
(*   unknown     no answer came                                               *)
(*   settling    the run is to end by Snooze: settled, or a handler's wish    *)
(*   snoozing    the Snooze holds the lane                                    *)
(*   over        the worker has heard that it is; its transaction is open     *)
(* tx, what the server does for it:                                           *)
(*   none        no transaction                                               *)
(*   judged      the completion's statement has found the lease good          *)
(*   shared      and holds the lane FOR KEY SHARE                             *)
(*   deleted     and has deleted the row                                      *)
(*   gone        the row was not there, and yet the worker goes on            *)
(*   sent, sentGone   the same two when COMMIT is on its way                  *)
(* rewritten: what lane.rewritten was when the lease was judged. written: the *)
(* row was since. settle: the Snooze is there to settle an unknown COMMIT.    *)
Run(w, n, d, epoch) ==
  [holder |-> w, number |-> n, id |-> d, epoch |-> epoch, phase |-> "running", tx |-> "none",
   rewritten |-> 0, written |-> FALSE, settle |-> FALSE]

Entry(r) == <<r.id, r.number>>

Good(r) == lane.epoch = r.epoch /\ lane.holder = r.holder /\ Entry(r) \in lane.inFlight

Idle == [step |-> "idle", number |-> 0, stated |-> {}, seen |-> {}]

StatedBy(w) == {r \in runs : r.holder = w /\ r.phase # "over"}

Replace(r, new) == runs' = (runs \ {r}) \cup new

(* A run that is over is forgotten when its transaction is gone, too. *)
Over(r) == IF r.tx = "none" THEN {} ELSE {[r EXCEPT !.phase = "over"]}

OverAll(set) == (runs \ set) \cup UNION {Over(r) : r \in set}

(* A change by a run under another lease than the lane's present one. *)
Accepted(r) ==
  [wrong EXCEPT !.intruders = @ \cup (IF r.epoch = lane.epoch THEN {}
                                      ELSE {<<r.holder, lane.holder>>})]

(* A claim of somebody else's lane, and a grant of what is completed. *)
Claimed(w) ==
  [wrong EXCEPT !.intruders = @ \cup (IF lane.holder = w THEN {} ELSE {<<w, lane.holder>>})]

Granted(before, d) ==
  [before EXCEPT !.granted = @ \cup (IF completions[d] > 0 THEN {d} ELSE {})]

-----------------------------------------------------------------------------
(* Claim of a held lane: one statement.  It locks the lane FOR NO KEY UPDATE *)
(* and reads it again; what it picks, its snapshot shows.                    *)

ClaimSnapshot(w) ==
  /\ calls[w].step = "idle"
  /\ number[w] < MaxNumber
  /\ lane.holder = w
  /\ number' = [number EXCEPT ![w] = @ + 1]
  /\ calls' = [calls EXCEPT ![w] =
       [step |-> "reading", number |-> number[w] + 1,
        stated |-> {Entry(r) : r \in StatedBy(w)}, seen |-> rows]]
  /\ UNCHANGED <<lane, rows, runs, completions, effects, swept, wrong>>

ClaimLock(w) ==
  /\ calls[w].step = "reading"
  /\ LaneFreeForCall(w, "NO KEY UPDATE")
  /\ IF Guard("again", lane.holder = w /\ calls[w].number > lane.claim)
     THEN calls' = [calls EXCEPT ![w].step = "claiming"]
     ELSE calls' = [calls EXCEPT ![w] = Idle]
  /\ UNCHANGED <<lane, rows, number, runs, completions, effects, swept, wrong>>

(* The lane cannot have changed since the lock. *)
ClaimCommit(w) ==
  /\ calls[w].step = "claiming"
  /\ calls' = [calls EXCEPT ![w] = Idle]
  /\ LET c == calls[w]
         kept == lane.inFlight \cap c.stated
         lost == {r \in StatedBy(w) : Entry(r) \in c.stated \ kept}
         pickable == c.seen \ {e[1] : e \in c.stated}
         claimed(picks) == [lane EXCEPT !.holder = w, !.claim = c.number,
                                        !.inFlight = kept \cup picks]
         granted(d) == Run(w, c.number, d, lane.epoch)
     IN \/ /\ lane' = claimed({})
           /\ runs' \in {OverAll(lost), runs}
           /\ wrong' = Claimed(w)
        \/ \E d \in pickable :
             /\ lane' = claimed({<<d, c.number>>})
             /\ runs' \in {OverAll(lost) \cup {granted(d)}, runs}
             /\ wrong' = Granted(Claimed(w), d)
  /\ UNCHANGED <<rows, number, completions, effects, swept>>

-----------------------------------------------------------------------------
(* Takeover: FOR UPDATE SKIP LOCKED, then the deliveries in a later statement *)

TakeOverFind(w) ==
  /\ calls[w].step = "idle"
  /\ number[w] < MaxNumber
  /\ lane.holder # w
  /\ number' = [number EXCEPT ![w] = @ + 1]
  /\ calls' = [calls EXCEPT ![w] =
       [step |-> "finding", number |-> number[w] + 1,
        stated |-> {Entry(r) : r \in StatedBy(w)},
        seen |-> IF Rule("later") THEN {} ELSE rows]]
  /\ UNCHANGED <<lane, rows, runs, completions, effects, swept, wrong>>

(* A lane that is locked is skipped: then the call is over, which Abort is. *)
TakeOverLock(w) ==
  /\ calls[w].step = "finding"
  /\ lane.holder # w
  /\ LaneFreeForCall(w, TakeOverLocks)
  /\ calls' = [calls EXCEPT ![w].step = "taking"]
  /\ UNCHANGED <<lane, rows, number, runs, completions, effects, swept, wrong>>

(* The second statement and COMMIT.  Charging what was in flight waits for *)
(* whoever holds its rows.                                                 *)
TakeOverCommit(w) ==
  /\ calls[w].step = "taking"
  /\ \A e \in lane.inFlight : ~ RowHeld(e[1])
  /\ calls' = [calls EXCEPT ![w] = Idle]
  /\ LET c == calls[w]
         seen == IF Rule("later") THEN rows ELSE c.seen
         pickable == seen \ {e[1] : e \in c.stated}
         taken(picks) == [epoch |-> lane.epoch + 1, holder |-> w, claim |-> c.number,
                          inFlight |-> picks,
                          rewritten |-> lane.rewritten + (IF Rule("update") THEN 1 ELSE 0)]
         granted(d) == Run(w, c.number, d, lane.epoch + 1)
     IN \/ lane' = taken({}) /\ UNCHANGED <<runs, wrong>>
        \/ \E d \in pickable :
             /\ lane' = taken({<<d, c.number>>})
             /\ runs' \in {runs \cup {granted(d)}, runs}
             /\ wrong' = Granted(wrong, d)
  /\ UNCHANGED <<rows, number, completions, effects, swept>>

AbortCall(w) ==
  /\ calls[w].step # "idle"
  /\ calls' = [calls EXCEPT ![w] = Idle]
  /\ UNCHANGED <<lane, rows, number, runs, completions, effects, swept, wrong>>

(* A reply tells the worker that the lane is another's. *)
HearLost(w) ==
  LET lost == {r \in StatedBy(w) : r.epoch < lane.epoch} IN
  /\ lost # {}
  /\ runs' = OverAll(lost)
  /\ UNCHANGED <<lane, rows, calls, number, completions, effects, swept, wrong>>

-----------------------------------------------------------------------------
(* Complete and CompleteMany: one statement, judged at its snapshot, then *)
(* lane FOR KEY SHARE, then the row.                                      *)

(* LeaseLost: the transaction must be rolled back, and the run is over. *)
Refused(r) ==
  IF Transactional /\ ~ Rule("rollback") THEN {[r EXCEPT !.tx = "gone"]}
                                         ELSE Over([r EXCEPT !.tx = "none"])

CompleteSnapshot(r) ==
  /\ r.tx = "none"
  /\ r.phase \in {"running", "completing"}
  /\ LET sent == IF Transactional THEN r ELSE [r EXCEPT !.phase = "completing"]
     IN Replace(r, IF Good(r) THEN {[sent EXCEPT !.tx = "judged", !.rewritten = lane.rewritten]}
                              ELSE Refused(sent))
  /\ UNCHANGED <<lane, rows, calls, number, completions, effects, swept, wrong>>

(* The lane is read again only if it was changed under FOR UPDATE. *)
CompleteLane(r) ==
  /\ r.tx = "judged"
  /\ Guard("lane", LaneFreeForRun(r, "KEY SHARE"))
  /\ Replace(r, IF (r.rewritten = lane.rewritten \/ ~ Rule("lane")) \/ Good(r)
                THEN {[r EXCEPT !.tx = "shared", !.rewritten = 0]}
                ELSE Refused([r EXCEPT !.rewritten = 0, !.written = FALSE]))
  /\ UNCHANGED <<lane, rows, calls, number, completions, effects, swept, wrong>>

(* A row that is gone: Complete must not commit, because this transaction has  *)
(* not deleted it. CompleteMany looks at the lane again, and its verdict ends  *)
(* the run either way.  A row that was written since the snapshot: the run was *)
(* ended otherwise, which a lane locked FOR KEY SHARE does not show.           *)
CompleteRow(r) ==
  /\ r.tx = "shared"
  /\ ~ RowHeld(r.id)
  /\ LET seen == [r EXCEPT !.written = FALSE]
     IN Replace(r, IF r.id \in rows
                   THEN IF Guard("meanwhile", ~ r.written) THEN {[seen EXCEPT !.tx = "deleted"]}
                                                          ELSE Refused(seen)
                   ELSE IF Transactional /\ ~ Rule("itself") THEN {[seen EXCEPT !.tx = "gone"]}
                   ELSE Refused(seen))
  /\ UNCHANGED <<lane, rows, calls, number, completions, effects, swept, wrong>>

SendCommit(r) ==
  /\ Transactional
  /\ r.phase = "running"
  /\ r.tx \in {"deleted", "gone"}
  /\ Replace(r, {[r EXCEPT !.phase = "committing",
                           !.tx = IF r.tx = "deleted" THEN "sent" ELSE "sentGone"]})
  /\ UNCHANGED <<lane, rows, calls, number, completions, effects, swept, wrong>>

(* The answer to COMMIT or CompleteMany, heard or lost; a client that gave it *)
(* up does not listen.                                                        *)
Answered(r) ==
  CASE r.phase = "over" -> {{}}
    [] r.phase = "completing" -> {{}, {[r EXCEPT !.tx = "none"]}}
    [] r.phase = "committing" -> {{}, {[r EXCEPT !.tx = "none", !.phase = "unknown"]}}
    [] OTHER -> {{[r EXCEPT !.tx = "none"]}}

Commit(r) ==
  /\ r.tx \in (IF Transactional THEN {"sent", "sentGone"} ELSE {"deleted"})
  /\ \E after \in Answered(r) : Replace(r, after)
  /\ effects' = [effects EXCEPT ![r.id] = @ + (IF Transactional THEN 1 ELSE 0)]
  /\ IF r.tx = "sentGone"
     THEN UNCHANGED <<rows, completions, wrong>>
     ELSE /\ rows' = rows \ {r.id}
          /\ completions' = [completions EXCEPT ![r.id] = @ + 1]
          /\ wrong' = Accepted(r)
  /\ UNCHANGED <<lane, calls, number, swept>>

(* The server ends a transaction, and its client hears of it or not. Before *)
(* COMMIT was sent the handler may run again under its lease.               *)
Abort(r) ==
  /\ r.tx # "none"
  /\ IF r.phase = "over" THEN Replace(r, {})
     ELSE \E phase \in (IF r.phase = "committing" THEN {"settling", "unknown"} ELSE {r.phase}) :
            Replace(r, {[r EXCEPT !.tx = "none", !.rewritten = 0, !.written = FALSE,
                                  !.phase = phase]})
  /\ UNCHANGED <<lane, rows, calls, number, completions, effects, swept, wrong>>

-----------------------------------------------------------------------------
(* Snooze, as a handler's wish and to settle an unknown COMMIT *)

Fail(r) ==
  /\ r.phase = "running" /\ r.tx = "none"
  /\ Replace(r, {[r EXCEPT !.phase = "settling"]})
  /\ UNCHANGED <<lane, rows, calls, number, completions, effects, swept, wrong>>

(* A plain handler's worker gave a call up, and in the next one the store  *)
(* refuses the row for good: a failed attempt.  The first may still go on. *)
BadRow(r) ==
  /\ r.phase = "completing" /\ r.tx \in {"none", "judged", "shared"}
  /\ Replace(r, {[r EXCEPT !.phase = "settling"]})
  /\ UNCHANGED <<lane, rows, calls, number, completions, effects, swept, wrong>>

(* The client gives the answer up; COMMIT may still be on its way. *)
LoseReply(r) ==
  /\ r.phase = "committing"
  /\ Replace(r, {[r EXCEPT !.phase = "unknown"]})
  /\ UNCHANGED <<lane, rows, calls, number, completions, effects, swept, wrong>>

(* First transaction of a settle: FOR KEY SHARE on the row alone. It waits for *)
(* a transaction that is still open, and holds no lane meanwhile.              *)
SettleRow(r) ==
  /\ r.phase = "unknown"
  /\ Rule("snooze") /\ Rule("rerun")
  /\ Guard("row", ~ RowHeld(r.id))
  /\ Replace(r, {[r EXCEPT !.phase = "settling", !.settle = TRUE]})
  /\ UNCHANGED <<lane, rows, calls, number, completions, effects, swept, wrong>>

(* LeaseLost says only that the run is over. Taken for a commit, it would be *)
(* reported as one.                                                          *)
SettleLost(r) ==
  /\ \E after \in {Over(r), {[r EXCEPT !.phase = "settling"]}} : Replace(r, after)
  /\ wrong' = [wrong EXCEPT !.reported = @ \cup
       (IF Rule("lost") \/ ~ r.settle \/ completions[r.id] > 0 THEN {} ELSE {r.id})]

(* Second transaction: the lane FOR NO KEY UPDATE, judged under the lock. *)
SnoozeLane(r) ==
  /\ r.phase = "settling"
  /\ LaneFreeForRun(r, "NO KEY UPDATE")
  /\ IF Good(r)
     THEN Replace(r, {[r EXCEPT !.phase = "snoozing"]}) /\ UNCHANGED wrong
     ELSE SettleLost(r)
  /\ UNCHANGED <<lane, rows, calls, number, completions, effects, swept>>

(* Then the row, and COMMIT.  (A takeover that charges the row writes it, too; *)
(* nothing here counts on that, since a charge may be refused for good.)       *)
Written(d, set) ==
  {[s EXCEPT !.written = @ \/ (s.id = d /\ s.tx \in {"judged", "shared"})] : s \in set}

SnoozeRow(r) ==
  /\ r.phase = "snoozing"
  /\ ~ RowHeld(r.id)
  /\ IF r.id \in rows
     THEN /\ lane' = [lane EXCEPT !.inFlight = @ \ {Entry(r)}]
          /\ \E after \in {Over(r), {[r EXCEPT !.phase = "settling"]}} :
               runs' = Written(r.id, (runs \ {r}) \cup after)
          /\ wrong' = Accepted(r)
     ELSE SettleLost(r) /\ UNCHANGED lane
  /\ UNCHANGED <<rows, calls, number, completions, effects, swept>>

AbortSnooze(r) ==
  /\ r.phase = "snoozing"
  /\ Replace(r, {[r EXCEPT !.phase = "settling"]})
  /\ UNCHANGED <<lane, rows, calls, number, completions, effects, swept, wrong>>

(* What must not be done with an unknown COMMIT: complete the delivery outside *)
(* of a transaction of the handler's (snooze off), or run the handler again    *)
(* (rerun off; its former transaction has ended).                              *)
SettleWrongly(r) ==
  /\ r.phase = "unknown" /\ r.tx = "none"
  /\ \/ /\ ~ Rule("snooze") /\ Good(r) /\ r.id \in rows /\ ~ RowHeld(r.id)
        /\ rows' = rows \ {r.id}
        /\ completions' = [completions EXCEPT ![r.id] = @ + 1]
        /\ Replace(r, {})
     \/ /\ ~ Rule("rerun")
        /\ Replace(r, {[r EXCEPT !.phase = "running"]})
        /\ UNCHANGED <<rows, completions>>
  /\ UNCHANGED <<lane, calls, number, effects, swept, wrong>>

-----------------------------------------------------------------------------

(* Unsubscribe, for one delivery. *)
Sweep(d) ==
  /\ Sweeps
  /\ d \in rows /\ ~ RowHeld(d)
  /\ rows' = rows \ {d}
  /\ swept' = swept \cup {d}
  /\ UNCHANGED <<lane, calls, number, runs, completions, effects, wrong>>

Init ==
  /\ lane = [epoch |-> 0, holder |-> Nobody, claim |-> 0, inFlight |-> {}, rewritten |-> 0]
  /\ rows = Deliveries
  /\ calls = [w \in Workers |-> Idle]
  /\ number = [w \in Workers |-> 0]
  /\ runs = {}
  /\ completions = [d \in Deliveries |-> 0]
  /\ effects = [d \in Deliveries |-> 0]
  /\ swept = {}
  /\ wrong = [intruders |-> {}, granted |-> {}, reported |-> {}]

Next ==
  \/ \E w \in Workers :
       \/ ClaimSnapshot(w) \/ ClaimLock(w) \/ ClaimCommit(w)
       \/ TakeOverFind(w) \/ TakeOverLock(w) \/ TakeOverCommit(w)
       \/ AbortCall(w) \/ HearLost(w)
  \/ \E r \in runs :
       \/ CompleteSnapshot(r) \/ CompleteLane(r) \/ CompleteRow(r)
       \/ SendCommit(r) \/ Commit(r) \/ Abort(r) \/ LoseReply(r)
       \/ Fail(r) \/ BadRow(r) \/ SettleRow(r) \/ SnoozeLane(r) \/ SnoozeRow(r) \/ AbortSnooze(r)
       \/ SettleWrongly(r)
  \/ \E d \in Deliveries : Sweep(d)

Spec == Init /\ [][Next]_vars
-----------------------------------------------------------------------------
(* Invariants *)

TypeOK ==
  /\ lane.epoch \in 0..(2 * MaxNumber) /\ lane.holder \in Workers \cup {Nobody}
  /\ lane.claim \in 0..MaxNumber /\ lane.inFlight \subseteq Deliveries \X Numbers
  /\ rows \subseteq Deliveries /\ swept \subseteq Deliveries
  /\ number \in [Workers -> 0..MaxNumber]
  /\ \A w \in Workers :
       calls[w].step \in {"idle", "reading", "claiming", "finding", "taking"}
  /\ \A r \in runs :
       /\ r.phase \in {"running", "completing", "committing", "unknown", "settling",
                       "snoozing", "over"}
       /\ r.tx \in {"none", "judged", "shared", "deleted", "gone", "sent", "sentGone"}
       /\ r.phase = "over" => r.tx # "none"
  /\ \A r, s \in runs : (r.holder = s.holder /\ r.number = s.number) => r = s

NoLostDelivery == \A d \in Deliveries : d \in rows \/ completions[d] > 0 \/ d \in swept

(* A claim never grants what is completed. *)
NothingInvented == wrong.granted = {}

AtMostOneCompletion ==
  \A d \in Deliveries :
    completions[d] <= 1 /\ (Transactional => effects[d] = completions[d])

FencedOut == wrong.intruders = {}

OneHolderPerLane == \A pair \in wrong.intruders : pair[1] = pair[2]

(* What is being ended may have ended: the reply of a Snooze can be lost. *)
NothingDropped ==
  \A r \in runs :
    (/\ r.phase \in {"running", "completing", "committing", "unknown"}
     /\ r.holder = lane.holder /\ r.epoch = lane.epoch)
      => Entry(r) \in lane.inFlight

(* A worker reports no completion that is none. *)
ReportedIsCompleted == wrong.reported = {}

(* No settle keeps the lane from its owner while it waits for a handler's *)
(* transaction, which may stay open for as long as the server lets it.    *)
SettleHoldsNoLane ==
  Transactional => \A r \in runs : r.phase = "snoozing" => ~ RowHeld(r.id)

-----------------------------------------------------------------------------
(* Probes *)

(* A completion was judged good, and a takeover came before its lock. *)
NeverTakenOverMeanwhile ==
  \A r \in runs : ~ (r.tx = "judged" /\ r.epoch < lane.epoch)

(* A completion holds the lane while its owner's claim writes it. *)
NeverBesideClaim ==
  ~ \E r \in runs : r.tx = "deleted" /\ calls[r.holder].step = "claiming"

(* A takeover finds the lane locked by a transaction whose client is gone. *)
NeverOrphanStandsInTheWay ==
  ~ \E r \in runs, w \in Workers : r.tx = "sent" /\ r.phase = "unknown"
                                  /\ calls[w].step = "finding"

(* A COMMIT without an answer: committed, rolled back, still open. *)
NeverUnknownCommitted ==
  ~ \E r \in runs : r.phase = "unknown" /\ r.tx = "none" /\ completions[r.id] > 0

NeverUnknownRolledBack ==
  ~ \E r \in runs : r.phase = "unknown" /\ r.tx = "none" /\ r.id \in rows

NeverUnknownStillOpen == ~ \E r \in runs : r.phase = "unknown" /\ r.tx = "sent"

(* CompleteMany again after its reply was lost: the row is gone, the run listed. *)
NeverGoneAndListed ==
  ~ \E r \in runs : r.phase = "completing" /\ r.tx = "shared" /\ r.id \notin rows /\ Good(r)

(* A completion goes on after its run was ended otherwise. *)
NeverEndedMeanwhile == \A r \in runs : ~ (r.tx = "shared" /\ r.written)

(* A settle finds the lane taken over. *)
NeverSettledTooLate == ~ \E r \in runs : r.phase = "settling" /\ r.epoch < lane.epoch
=============================================================================
