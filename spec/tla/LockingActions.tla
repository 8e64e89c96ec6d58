---------------------------- MODULE LockingActions ----------------------------
(* Are the commits of CompleteVsTakeoverLocking the actions of Lease, Finish *)
(* and Operate?                                                              *)
(*                                                                           *)
(* That module breaks an action up into what its statements read and lock;   *)
(* Relaybus performs it in one step. Here the first is held against the      *)
(* second: Store is what a state of the one looks like to the other, and     *)
(* Refines says that each change of it is an action which no guard refuses   *)
(* and whose effect is that change. So what Relaybus shows of the actions    *)
(* holds of the statements, and a verdict of Applied is one that every guard *)
(* allows when the transaction commits, however early it was judged.         *)
(*                                                                           *)
(* Left out as there: time, keys and charges. A lease has run out whenever   *)
(* somebody takes it over; what rows are charged is not compared. A claim's  *)
(* picks are those of its snapshot (seen is not 0), and were allowed there.  *)
(* Not seen, because the action does not say it: that a completion taken off *)
(* its lane's list must not have been ended by a Snooze (rule "meanwhile").  *)
EXTENDS CompleteVsTakeoverLocking, Sequences, TLC

NoLanes(key, event) == 0

Action ==
  INSTANCE Finish WITH Semantics <- "locking", Modulus <- 1, LaneIndex <- NoLanes, Without <- {}

Operator ==
  INSTANCE Operate WITH Semantics <- "locking", Modulus <- 1, LaneIndex <- NoLanes, Without <- {}

Name(w) == CASE w = 1 -> "one" [] w = 2 -> "two" [] OTHER -> ""

Subscription == [event |-> "t", handler |-> "h"]

RowOf(d) ==
  [event |-> "e", handler |-> "h", lane |-> 0, key |-> "", sequence |-> d, status |-> "pending",
   availableAt |-> 0, attempts |-> 0, takeovers |-> 0, fence |-> 0, diedAt |-> 0]

Listed(list) == {[delivery |-> e[1], claim |-> e[2]] : e \in list}

LaneOf(l) ==
  [epoch |-> l.epoch, holder |-> Name(l.holder), lastHolder |-> "", claim |-> l.claim,
   expiresAt |-> 0, inFlight |-> Listed(l.inFlight), stuck |-> {}, lost |-> {}]

StoreOf(l, pending) ==
  [Action!EmptyStore EXCEPT
    !.events = [id \in {"e"} |-> [type |-> "t", key |-> "", publishedAt |-> 0, handlers |-> {"h"}]],
    !.deliveries = [d \in pending |-> RowOf(d)],
    !.lanes = [id \in {0} |-> LaneOf(l)],
    !.subscriptions = [s \in {Subscription} |-> [group |-> "g", seenAt |-> 0, removed |-> FALSE]],
    !.groups = <<"g">>]

Store == StoreOf(lane, rows)

(* What both modules know of a store.                                        *)
Seen(s) ==
  [rows |-> DOMAIN s.deliveries, epoch |-> s.lanes[0].epoch, holder |-> s.lanes[0].holder,
   claim |-> s.lanes[0].claim, inFlight |-> s.lanes[0].inFlight]

Becomes(s) == Seen(s) = Seen(StoreOf(lane', rows'))

---------------------------------------------------------------------------
(* The actions that a commit may be, with what its call has in its hands.    *)

Times == [ttl |-> 0, now |-> 0, clock |-> 1, notAfter |-> 0]

(* One delivery or none, of those that the call has seen.                    *)
Picks(seen) == {<< >>} \cup {<<[delivery |-> d, after |-> 0, fence |-> 0]>> : d \in seen}

ClaimOf(w, picks, seen) ==
  [lane |-> 0, holder |-> Name(w), number |-> calls[w].number, handlers |-> {"h"},
   running |-> {[delivery |-> e[1], claim |-> e[2], lane |-> 0, handler |-> "h", key |-> ""] :
                  e \in calls[w].stated},
   picks |-> picks, suspectRunning |-> FALSE, renew |-> TRUE, unstuck |-> {}, seen |-> seen]
    @@ Times

Claims(w) ==
  /\ calls[w].step = "claiming" /\ lane'.claim = calls[w].number
  /\ \E picks \in Picks(calls[w].seen \ {e[1] : e \in calls[w].stated}) :
       LET a == ClaimOf(w, picks, 1)
       IN Action!ClaimRefusal(Store, a) = "" /\ Becomes(Action!ClaimEffect(Store, a))

(* A takeover and the claim of the same call behind it, in one transaction.  *)
TakesOver(w) ==
  /\ calls[w].step = "taking" /\ lane'.epoch # lane.epoch
  /\ LET a == [lane |-> 0, group |-> 0, holder |-> Name(w), number |-> calls[w].number - 1,
                refused |-> {}] @@ Times
         taken == Action!TakeOverEffect(Store, a)
     IN /\ Action!TakeOverRefusal(Store, a) = ""
        /\ \E picks \in Picks(rows) :
             LET c == ClaimOf(w, picks, 0)
             IN Action!ClaimRefusal(taken, c) = "" /\ Becomes(Action!ClaimEffect(taken, c))

LeaseOf(r) ==
  [delivery |-> r.id, lane |-> 0, epoch |-> r.epoch, holder |-> Name(r.holder), claim |-> r.number,
   after |-> 0, fence |-> 0]

(* Complete in the handler's transaction, or CompleteMany; that may have been *)
(* taken off the list by a newer claim of its own worker (docs/adr, 11).      *)
Completes(r) ==
  IF r.id \in rows' THEN FALSE
  ELSE IF Transactional
  THEN LET a == [lease |-> LeaseOf(r), verdict |-> "Applied", seen |-> 0]
       IN /\ r.tx = "sent"
          /\ Action!CompleteRefusal(Store, a) = "" /\ Becomes(Action!CompleteEffect(Store, a))
  ELSE \E unlisted \in SUBSET {r.id} :
         LET a == [leases |-> <<LeaseOf(r)>>, verdicts |-> <<"Applied">>, refused |-> {},
                   unlisted |-> unlisted, seen |-> IF unlisted = {} THEN 0 ELSE 1]
         IN /\ r.tx = "deleted"
            /\ Action!CompleteManyRefusals(Store, a) = <<"">>
            /\ Becomes(Action!CompleteManyEffect(Store, a))

Snoozes(r) ==
  LET a == [lease |-> LeaseOf(r), rest |-> {}, delay |-> 0, now |-> 0, verdict |-> "Applied",
            seen |-> 0, refused |-> FALSE]
  IN /\ r.phase = "snoozing" /\ rows' = rows
     /\ Action!SnoozeRefusal(Store, a) = "" /\ Becomes(Action!SnoozeEffect(Store, a))

Unsubscribes(d) ==
  LET a == [event |-> "t", handler |-> "h", bury |-> FALSE, swept |-> <<d>>, now |-> 0]
  IN /\ Sweeps /\ d \notin rows'
     /\ Operator!UnsubscribeRefusal(Store, a) = "" /\ Becomes(Operator!UnsubscribeEffect(Store, a))

Refines ==
  [][\/ \E w \in Workers : Claims(w) \/ TakesOver(w)
     \/ \E r \in runs : Completes(r) \/ Snoozes(r)
     \/ \E d \in Deliveries : Unsubscribes(d)]_<<lane, rows>>
=============================================================================
