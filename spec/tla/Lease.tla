------------------------------- MODULE Lease -------------------------------
(* Actions that a lane is leased by: Claim, TakeOver, ChargeLost,            *)
(* ExtendLease, Release, Relinquish; one lane and one action each. A call of *)
(* a worker may perform several; they share its number (TakeOver uses n - 1) *)
(* and stand beside one another.                                             *)
(*                                                                           *)
(* A worker is the authority on what it no longer runs, the store on what it *)
(* still holds: a claim states what runs, the rest drops out, and nothing    *)
(* but picks is added.                                                       *)
EXTENDS State

---------------------------------------------------------------------------
(* picks(lane): which deliveries a claim may grant. What to take of them,    *)
(* and in which order, is the store's choice: a sequence of                  *)
(* [delivery, after, fence] in field picks, a chain in its order, after = 0  *)
(* for a head.                                                               *)

PickedBefore(a, i, id) == \E j \in 1 .. i - 1 : a.picks[j].delivery = id

(* A pick that no other brings is the first pending row of its key, of which *)
(* nothing runs.                                                             *)
HeadRefusal(s, a, r) ==
  IF r.key = NoKey THEN ""
  ELSE IF ~Guard("Claim.earlier", Before(s, r) = {}) THEN "earlier"
  ELSE IF ~Guard("Claim.key", \A run \in a.running : ~SameKey(r, run)) THEN "key"
  ELSE ""

(* A follower is the very next pending row behind its predecessor, neither   *)
(* of them ever charged. The chain stops at a row that is not due or was     *)
(* charged: passing over one would break the order.                          *)
FollowRefusal(s, a, i, r) ==
  LET after == a.picks[i].after
      before == s.deliveries[after]
  IN IF ~PickedBefore(a, i, after) \/ ~Exists(s, after) THEN "after"
     ELSE IF ~SameKey(r, before) THEN "chain"
     ELSE IF ~Guard("Claim.chain", Before(s, r) \cap Behind(s, before) = {}
                                     /\ before.sequence < r.sequence) THEN "chain"
     ELSE IF ~Guard("Claim.charged", ~WasCharged(before) /\ ~WasCharged(r)) THEN "charged"
     ELSE ""

PickRefusal(s, a, i) ==
  LET p == a.picks[i]
      id == p.delivery
      r == s.deliveries[id]
  IN IF ~Exists(s, id) THEN "row"
     ELSE IF ~Guard("Claim.pending", r.status = "pending") THEN "pending"
     ELSE IF ~Guard("Claim.row lane", r.lane = a.lane) THEN "row lane"
     ELSE IF ~Guard("Claim.handler", r.handler \in a.handlers) THEN "handler"
     ELSE IF ~Guard("Claim.due", Due(r, Clock(a))) THEN "due"
     \* Kept or not: a run whose entry the store lost still goes on.
     ELSE IF ~Guard("Claim.running", id \notin Ids(a.running)) THEN "running"
     ELSE IF ~Guard("Claim.stuck", id \notin s.lanes[a.lane].stuck) THEN "stuck"
     ELSE IF PickedBefore(a, i, id) THEN "twice"
     ELSE IF ~Guard("Claim.fence", Snapshot => p.fence = r.fence) THEN "fence"
     ELSE IF p.after # NoDelivery THEN FollowRefusal(s, a, i, r)
     ELSE HeadRefusal(s, a, r)

IsSuspect(s, id) == Exists(s, id) /\ s.deliveries[id].takeovers > 0

(* What a worker has in flight: what it states, and what the same call       *)
(* granted in another lane a moment ago. What else a lane lists came with a  *)
(* reply that was lost, and never started.                                   *)
InFlightAt(s, a) ==
  UNION {{f.delivery : f \in {e \in s.lanes[l].inFlight : e.claim = a.number \/ Runs(a.running, e)}}
           : l \in {k \in DOMAIN s.lanes : s.lanes[k].holder = a.holder}}

(* At most one suspect in flight per worker: a delivery that was in flight   *)
(* when a worker died runs beside no other such, so that a poison delivery   *)
(* charges an innocent neighbour at most once.                               *)
SuspectsFit(s, a) ==
  LET suspects == {p.delivery : p \in {q \in Range(a.picks) : IsSuspect(s, q.delivery)}}
  IN \/ suspects = {}
     \/ /\ Cardinality(suspects) = 1
        /\ \A id \in InFlightAt(s, a) : ~IsSuspect(s, id)
        /\ ~a.suspectRunning

PicksRefusal(s, a) ==
  LET each == First(Len(a.picks), LAMBDA i : PickRefusal(s, a, i))
  IN IF a.picks = << >> THEN ""
     ELSE IF ~Guard("Claim.renew", a.renew) THEN "renew"
     ELSE IF a.lane \notin DOMAIN s.lanes THEN "lane"
     ELSE IF each # "" THEN each
     ELSE IF ~Guard("Claim.suspect", SuspectsFit(s, a)) THEN "suspect"
     ELSE ""

---------------------------------------------------------------------------
(* Claim grants deliveries of one lane to its holder and renews the lease,   *)
(* expired or not. Fields: lane, holder, number, handlers, running (a set of *)
(* [delivery, claim, lane, handler, key], of the whole worker), picks,       *)
(* suspectRunning, renew (FALSE for a lane left to expire), ttl, now, clock, *)
(* notAfter, unstuck (a set of ids whose refused write succeeds now), seen   *)
(* (not 0 when the picks were read, and judged, in an earlier store).        *)

ClaimRefusal(s, a) ==
  LET lane == s.lanes[a.lane] IN
  IF a.lane \notin DOMAIN s.lanes THEN "lane"
  ELSE IF ~Guard("Claim.holder", lane.holder = a.holder) THEN "holder"
  ELSE IF ~Guard("Claim.number", a.number > lane.claim) THEN "number"
  ELSE IF ~Guard("Claim.lost", lane.lost = {}) THEN "lost"
  ELSE IF ~Guard("Claim.not-after", InTime(a)) THEN "not-after"
  ELSE IF ~(a.unstuck \subseteq lane.stuck) THEN "unstuck"
  ELSE IF a.seen # 0 THEN "" ELSE PicksRefusal(s, a)

(* Of what the lane lists, what the worker states; nothing is added.         *)
Kept(lane, a) ==
  IF ~Rule("Claim.drop") THEN lane.inFlight
  ELSE IF ~Rule("Claim.add") THEN {Entry(r) : r \in {x \in a.running : x.lane = a.lane}}
  ELSE {f \in lane.inFlight : Runs(a.running, f)}

(* A row whose write had been refused pays now for both an attempt and a     *)
(* takeover: the list does not say which it was.                             *)
Unstick(s, ids) ==
  [s EXCEPT !.deliveries = [id \in DOMAIN @ |->
    IF id \in ids /\ IsPending(s, id)
    THEN Wrote([@[id] EXCEPT !.attempts = @ + 1, !.takeovers = @ + 1])
    ELSE @[id]]]

ClaimEffect(s, a) ==
  LET lane == s.lanes[a.lane]
      picks == {[delivery |-> p.delivery, claim |-> a.number] : p \in Range(a.picks)}
      kept == {f \in Kept(lane, a) : f.delivery \notin Ids(picks)}
  IN [Unstick(s, a.unstuck) EXCEPT !.lanes[a.lane] =
       [lane EXCEPT !.inFlight = kept \cup picks,
                    !.stuck = @ \ a.unstuck,
                    !.claim = a.number,
                    !.expiresAt = IF a.renew THEN Renewed(lane, a) ELSE @]]

---------------------------------------------------------------------------
(* TakeOver gives a lane that is free, or whose lease ran out, to another    *)
(* holder of its group. Fields: lane, group (the number of the worker's),    *)
(* holder, number (n - 1 of its call), ttl, now, clock, notAfter, refused    *)
(* (ids whose charge the store refused for good).                            *)

TakeOverRefusal(s, a) ==
  LET lane == s.lanes[a.lane]
      free == lane.holder = Nobody
  IN IF a.lane \notin DOMAIN s.lanes THEN "lane"
     \* What waits in a lane of another group this worker has no handler for.
     ELSE IF ~Guard("TakeOver.group", a.lane \in LanesOfGroup(a.group)) THEN "group"
     \* Its own lane may still list what it runs: a worker claims that.
     ELSE IF ~free /\ ~Guard("TakeOver.holder", lane.holder # a.holder) THEN "holder"
     ELSE IF ~free /\ ~Guard("TakeOver.expiry", Expired(lane, Clock(a))) THEN "expiry"
     ELSE IF free /\ lane.lastHolder = a.holder
               /\ ~Guard("TakeOver.number", a.number + 1 > lane.claim) THEN "number"
     ELSE IF ~Guard("TakeOver.not-after", InTime(a)) THEN "not-after"
     ELSE IF ~(a.refused \subseteq Ids(lane.inFlight)) THEN "refused"
     ELSE ""

(* The rows of a list that a takeover is to charge.                          *)
Chargeable(s, laneId, list) ==
  {id \in Ids(list) : IsPending(s, id) /\ s.deliveries[id].lane = laneId}

(* Those that started: the followers of a chain never did.                   *)
Started(s, ids, list) ==
  {id \in ids : Before(s, s.deliveries[id]) \cap Ids(list) = {}}

(* The deliveries whose attempts rise; a takeover counts for all.            *)
ChargedOf(s, laneId, list, refused) ==
  LET ids == Chargeable(s, laneId, list) \ refused
  IN IF Rule("TakeOver.started") THEN Started(s, ids, list) ELSE ids

(* The rows after charging, and the lane's stuck list.                       *)
ChargeAll(s, laneId, list, refused) ==
  LET ids == Chargeable(s, laneId, list)
      paid == IF Rule("TakeOver.charge") THEN ids \ refused ELSE {}
      charged == ChargedOf(s, laneId, list, refused)
      rise(id) == IF id \in charged THEN 1 ELSE 0
      row(r, id) == Wrote([r EXCEPT !.takeovers = @ + 1, !.attempts = @ + rise(id)])
  IN [s EXCEPT
       !.deliveries = [id \in DOMAIN @ |-> IF id \in paid THEN row(@[id], id) ELSE @[id]],
       !.lanes[laneId].stuck = @ \cup (ids \cap refused)]

(* A snapshot store only remembers what was in flight, for ChargeLost. An    *)
(* entry of the same delivery gives way to the later one.                    *)
Lose(lane) ==
  IF Rule("TakeOver.lost")
  THEN {f \in lane.lost : f.delivery \notin Ids(lane.inFlight)} \cup lane.inFlight
  ELSE lane.inFlight

TakeOverCharged(s, a) ==
  IF Locking THEN ChargedOf(s, a.lane, s.lanes[a.lane].inFlight, a.refused) ELSE {}

TakeOverEffect(s, a) ==
  LET lane == s.lanes[a.lane]
      t == IF Locking THEN ChargeAll(s, a.lane, lane.inFlight, a.refused)
           ELSE [s EXCEPT !.lanes[a.lane].lost = Lose(lane)]
  IN [t EXCEPT !.lanes[a.lane] =
       [@ EXCEPT !.epoch = IF Rule("TakeOver.epoch") THEN @ + 1 ELSE @,
                 !.holder = a.holder,
                 !.lastHolder = Nobody,
                 !.claim = a.number,
                 !.expiresAt = Plus(Clock(a), a.ttl),
                 !.inFlight = IF Rule("TakeOver.list") THEN {} ELSE @]]

---------------------------------------------------------------------------
(* ChargeLost charges what a snapshot store's takeovers found in flight.     *)
(* Fields: lane, refused.                                                    *)

ChargeLostRefusal(s, a) ==
  IF a.lane \notin DOMAIN s.lanes THEN "lane"
  ELSE IF s.lanes[a.lane].lost = {} THEN "lost"
  ELSE IF ~(a.refused \subseteq Ids(s.lanes[a.lane].lost)) THEN "refused"
  ELSE ""

ChargeLostCharged(s, a) == ChargedOf(s, a.lane, s.lanes[a.lane].lost, a.refused)

ChargeLostEffect(s, a) ==
  LET t == ChargeAll(s, a.lane, s.lanes[a.lane].lost, a.refused)
  IN [t EXCEPT !.lanes[a.lane].lost = IF Rule("ChargeLost.lost") THEN {} ELSE @]

---------------------------------------------------------------------------
(* ExtendLease renews one lane; allowed after the expiry while nobody took   *)
(* the lane over. Fields: lane, epoch, holder, ttl, now, clock.              *)

ExtendLeaseRefusal(s, a) ==
  LET lane == s.lanes[a.lane] IN
  IF a.lane \notin DOMAIN s.lanes THEN "lane"
  ELSE IF ~Guard("ExtendLease.holder", lane.holder = a.holder) THEN "holder"
  ELSE IF ~Guard("ExtendLease.epoch", lane.epoch = a.epoch) THEN "epoch"
  ELSE ""

ExtendLeaseEffect(s, a) ==
  [s EXCEPT !.lanes[a.lane].expiresAt = Renewed(s.lanes[a.lane], a)]

---------------------------------------------------------------------------
(* A lease is [delivery, lane, epoch, holder, claim, after, fence].          *)

(* Is the lane still as it was granted?                                      *)
HoldsRefusal(s, l, action) ==
  LET lane == s.lanes[l.lane] IN
  IF l.lane \notin DOMAIN s.lanes THEN "lane"
  ELSE IF ~Guard(action.epoch, lane.epoch = l.epoch) THEN "epoch"
  ELSE IF ~Guard(action.holder, lane.holder = l.holder) THEN "holder"
  ELSE ""

(* Release gives back deliveries that were not run to an end: no row is      *)
(* written, nothing is charged. Fields: leases (a sequence), verdicts, seen. *)
(* There is a refusal per lease.                                             *)

ReleaseGuards == [epoch |-> "Release.epoch", holder |-> "Release.holder"]

ReleaseOneRefusal(s, a, i) ==
  LET l == a.leases[i]
      o == HoldsRefusal(s, l, ReleaseGuards)
  IN IF a.seen # 0 /\ a.verdicts[i] = "LeaseLost" THEN "seen"
     ELSE IF o # "" THEN o
     ELSE IF ~Guard("Release.in flight", Entry(l) \in s.lanes[l.lane].inFlight) THEN "in flight"
     ELSE ""

RECURSIVE ReleaseFrom(_, _, _)
ReleaseFrom(s, a, refusals) ==
  LET i == Len(refusals) + 1
      o == ReleaseOneRefusal(s, a, i)
      l == a.leases[i]
      t == IF o = "" THEN [s EXCEPT !.lanes[l.lane].inFlight = @ \ {Entry(l)}] ELSE s
  IN IF i > Len(a.leases) THEN [store |-> s, refusals |-> refusals]
     ELSE ReleaseFrom(t, a, Append(refusals, o))

ReleaseRefusals(s, a) == ReleaseFrom(s, a, << >>).refusals
ReleaseEffect(s, a) == ReleaseFrom(s, a, << >>).store

---------------------------------------------------------------------------
(* Relinquish gives a lane back. What it still lists is finished or          *)
(* released; lost stays, for the next holder to charge. Fields: lane,        *)
(* holder, number, epoch (0: any), running.                                  *)

RelinquishRefusal(s, a) ==
  LET lane == s.lanes[a.lane] IN
  IF a.lane \notin DOMAIN s.lanes THEN "lane"
  ELSE IF ~Guard("Relinquish.holder", lane.holder = a.holder) THEN "holder"
  ELSE IF ~Guard("Relinquish.epoch", a.epoch = 0 \/ lane.epoch = a.epoch) THEN "epoch"
  ELSE IF ~Guard("Relinquish.number", a.number > lane.claim) THEN "number"
  ELSE IF ~Guard("Relinquish.running", \A f \in lane.inFlight : ~Runs(a.running, f))
    THEN "running"
  ELSE ""

RelinquishEffect(s, a) ==
  [s EXCEPT !.lanes[a.lane] =
    [@ EXCEPT !.holder = Nobody,
              !.lastHolder = IF Rule("Relinquish.last") THEN a.holder ELSE Nobody,
              !.claim = IF Rule("Relinquish.claim") THEN a.number ELSE 0,
              !.inFlight = {},
              !.lost = IF Rule("Relinquish.lost") THEN @ ELSE {}]]
=============================================================================
