----------------------------- MODULE Invariants -----------------------------
(* The promises of the protocol, by the names that they have in              *)
(* engine/protocol, in the simulator and in CORRECTNESS.md. Where a state    *)
(* shows that one is broken it is read off the store; what only an action    *)
(* can break (an end accepted under an old token) the ledger has noted.      *)
(*                                                                           *)
(* Drains, the one that speaks of the future, needs to know who acts: see    *)
(* Relaybus.                                                                 *)
EXTENDS Ledger, TLC

VARIABLES
  store,    \* what the store holds (module State)
  ledger    \* ghost history (module Ledger)

Broken(name) == name \in ledger.broken
Pairs == DOMAIN ledger.pairs

EntryOK(f) == f.delivery \in Pairs /\ f.claim > 0

Unique(list) == Cardinality(list) = Cardinality(Ids(list))

LaneOK(l) ==
  LET lane == store.lanes[l] IN
  /\ \A f \in lane.inFlight \cup lane.lost :
       /\ EntryOK(f)
       /\ Exists(store, f.delivery) => store.deliveries[f.delivery].lane = l
  /\ Unique(lane.inFlight) /\ Unique(lane.lost)
  /\ lane.holder = Nobody => lane.inFlight = {}
  /\ lane.holder # Nobody => lane.lastHolder = Nobody
  /\ lane.lost # {} => Snapshot /\ lane.inFlight = {}

RowOK(id) ==
  LET r == store.deliveries[id] IN
  /\ r.status \in {"pending", "dead"}
  /\ r.attempts >= 0 /\ r.takeovers >= 0 /\ r.fence >= 0
  /\ r.event \in DOMAIN store.events
  /\ r.key = store.events[r.event].key
  /\ r.handler \in store.events[r.event].handlers
  /\ r.lane = LaneFor(store, [id |-> r.event, type |-> store.events[r.event].type, key |-> r.key],
                      r.handler)
  /\ Locking => r.fence = 0 /\ r.sequence = id
  /\ \A x \in DOMAIN store.deliveries \ {id} :
       ~(store.deliveries[x].event = r.event /\ store.deliveries[x].handler = r.handler)

TypeOK ==
  /\ \A id \in DOMAIN store.deliveries : RowOK(id)
  /\ \A l \in DOMAIN store.lanes : LaneOK(l)

(* A committed (event, handler) is pending, dead, or its completion is       *)
(* committed, or it was purged or unsubscribed.                              *)
NoLostDelivery ==
  /\ ~Broken("NoLostDelivery")
  /\ \A id \in Pairs : ledger.pairs[id].fate = "alive" => Exists(store, id)

(* Nothing is there, and so nothing runs, that was not committed or that was *)
(* deleted.                                                                  *)
NothingInvented ==
  \A id \in DOMAIN store.deliveries :
    LET p == ledger.pairs[id] IN
    /\ id \in Pairs /\ p.fate = "alive"
    /\ p.event = store.deliveries[id].event /\ p.handler = store.deliveries[id].handler

(* At most one holder's calls on a lane are accepted between two takeovers.  *)
OneHolderPerLane == ~Broken("OneHolderPerLane")

(* A holder has lanes of one group, the one that its worker named.           *)
OneGroupPerHolder ==
  /\ ~Broken("OneGroupPerHolder")
  /\ \A l, m \in DOMAIN store.lanes :
       l \div Modulus # m \div Modulus /\ store.lanes[l].holder # Nobody
         => store.lanes[l].holder # store.lanes[m].holder

(* After TakeOver (in a snapshot store: and its ChargeLost) no call with an  *)
(* older token changes a delivery that was then in flight.                   *)
FencedOut == ~Broken("FencedOut")

(* What was granted and is not over is listed by its lane. Relaybus adds     *)
(* what the workers believe.                                                 *)
OpenRunsListed ==
  \A id \in Pairs :
    LET p == ledger.pairs[id]
        lane == store.lanes[p.lane]
    IN IsOpen(p) => /\ lane.holder = p.run.holder
                    /\ [delivery |-> id, claim |-> p.run.claim] \in lane.inFlight

(* At most one completion of a delivery commits.                             *)
AtMostOneCompletion == ~Broken("AtMostOneCompletion")

(* Per (handler, key): never two accepted runs at once, completions in       *)
(* commit order, dead-lettered and requeued deliveries excepted.             *)
KeyOrder == ~Broken("KeyOrder")

(* Attempts since the last Requeue are the failures and takeovers that cost  *)
(* a started run; each run is charged at most once.                          *)
ChargedOnce ==
  /\ ~Broken("ChargedOnce")
  /\ \A id \in DOMAIN store.deliveries :
       LET r == store.deliveries[id]
           p == ledger.pairs[id]
       IN r.attempts = p.charges /\ r.takeovers = p.takeovers

(* A delivery that never ends badly itself is charged at most once per       *)
(* delivery that kills its worker.                                           *)
InnocentNeighbours == ~Broken("InnocentNeighbours")

(* A dead delivery is never claimed until requeued, and no end revives it.   *)
DeadStaysDead ==
  /\ ~Broken("DeadStaysDead")
  /\ \A id \in DOMAIN store.deliveries : IsDead(store, id) = ledger.pairs[id].dead

(* Publishing the same event id again never runs a completed handler again   *)
(* while the event is kept.                                                  *)
CompletedStaysDone == ~Broken("CompletedStaysDone")
=============================================================================
