------------------------------ MODULE LockOrder ------------------------------
(*****************************************************************************)
(* The order in which the transactions of the PostgreSQL store lock rows,    *)
(* and why none of them can wait in a circle.  Statement, below, says what   *)
(* every file of store/postgres/sql locks; TestLockOrder in store/postgres   *)
(* compares it with the files, both their headers and their text.  Each      *)
(* transaction of the store is the sequence of its statements, for every     *)
(* choice of rows within the bounds.                                         *)
(*                                                                           *)
(* A session locks one row per step and keeps it until its transaction ends. *)
(* It waits while another holds the row in a mode that conflicts, and with   *)
(* SKIP LOCKED passes over it.  A transaction may end at any step: its       *)
(* client may go, the server cancel it.  What a statement finds in its rows  *)
(* does not matter here.  Rows that are gone, or changed so that they are    *)
(* passed over, only leave locks out, and every choice of rows is tried.     *)
(*                                                                           *)
(* The caller of Publish may do it several times in one transaction.  That   *)
(* can deadlock with another caller, whatever the store does, even with one  *)
(* that publishes once; the server then ends one of them (40P01, which is    *)
(* retryable).  What holds all the same: no transaction of the store's own   *)
(* is in such a circle, and every wait ends.                                 *)
(*                                                                           *)
(* Left out: rows that a caller locks beside the store's; savepoints, which  *)
(* give locks back early; the one foreign key, from subscriptions to groups, *)
(* which is checked under the lock of groups; and the queue for a row.  Who  *)
(* waits for a row stands behind others that wait for it, too.  That adds to *)
(* the circles only where a row is shared, somebody waits for it FOR UPDATE, *)
(* and one of those who share it waits for something else.  Nobody waits for *)
(* a lane FOR UPDATE, and who shares a delivery (settle) waits for no more.  *)
(*****************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, Guards

CONSTANTS
  Sessions,      \* connections, 1..n
  Kinds,         \* kinds of transactions that run; see Transaction
  Lanes,         \* rows of each table: numbers
  Deliveries,
  Home,          \* the lane of each delivery
  Events,
  Slots,
  Subscriptions

VARIABLES
  kind,          \* of each session: the kind of its transaction, or "none"
  todo,          \* locks that it has still to ask for, in order
  held           \* locks that it has: <<row, mode>>

vars == <<kind, todo, held>>

(* Homes for configs: ids in the order of their lanes, and against it. *)
Straight == [d \in Deliveries |-> IF d \in Lanes THEN d ELSE 1]
Crossed == [d \in Deliveries |-> IF d \in Lanes THEN Cardinality(Lanes) + 1 - d ELSE 1]

-----------------------------------------------------------------------------
(* Statements *)

(* how: "ascending" waits for rows in ascending order, "one" for a single row, *)
(* "skip" passes over rows that are locked, in any order, "held" writes rows   *)
(* that its transaction has locked before.                                     *)
Locks(table, mode, how) == [table |-> table, mode |-> mode, how |-> how]

(* An update without a key locks FOR NO KEY UPDATE, a deletion FOR UPDATE.  An *)
(* insertion waits for whoever has inserted the same key, as if there were a   *)
(* row.  Those of new rows wait for nobody and are not here.                   *)
Statement == [
  bury          |-> <<Locks("lanes", "NO KEY UPDATE", "one"),
                      Locks("deliveries", "NO KEY UPDATE", "one")>>,
  charge        |-> <<Locks("deliveries", "NO KEY UPDATE", "ascending")>>,
  claim         |-> <<Locks("lanes", "NO KEY UPDATE", "held")>>,
  complete      |-> <<Locks("lanes", "KEY SHARE", "one"), Locks("deliveries", "UPDATE", "one")>>,
  complete_alone |-> <<Locks("lanes", "KEY SHARE", "ascending"),
                       Locks("deliveries", "UPDATE", "ascending")>>,
  complete_many |-> <<Locks("lanes", "KEY SHARE", "ascending"),
                      Locks("deliveries", "UPDATE", "ascending")>>,
  extend_lease  |-> <<Locks("lanes", "NO KEY UPDATE", "held")>>,
  leave_stuck   |-> <<Locks("lanes", "NO KEY UPDATE", "one"),
                      Locks("deliveries", "NO KEY UPDATE", "one")>>,
  lock_events   |-> <<Locks("events", "UPDATE", "skip")>>,
  lock_lanes    |-> <<Locks("lanes", "NO KEY UPDATE", "ascending")>>,
  lock_slots    |-> <<Locks("slots", "NO KEY UPDATE", "ascending")>>,
  mark_removed  |-> <<Locks("subscriptions", "NO KEY UPDATE", "one"),
                      Locks("subscriptions_version", "NO KEY UPDATE", "one")>>,
  publish       |-> <<Locks("events", "NO KEY UPDATE", "ascending")>>,
  purge_dead    |-> <<Locks("deliveries", "UPDATE", "skip")>>,
  purge_events  |-> <<Locks("events", "UPDATE", "held")>>,
  purge_history |-> <<Locks("completions", "UPDATE", "skip")>>,
  refresh       |-> <<Locks("subscriptions", "NO KEY UPDATE", "ascending"),
                      Locks("subscriptions_version", "NO KEY UPDATE", "one")>>,
  release       |-> <<Locks("lanes", "NO KEY UPDATE", "held")>>,
  relinquish    |-> <<Locks("lanes", "NO KEY UPDATE", "held")>>,
  requeue       |-> <<Locks("lanes", "KEY SHARE", "ascending"),
                      Locks("deliveries", "NO KEY UPDATE", "ascending")>>,
  reschedule    |-> <<Locks("lanes", "NO KEY UPDATE", "one"),
                      Locks("deliveries", "NO KEY UPDATE", "one")>>,
  retry_stuck   |-> <<Locks("deliveries", "NO KEY UPDATE", "one")>>,
  settle        |-> <<Locks("deliveries", "KEY SHARE", "one")>>,
  snooze        |-> <<Locks("lanes", "NO KEY UPDATE", "one"),
                      Locks("deliveries", "NO KEY UPDATE", "one")>>,
  stick         |-> <<Locks("lanes", "NO KEY UPDATE", "held")>>,
  subscribe     |-> <<Locks("groups", "UPDATE", "held"),
                      Locks("subscriptions", "NO KEY UPDATE", "ascending"),
                      Locks("subscriptions_version", "NO KEY UPDATE", "one")>>,
  sweep_bury    |-> <<Locks("lanes", "KEY SHARE", "ascending"),
                      Locks("deliveries", "UPDATE", "ascending")>>,
  sweep_delete  |-> <<Locks("lanes", "KEY SHARE", "ascending"),
                      Locks("deliveries", "UPDATE", "ascending")>>,
  take_over     |-> <<Locks("lanes", "UPDATE", "skip")>>
]

-----------------------------------------------------------------------------
(* Sequences of steps, and sets of them: the ways in which a transaction may go *)

RECURSIVE Ascending(_)
Ascending(S) ==
  IF S = {} THEN <<>>
  ELSE LET least == CHOOSE x \in S : \A y \in S : x <= y
       IN <<least>> \o Ascending(S \ {least})

AnyOrder(S) == {q \in [1..Cardinality(S) -> S] : {q[i] : i \in DOMAIN q} = S}

Ordered(rule, S) == IF Rule(rule) THEN {Ascending(S)} ELSE AnyOrder(S)

(* Rows of one statement: in the order that it says, while its rule is on. *)
Rows(name, i, rule, S) ==
  IF Statement[name][i].how = "ascending" THEN Ordered(rule, S) ELSE AnyOrder(S)

Nowhere == <<"none", 0>>

(* A row that is written within a lane which was passed over is not. *)
Step(lock, n, within) ==
  [row |-> <<lock.table, n>>, mode |-> lock.mode, how |-> lock.how, within |-> within]

Each(lock, rows, within) == [i \in 1..Len(rows) |-> Step(lock, rows[i], within)]

Of(name, i, rows) == Each(Statement[name][i], rows, Nowhere)

One(name, i, n) == Of(name, i, <<n>>)

All(name, i, rule, S) == {Of(name, i, q) : q \in Rows(name, i, rule, S)}

Skipping(rule, steps) ==
  IF Rule(rule) THEN steps
  ELSE [i \in 1..Len(steps) |-> [steps[i] EXCEPT !.how = "ascending"]]

A ** B == {a \o b : a \in A, b \in B}

Nothing == {<<>>}

Some(S) == (SUBSET S) \ {{}}

HomesOf(D) == {Home[d] : d \in D}

RECURSIVE Concat(_)
Concat(q) == IF q = <<>> THEN <<>> ELSE Head(q) \o Concat(Tail(q))

-----------------------------------------------------------------------------
(* Claims and lanes *)

LockLanes(L) ==
  IF Rule("locked") THEN All("lock_lanes", 1, "lanes", L) ELSE Nothing

Write(name, L) == {Of(name, 1, Ascending(L))}

(* Stuck rows of lanes that are held, each in a statement of its own. *)
RetryStuck(D) == {Of("retry_stuck", 1, q) : q \in Ordered("stuck", D)}

(* The lanes of one round, then what was in flight there, and what of it was *)
(* refused is noted.  A round looks for lanes from anywhere on.              *)
TakeOver(L) ==
  LET charged(q) == [i \in 1..Len(q) |->
                      Step(Statement.charge[1], q[i], <<"lanes", Home[q[i]]>>)]
      noted(q) == [i \in 1..Len(q) |-> Step(Statement.stick[1], q[i], <<"lanes", q[i]>>)]
  IN {Skipping("skip lanes", Of("take_over", 1, q)) : q \in AnyOrder(L)}
       ** {charged(q) : q \in Rows("charge", 1, "charge", {d \in Deliveries : Home[d] \in L})}
       ** {noted(Ascending(L))}

(* Rounds follow one another while there is room. *)
Rounds(L) ==
  Nothing \cup UNION {TakeOver(M) : M \in Some(L)}
    \cup UNION {TakeOver(M) ** TakeOver(L \ M) : M \in Some(L) \ {L}}

Claim ==
  UNION {UNION {LockLanes(H) ** RetryStuck(D) ** Write("claim", H) ** Rounds(Lanes \ H)
                  : D \in SUBSET {d \in Deliveries : Home[d] \in H}}
           : H \in SUBSET Lanes}

HeldLanes ==
  UNION {LockLanes(H) ** Write(name, H)
           : H \in Some(Lanes), name \in {"extend_lease", "release", "relinquish"}}

-----------------------------------------------------------------------------
(* Ends of runs *)

(* Without the rule "lane first", the row and then its lane. *)
LaneFirst(name, d) ==
  LET lane == One(name, 1, Home[d])
      row == One(name, 2, d)
  IN {lane \o row} \cup (IF Rule("lane first") THEN {} ELSE {row \o lane})

(* Reschedule, Snooze and Bury, and what is left of them when the row cannot *)
(* be written: all alike.                                                    *)
Ends ==
  UNION {LaneFirst(name, d)
           : name \in {"reschedule", "snooze", "bury", "leave_stuck"}, d \in Deliveries}

(* Settling waits for the row alone. *)
Settle == {One("settle", 1, d) : d \in Deliveries}

(* One statement: the lanes, then the rows by id.  Without the rule "one pass" *)
(* the members of chains are locked before the others are deleted.             *)
CompleteTogether(D) ==
  All("complete_many", 1, "shared", HomesOf(D))
    ** IF Rule("one pass") THEN All("complete_many", 2, "completions", D)
       ELSE {Of("complete_many", 2, Ascending(C) \o Ascending(D \ C)) : C \in SUBSET D}

(* Runs that stand alone have a statement of their own. *)
CompleteAlone(D) ==
  All("complete_alone", 1, "shared", HomesOf(D)) ** All("complete_alone", 2, "completions", D)

(* A row was refused: a statement for each lease, in the order of ids. *)
CompleteApart(D) ==
  LET single(d) == One("complete_many", 1, Home[d]) \o One("complete_many", 2, d)
  IN {Concat([i \in 1..Len(q) |-> single(q[i])]) : q \in Ordered("apart", D)}

CompleteMany ==
  UNION {CompleteTogether(D) \cup CompleteAlone(D) \cup CompleteApart(D) : D \in Some(Deliveries)}

-----------------------------------------------------------------------------
(* Publishers and handlers *)

(* Two statements: the slots of the keys, then the events. *)
PublishOf(E, S) ==
  LET slots == All("lock_slots", 1, "slots", S)
      events == All("publish", 1, "events", E)
  IN (slots ** events) \cup (IF Rule("slots first") THEN {} ELSE events ** slots)

Publish == UNION {PublishOf(E, S) : E \in SUBSET Events, S \in SUBSET Slots}

(* Two calls, each of one event with or without a key. *)
PublishTwice ==
  LET single == UNION {PublishOf({e}, S) : e \in Events, S \in {{}} \cup {{k} : k \in Slots}}
  IN single ** single

(* Complete is the last statement of a handler's transaction. *)
Complete ==
  LET completions == UNION {LaneFirst("complete", d) : d \in Deliveries}
  IN (Publish ** completions)
       \cup (IF Rule("complete last") THEN {} ELSE completions ** Publish)

-----------------------------------------------------------------------------
(* Operators, purges, subscriptions *)

(* Who changes the set of subscriptions renames it, by a trigger. *)
Versioned(name, i) == {One(name, i, 1)}

(* The lanes first, shared, so that a takeover that charges rows of several *)
(* lanes has none that one of these waits for.                              *)
SharedLanes(name, D) ==
  IF Rule("lanes too") THEN All(name, 1, "shared", HomesOf(D)) ELSE Nothing

Sweep(name, D) ==
  {One("mark_removed", 1, 1)} ** Versioned("mark_removed", 2)
    ** SharedLanes(name, D) ** All(name, 2, "sweep", D)

Unsubscribe ==
  UNION {Sweep(name, D) : name \in {"sweep_bury", "sweep_delete"}, D \in Some(Deliveries)}

Requeue ==
  UNION {SharedLanes("requeue", D) ** All("requeue", 2, "requeue", D) : D \in Some(Deliveries)}

PurgeDead ==
  UNION {{Skipping("skip dead", Of("purge_dead", 1, q)) : q \in AnyOrder(D)}
           : D \in Some(Deliveries)}

PurgeEvents ==
  LET deleted(q) == [i \in 1..Len(q) |->
                      Step(Statement.purge_events[1], q[i], <<"events", q[i]>>)]
  IN UNION {{Skipping("skip events", Of("lock_events", 1, q)) \o deleted(q) : q \in AnyOrder(E)}
              : E \in Some(Events)}

PurgeHistory == UNION {{Of("purge_history", 1, q) : q \in AnyOrder(E)} : E \in Some(Events)}

(* A bus says that it is there: it locks the subscriptions that it finds.  If *)
(* some are missing, another transaction takes the lock of groups and makes   *)
(* all.  Without the rule "apart from groups" that is the same transaction.   *)
Refresh(S) ==
  All("refresh", 1, "subscriptions", S) ** (Nothing \cup Versioned("refresh", 2))

Groups == [row |-> <<"groups", 1>>, mode |-> "UPDATE", how |-> "one", within |-> Nowhere]

Making ==
  {<<Groups>> \o One("subscribe", 1, 1)}
    ** All("subscribe", 2, "same order", Subscriptions) ** Versioned("subscribe", 3)
    ** Refresh(Subscriptions)

Subscribe ==
  LET found == UNION {Refresh(S) : S \in SUBSET Subscriptions}
  IN Making \cup found \cup (IF Rule("apart from groups") THEN {} ELSE found ** Making)

-----------------------------------------------------------------------------
(* Sessions *)

Transaction == [
  Claim |-> Claim, HeldLanes |-> HeldLanes, Ends |-> Ends, Settle |-> Settle,
  CompleteMany |-> CompleteMany, Complete |-> Complete, Publish |-> Publish,
  PublishTwice |-> PublishTwice, Unsubscribe |-> Unsubscribe, Requeue |-> Requeue,
  PurgeDead |-> PurgeDead, PurgeEvents |-> PurgeEvents, PurgeHistory |-> PurgeHistory,
  Subscribe |-> Subscribe
]

(* Transactions that a caller begins and ends; the others are the store's own. *)
CallersKinds == {"Complete", "Publish", "PublishTwice"}

(* PostgreSQL's table of row-level lock conflicts, for the modes in use. *)
Conflict(a, b) ==
  \/ a = "UPDATE" \/ b = "UPDATE"
  \/ a = "NO KEY UPDATE" /\ b = "NO KEY UPDATE"

Has(s, row) == \E lock \in held[s] : lock[1] = row

InTheWay(s, t) ==
  \E lock \in held[t] : lock[1] = Head(todo[s]).row /\ Conflict(Head(todo[s]).mode, lock[2])

Void(s) == Head(todo[s]).within # Nowhere /\ ~ Has(s, Head(todo[s]).within)

Blocked(s) == \E t \in Sessions \ {s} : InTheWay(s, t)

(* s waits for t. *)
WaitsFor(s, t) ==
  /\ s # t /\ todo[s] # <<>> /\ ~ Void(s)
  /\ Head(todo[s]).how \in {"ascending", "one"}
  /\ InTheWay(s, t)

RECURSIVE Reaches(_, _, _)
Reaches(s, t, most) ==
  \/ WaitsFor(s, t)
  \/ most > 1 /\ \E u \in Sessions \ {s, t} : WaitsFor(s, u) /\ Reaches(u, t, most - 1)

InCircle(s) == Reaches(s, s, Cardinality(Sessions))

-----------------------------------------------------------------------------
(* Actions *)

Begin(s) ==
  /\ kind[s] = "none"
  /\ \E k \in Kinds : \E steps \in Transaction[k] :
       /\ steps # <<>>
       /\ kind' = [kind EXCEPT ![s] = k]
       /\ todo' = [todo EXCEPT ![s] = steps]
  /\ UNCHANGED held

Lock(s) ==
  /\ todo[s] # <<>> /\ ~ Void(s) /\ Guard("exclude", ~ Blocked(s))
  /\ held' = [held EXCEPT ![s] = @ \cup {<<Head(todo[s]).row, Head(todo[s]).mode>>}]
  /\ todo' = [todo EXCEPT ![s] = Tail(@)]
  /\ UNCHANGED kind

(* SKIP LOCKED; and what lies in a lane that was skipped. *)
Skip(s) ==
  /\ todo[s] # <<>>
  /\ Void(s) \/ (Head(todo[s]).how = "skip" /\ Blocked(s))
  /\ todo' = [todo EXCEPT ![s] = Tail(@)]
  /\ UNCHANGED <<kind, held>>

Over(s) ==
  /\ kind' = [kind EXCEPT ![s] = "none"]
  /\ todo' = [todo EXCEPT ![s] = <<>>]
  /\ held' = [held EXCEPT ![s] = {}]

Commit(s) == kind[s] # "none" /\ todo[s] = <<>> /\ Over(s)

(* A client gives up, a time limit is over. *)
Abort(s) == todo[s] # <<>> /\ Over(s)

(* The server finds a circle and ends the transaction that looked for it. *)
Deadlock(s) == Rule("found") /\ InCircle(s) /\ Over(s)

Init ==
  /\ kind = [s \in Sessions |-> "none"]
  /\ todo = [s \in Sessions |-> <<>>]
  /\ held = [s \in Sessions |-> {}]

Next == \E s \in Sessions : Begin(s) \/ Lock(s) \/ Skip(s) \/ Commit(s) \/ Abort(s) \/ Deadlock(s)

Spec == Init /\ [][Next]_vars

(* Rows are given out in turn, clients commit, and deadlocks are found. *)
FairSpec ==
  Spec /\ \A s \in Sessions :
            SF_vars(Lock(s) \/ Skip(s) \/ Commit(s)) /\ WF_vars(Deadlock(s))

-----------------------------------------------------------------------------
(* Invariants *)

TypeOK ==
  /\ kind \in [Sessions -> Kinds \cup {"none"}]
  /\ \A s \in Sessions :
       /\ kind[s] = "none" => todo[s] = <<>> /\ held[s] = {}
       /\ \A i \in DOMAIN todo[s] : todo[s][i].how \in {"ascending", "one", "skip", "held"}

(* Two sessions never hold a row in modes that conflict. *)
LocksExclude ==
  \A s, t \in Sessions : s # t =>
    \A a \in held[s], b \in held[t] : a[1] = b[1] => ~ Conflict(a[2], b[2])

NoDeadlock == \A s \in Sessions : ~ InCircle(s)

(* A deadlock is one between callers, of which one publishes more than once. *)
OnlyCallersDeadlock ==
  LET circle == {s \in Sessions : InCircle(s)}
  IN circle # {} => /\ \A s \in circle : kind[s] \in CallersKinds
                    /\ \E s \in circle : kind[s] = "PublishTwice"

(* A statement that needs rows locked by one before it finds them locked. *)
WritesWhatItHolds ==
  \A s \in Sessions :
    (todo[s] # <<>> /\ Head(todo[s]).how = "held" /\ ~ Void(s))
      => \E lock \in held[s] : /\ lock[1] = Head(todo[s]).row
                               /\ lock[2] \in {Head(todo[s]).mode, "UPDATE"}

(* Who waits gets its lock, or an error. *)
EveryWaitEnds == \A s \in Sessions : (todo[s] # <<>>) ~> (todo[s] = <<>>)

-----------------------------------------------------------------------------
(* Probes *)

Waits(s) == \E t \in Sessions : WaitsFor(s, t)

NeverWaits == \A s \in Sessions : ~ Waits(s)

(* Three sessions in a row. *)
NeverQueue == ~ \E s, t \in Sessions : WaitsFor(s, t) /\ Waits(t)

(* A takeover passes over a lane. *)
NeverSkipped ==
  ~ \E s \in Sessions : todo[s] # <<>> /\ Head(todo[s]).how = "skip" /\ Blocked(s)

(* A takeover has charged a row and looks for further lanes. *)
NeverSecondRound ==
  ~ \E s \in Sessions : /\ kind[s] = "Claim" /\ todo[s] # <<>>
                        /\ Head(todo[s]).how = "skip"
                        /\ \E lock \in held[s] : lock[1][1] = "deliveries"

(* Completions share a lane, and its owner writes it. *)
NeverShared ==
  ~ \E s, t \in Sessions : /\ s # t
                           /\ \E row \in {<<"lanes", l>> : l \in Lanes} : Has(s, row) /\ Has(t, row)
=============================================================================
