----------------------------- MODULE AsyncCommit -----------------------------
(*****************************************************************************)
(* A store that may forget: commits that are not yet durable when it         *)
(* crashes, and everything that a replica had not received when it took      *)
(* over.  Epochs, delivery ids and whatever else the store counts are then   *)
(* issued a second time, while workers keep what they were told.  The        *)
(* module asks whether a token made of lane, epoch, holder and claim number  *)
(* still lets nobody in who must stay out.                                   *)
(*                                                                           *)
(* The store is a log: one state per commit, the last one current.  A claim  *)
(* or takeover commits asynchronously, and so may a publisher, who owns the  *)
(* transaction; everything else is synchronous and makes durable all that    *)
(* was committed before it.  A crash keeps the durable part and perhaps      *)
(* some of the rest; a failover keeps any prefix.  Everything that the       *)
(* store has, these comments call the surviving history; the invariants      *)
(* are about it alone.  It includes the ghost fields of the store's state,   *)
(* which therefore get lost together with what they remember.                *)
(*                                                                           *)
(* A completion is a message that may arrive late and more than once, and    *)
(* is two steps, as FOR KEY SHARE has it: the lane is judged at the          *)
(* statement's snapshot, and read again under the lock only if a takeover    *)
(* changed it since; what the owner's own claims changed is not seen.  A     *)
(* claim is two steps, too: its picks are what the snapshot shows, while     *)
(* the lane is read again under the lock.                                    *)
(*                                                                           *)
(* Left out: time (a lease may run out at any moment), keys, charges, late   *)
(* claims (Lease.tla has them), and locks between completion and takeover    *)
(* (CompleteVsTakeoverLocking.tla).  One lane; a claim grants at most one    *)
(* delivery.                                                                 *)
(*****************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, Guards

CONSTANTS
  MaxEvents,      \* events published, the lost ones included
  MaxNumber,      \* calls of one worker: takeovers and claims
  MaxCrashes,     \* crashes that keep what is durable
  MaxFailovers,   \* failovers to a replica that is behind
  AsyncPublish,   \* publishers may commit asynchronously
  Buries          \* a failing run is buried

VARIABLES
  log,            \* the store after each commit that may still come back
  durable,        \* how many of them survive every crash
  published,      \* events published so far; their numbers are never reused
  number,         \* of each worker: the last number that it used
  runs,           \* what workers were granted and know of
  claims,         \* of each worker: the claim whose statement has begun
  crashes,
  failovers

vars == <<log, durable, published, number, runs, claims, crashes, failovers>>

Workers == {1, 2}
Nobody == 0
Events == 1..MaxEvents
Ids == 1..MaxEvents
Numbers == 1..MaxNumber

-----------------------------------------------------------------------------
(* The store *)

(* A reign is what one TakeOver begins.  It is named by the call that began *)
(* it, because (holder, number) is the one name that is never issued twice; *)
(* the store does not compare it.                                           *)
NoReign == <<Nobody, 0>>

Empty ==
  [epoch |-> 0, holder |-> Nobody, claim |-> 0,
   inFlight |-> {},                       \* pairs <<delivery id, claim number>>
   lastId |-> 0,                          \* the counter that ids come from
   rows |-> {},                           \* pairs <<delivery id, event>>
   dead |-> {},                           \* ids of rows that are not pending
   committed |-> {},                      \* ghost: events published
   completed |-> [e \in Events |-> 0],    \* ghost: completions of the event that ran
   reign |-> NoReign,                     \* ghost
   revived |-> {},                        \* ghost: ids granted although dead
   intruders |-> {}]                      \* ghost: <<holder of the call, of the lane>>

db == log[Len(log)]

IdsOf(rows) == {r[1] : r \in rows}

(* Only what can come back is kept of the log, so that states that differ in *)
(* nothing else are one state.                                               *)
Keep(states, safe, crashesSoFar, failoversSoFar) ==
  LET last == Len(states)
      first == IF failoversSoFar < MaxFailovers THEN 1
               ELSE IF crashesSoFar < MaxCrashes THEN safe
               ELSE last
  IN /\ log' = SubSeq(states, first, last)
     /\ durable' = IF safe > first THEN safe - first + 1 ELSE 1
     /\ crashes' = crashesSoFar
     /\ failovers' = failoversSoFar

CommitAsync(new) == Keep(Append(log, new), durable, crashes, failovers)

CommitSync(new) == Keep(Append(log, new), Len(log) + 1, crashes, failovers)

NoCommit == UNCHANGED <<log, durable, crashes, failovers>>

-----------------------------------------------------------------------------
(* Workers *)

(* A run is a lease in its worker's hands. running: nothing was sent yet.     *)
(* sent, failing: its completion was, or its Bury, and nothing heard. over,   *)
(* failed: the worker heard that it is over and states it no more, but copies *)
(* of the call may still arrive. judged: a completion's statement has found   *)
(* it listed and goes on to the lock.                                         *)
StatedBy(w) == {r \in runs : r.holder = w /\ r.phase \in {"running", "sent", "failing"}}

Entry(r) == <<r.id, r.number>>

(* Epoch and holder are the lane's; the claim number is the list's. *)
Holds(state, r) ==
  Guard("epoch", state.epoch = r.epoch) /\ Guard("holder", state.holder = r.holder)

Listed(state, r) ==
  IF Rule("claim") THEN Entry(r) \in state.inFlight
                   ELSE \E f \in state.inFlight : f[1] = r.id

Replace(old, new) == runs' = (runs \ {old}) \cup {new}

(* An accepted call of a run that another reign has granted. *)
Intruder(r) == IF r.reign = db.reign THEN {} ELSE {<<r.reign[1], db.reign[1]>>}

(* What a worker does on hearing that some of its runs are over: one that has *)
(* sent nothing is forgotten, copies of the others may be on their way.       *)
Told(r) ==
  CASE r.phase = "sent" -> [r EXCEPT !.phase = "over"]
    [] r.phase = "failing" -> [r EXCEPT !.phase = "failed"]
    [] OTHER -> r

Over(set) == (runs \ set) \cup {Told(r) : r \in {x \in set : x.phase # "running"}}

NoClaim == [number |-> 0, epoch |-> 0, stated |-> {}, list |-> {}, seen |-> {}]

-----------------------------------------------------------------------------
(* Actions *)

Publish ==
  /\ published < MaxEvents
  /\ published' = published + 1
  /\ LET id == db.lastId + 1
         new == [db EXCEPT !.lastId = id, !.rows = @ \cup {<<id, published + 1>>},
                           !.committed = @ \cup {published + 1}]
     IN CommitSync(new) \/ (AsyncPublish /\ CommitAsync(new))
  /\ UNCHANGED <<number, runs, claims>>

(* The reply tells nothing that the next claim's reply does not. *)
TakeOver(w) ==
  /\ db.holder # w
  /\ claims[w] = NoClaim
  /\ number[w] < MaxNumber
  /\ number' = [number EXCEPT ![w] = @ + 1]
  /\ CommitAsync([db EXCEPT !.epoch = @ + 1, !.holder = w, !.claim = number[w] + 1,
                            !.inFlight = {}, !.reign = <<w, number[w] + 1>>])
  /\ UNCHANGED <<published, runs, claims>>

(* Claim, the statement's snapshot: what is pending, and the lane's list. *)
ClaimSnapshot(w) ==
  /\ db.holder = w
  /\ claims[w] = NoClaim
  /\ number[w] < MaxNumber
  /\ number' = [number EXCEPT ![w] = @ + 1]
  /\ LET stated == {Entry(r) : r \in StatedBy(w)}
     IN claims' = [claims EXCEPT ![w] =
          [number |-> number[w] + 1, epoch |-> db.epoch, stated |-> stated,
           list |-> db.inFlight,
           seen |-> {row \in db.rows : row[1] \notin db.dead
                                      /\ row[1] \notin {e[1] : e \in stated}}]]
  /\ NoCommit /\ UNCHANGED <<published, runs>>

(* Claim, under the lock.  What the lane lists and the worker still runs is    *)
(* kept, and nothing is added to it but what is picked; with keep off, the     *)
(* worker's word is enough.  A list that is not the snapshot's any more grants *)
(* nothing: an end has come in between that the picks do not show.             *)
Claim(w) ==
  /\ claims[w] # NoClaim
  /\ claims' = [claims EXCEPT ![w] = NoClaim]
  /\ LET c == claims[w]
         kept == IF Rule("keep") THEN db.inFlight \cap c.stated ELSE c.stated
         lost == {r \in StatedBy(w) : Entry(r) \in c.stated \ kept}
         same == Guard("same", db.epoch = c.epoch /\ db.inFlight = c.list)
         claimed(picks) == [db EXCEPT !.claim = c.number, !.inFlight = kept \cup picks]
         granted(row) == [holder |-> w, number |-> c.number, id |-> row[1], event |-> row[2],
                          epoch |-> db.epoch, reign |-> db.reign,
                          phase |-> "running", judged |-> FALSE]
     IN IF ~ (db.holder = w /\ c.number > db.claim)
        THEN NoCommit /\ UNCHANGED runs
        ELSE \/ /\ CommitAsync(claimed({}))
                /\ runs' \in {Over(lost), runs}    \* the reply arrives, or is lost
             \/ /\ same
                /\ \E row \in c.seen :
                     /\ CommitAsync([claimed({<<row[1], c.number>>}) EXCEPT
                          !.revived = @ \cup ({row[1]} \cap db.dead)])
                     /\ runs' \in {Over(lost) \cup {granted(row)}, runs}
  /\ UNCHANGED <<published, number>>

(* A verdict arrives, or is lost: then the worker sends the same call again. *)
Heard(r) == {[r EXCEPT !.judged = FALSE, !.phase = "over"], [r EXCEPT !.judged = FALSE]}

(* CompleteMany, the call: the handler returned without an error. *)
SendCompletion(r) ==
  /\ r.phase = "running"
  /\ Replace(r, [r EXCEPT !.phase = "sent"])
  /\ NoCommit /\ UNCHANGED <<published, number, claims>>

(* CompleteMany, the statement's snapshot.  The list is judged together with *)
(* epoch and holder: another holder's list may have the same entry, and this *)
(* worker be back under the same epoch when the lock is granted.             *)
JudgeCompletion(r) ==
  /\ r.phase \in {"sent", "over"}
  /\ ~ r.judged
  /\ IF Guard("together", Holds(db, r)) /\ Listed(db, r)
     THEN Replace(r, [r EXCEPT !.judged = TRUE])
     ELSE r.phase = "sent" /\ Replace(r, [r EXCEPT !.phase = "over"])    \* LeaseLost
  /\ NoCommit /\ UNCHANGED <<published, number, claims>>

(* CompleteMany, under the lock.  A takeover since the snapshot has moved the *)
(* epoch, and no list under another epoch has the run.  The row of the        *)
(* delivery is deleted; that it was the row of the event that ran is what the *)
(* token must ensure.  A row that is gone is Applied too.                     *)
CompleteMany(r) ==
  /\ r.judged
  /\ Holds(db, r)
  /\ \E after \in Heard(r) : Replace(r, after)
  /\ IF r.id \in IdsOf(db.rows) \ db.dead
     THEN CommitSync(
       [db EXCEPT !.rows = {row \in @ : row[1] # r.id},
                  !.completed[r.event] = @ + 1,
                  !.intruders = @ \cup Intruder(r)])
     ELSE NoCommit
  /\ UNCHANGED <<published, number, claims>>

(* The same with the verdict LeaseLost. *)
RefuseCompletion(r) ==
  /\ r.judged
  /\ ~ Holds(db, r)
  /\ \E after \in Heard(r) : Replace(r, after)
  /\ NoCommit /\ UNCHANGED <<published, number, claims>>

(* Bury, the call: the handler failed, and no attempt is left. *)
SendBury(r) ==
  /\ Buries
  /\ r.phase = "running"
  /\ Replace(r, [r EXCEPT !.phase = "failing"])
  /\ NoCommit /\ UNCHANGED <<published, number, claims>>

(* Bury judges lane and row under their locks.  The run leaves the list. *)
Bury(r) ==
  /\ r.phase \in {"failing", "failed"}
  /\ IF Holds(db, r) /\ Listed(db, r) /\ r.id \in IdsOf(db.rows) \ db.dead
     THEN /\ CommitSync([db EXCEPT !.dead = @ \cup {r.id}, !.inFlight = @ \ {Entry(r)},
                                   !.intruders = @ \cup Intruder(r)])
          /\ \E after \in {Told(r), r} : Replace(r, after)
     ELSE NoCommit /\ r.phase = "failing" /\ Replace(r, Told(r))
  /\ UNCHANGED <<published, number, claims>>

-----------------------------------------------------------------------------
(* Environment *)

(* A restart ends every statement; what it keeps is durable from then on. *)
Restart(keep, crashesSoFar, failoversSoFar) ==
  /\ Keep(SubSeq(log, 1, keep), keep, crashesSoFar, failoversSoFar)
  /\ runs' = {[r EXCEPT !.judged = FALSE] : r \in runs}
  /\ claims' = [w \in Workers |-> NoClaim]
  /\ UNCHANGED <<published, number>>

LoseCommit ==
  /\ crashes < MaxCrashes
  /\ \E keep \in durable..(Len(log) - 1) : Restart(keep, crashes + 1, failovers)

Failover ==
  /\ failovers < MaxFailovers
  /\ \E keep \in 1..(Len(log) - 1) : Restart(keep, crashes, failovers + 1)

-----------------------------------------------------------------------------

Init ==
  /\ log = <<Empty>>
  /\ durable = 1
  /\ published = 0
  /\ number = [w \in Workers |-> 0]
  /\ runs = {}
  /\ claims = [w \in Workers |-> NoClaim]
  /\ crashes = 0
  /\ failovers = 0

Next ==
  \/ Publish
  \/ \E w \in Workers : TakeOver(w) \/ ClaimSnapshot(w) \/ Claim(w)
  \/ \E r \in runs :
       \/ SendCompletion(r) \/ JudgeCompletion(r) \/ CompleteMany(r) \/ RefuseCompletion(r)
       \/ SendBury(r) \/ Bury(r)
  \/ LoseCommit
  \/ Failover

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Invariants *)

TypeOK ==
  /\ Len(log) >= 1 /\ durable \in 1..Len(log)
  /\ published \in 0..MaxEvents
  /\ number \in [Workers -> 0..MaxNumber]
  /\ crashes \in 0..MaxCrashes /\ failovers \in 0..MaxFailovers
  /\ db.epoch \in 0..(2 * MaxNumber)
  /\ db.holder \in Workers \cup {Nobody}
  /\ db.claim \in 0..MaxNumber
  /\ db.inFlight \subseteq Ids \X Numbers
  /\ db.rows \subseteq Ids \X Events
  /\ \A row \in db.rows : row[1] <= db.lastId
  /\ db.dead \subseteq IdsOf(db.rows)
  /\ Cardinality(IdsOf(db.rows)) = Cardinality(db.rows)
  /\ \A r, s \in runs : (r.holder = s.holder /\ r.number = s.number) => r = s

(* No event is without a row unless a run of it, not of another, completed. *)
NoLostDelivery ==
  \A e \in db.committed : (\E row \in db.rows : row[2] = e) \/ db.completed[e] > 0

NothingInvented == \A e \in Events : db.completed[e] > 0 => e \in db.committed

AtMostOneCompletion == \A e \in Events : db.completed[e] <= 1

(* No call was accepted under another reign than the one that granted its run. *)
FencedOut == db.intruders = {}

OneHolderPerLane == \A pair \in db.intruders : pair[1] = pair[2]

NothingDropped ==
  (crashes = 0 /\ failovers = 0) =>
    \A r \in runs :
      (r.phase \in {"running", "sent"} /\ r.holder = db.holder /\ r.epoch = db.epoch)
        => Entry(r) \in db.inFlight

DeadStaysDead == db.revived = {}

-----------------------------------------------------------------------------
(* Probes: situations that must be reachable, or the above says little *)

(* The same epoch was given to two reigns. *)
NeverEpochReissued ==
  \A r, s \in runs : r.epoch = s.epoch => r.reign = s.reign

(* The same epoch and claim number were given to two workers. *)
NeverClaimReissued ==
  \A r, s \in runs : (r.epoch = s.epoch /\ r.number = s.number) => r = s

(* The same delivery id was given to two events. *)
NeverIdReissued ==
  \A r, s \in runs : r.id = s.id => r.event = s.event

(* A completion will be accepted although the lane does not list its run any *)
(* more: the worker had been told that the run is over, what told it so was  *)
(* lost (a completion in a failover, or another's takeover in a crash), and  *)
(* the worker claimed again beside a late copy.  Decision 11 allows it.      *)
NeverJudgedEarlier ==
  \A r \in runs : ~ (/\ r.judged /\ Entry(r) \notin db.inFlight
                     /\ r.epoch = db.epoch /\ r.holder = db.holder
                     /\ r.id \in IdsOf(db.rows))

(* A completion that was committed is gone, and its delivery pending again. *)
NeverCompletionLost ==
  \A r \in runs : ~ (r.phase = "over" /\ Entry(r) \in db.inFlight /\ r.epoch = db.epoch
                     /\ r.holder = db.holder /\ r.id \in IdsOf(db.rows))

(* A delivery that a claim is about to pick dies. *)
NeverBuriedMeanwhile ==
  ~ \E w \in Workers : \E row \in claims[w].seen : row[1] \in db.dead
=============================================================================
