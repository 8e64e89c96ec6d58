------------------------------- MODULE Inbox --------------------------------
(* The same event id is published more than once: by a caller that repeats *)
(* itself, by two transactions at the same moment, by a publisher that     *)
(* knows a handler which the first one did not. Each subscribed handler    *)
(* must get its delivery, and none twice. What decides is the event's      *)
(* memory: the handlers it ever had a delivery for.                        *)
(*                                                                         *)
(* Models: one event id, statement by statement as PostgreSQL runs it: a   *)
(* statement reads everything at its snapshot, and only the row that it    *)
(* conflicts with is locked and read again when it gets the lock. In a     *)
(* REPEATABLE READ transaction, and in MongoDB, the snapshot is that of    *)
(* the whole transaction, and a row changed since then is an error the     *)
(* caller may retry. Beside the publishers: a handler that subscribes,     *)
(* completions, and a purge that looks, locks, looks again and deletes.    *)
(*                                                                         *)
(* Abstracts: runs and leases (a pending delivery just completes), keys,   *)
(* batches (ids are made unique first), retries (another transaction).     *)
(*                                                                         *)
(* Cannot see: how long a hung publisher keeps the others waiting.         *)

EXTENDS Naturals, FiniteSets, Guards

CONSTANTS
  Transactions,
  TypeOf,       \* transaction -> the event type that it publishes under the id
  Handlers,
  EventOf,      \* handler -> the event type that it handles
  Subscribed,   \* handlers subscribed at the start
  Isolation,    \* transaction -> "read committed" or "snapshot"
  MaxPurges,
  PurgeBy       \* "second look" or "compare": the two shapes of a safe purge

VARIABLES
  event,    \* the committed row: {} or {[type, handlers]}
  old,      \* its retention is over
  locked,   \* who locks it, or inserts it: a transaction, Purger, Nobody
  rows,     \* handlers with a pending delivery
  subs,     \* subscribed handlers
  tx,       \* the publishing transactions
  purge,    \* where the purge stands, and the memory it saw at its first look
  purges,   \* purges that may still begin
  done,     \* ghost: handler -> completions since the event was inserted
  owed      \* ghost: handlers that a committed publish promised a delivery

vars == <<event, old, locked, rows, subs, tx, purge, purges, done, owed>>

(* Values for the configs.                                                 *)
SameType == [t \in Transactions |-> "A"]
LastDiffers == [t \in Transactions |-> IF \E u \in Transactions : u > t THEN "A" ELSE "B"]
AllA == [h \in Handlers |-> "A"]
LastHandlesB == [h \in Handlers |-> IF \E g \in Handlers : g > h THEN "A" ELSE "B"]
ReadCommitted == [t \in Transactions |-> "read committed"]
Snapshots == [t \in Transactions |-> "snapshot"]
Mixed == [t \in Transactions |-> IF t = 1 THEN "read committed" ELSE "snapshot"]

Nobody == 0
Purger == 99
Idle == [phase |-> "idle", subs |-> {}, event |-> {}, write |-> {}, adds |-> {}, result |-> "none",
         differs |-> FALSE, must |-> {}]

Init ==
  /\ event = {} /\ old = FALSE /\ locked = Nobody /\ rows = {} /\ subs = Subscribed
  /\ tx = [t \in Transactions |-> Idle]
  /\ purge = [phase |-> "idle", saw |-> {}] /\ purges = MaxPurges
  /\ done = [h \in Handlers |-> 0] /\ owed = {}

Only(S) == CHOOSE x \in S : TRUE
Memory(e) == IF e = {} THEN {} ELSE Only(e).handlers

-----------------------------------------------------------------------------
(* Publish. A caller's transaction begins, runs the statement, and commits *)
(* or rolls back whenever it likes; in between it may hang.                *)

TakeSnapshot(t) ==
  [tx[t] EXCEPT !.phase = "waiting", !.event = event, !.must = subs,
                !.subs = IF Rule("subscriptions in statement") THEN subs ELSE Subscribed]

(* A snapshot transaction sees for ever what it saw when it began.         *)
Begin(t) ==
  /\ tx[t].phase = "idle"
  /\ tx' = [tx EXCEPT ![t] = IF Isolation[t] = "snapshot"
                               THEN [TakeSnapshot(t) EXCEPT !.phase = "open"]
                               ELSE [@ EXCEPT !.phase = "open"]]
  /\ UNCHANGED <<event, old, locked, rows, subs, purge, purges, done, owed>>

Statement(t) ==
  /\ tx[t].phase = "open"
  /\ tx' = [tx EXCEPT ![t] = IF Isolation[t] = "snapshot"
                               THEN [@ EXCEPT !.phase = "waiting"] ELSE TakeSnapshot(t)]
  /\ UNCHANGED <<event, old, locked, rows, subs, purge, purges, done, owed>>

Wanted(t) == {h \in tx[t].subs : EventOf[h] = TypeOf[t]}
Must(t) == {h \in tx[t].must : EventOf[h] = TypeOf[t]}

(* What the statement takes for the event's memory: the row as it is now   *)
(* that the lock is held, not as the snapshot shows it.                    *)
Known(t) == Memory(IF Rule("reread") THEN event ELSE tx[t].event)

Differs(t) == event # {} /\ Only(event).type # TypeOf[t]
Mismatch(t) == Rule("mismatch") /\ Differs(t)

Adds(t) ==
  IF Mismatch(t) \/ (event # {} /\ ~Rule("do update")) THEN {} ELSE Wanted(t) \ Known(t)

Result(t) ==
  CASE Differs(t) /\ Rule("row returned") /\ Rule("mismatch") -> "mismatch"
    [] OTHER -> IF Adds(t) # {} THEN "added" ELSE "known"

(* Without the pair in the unique key only one handler gets a row.         *)
Inserted(t) ==
  IF Rule("unique") \/ Adds(t) = {} THEN Adds(t)
  ELSE IF rows # {} THEN {} ELSE {Only(Adds(t))}

Written(t) ==
  [type |-> IF event = {} THEN TypeOf[t] ELSE Only(event).type,
   handlers |-> (IF Rule("add") THEN Memory(event) ELSE {}) \cup Adds(t)]

(* The lock is free: the row is inserted, or locked and read again. A row  *)
(* that was changed since the snapshot ends a snapshot transaction. So     *)
(* does a second delivery of one pair, in any transaction.                 *)
Conflict(t) ==
  \/ Isolation[t] = "snapshot" /\ event # tx[t].event
  \/ Rule("unique") /\ Inserted(t) \cap rows # {}

Resolve(t) ==
  /\ tx[t].phase = "waiting" /\ locked = Nobody
  /\ IF Conflict(t)
       THEN /\ tx' = [tx EXCEPT ![t] = [Idle EXCEPT !.phase = "retryable"]]
            /\ UNCHANGED locked
       ELSE /\ tx' = [tx EXCEPT ![t] =
                 [@ EXCEPT !.phase = "done", !.adds = Inserted(t), !.result = Result(t),
                           !.differs = Differs(t), !.write = {Written(t)}]]
            /\ locked' = IF Rule("do update") \/ event = {} THEN t ELSE Nobody
  /\ UNCHANGED <<event, old, rows, subs, purge, purges, done, owed>>

Commit(t) ==
  /\ tx[t].phase = "done"
  /\ tx' = [tx EXCEPT ![t].phase = "committed"]
  /\ rows' = rows \cup tx[t].adds
  /\ IF locked = t THEN event' = tx[t].write /\ locked' = Nobody ELSE UNCHANGED <<event, locked>>
  /\ old' = (old /\ event # {})
  /\ owed' = owed \cup (IF tx[t].differs THEN {} ELSE Must(t))
  /\ UNCHANGED <<subs, purge, purges, done>>

Rollback(t) ==
  /\ tx[t].phase \in {"open", "done"}
  /\ tx' = [tx EXCEPT ![t] = [Idle EXCEPT !.phase = "rolled back"]]
  /\ locked' = IF locked = t THEN Nobody ELSE locked
  /\ UNCHANGED <<event, old, rows, subs, purge, purges, done, owed>>

-----------------------------------------------------------------------------
(* Meanwhile.                                                              *)

Subscribe(h) ==
  /\ h \notin subs /\ subs' = subs \cup {h}
  /\ UNCHANGED <<event, old, locked, rows, tx, purge, purges, done, owed>>

(* A completion deletes the delivery and leaves the memory alone.          *)
CompleteMany(h) ==
  /\ h \in rows /\ rows' = rows \ {h} /\ done' = [done EXCEPT ![h] = @ + 1]
  /\ IF Rule("memory") THEN UNCHANGED event
     ELSE locked = Nobody /\ event' = {[e EXCEPT !.handlers = @ \ {h}] : e \in event}
  /\ UNCHANGED <<old, locked, subs, tx, purge, purges, owed>>

Age ==
  /\ event # {} /\ MaxPurges > 0 /\ ~old /\ old' = TRUE
  /\ UNCHANGED <<event, locked, rows, subs, tx, purge, purges, done, owed>>

-----------------------------------------------------------------------------
(* Purge. Its first look only finds a candidate: a publisher may add a     *)
(* handler before the lock is granted, and the sub-query that looked for   *)
(* deliveries is not asked again. So the condition is repeated on the      *)
(* locked row: by a second statement, or by comparing the memory.          *)

PurgeLook ==
  /\ purge.phase = "idle" /\ purges > 0 /\ event # {} /\ old /\ rows = {}
  /\ purge' = [phase |-> "looked", saw |-> Memory(event)]
  /\ purges' = purges - 1
  /\ UNCHANGED <<event, old, locked, rows, subs, tx, done, owed>>

PurgeLock ==
  /\ purge.phase = "looked" /\ locked = Nobody
  /\ IF event # {} /\ old
       THEN purge' = [purge EXCEPT !.phase = "locked"] /\ locked' = Purger
       ELSE purge' = [phase |-> "idle", saw |-> {}] /\ UNCHANGED locked
  /\ UNCHANGED <<event, old, rows, subs, tx, purges, done, owed>>

MayDelete ==
  CASE PurgeBy = "second look" -> Guard("second look", rows = {})
    [] PurgeBy = "compare" -> Guard("compare", Memory(event) = purge.saw)

Purge ==
  /\ purge.phase = "locked"
  /\ IF MayDelete
       THEN /\ event' = {} /\ old' = FALSE
            /\ done' = [h \in Handlers |-> 0]
            /\ owed' = owed \cap rows
       ELSE UNCHANGED <<event, old, done, owed>>
  /\ locked' = Nobody /\ purge' = [phase |-> "idle", saw |-> {}]
  /\ UNCHANGED <<rows, subs, tx, purges>>

Next ==
  \/ \E t \in Transactions : Begin(t) \/ Statement(t) \/ Resolve(t) \/ Commit(t) \/ Rollback(t)
  \/ \E h \in Handlers : Subscribe(h) \/ CompleteMany(h)
  \/ Age \/ PurgeLook \/ PurgeLock \/ Purge

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
TypeOK ==
  /\ \A e \in event : e.type \in {"A", "B"} /\ e.handlers \subseteq Handlers
  /\ locked \in Transactions \cup {Nobody, Purger}
  /\ rows \subseteq Handlers /\ subs \subseteq Handlers
  /\ purge.phase \in {"idle", "looked", "locked"}

(* Whoever published and committed gets a delivery for each handler whose  *)
(* subscription its snapshot could see.                                    *)
NoLostDelivery == \A h \in owed : h \in rows \/ done[h] > 0

(* While the event is kept no handler gets it again.                       *)
CompletedStaysDone ==
  \A h \in Handlers : done[h] <= 1 /\ (done[h] > 0 => h \notin rows)

(* No delivery without its event, or for a handler of another type.        *)
NothingInvented == \A h \in rows : \E e \in event : EventOf[h] = e.type

(* A caller is told when its id belongs to another event.                  *)
HonestResult ==
  \A t \in Transactions :
    tx[t].phase = "committed" => (tx[t].result = "mismatch" <=> tx[t].differs)

NeverAddedLater == ~(\E t \in Transactions : tx[t].phase = "committed" /\ tx[t].result = "added"
                       /\ \E h \in Handlers : done[h] > 0 /\ h \notin tx[t].adds)
NeverWaitedForRollback ==
  ~(\E t, u \in Transactions : tx[t].phase = "rolled back" /\ tx[u].phase = "committed"
      /\ tx[u].result = "added")
NeverRetryable == ~(\E t \in Transactions : tx[t].phase = "retryable")
NeverMismatch == ~(\E t \in Transactions : tx[t].phase = "committed" /\ tx[t].result = "mismatch")
NeverPurged == ~(event = {} /\ purges < MaxPurges /\ purge.phase = "idle"
                 /\ \E t \in Transactions : tx[t].phase = "committed")
NeverSpared == ~(purge.phase = "locked" /\ rows # {})
=============================================================================
