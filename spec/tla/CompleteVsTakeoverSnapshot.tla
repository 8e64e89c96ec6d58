--------------------- MODULE CompleteVsTakeoverSnapshot ----------------------
(*****************************************************************************)
(* A completion beside a takeover in a store with snapshots and write        *)
(* conflicts (MongoDB).  What CompleteVsTakeoverLocking.tla is for row       *)
(* locks:                                                                    *)
(*                                                                           *)
(*   - a transaction reads the snapshot of its first operation, for ever;    *)
(*   - a document that it writes must not have been written since, nor be    *)
(*     written by another open transaction: the first updater wins, the      *)
(*     other is aborted and may try again;                                   *)
(*   - a write outside a transaction is atomic on one document, and waits    *)
(*     for a transaction that has written it.                                *)
(*                                                                           *)
(* A completion reads the lane and does not write it, so its snapshot may    *)
(* be older than a takeover.  What protects the delivery is the conflict     *)
(* on its own document: a takeover moves what was in flight to lost, and     *)
(* ChargeLost writes every lost row before anything of the lane may be       *)
(* claimed.  Until then the old completion is welcome.  Plain completions    *)
(* have no transaction; the fence that every writer of the document raises   *)
(* does the same for them.                                                   *)
(*                                                                           *)
(* A client may stop at any step and never act again; the server may abort   *)
(* any transaction at any time.                                              *)
(*                                                                           *)
(* Left out: time (a lease may run out at any moment), keys, commits that    *)
(* get lost, late calls but one kind (Lease.tla has the others).  Reschedule *)
(* stands for Snooze and Bury too.  One lane; a claim grants at most one     *)
(* delivery; every call has one number.                                      *)
(*****************************************************************************)
EXTENDS Naturals, FiniteSets, Guards

CONSTANTS
  MaxDeliveries,  \* published before the start
  MaxNumber,      \* claims, takeovers and returns of one worker
  Transactional   \* handlers own a transaction; otherwise CompleteMany is used

VARIABLES
  lane,           \* the lane document
  rows,           \* ids of pending deliveries
  fence,          \* of each delivery; 0 once it is gone
  claims,         \* of each worker: the claim that has read its candidates
  charges,        \* of each worker: its ChargeLost transaction
  number,         \* of each worker: the last number that it used
  runs,           \* leases in their workers' hands, and their transactions
  completions,    \* ghost: committed deletions, by delivery
  effects,        \* ghost: committed effects of transactional handlers
  ended,          \* ghost: runs <<holder, number>> with an accepted end
  wrong           \* ghost: what should never have happened

vars == <<lane, rows, fence, claims, charges, number, runs, completions, effects, ended, wrong>>

ghosts == <<completions, effects, ended, wrong>>

Workers == {1, 2}
Nobody == 0
Deliveries == 1..MaxDeliveries
Numbers == 1..MaxNumber

-----------------------------------------------------------------------------
(* Documents and transactions *)

(* phase, what the worker does with the run:                                  *)
(*   running     the handler runs, or may be started again                    *)
(*   completing  CompleteMany was sent (plain handlers)                       *)
(*   committing  COMMIT was sent, the answer is awaited                       *)
(*   unknown     no answer came                                               *)
(*   ending      the run is to end by Reschedule or Snooze                    *)
(*   over        the worker has heard that it is; a transaction is open       *)
(* tx, the handler's transaction: none, open (its snapshot shows the lease    *)
(* good), deleted (it has deleted the delivery), sent (COMMIT is on its way); *)
(* or copy: a CompleteMany that the worker gave up is still on its way.       *)
(* end, the Reschedule's: none, begun, written.                               *)
(* txStale, endStale: what the transaction is to write was written by         *)
(* somebody else after its snapshot.                                          *)
Entry(r) == <<r.id, r.number>>

Lost(r) == <<r.holder, r.id, r.number>>

Good(r) == lane.epoch = r.epoch /\ lane.holder = r.holder /\ Entry(r) \in lane.inFlight

LostRows == {e[2] : e \in lane.lost} \cap rows

(* What a ChargeLost writes beside the lane: every lost row that is there. *)
ChargedRows ==
  IF ~ Rule("rows") THEN {}
  ELSE IF Rule("every") THEN LostRows
  ELSE {d \in LostRows : \A e \in LostRows : d <= e}

(* The documents that open transactions have written. *)
LaneHeld ==
  \/ \E w \in Workers : charges[w].step = "written"
  \/ Rule("lane") /\ \E r \in runs : r.end = "written"

RowHeld(d) ==
  \/ \E w \in Workers : charges[w].step = "written" /\ d \in charges[w].rows
  \/ \E r \in runs : r.id = d /\ (r.tx \in {"deleted", "sent"}
                                  \/ (Rule("delivery") /\ r.end = "written"))

(* The lane, some deliveries were written: older snapshots are stale.         *)
StaleRuns(set, laneToo, written) ==
  {[r EXCEPT !.txStale = @ \/ (r.tx = "open" /\ r.id \in written),
             !.endStale = @ \/ (/\ r.end = "begun"
                                /\ \/ Rule("lane") /\ laneToo
                                   \/ Rule("delivery") /\ r.id \in written)] : r \in set}

StaleCharges(all, laneToo, written) ==
  [w \in Workers |->
    [all[w] EXCEPT !.stale = @ \/ (/\ all[w].step = "begun"
                                   /\ laneToo \/ written \cap ChargedRows # {})]]

-----------------------------------------------------------------------------
(* Leases *)

NoClaim == [number |-> 0, epoch |-> 0, stated |-> {}, seen |-> {}]

NoCharge == [step |-> "none", rows |-> {}, stale |-> FALSE]

StatedBy(w) == {r \in runs : r.holder = w /\ r.phase # "over"}

(* A run that is over is forgotten when its transactions are gone, too. *)
Over(r) ==
  IF r.tx = "none" /\ r.end = "none" THEN {} ELSE {[r EXCEPT !.phase = "over"]}

OverAll(set) == (runs \ set) \cup UNION {Over(r) : r \in set}

Replace(r, new) == (runs \ {r}) \cup new

(* A completion may come behind a takeover as long as its delivery is in lost *)
(* and nobody was granted it again; no other end may.                         *)
Late(r) == Lost(r) \in lane.lost /\ \A e \in lane.inFlight : e[1] # r.id

Accepted(r, completed) ==
  [wrong EXCEPT
    !.intruders = @ \cup (IF r.epoch = lane.epoch \/ (completed /\ Late(r))
                          THEN {} ELSE {<<r.holder, lane.holder>>}),
    !.twice = @ \cup (IF <<r.holder, r.number>> \in ended THEN {<<r.holder, r.number>>} ELSE {})]

(* One write of the lane document.  What was in flight becomes lost. *)
TakeOver(w) ==
  /\ lane.holder # w
  /\ number[w] < MaxNumber
  /\ claims[w] = NoClaim
  /\ ~ LaneHeld
  /\ number' = [number EXCEPT ![w] = @ + 1]
  /\ LET inFlight == {<<lane.holder, e[1], e[2]>> : e \in lane.inFlight}
     IN lane' = [epoch |-> lane.epoch + 1, holder |-> w, claim |-> number[w] + 1,
                 inFlight |-> {},
                 lost |-> lane.lost \cup (IF Rule("move") THEN inFlight ELSE {})]
  /\ runs' = StaleRuns(runs, TRUE, {})
  /\ charges' = StaleCharges(charges, TRUE, {})
  /\ UNCHANGED <<rows, fence, claims, ghosts>>

(* ChargeLost: one transaction that writes the lane and every lost row. *)
ChargeBegin(w) ==
  /\ charges[w].step = "none"
  /\ lane.holder = w /\ lane.lost # {}
  /\ charges' = [charges EXCEPT ![w].step = "begun"]
  /\ UNCHANGED <<lane, rows, fence, claims, number, runs, ghosts>>

ChargeWrite(w) ==
  /\ charges[w].step = "begun"
  /\ charges' = [charges EXCEPT ![w] =
       IF ~ @.stale /\ ~ LaneHeld /\ \A d \in ChargedRows : ~ RowHeld(d)
       THEN [step |-> "written", rows |-> ChargedRows, stale |-> FALSE]
       ELSE NoCharge]
  /\ UNCHANGED <<lane, rows, fence, claims, number, runs, ghosts>>

(* A run that was lost is charged here, so it must not have been before. *)
ChargeLost(w) ==
  /\ charges[w].step = "written"
  /\ lane' = [lane EXCEPT !.lost = {}]
  /\ fence' = [d \in Deliveries |->
       fence[d] + (IF Rule("bump") /\ d \in charges[w].rows THEN 1 ELSE 0)]
  /\ LET charged == {<<e[1], e[3]>> : e \in {x \in lane.lost : x[2] \in rows}}
     IN /\ wrong' = [wrong EXCEPT !.twice = @ \cup (charged \cap ended)]
        /\ ended' = ended \cup charged
  /\ runs' = StaleRuns(runs, TRUE, charges[w].rows)
  /\ charges' = [StaleCharges(charges, TRUE, charges[w].rows) EXCEPT ![w] = NoCharge]
  /\ UNCHANGED <<rows, claims, number, completions, effects>>

ChargeAbort(w) ==
  /\ charges[w].step # "none"
  /\ charges' = [charges EXCEPT ![w] = NoCharge]
  /\ UNCHANGED <<lane, rows, fence, claims, number, runs, ghosts>>

(* Nothing is claimed before what the lane has lost is charged. *)
Charged == Guard("charged", lane.lost = {})

(* Claim: the candidates are read when TakeOver and ChargeLost were           *)
(* acknowledged, because until then an old completion may delete one of them; *)
(* then comes one conditional write.                                          *)
ClaimRead(w) ==
  /\ claims[w] = NoClaim
  /\ number[w] < MaxNumber
  /\ lane.holder = w
  /\ Guard("after", Charged)
  /\ number' = [number EXCEPT ![w] = @ + 1]
  /\ claims' = [claims EXCEPT ![w] =
       [number |-> number[w] + 1, epoch |-> lane.epoch,
        stated |-> {Entry(r) : r \in StatedBy(w)},
        seen |-> {<<d, fence[d]>> : d \in rows}]]
  /\ UNCHANGED <<lane, rows, fence, charges, runs, ghosts>>

Claim(w) ==
  /\ claims[w] # NoClaim
  /\ lane.holder = w
  /\ lane.epoch = claims[w].epoch
  /\ claims[w].number > lane.claim
  /\ Charged
  /\ ~ LaneHeld
  /\ claims' = [claims EXCEPT ![w] = NoClaim]
  /\ LET c == claims[w]
         kept == lane.inFlight \cap c.stated
         over == {r \in StatedBy(w) : Entry(r) \in c.stated \ kept}
         pickable == {s \in c.seen : s[1] \notin {e[1] : e \in c.stated}}
         claimed(picks) == [lane EXCEPT !.claim = c.number, !.inFlight = kept \cup picks]
         granted(s) == [holder |-> w, number |-> c.number, id |-> s[1], fence |-> s[2],
                        epoch |-> lane.epoch, phase |-> "running",
                        tx |-> "none", txStale |-> FALSE, end |-> "none", endStale |-> FALSE]
     IN \/ /\ lane' = claimed({})
           /\ \E heard \in {OverAll(over), runs} : runs' = StaleRuns(heard, TRUE, {})
           /\ UNCHANGED wrong
        \/ \E s \in pickable :
             /\ lane' = claimed({<<s[1], c.number>>})
             /\ \E heard \in {OverAll(over) \cup {granted(s)}, runs} :
                  runs' = StaleRuns(heard, TRUE, {})
             /\ wrong' = [wrong EXCEPT !.granted = @ \cup
                  (IF completions[s[1]] > 0 THEN {s[1]} ELSE {})]
  /\ charges' = StaleCharges(charges, TRUE, {})
  /\ UNCHANGED <<rows, fence, number, completions, effects, ended>>

(* The call is refused, or given up. *)
DropClaim(w) ==
  /\ claims[w] # NoClaim
  /\ claims' = [claims EXCEPT ![w] = NoClaim]
  /\ UNCHANGED <<lane, rows, fence, charges, number, runs, ghosts>>

(* What is lost stays lost. *)
Relinquish(w) ==
  /\ lane.holder = w
  /\ claims[w] = NoClaim
  /\ number[w] < MaxNumber
  /\ \A r \in StatedBy(w) : Entry(r) \notin lane.inFlight
  /\ ~ LaneHeld
  /\ number' = [number EXCEPT ![w] = @ + 1]
  /\ lane' = [lane EXCEPT !.holder = Nobody, !.claim = number[w] + 1, !.inFlight = {},
                          !.lost = IF Rule("stays") THEN @ ELSE {}]
  /\ runs' = StaleRuns(runs, TRUE, {})
  /\ charges' = StaleCharges(charges, TRUE, {})
  /\ UNCHANGED <<rows, fence, claims, ghosts>>

(* A reply tells the worker that the lane is another's. *)
HearLost(w) ==
  LET lost == {r \in StatedBy(w) : r.epoch < lane.epoch} IN
  /\ lost # {}
  /\ runs' = OverAll(lost)
  /\ UNCHANGED <<lane, rows, fence, claims, charges, number, ghosts>>

-----------------------------------------------------------------------------
(* Complete, the last statement of a handler's transaction *)

(* The handler's first operation fixes the snapshot, in which Complete will  *)
(* judge lane and delivery.  If it is going to be LeaseLost, nothing is left *)
(* to be followed.                                                           *)
Begin(r) ==
  /\ Transactional
  /\ r.phase = "running" /\ r.tx = "none"
  /\ runs' = Replace(r, IF Good(r) /\ r.id \in rows /\ fence[r.id] = r.fence
                        THEN {[r EXCEPT !.tx = "open"]}
                        ELSE Over(r))
  /\ UNCHANGED <<lane, rows, fence, claims, charges, number, ghosts>>

NoTx(r) == [r EXCEPT !.tx = "none", !.txStale = FALSE]

(* After a write conflict the handler may run again under its lease. *)
Complete(r) ==
  /\ r.tx = "open"
  /\ runs' = Replace(r,
       IF Guard("conflict", ~ r.txStale) /\ r.id \in rows /\ ~ RowHeld(r.id)
       THEN {[r EXCEPT !.tx = "deleted", !.txStale = FALSE]}
       ELSE IF r.phase = "over" THEN Over(NoTx(r)) ELSE {NoTx(r)})
  /\ UNCHANGED <<lane, rows, fence, claims, charges, number, ghosts>>

SendCommit(r) ==
  /\ r.phase = "running" /\ r.tx = "deleted"
  /\ runs' = Replace(r, {[r EXCEPT !.phase = "committing", !.tx = "sent"]})
  /\ UNCHANGED <<lane, rows, fence, claims, charges, number, ghosts>>

(* The delivery is gone with its fence. *)
Deleted(r, after) ==
  /\ rows' = rows \ {r.id}
  /\ fence' = [fence EXCEPT ![r.id] = 0]
  /\ completions' = [completions EXCEPT ![r.id] = @ + 1]
  /\ wrong' = Accepted(r, TRUE)
  /\ ended' = ended \cup {<<r.holder, r.number>>}
  /\ runs' = StaleRuns(Replace(r, after), FALSE, {r.id})
  /\ charges' = StaleCharges(charges, FALSE, {r.id})

Commit(r) ==
  /\ r.tx = "sent"
  /\ \E after \in CASE r.phase = "over" -> {Over(NoTx(r))}
                    [] r.phase = "committing" -> {{}, {[NoTx(r) EXCEPT !.phase = "unknown"]}}
                    [] OTHER -> {{NoTx(r)}} :
       Deleted(r, after)
  /\ effects' = [effects EXCEPT ![r.id] = @ + 1]
  /\ UNCHANGED <<lane, claims, number>>

Abort(r) ==
  /\ r.tx # "none"
  /\ \E after \in CASE r.phase = "over" -> {Over(NoTx(r))}
                    [] r.phase = "committing" -> {{[NoTx(r) EXCEPT !.phase = "ending"]},
                                                  {[NoTx(r) EXCEPT !.phase = "unknown"]}}
                    [] OTHER -> {{NoTx(r)}} :
       runs' = Replace(r, after)
  /\ UNCHANGED <<lane, rows, fence, claims, charges, number, ghosts>>

LoseReply(r) ==
  /\ r.phase = "committing"
  /\ runs' = Replace(r, {[r EXCEPT !.phase = "unknown"]})
  /\ UNCHANGED <<lane, rows, fence, claims, charges, number, ghosts>>

-----------------------------------------------------------------------------
(* CompleteMany: one conditional delete, fenced by the row alone *)

(* If the row is gone, the lane is read, and either verdict ends the run.  A  *)
(* copy that the client has given up changes what it finds, and nobody hears. *)
CompleteMany(r) ==
  /\ ~ Transactional
  /\ r.phase \in {"running", "completing"} \/ r.tx = "copy"
  /\ LET quiet == IF r.phase = "over" THEN Over(NoTx(r)) ELSE {NoTx(r)}
     IN IF r.id \in rows /\ Guard("fence", fence[r.id] = r.fence)
        THEN /\ ~ RowHeld(r.id)
             /\ \E after \in IF r.tx = "copy" THEN {quiet}
                            ELSE {{}, {[r EXCEPT !.phase = "completing"]}} :
                  Deleted(r, after)
        ELSE /\ runs' = Replace(r, IF r.tx = "copy" THEN quiet ELSE {})
             /\ UNCHANGED <<rows, fence, charges, completions, ended, wrong>>
  /\ UNCHANGED <<lane, claims, number, effects>>

(* The client gave a call up, and in the next one the store refuses the row for *)
(* good: a failed attempt.  The first one may still come, when the row is well  *)
(* again.                                                                       *)
BadRow(r) ==
  /\ ~ Transactional
  /\ r.phase \in {"running", "completing"} /\ r.tx = "none"
  /\ runs' = Replace(r, {[r EXCEPT !.phase = "ending", !.tx = "copy"]})
  /\ UNCHANGED <<lane, rows, fence, claims, charges, number, ghosts>>

-----------------------------------------------------------------------------
(* Reschedule, Snooze and Bury: one transaction that writes lane and delivery *)

Fail(r) ==
  /\ r.phase = "running" /\ r.tx = "none"
  /\ runs' = Replace(r, {[r EXCEPT !.phase = "ending"]})
  /\ UNCHANGED <<lane, rows, fence, claims, charges, number, ghosts>>

(* The settle of an unknown COMMIT is a Snooze. A transaction that is still *)
(* open conflicts with it.                                                  *)
Settle(r) ==
  /\ r.phase = "unknown"
  /\ Rule("snooze")
  /\ runs' = Replace(r, {[r EXCEPT !.phase = "ending"]})
  /\ UNCHANGED <<lane, rows, fence, claims, charges, number, ghosts>>

(* With snooze off, CompleteMany is taken to settle it. *)
SettleWrongly(r) ==
  /\ r.phase = "unknown"
  /\ ~ Rule("snooze")
  /\ r.id \in rows /\ fence[r.id] = r.fence /\ ~ RowHeld(r.id)
  /\ Deleted(r, {})
  /\ UNCHANGED <<lane, claims, number, effects>>

NoEnd(r) == [r EXCEPT !.end = "none", !.endStale = FALSE]

RescheduleBegin(r) ==
  /\ r.phase = "ending" /\ r.end = "none"
  /\ runs' = Replace(r, IF Good(r) /\ r.id \in rows THEN {[r EXCEPT !.end = "begun"]} ELSE Over(r))
  /\ UNCHANGED <<lane, rows, fence, claims, charges, number, ghosts>>

RescheduleWrite(r) ==
  /\ r.end = "begun"
  /\ runs' = Replace(r,
       IF ~ r.endStale /\ Guard("lane", ~ LaneHeld) /\ Guard("delivery", ~ RowHeld(r.id))
       THEN {[r EXCEPT !.end = "written"]}
       ELSE IF r.phase = "over" THEN Over(NoEnd(r)) ELSE {NoEnd(r)})
  /\ UNCHANGED <<lane, rows, fence, claims, charges, number, ghosts>>

Reschedule(r) ==
  /\ r.end = "written"
  /\ lane' = [lane EXCEPT !.inFlight = IF Rule("lane") THEN @ \ {Entry(r)} ELSE @]
  /\ fence' = [fence EXCEPT ![r.id] =
       @ + (IF Rule("delivery") /\ Rule("raise") /\ r.id \in rows THEN 1 ELSE 0)]
  /\ wrong' = Accepted(r, FALSE)
  /\ ended' = ended \cup {<<r.holder, r.number>>}
  /\ LET laneToo == Rule("lane")
         written == IF Rule("delivery") THEN {r.id} ELSE {}
     IN /\ \E after \in {Over(NoEnd(r))}
                          \cup (IF r.phase = "over" THEN {} ELSE {{NoEnd(r)}}) :
             runs' = StaleRuns(Replace(r, after), laneToo, written)
        /\ charges' = StaleCharges(charges, laneToo, written)
  /\ UNCHANGED <<rows, claims, number, completions, effects>>

RescheduleAbort(r) ==
  /\ r.end # "none"
  /\ runs' = Replace(r, IF r.phase = "over" THEN Over(NoEnd(r)) ELSE {NoEnd(r)})
  /\ UNCHANGED <<lane, rows, fence, claims, charges, number, ghosts>>

-----------------------------------------------------------------------------

Init ==
  /\ lane = [epoch |-> 0, holder |-> Nobody, claim |-> 0, inFlight |-> {}, lost |-> {}]
  /\ rows = Deliveries
  /\ fence = [d \in Deliveries |-> 1]
  /\ claims = [w \in Workers |-> NoClaim]
  /\ charges = [w \in Workers |-> NoCharge]
  /\ number = [w \in Workers |-> 0]
  /\ runs = {}
  /\ completions = [d \in Deliveries |-> 0]
  /\ effects = [d \in Deliveries |-> 0]
  /\ ended = {}
  /\ wrong = [intruders |-> {}, granted |-> {}, twice |-> {}]

Next ==
  \/ \E w \in Workers :
       \/ TakeOver(w) \/ ClaimRead(w) \/ Claim(w) \/ DropClaim(w) \/ Relinquish(w) \/ HearLost(w)
       \/ ChargeBegin(w) \/ ChargeWrite(w) \/ ChargeLost(w) \/ ChargeAbort(w)
  \/ \E r \in runs :
       \/ Begin(r) \/ Complete(r) \/ SendCommit(r) \/ Commit(r) \/ Abort(r) \/ LoseReply(r)
       \/ CompleteMany(r) \/ BadRow(r)
       \/ Fail(r) \/ Settle(r) \/ SettleWrongly(r)
       \/ RescheduleBegin(r) \/ RescheduleWrite(r) \/ Reschedule(r) \/ RescheduleAbort(r)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Invariants *)

TypeOK ==
  /\ lane.epoch \in 0..(2 * MaxNumber) /\ lane.holder \in Workers \cup {Nobody}
  /\ lane.claim \in 0..MaxNumber /\ lane.inFlight \subseteq Deliveries \X Numbers
  /\ lane.lost \subseteq Workers \X Deliveries \X Numbers
  /\ rows \subseteq Deliveries /\ fence \in [Deliveries -> Nat]
  /\ number \in [Workers -> 0..MaxNumber]
  /\ \A w \in Workers : charges[w].step \in {"none", "begun", "written"}
  /\ \A r \in runs :
       /\ r.phase \in {"running", "completing", "committing", "unknown", "ending", "over"}
       /\ r.tx \in {"none", "open", "deleted", "sent", "copy"}
       /\ r.end \in {"none", "begun", "written"}
       /\ r.phase = "over" => (r.tx # "none" \/ r.end # "none")
  /\ \A r, s \in runs : (r.holder = s.holder /\ r.number = s.number) => r = s

NoLostDelivery == \A d \in Deliveries : d \in rows \/ completions[d] > 0

(* A claim never grants what is completed. *)
NothingInvented == wrong.granted = {}

AtMostOneCompletion ==
  \A d \in Deliveries :
    completions[d] <= 1 /\ (Transactional => effects[d] = completions[d])

FencedOut == wrong.intruders = {}

OneHolderPerLane == \A pair \in wrong.intruders : pair[1] = pair[2]

(* What is being ended may have ended: the reply of a Reschedule can be lost. *)
NothingDropped ==
  \A r \in runs :
    (/\ r.phase \in {"running", "completing", "committing", "unknown"}
     /\ r.holder = lane.holder /\ r.epoch = lane.epoch)
      => Entry(r) \in lane.inFlight

(* No run is charged twice, and none that was charged completes later. *)
ChargedOnce == wrong.twice = {}

-----------------------------------------------------------------------------
(* Probes *)

(* A transaction's snapshot is older than a takeover. *)
NeverOldSnapshot == \A r \in runs : ~ (r.tx = "open" /\ r.epoch < lane.epoch)

(* The completion of a lost run is about to be accepted. *)
NeverCompletedWhileLost == \A r \in runs : ~ (r.tx = "sent" /\ Lost(r) \in lane.lost)

NeverConflict == \A r \in runs : ~ r.txStale

(* A worker is back on its lane before what it had lost there was charged. *)
NeverBackBeforeCharge == \A e \in lane.lost : e[1] # lane.holder

NeverTwoCharges == ~ \A w \in Workers : charges[w].step = "begun"

NeverRelinquishedWithLost == ~ (lane.holder = Nobody /\ lane.lost # {})

(* A late copy of a completion arrives after its run was rescheduled. *)
NeverLateCopy ==
  ~ \E r \in runs : r.tx = "copy" /\ r.id \in rows /\ <<r.holder, r.number>> \in ended

(* A settle meets the transaction that it is about. *)
NeverSettledWhileOpen == \A r \in runs : ~ (r.end = "begun" /\ r.tx = "sent")
=============================================================================
