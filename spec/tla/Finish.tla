------------------------------- MODULE Finish ------------------------------
(* Actions that end a run: CompleteMany for handlers that own no             *)
(* transaction, Complete inside the handler's own, and Reschedule, Snooze    *)
(* and Bury, which keep the row. A lease is                                  *)
(* [delivery, lane, epoch, holder, claim, after, fence].                     *)
(*                                                                           *)
(* A verdict of LeaseLost means that this call changed nothing. With seen    *)
(* not 0 such a verdict was given, and judged, in an earlier store: its      *)
(* refusal is then "seen".                                                   *)
EXTENDS Lease

EndGuards == [epoch |-> "End.epoch", holder |-> "End.holder"]

(* A follower's predecessor is not pending.                                  *)
GoOnRefusal(s, l) ==
  IF l.after # NoDelivery /\ ~Guard("End.after", ~IsPending(s, l.after)) THEN "after" ELSE ""

(* Lane and row are still as they were granted.                              *)
InPlaceRefusal(s, l) ==
  LET o == HoldsRefusal(s, l, EndGuards)
  IN IF o # "" THEN o
     ELSE IF Exists(s, l.delivery)
               /\ ~Guard("End.row lane", s.deliveries[l.delivery].lane = l.lane) THEN "row lane"
     ELSE ""

(* What every end needs of the lane.                                         *)
EndRefusal(s, l) ==
  LET o == InPlaceRefusal(s, l)
  IN IF o # "" THEN o
     ELSE IF ~Guard("End.in flight", Entry(l) \in s.lanes[l.lane].inFlight) THEN "in flight"
     ELSE GoOnRefusal(s, l)

(* The row is there and not dead.                                            *)
PendRefusal(s, l) ==
  IF ~Exists(s, l.delivery) THEN "row"
  ELSE IF ~Guard("End.pending", s.deliveries[l.delivery].status = "pending") THEN "pending"
  ELSE ""

---------------------------------------------------------------------------
(* CompleteMany deletes the rows and writes no lane. A row that is gone      *)
(* while its lane still lists the run is Applied too, so that a retry after  *)
(* an unknown outcome is safe. There is a refusal per lease, independent of  *)
(* each other except that a follower is never Applied when its predecessor   *)
(* in the same call was not. Fields: leases (a sequence), verdicts, refused  *)
(* (ids: definite errors), seen.                                             *)
(*                                                                           *)
(* Unlisted (ids) are those Applied though a newer call of the same holder   *)
(* has taken them off the lane's list since the call read it: FOR KEY SHARE  *)
(* does not read a lane again (docs/adr, 11). They, and with seen a LeaseLost*)
(* are judged in the stores from seen on.                                    *)

(* A snapshot store judges a row that is there by its fence alone: whatever  *)
(* took the run away has written the row.                                    *)
DeleteRefusal(s, l) ==
  LET r == s.deliveries[l.delivery] IN
  IF r.lane # l.lane THEN "row lane"
  ELSE IF ~Guard("CompleteMany.fence", r.fence = l.fence) THEN "fence"
  ELSE GoOnRefusal(s, l)

(* Without the list. The holder may have given the lane back meanwhile;      *)
(* nobody takes it over before the completion ends. When the row was gone by *)
(* then, nothing changes.                                                    *)
UnlistedRefusal(s, l) ==
  LET free == /\ l.lane \in DOMAIN s.lanes
              /\ s.lanes[l.lane].holder = Nobody /\ s.lanes[l.lane].lastHolder = l.holder
      o == InPlaceRefusal(s, IF free THEN [l EXCEPT !.holder = Nobody] ELSE l)
  IN IF ~Exists(s, l.delivery) THEN "" ELSE IF o # "" THEN o ELSE GoOnRefusal(s, l)

CompleteAloneRefusal(s, l, unlisted) ==
  LET o == IF Snapshot /\ Exists(s, l.delivery) THEN DeleteRefusal(s, l)
           ELSE IF Locking /\ unlisted THEN UnlistedRefusal(s, l)
           ELSE EndRefusal(s, l)
  IN IF o # "" THEN o
     ELSE IF ~Guard("CompleteMany.pending", ~IsDead(s, l.delivery)) THEN "pending" ELSE ""

(* Where the call ended a lease's predecessor, 0 where it did not.           *)
PlaceOf(leases, n, id) ==
  LET at == {j \in 1 .. n : leases[j].delivery = id}
  IN IF at = {} THEN 0 ELSE Greatest(at)

CompleteOneRefusal(s, a, refusals) ==
  LET i == Len(refusals) + 1
      l == a.leases[i]
      before == IF l.after = NoDelivery THEN 0 ELSE PlaceOf(a.leases, i - 1, l.after)
  IN IF l.delivery \in a.refused THEN "refused"
     ELSE IF a.seen # 0 /\ a.verdicts[i] = "LeaseLost" THEN "seen"
     ELSE IF before = 0 THEN CompleteAloneRefusal(s, l, l.delivery \in a.unlisted)
     ELSE IF ~Guard("CompleteMany.after", refusals[before] = "") THEN "after"
     ELSE CompleteAloneRefusal(s, [l EXCEPT !.after = NoDelivery], l.delivery \in a.unlisted)

RECURSIVE CompleteFrom(_, _, _)
CompleteFrom(s, a, refusals) ==
  LET o == CompleteOneRefusal(s, a, refusals)
      t == IF o = "" THEN Delete(s, {a.leases[Len(refusals) + 1].delivery}) ELSE s
  IN IF Len(refusals) = Len(a.leases) THEN [store |-> s, refusals |-> refusals]
     ELSE CompleteFrom(t, a, Append(refusals, o))

CompleteManyRefusals(s, a) == CompleteFrom(s, a, << >>).refusals
CompleteManyEffect(s, a) == CompleteFrom(s, a, << >>).store

---------------------------------------------------------------------------
(* Complete must itself delete the row: one that is gone was completed by    *)
(* somebody else, and the effects of this transaction must not commit beside *)
(* that. Fields: lease, verdict, seen.                                       *)
(*                                                                           *)
(* A snapshot store's transaction may have read the lane before a takeover.  *)
(* Only the write conflict on the row protects it, and until ChargeLost has  *)
(* written the row there is none. Its completion then stands; one that read  *)
(* the lane after the takeover is LeaseLost. Both are right, so that here    *)
(* the store's verdict decides which rule it is held to.                     *)

IsLost(s, l) ==
  /\ l.lane \in DOMAIN s.lanes
  /\ Exists(s, l.delivery) /\ s.deliveries[l.delivery].lane = l.lane
  /\ Entry(l) \in s.lanes[l.lane].lost

CompleteRefusal(s, a) ==
  LET l == a.lease
      held == EndRefusal(s, l)
      o == IF held # "" /\ a.verdict = "Applied" /\ IsLost(s, l) THEN GoOnRefusal(s, l) ELSE held
      p == PendRefusal(s, l)
  IN IF a.seen # 0 /\ a.verdict = "LeaseLost" THEN "seen"
     ELSE IF o # "" THEN o
     ELSE IF ~Guard("Complete.row", Exists(s, l.delivery)) THEN "row"
     ELSE IF Exists(s, l.delivery) /\ p # "" THEN p
     ELSE IF Exists(s, l.delivery) /\ Snapshot
               /\ ~Guard("Complete.fence", s.deliveries[l.delivery].fence = l.fence) THEN "fence"
     ELSE ""

CompleteEffect(s, a) == Delete(s, {a.lease.delivery})

---------------------------------------------------------------------------
(* Reschedule, Snooze and Bury keep the row. The rest of the chain leaves    *)
(* in_flight in the same write; released later, it could be completed before *)
(* its predecessor ran again. Fields: lease, rest (a set of leases), delay   *)
(* or charge, now, verdict, seen, and refused: the store refused the row for *)
(* good, and only the lane is written.                                       *)

FinishRefusal(s, a) ==
  LET o == EndRefusal(s, a.lease)
  IN IF a.seen # 0 /\ a.verdict = "LeaseLost" THEN "seen"
     ELSE IF o # "" THEN o
     \* A refused write of a snapshot store conflicts with nobody.
     ELSE IF a.refused /\ Snapshot THEN ""
     ELSE PendRefusal(s, a.lease)

SameGrant(l, m) == l.lane = m.lane /\ l.epoch = m.epoch /\ l.holder = m.holder

(* The store with the run and the rest of its chain off the lane's list.     *)
Leave(s, a) ==
  LET l == a.lease
      rest == {Entry(m) : m \in {x \in a.rest : SameGrant(x, l)}}
      gone == {Entry(l)} \cup IF Rule("End.rest") THEN rest ELSE {}
  IN [s EXCEPT !.lanes[l.lane] =
       [@ EXCEPT !.inFlight = @ \ gone,
                 !.stuck = IF a.refused THEN @ \cup {l.delivery} ELSE @]]

(* Leave, and write the row unless the store refused it.                     *)
LeaveAs(s, a, r) ==
  IF a.refused THEN Leave(s, a) ELSE Write(Leave(s, a), a.lease.delivery, r)

RescheduleRefusal(s, a) == FinishRefusal(s, a)
RescheduleEffect(s, a) ==
  LET r == s.deliveries[a.lease.delivery]
  IN LeaveAs(s, a, [r EXCEPT !.attempts = IF Rule("Reschedule.charge") THEN @ + 1 ELSE @,
                             !.availableAt = Plus(a.now, a.delay)])

SnoozeRefusal(s, a) == FinishRefusal(s, a)
SnoozeEffect(s, a) ==
  LET r == s.deliveries[a.lease.delivery]
  IN LeaveAs(s, a, [r EXCEPT !.availableAt = Plus(a.now, a.delay)])

BuryRefusal(s, a) == FinishRefusal(s, a)
BuryEffect(s, a) ==
  LET r == s.deliveries[a.lease.delivery]
  IN LeaveAs(s, a, Died([r EXCEPT !.attempts = IF a.charge THEN @ + 1 ELSE @], a.now))
=============================================================================
