------------------------------- MODULE State -------------------------------
(* What a store holds, as one value, and the helpers that its actions share. *)
(* Publish, Lease, Finish and Operate extend this module with the actions.   *)
(*                                                                           *)
(* Each action X is two operators. XRefusal(s, a) is the name of the first   *)
(* guard that refuses action a in store s, "" when it applies; the names and *)
(* their order are those of protocol.State in engine/protocol, so that a     *)
(* trace and a test in Go name the same guard. XEffect(s, a) is the store    *)
(* after it. An action is a record whose fields are those of its Go type     *)
(* with a small first letter. Sets stand for lists whose order carries no    *)
(* meaning; where the order does (picks, leases, what must not be named      *)
(* twice) the field is a sequence.                                           *)
(*                                                                           *)
(* The same operators serve bounded models (Relaybus) and recorded traces.   *)
(* Not in here: payloads, headers, error texts and owners' names, which no   *)
(* rule looks at; and who sends what when, which is Relaybus' business. An   *)
(* action is atomic: what happens between the statements of one is for       *)
(* CompleteVsTakeover, Purge and their like.                                 *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  Semantics,        \* "locking" (PostgreSQL) or "snapshot" (MongoDB)
  Modulus,          \* lanes of a group
  LaneIndex(_, _),  \* (key, event id) -> 0 .. Modulus - 1; a hash in production
  Without           \* names of guards and rules that this run leaves out

ASSUME Semantics \in {"locking", "snapshot"}

(* Guards and rules are named, so that a Broken config can leave exactly one *)
(* out and TLC can show which promise rests on it. A rule is an effect.      *)
Guard(name, holds) == name \in Without \/ holds
Rule(name) == name \notin Without

Locking == Semantics = "locking"
Snapshot == Semantics = "snapshot"

---------------------------------------------------------------------------
(* Values. *)

Nobody == ""      \* no holder: the lane is free
NoKey == ""       \* no order is promised
NoDelivery == 0   \* ids start at 1

Nothing == [x \in {} |-> x]   \* the function of an empty domain

(* events:        id -> [type, key, publishedAt, handlers]                    *)
(* deliveries:    id -> [event, handler, lane, key, sequence, status,         *)
(*                       availableAt, attempts, takeovers, fence, diedAt]     *)
(* lanes:         id -> [epoch, holder, lastHolder, claim, expiresAt,         *)
(*                       inFlight, stuck, lost]                               *)
(*                inFlight and lost: sets of [delivery, claim]                *)
(* slots:         slot -> last sequence drawn (snapshot stores)               *)
(* subscriptions: [event (a type), handler] -> [group, seenAt, removed]       *)
(* groups:        names by number, in the order of their first subscription   *)
EmptyStore ==
  [events |-> Nothing, deliveries |-> Nothing, lanes |-> Nothing, slots |-> Nothing,
   subscriptions |-> Nothing, groups |-> << >>]

NewLane ==
  [epoch |-> 0, holder |-> Nobody, lastHolder |-> Nobody, claim |-> 0, expiresAt |-> 0,
   inFlight |-> {}, stuck |-> {}, lost |-> {}]

---------------------------------------------------------------------------
(* Sets and functions. *)

Max(x, y) == IF x >= y THEN x ELSE y
Min(x, y) == IF x <= y THEN x ELSE y
Least(S) == CHOOSE x \in S : \A y \in S : x <= y
Greatest(S) == CHOOSE x \in S : \A y \in S : x >= y

Range(list) == {list[i] : i \in DOMAIN list}
Put(f, k, v) == [x \in DOMAIN f \cup {k} |-> IF x = k THEN v ELSE f[x]]
Drop(f, K) == [x \in DOMAIN f \ K |-> f[x]]

(* The refusal of the first of n parts that is refused, "" when none is.     *)
First(n, Refusal(_)) ==
  LET bad == {i \in 1 .. n : Refusal(i) # ""}
  IN IF bad = {} THEN "" ELSE Refusal(Least(bad))

(* The refusal of a list that names something twice.                         *)
Twice(list, i) == \E j \in 1 .. i - 1 : list[j] = list[i]

---------------------------------------------------------------------------
(* Time. Only the store's clock counts; a reading is an integer, 0 is        *)
(* "never" where a time is optional. All arithmetic on times is here.        *)

Plus(time, length) == time + length

(* An action's clock is read after any waiting, its now when it began.       *)
Clock(a) == Max(a.now, a.clock)

Expired(lane, clock) == lane.expiresAt < clock
Due(row, clock) == row.availableAt <= clock

(* A renewal never shortens a lease, except that no lease outlasts the clock *)
(* by more than its length.                                                  *)
Renewed(lane, a) ==
  Min(Max(lane.expiresAt, Plus(a.now, a.ttl)), Plus(Clock(a), a.ttl))

(* A call is refused when it arrives after its not-after. A locking store    *)
(* looks after it waited for the lane; a snapshot store's clock is fixed     *)
(* when the command starts, so there number and holder guard what waited.    *)
InTime(a) ==
  LET clock == IF Locking THEN Clock(a) ELSE a.now
  IN a.notAfter = 0 \/ clock <= a.notAfter

---------------------------------------------------------------------------
(* Rows. *)

Exists(s, id) == id \in DOMAIN s.deliveries
IsPending(s, id) == Exists(s, id) /\ s.deliveries[id].status = "pending"
IsDead(s, id) == Exists(s, id) /\ s.deliveries[id].status = "dead"

(* Rows between which an order is promised.                                  *)
SameKey(r, q) == r.key # NoKey /\ r.key = q.key /\ r.handler = q.handler

(* The pending rows of a row's (handler, key).                               *)
Queue(s, r) == {id \in DOMAIN s.deliveries : IsPending(s, id) /\ SameKey(s.deliveries[id], r)}

Before(s, r) == {id \in Queue(s, r) : s.deliveries[id].sequence < r.sequence}
Behind(s, r) == {id \in Queue(s, r) : s.deliveries[id].sequence > r.sequence}

WasCharged(r) == r.attempts > 0 \/ r.takeovers > 0

(* A row as it is after a write. The fence is what a snapshot store's plain  *)
(* completions compare; it is never reset.                                   *)
Wrote(r) == IF Snapshot THEN [r EXCEPT !.fence = @ + 1] ELSE r

Write(s, id, r) == [s EXCEPT !.deliveries[id] = Wrote(r)]
Delete(s, ids) == [s EXCEPT !.deliveries = Drop(@, ids)]

Died(r, now) == [r EXCEPT !.status = "dead", !.diedAt = now]

---------------------------------------------------------------------------
(* Groups. Each has Modulus lanes of its own, in the order of the groups,    *)
(* whose numbers begin at 0.                                                 *)

LanesOfGroup(number) == number * Modulus .. (number + 1) * Modulus - 1

---------------------------------------------------------------------------
(* Lists of a lane. Ids are unique within one.                               *)

Entry(lease) == [delivery |-> lease.delivery, claim |-> lease.claim]
Ids(list) == {f.delivery : f \in list}

(* Does the worker state exactly this entry?                                 *)
Runs(running, f) == \E r \in running : r.delivery = f.delivery /\ r.claim = f.claim

VerdictOf(refusal) == IF refusal = "" THEN "Applied" ELSE "LeaseLost"
=============================================================================
