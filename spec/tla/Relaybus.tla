------------------------------ MODULE Relaybus ------------------------------
(* The root of the specification: workers that lease lanes of one store, run *)
(* the deliveries they are granted and end them, through calls that may be   *)
(* late, lost and repeated; publishers and operators beside them.            *)
(*                                                                           *)
(* One step is one action of the protocol on the store, or one step of a     *)
(* worker or of the environment. A Claim call performs its actions one lane  *)
(* at a time: MongoDB does so, and what PostgreSQL commits together is one   *)
(* of the orders. What is sent is in Calls, what goes wrong in Environment,  *)
(* the actions themselves in Publish, Lease, Finish and Operate.             *)
(*                                                                           *)
(* Not seen here: what happens between the statements of one action          *)
(* (CompleteVsTakeover, Purge, PublishSameId), and a store that loses what   *)
(* it acknowledged or committed (AsyncCommit). Here a commit is never lost,  *)
(* so that NothingDropped holds without exception.                           *)
(*                                                                           *)
(* For a twin in Go: store is protocol.State without owner, error text,      *)
(* payload and headers, with times that are the clock's small integers, ids  *)
(* 1, 2, ... in the order of publishing, and sequence = id; each step that   *)
(* changes it is one action with seen = 0. calls, workers and clock are the  *)
(* twin's own. So is the ledger, whose fields are protocol.Ledger's but for  *)
(* runs that are over. Guards in Without are what a State cannot leave out.  *)
EXTENDS Calls

---------------------------------------------------------------------------

(* The steps, each by its name. What a call performs is named after the      *)
(* action, what a worker does for it after the sending.                      *)

Of(kinds) == {c \in calls : c.kind \in kinds}

TakeOver == \E c \in Of({"Claim"}) : \E l \in LanesFor(c.worker) : TakeOverBy(c, l)
Claim == \E c \in Of({"Claim"}) : \E l \in LanesFor(c.worker) : ClaimBy(c, l)
ChargeLost == \E l \in DOMAIN store.lanes : ChargeLostOf(l)
Relinquish == \E c \in Of({"Relinquish"}) : RelinquishBy(c)
CompleteMany == \E c \in Of({"CompleteMany"}) : CompleteManyBy(c)
Complete == \E c \in Of({"Complete"}) : CompleteBy(c)
Reschedule == \E c \in Of({"Reschedule"}) : FinishBy(c)
Snooze == \E c \in Of({"Snooze"}) : FinishBy(c)
Bury == \E c \in Of({"Bury"}) : FinishBy(c)
Release == \E c \in Of({"Release"}) : ReleaseBy(c)

Performs ==
  \/ TakeOver \/ Claim \/ ChargeLost \/ Relinquish
  \/ CompleteMany \/ Complete \/ Reschedule \/ Snooze \/ Bury \/ Release

ExtendLease(w) == \E x \in workers[w].leases : ExtendLeaseOf(w, x)
SendCompleteMany(w) == \E x \in workers[w].leases : SendCompleteManyOf(w, x)
SendComplete(w) == \E x \in workers[w].leases : SendCompleteOf(w, x)
SendEnd(w) ==
  \E x \in workers[w].leases, kind \in {"Reschedule", "Snooze", "Bury"} : SendEndOf(w, x, kind)
SendSettle(w) == \E x \in workers[w].leases : SendSettleOf(w, x)
SendRelease(w) == \E x \in workers[w].leases : SendReleaseOf(w, x)
SendRelinquish(w) == \E l \in DOMAIN store.lanes : SendRelinquishOf(w, l)

Sends(w) ==
  \/ SendClaim(w) \/ Answer(w) \/ SendRelinquish(w) \/ ExtendLease(w)
  \/ SendCompleteMany(w) \/ SendComplete(w) \/ SendEnd(w) \/ SendSettle(w) \/ SendRelease(w)

Unsubscribe == \E h \in SubscribersOf(store) : UnsubscribeOf(h)
Requeue == \E id \in DOMAIN store.deliveries : RequeueOf(id)
Purge ==
  \/ \E id \in DOMAIN store.deliveries : PurgeDead(id)
  \/ \E e \in DOMAIN store.events : PurgeEvent(e)

Operates ==
  \/ \E e \in Later : Publish(e)
  \/ \E h \in Range(Handlers) \ Early : Subscribe(h)
  \/ Unsubscribe \/ Requeue \/ Purge

Strikes ==
  \/ Expire \/ Repeat \/ RollBack
  \/ \E w \in Workers : Crash(w) \/ Kill(w) \/ Restart(w) \/ Abandon(w) \/ GiveUpComplete(w)

Next ==
  \/ Performs
  \/ \E w \in Workers : Sends(w)
  \/ Operates
  \/ Strikes

Spec == Init /\ [][Next]_vars

---------------------------------------------------------------------------

(* While no commit is lost, what the lane's holder still runs is in_flight:  *)
(* by the history, and by what the worker believes until somebody else took  *)
(* the lane over.                                                            *)
NothingDropped ==
  /\ ~Broken("NothingDropped")
  /\ OpenRunsListed
  /\ \A w \in Workers : \A x \in workers[w].leases :
       x.phase = "run" /\ store.lanes[x.lane].epoch = x.epoch
         => Entry(x) \in store.lanes[x.lane].inFlight

---------------------------------------------------------------------------
(* Drains: with one live worker per handler every delivery completes or is   *)
(* dead, and no lane stays with the dead. For runs with "Eager": workers     *)
(* claim when there is something to get and take what they can, so that the  *)
(* bound on claim numbers is not what stops them. Faults are never fair.     *)

Helps ==
  \/ Expire
  \/ \E w \in Workers : /\ workers[w].up
                        /\ Sends(w) \/ (Abandon(w) /\ \E c \in LaneCallOf(w) : Vain(c, clock))
  \/ Performs

FairSpec == Spec /\ WF_vars(Helps)

Drained ==
  /\ \A id \in DOMAIN store.deliveries : IsDead(store, id)
  /\ \A l \in DOMAIN store.lanes :
       \/ store.lanes[l].holder = Nobody
       \/ \E w \in Workers : workers[w].up /\ store.lanes[l].holder = Holder(w)

Drains == (\E w \in Workers : []workers[w].up) => <>[]Drained

---------------------------------------------------------------------------
(* Situations that a config must reach for its promises to mean something:   *)
(* TLC is to refute each.                                                    *)

Lanes == DOMAIN store.lanes
NeverTakenOver == \A l \in Lanes : store.lanes[l].epoch < 2
NeverDrained == \E id \in Pairs : ledger.pairs[id].fate = "alive"
NeverSuspect == \A id \in DOMAIN store.deliveries : ~IsSuspect(store, id)
NeverStuck == \A l \in Lanes : store.lanes[l].stuck = {}
NeverLost == \A l \in Lanes : store.lanes[l].lost = {}
NeverDead == \A id \in Pairs : ~ledger.pairs[id].dead
NeverUnknown == \A w \in Workers : \A x \in workers[w].leases : x.phase # "unknown"

(* A grant that its worker will never hear of.                               *)
NeverUnheard ==
  \A c \in Late : c.kind = "Claim" =>
    \A l \in Lanes : store.lanes[l].holder = c.holder =>
      \A f \in store.lanes[l].inFlight : f.claim # c.number

(* A chain of which the second is being ended while the first still is.      *)
NeverSideBySide ==
  \A w \in Workers : \A x \in workers[w].leases :
    x.phase = "ending" => \A y \in AheadIn(workers[w].leases, x) : y.phase # "ending"

(* A second process of a name holds a lane while calls of the first linger.  *)
NeverBothLives ==
  \A c \in Late, l \in Lanes :
    c.kind = "Claim" /\ store.lanes[l].holder = Holder(c.worker) => c.holder = Holder(c.worker)

(* A requeued delivery is granted anew while a later one of its key runs.    *)
NeverRequeuedGrant == \A id \in Pairs : ledger.pairs[id].lives = 0 \/ ~IsOpen(ledger.pairs[id])

(* Two deliveries of one event, of two groups, in flight at two workers.     *)
NeverTwoGroups ==
  \A l, m \in Lanes : l # m => \A f \in store.lanes[l].inFlight, g \in store.lanes[m].inFlight :
    ledger.pairs[f.delivery].event # ledger.pairs[g.delivery].event

(* A claim is under way while a lane of another group has run out.           *)
NeverForeignExpired ==
  \A c \in Of({"Claim"}) : \A l \in Lanes \ LanesOf(c.worker) :
    store.lanes[l].holder # Nobody => ~Expired(store.lanes[l], clock)

---------------------------------------------------------------------------
(* What configs choose from.                                                 *)

Event(id, key) == [id |-> id, key |-> key]

OneEvent == <<Event("e1", "a")>>
TwoOfOneKey == <<Event("e1", "a"), Event("e2", "a")>>
ThreeOfOneKey == <<Event("e1", "a"), Event("e2", "a"), Event("e3", "a")>>
TwoOfTwoKeys == <<Event("e1", "a"), Event("e2", "b")>>
TwoWithoutKey == <<Event("e1", NoKey), Event("e2", NoKey)>>
NoEvents == << >>

EventOfKeyA == {Event("e9", "a")}
FirstEvent == {Event("e1", "a")}
NoLater == {}

(* Where FNV-1a puts these keys and ids among one or two lanes.              *)
LaneOfKey(key, event) == IF key = "b" /\ Modulus > 1 THEN 1 ELSE 0
LaneOfEvent(key, event) == IF event = "e1" /\ Modulus > 1 THEN 1 ELSE 0

OneHandler == <<"x">>
TwoHandlers == <<"x", "y">>
OneGroup(handler) == "g"
GroupPerHandler(handler) == handler
All(worker) == Range(Handlers)
OneEach(worker) == IF worker = "v" THEN {"x"} ELSE {"y"}
XOrAll(worker) == IF worker = "v" THEN {"x"} ELSE {"x", "y"}
=============================================================================
