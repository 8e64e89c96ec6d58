------------------------------ MODULE Operate ------------------------------
(* Actions of buses that start and of operators: Subscribe, Unsubscribe,     *)
(* Requeue, Purge. None of them knows of leases: what they write may be in   *)
(* flight, and the holder finds out at its next call.                        *)
(*                                                                           *)
(* Each is one committed transaction (a bounded batch); what a batch sees of *)
(* writers beside it is for the module Purge.                                *)
EXTENDS Publish

(* Subscribe writes the subscriptions of one bus, and its group's lanes when *)
(* they are missing. A removed one stays removed unless the start asks to    *)
(* revive it. Fields: group, handlers (a set of [event, handler]), revive,   *)
(* lanes (a set), now.                                                       *)

GroupOr(s, name) ==
  IF name \in Range(s.groups) THEN GroupNumber(s, name) ELSE Len(s.groups)

SubscribeRefusal(s, a) ==
  LET lanes == LanesOfGroup(GroupOr(s, a.group))
      names == {h.handler : h \in a.handlers}
  IN \* The pending rows of a handler that moves would stay in the old lanes.
     IF ~Guard("Subscribe.group", \A h \in DOMAIN s.subscriptions :
                 h.handler \in names => s.subscriptions[h].group = a.group) THEN "group"
     ELSE IF ~Guard("Subscribe.lanes", /\ a.lanes \subseteq lanes
                                       /\ lanes \subseteq DOMAIN s.lanes \cup a.lanes) THEN "lanes"
     ELSE ""

Subscribed(s, a, h) ==
  IF h \notin DOMAIN s.subscriptions
  THEN [group |-> a.group, seenAt |-> Max(0, a.now), removed |-> FALSE]
  ELSE LET sub == s.subscriptions[h] IN
    IF sub.removed /\ Rule("Subscribe.revive") /\ ~a.revive THEN sub
    ELSE [sub EXCEPT !.removed = FALSE, !.seenAt = Max(@, a.now)]

SubscribeEffect(s, a) ==
  [s EXCEPT
    !.groups = IF a.group \in Range(@) THEN @ ELSE Append(@, a.group),
    !.lanes = [l \in DOMAIN @ \cup a.lanes |-> IF l \in DOMAIN @ THEN @[l] ELSE NewLane],
    !.subscriptions = [h \in DOMAIN @ \cup a.handlers |->
                        IF h \in a.handlers THEN Subscribed(s, a, h) ELSE @[h]]]

---------------------------------------------------------------------------
(* Unsubscribe marks a subscription as removed and buries or deletes what is *)
(* pending for it, in one or more batches. It writes no lane: a swept        *)
(* delivery that is in flight stays listed until its holder's next claim.    *)
(* Fields: event, handler, bury, swept (a sequence of ids), now.             *)

SweepRefusal(s, a, i) ==
  LET id == a.swept[i]
      r == s.deliveries[id]
  IN IF ~Exists(s, id) THEN "row"
     ELSE IF ~Guard("Unsubscribe.handler", r.handler = a.handler
                      /\ s.events[r.event].type = a.event) THEN "handler"
     ELSE IF ~Guard("Unsubscribe.pending", r.status = "pending") THEN "pending"
     ELSE IF Twice(a.swept, i) THEN "twice"
     ELSE ""

UnsubscribeRefusal(s, a) ==
  IF [event |-> a.event, handler |-> a.handler] \notin DOMAIN s.subscriptions THEN "subscribed"
  ELSE First(Len(a.swept), LAMBDA i : SweepRefusal(s, a, i))

UnsubscribeEffect(s, a) ==
  LET h == [event |-> a.event, handler |-> a.handler]
      swept == Range(a.swept)
      t == [s EXCEPT !.subscriptions[h].removed = TRUE]
  IN IF ~a.bury THEN Delete(t, swept)
     ELSE [t EXCEPT !.deliveries = [id \in DOMAIN @ |->
            IF id \in swept THEN Wrote(Died(@[id], a.now)) ELSE @[id]]]

---------------------------------------------------------------------------
(* Requeue brings dead letters back: pending, due now, with nothing charged. *)
(* Their place in their key is the old one. Fields: ids (a set), requeued (a *)
(* sequence: those that were dead), now.                                     *)

RequeueOneRefusal(s, a, i) ==
  LET id == a.requeued[i] IN
  IF id \notin a.ids THEN "asked"
  ELSE IF ~Exists(s, id) THEN "dead"
  ELSE IF ~Guard("Requeue.dead", s.deliveries[id].status = "dead") THEN "dead"
  ELSE IF Twice(a.requeued, i) THEN "twice"
  ELSE ""

RequeueRefusal(s, a) == First(Len(a.requeued), LAMBDA i : RequeueOneRefusal(s, a, i))

Requeued(r, now) ==
  LET t == [r EXCEPT !.status = "pending", !.availableAt = now, !.diedAt = 0]
  IN IF Rule("Requeue.reset") THEN [t EXCEPT !.attempts = 0, !.takeovers = 0] ELSE t

RequeueEffect(s, a) ==
  [s EXCEPT !.deliveries = [id \in DOMAIN @ |->
    IF id \in Range(a.requeued) THEN Wrote(Requeued(@[id], a.now)) ELSE @[id]]]

---------------------------------------------------------------------------
(* Purge deletes old dead letters, and old events that no delivery needs.    *)
(* Fields: dead, events (sequences of ids), diedTo, eventsTo (bounds).       *)

PurgeDeadRefusal(s, a, i) ==
  LET id == a.dead[i] IN
  IF ~Exists(s, id) THEN "dead"
  ELSE IF ~Guard("Purge.dead", s.deliveries[id].status = "dead") THEN "dead"
  ELSE IF ~Guard("Purge.died", s.deliveries[id].diedAt < a.diedTo) THEN "died"
  ELSE IF Twice(a.dead, i) THEN "twice"
  ELSE ""

(* Rows that this very Purge deletes do not hold their event.                *)
RowsOf(s, event) == {id \in DOMAIN s.deliveries : s.deliveries[id].event = event}

PurgeEventRefusal(s, a, i) ==
  LET id == a.events[i] IN
  IF id \notin DOMAIN s.events THEN "event"
  ELSE IF ~Guard("Purge.published", s.events[id].publishedAt < a.eventsTo) THEN "published"
  ELSE IF ~Guard("Purge.deliveries", RowsOf(s, id) \subseteq Range(a.dead)) THEN "deliveries"
  ELSE IF Twice(a.events, i) THEN "twice"
  ELSE ""

PurgeRefusal(s, a) ==
  LET dead == First(Len(a.dead), LAMBDA i : PurgeDeadRefusal(s, a, i))
  IN IF dead # "" THEN dead
     ELSE First(Len(a.events), LAMBDA i : PurgeEventRefusal(s, a, i))

PurgeEffect(s, a) ==
  [Delete(s, Range(a.dead)) EXCEPT !.events = Drop(@, Range(a.events))]
=============================================================================
