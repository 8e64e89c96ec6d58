------------------------------ MODULE Publish ------------------------------
(* Publishing, as part of the caller's transaction: events, and one pending  *)
(* delivery per handler that the event never had a delivery for.             *)
(*                                                                           *)
(* The store draws ids and sequences; the action names them (fields events,  *)
(* of which each has subscribed, deliveries and result) and the guards say   *)
(* which are allowed. One action is a whole committed transaction; what      *)
(* concurrent publishers of one id see of each other is PublishSameId's.     *)
EXTENDS State

HasEvent(events, id) == \E i \in DOMAIN events : events[i].event.id = id

NewHandlers(s, p) ==
  p.subscribed \ (IF p.event.id \in DOMAIN s.events THEN s.events[p.event.id].handlers ELSE {})

(* What publishing must say, given the event that is there.                  *)
PublishResult(s, p) ==
  IF p.event.id \notin DOMAIN s.events THEN "Added"
  ELSE LET known == s.events[p.event.id] IN
    IF known.type # p.event.type \/ known.key # p.event.key THEN "Mismatch"
    ELSE IF NewHandlers(s, p) # {} THEN "Added" ELSE "Known"

SlotOf(key) == key   \* a slot per key; production hashes keys to 65,536

SlotLast(s, key) == IF SlotOf(key) \in DOMAIN s.slots THEN s.slots[SlotOf(key)] ELSE 0

GroupNumber(s, name) == (CHOOSE i \in DOMAIN s.groups : s.groups[i] = name) - 1

LaneFor(s, event, handler) ==
  LET group == s.subscriptions[[event |-> event.type, handler |-> handler]].group
  IN GroupNumber(s, group) * Modulus + LaneIndex(event.key, event.id)

(* The sequence that delivery d of event i must exceed: what its slot drew,  *)
(* what stands last in its queue, and what the batch drew before it.         *)
LastSequence(s, events, i, d) ==
  LET queue == {s.deliveries[id].sequence : id \in Queue(s, d)}
      batch == UNION {{x.sequence : x \in {y \in Range(events[j].deliveries) : SameKey(y, d)}}
                        : j \in 1 .. i - 1}
  IN IF d.key = NoKey THEN 0
     ELSE Greatest({SlotLast(s, d.key)} \cup queue \cup batch)

(* The ids that the batch uses for other deliveries up to event i.           *)
DrawnBefore(events, i, j) ==
  UNION {{events[k].deliveries[n].id : n \in {m \in DOMAIN events[k].deliveries :
                                                 ~(k = i /\ m = j)}} : k \in 1 .. i}

FreshRow(r) ==
  /\ r.status = "pending" /\ r.diedAt = 0
  /\ r.attempts = 0 /\ r.takeovers = 0 /\ r.fence = 0

DeliverRefusal(s, events, i, j) ==
  LET e == events[i].event
      d == events[i].deliveries[j]
  IN IF ~Guard("Publish.row", d.event = e.id /\ d.key = e.key /\ FreshRow(d)) THEN "row"
     ELSE IF d.id <= 0 \/ Exists(s, d.id) \/ d.id \in DrawnBefore(events, i, j) THEN "delivery"
     ELSE IF ~Guard("Publish.lane", d.lane = LaneFor(s, e, d.handler) /\ d.lane \in DOMAIN s.lanes)
       THEN "lane"
     ELSE IF e.key = NoKey /\ Snapshot THEN ""
     ELSE IF ~Guard("Publish.sequence", d.sequence > LastSequence(s, events, i, d)) THEN "sequence"
     ELSE IF Locking /\ d.sequence # d.id THEN "sequence"
     ELSE ""

(* The inserted deliveries are exactly the new handlers'.                    *)
HandlersFit(s, p) ==
  LET inserted == [j \in DOMAIN p.deliveries |-> p.deliveries[j].handler]
      new == IF p.result = "Added" THEN NewHandlers(s, p) ELSE {}
  IN Range(inserted) = new /\ Len(inserted) = Cardinality(new)

EventRefusal(s, events, i) ==
  LET p == events[i] IN
  IF p.event.id = "" \/ HasEvent(SubSeq(events, 1, i - 1), p.event.id) THEN "event"
  \* A removed subscription counts: the publisher may have read it before.
  ELSE IF \E h \in p.subscribed :
            [event |-> p.event.type, handler |-> h] \notin DOMAIN s.subscriptions
    THEN "subscribed"
  ELSE IF ~Guard("Publish.result", p.result = PublishResult(s, p)) THEN "result"
  ELSE IF ~Guard("Publish.handlers", HandlersFit(s, p)) THEN "handlers"
  ELSE First(Len(p.deliveries), LAMBDA j : DeliverRefusal(s, events, i, j))

(* Unless every event is allowed nothing is written.                         *)
PublishRefusal(s, a) == First(Len(a.events), LAMBDA i : EventRefusal(s, a.events, i))

RowOf(d) ==
  [event |-> d.event, handler |-> d.handler, lane |-> d.lane, key |-> d.key,
   sequence |-> d.sequence, status |-> d.status, availableAt |-> d.availableAt,
   attempts |-> d.attempts, takeovers |-> d.takeovers, fence |-> d.fence, diedAt |-> d.diedAt]

(* An event remembers every handler that ever had a delivery of it, so that  *)
(* publishing it again never runs a completed one.                           *)
Remember(s, p, now) ==
  LET e == p.event
      added == IF Rule("Publish.remember") THEN {d.handler : d \in Range(p.deliveries)} ELSE {}
  IN IF e.id \in DOMAIN s.events THEN [s EXCEPT !.events[e.id].handlers = @ \cup added]
     ELSE [s EXCEPT !.events = Put(@, e.id,
            [type |-> e.type, key |-> e.key, handlers |-> added,
             publishedAt |-> IF e.publishedAt = 0 THEN now ELSE e.publishedAt])]

Insert(s, d) ==
  LET t == [s EXCEPT !.deliveries = Put(@, d.id, RowOf(d))]
  IN IF d.key = NoKey \/ Locking THEN t
     ELSE [t EXCEPT !.slots = Put(@, SlotOf(d.key), Max(SlotLast(s, d.key), d.sequence))]

RECURSIVE InsertAll(_, _)
InsertAll(s, deliveries) ==
  IF deliveries = << >> THEN s ELSE InsertAll(Insert(s, Head(deliveries)), Tail(deliveries))

RECURSIVE PublishAll(_, _, _)
PublishAll(s, events, now) ==
  IF events = << >> THEN s
  ELSE LET p == Head(events)
           t == IF p.result = "Mismatch" THEN s
                ELSE InsertAll(Remember(s, p, now), p.deliveries)
       IN PublishAll(t, Tail(events), now)

PublishEffect(s, a) == PublishAll(s, a.events, a.now)
=============================================================================
