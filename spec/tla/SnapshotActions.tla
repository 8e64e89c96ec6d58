--------------------------- MODULE SnapshotActions ---------------------------
(* Are the commits of CompleteVsTakeoverSnapshot the actions of Lease and    *)
(* Finish? What LockingActions asks of the store with row locks.             *)
(*                                                                           *)
(* A completion here may be judged by a snapshot that is older than a        *)
(* takeover. Refines says that it commits only where the action allows it    *)
(* all the same: while the delivery is in lost, or by its fence.             *)
(*                                                                           *)
(* Left out as there: time, keys and what is charged. An end that is not a   *)
(* completion is a Snooze; what it may be besides differs in charges only.   *)
(* A claim's picks were allowed when they were read (seen is not 0).         *)
EXTENDS CompleteVsTakeoverSnapshot, Sequences, TLC

NoLanes(key, event) == 0

Action ==
  INSTANCE Finish WITH Semantics <- "snapshot", Modulus <- 1, LaneIndex <- NoLanes, Without <- {}

Name(w) == CASE w = 1 -> "one" [] w = 2 -> "two" [] OTHER -> ""

RowOf(f) ==
  [event |-> "e", handler |-> "h", lane |-> 0, key |-> "", sequence |-> 1, status |-> "pending",
   availableAt |-> 0, attempts |-> 0, takeovers |-> 0, fence |-> f, diedAt |-> 0]

Listed(list) == {[delivery |-> e[1], claim |-> e[2]] : e \in list}
Owed(list) == {[delivery |-> e[2], claim |-> e[3]] : e \in list}

LaneOf(l) ==
  [epoch |-> l.epoch, holder |-> Name(l.holder), lastHolder |-> "", claim |-> l.claim,
   expiresAt |-> 0, inFlight |-> Listed(l.inFlight), stuck |-> {}, lost |-> Owed(l.lost)]

StoreOf(l, pending, fences) ==
  [Action!EmptyStore EXCEPT
    !.deliveries = [d \in pending |-> RowOf(fences[d])],
    !.lanes = [id \in {0} |-> LaneOf(l)]]

Store == StoreOf(lane, rows, fence)

(* What both modules know of a store.                                        *)
Seen(s) ==
  [rows |-> [d \in DOMAIN s.deliveries |-> s.deliveries[d].fence], epoch |-> s.lanes[0].epoch,
   holder |-> s.lanes[0].holder, claim |-> s.lanes[0].claim, inFlight |-> s.lanes[0].inFlight,
   lost |-> s.lanes[0].lost]

Becomes(s) == Seen(s) = Seen(StoreOf(lane', rows', fence'))

---------------------------------------------------------------------------
(* The actions that a commit may be, with what its call has in its hands.    *)

Times == [ttl |-> 0, now |-> 0, clock |-> 1, notAfter |-> 0]

Running(stated) ==
  {[delivery |-> e[1], claim |-> e[2], lane |-> 0, handler |-> "h", key |-> ""] : e \in stated}

Picks(c) ==
  {<< >>} \cup {<<[delivery |-> s[1], after |-> 0, fence |-> s[2]]>> :
                  s \in {x \in c.seen : x[1] \notin {e[1] : e \in c.stated}}}

Claims(w) ==
  /\ claims[w] # NoClaim /\ lane'.claim = claims[w].number
  /\ \E picks \in Picks(claims[w]) :
       LET a == [lane |-> 0, holder |-> Name(w), number |-> claims[w].number, handlers |-> {"h"},
                 running |-> Running(claims[w].stated), picks |-> picks,
                 suspectRunning |-> FALSE, renew |-> TRUE, unstuck |-> {}, seen |-> 1] @@ Times
       IN Action!ClaimRefusal(Store, a) = "" /\ Becomes(Action!ClaimEffect(Store, a))

(* The number of the lane afterwards is the call's own here.                 *)
TakesOver(w) ==
  LET a == [lane |-> 0, group |-> 0, holder |-> Name(w), number |-> number[w] + 1,
            refused |-> {}] @@ Times
  IN /\ lane'.epoch # lane.epoch
     /\ Action!TakeOverRefusal(Store, a) = "" /\ Becomes(Action!TakeOverEffect(Store, a))

Charges(w) ==
  LET a == [lane |-> 0, refused |-> {}] IN
  /\ charges[w].step = "written"
  /\ Action!ChargeLostRefusal(Store, a) = "" /\ Becomes(Action!ChargeLostEffect(Store, a))

Relinquishes(w) ==
  LET a == [lane |-> 0, holder |-> Name(w), number |-> number[w] + 1, epoch |-> 0,
            running |-> Running({Entry(r) : r \in StatedBy(w)})]
  IN /\ lane'.holder = Nobody
     /\ Action!RelinquishRefusal(Store, a) = "" /\ Becomes(Action!RelinquishEffect(Store, a))

LeaseOf(r) ==
  [delivery |-> r.id, lane |-> 0, epoch |-> r.epoch, holder |-> Name(r.holder), claim |-> r.number,
   after |-> 0, fence |-> r.fence]

Completes(r) ==
  IF r.id \in rows' THEN FALSE
  ELSE IF Transactional
  THEN LET a == [lease |-> LeaseOf(r), verdict |-> "Applied", seen |-> 0]
       IN /\ r.tx = "sent"
          /\ Action!CompleteRefusal(Store, a) = "" /\ Becomes(Action!CompleteEffect(Store, a))
  ELSE LET a == [leases |-> <<LeaseOf(r)>>, verdicts |-> <<"Applied">>, refused |-> {},
                 unlisted |-> {}, seen |-> 0]
       IN /\ Action!CompleteManyRefusals(Store, a) = <<"">>
          /\ Becomes(Action!CompleteManyEffect(Store, a))

Ends(r) ==
  LET a == [lease |-> LeaseOf(r), rest |-> {}, delay |-> 0, now |-> 0, verdict |-> "Applied",
            seen |-> 0, refused |-> FALSE]
  IN /\ r.end = "written"
     /\ Action!SnoozeRefusal(Store, a) = "" /\ Becomes(Action!SnoozeEffect(Store, a))

Refines ==
  [][\/ \E r \in runs : Completes(r) \/ Ends(r)
     \/ \E w \in Workers : Claims(w) \/ TakesOver(w) \/ Charges(w) \/ Relinquishes(w)
    ]_<<lane, rows, fence>>
=============================================================================
