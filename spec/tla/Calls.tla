------------------------------- MODULE Calls -------------------------------
(* What publishers, operators and workers send, and what the store makes of  *)
(* it. SendX puts a call on its way; XBy performs an action of a call that   *)
(* arrived, and, where it is answered at once, tells its worker; Answer is   *)
(* the reply to a Claim, which performs actions in several lanes.            *)
(*                                                                           *)
(* Workers are free: when to claim, what to take of the picks allowed, which *)
(* end to send and when. What binds them is what section 2 of the protocol   *)
(* says of a worker: one lane call outstanding, one end per lease, a chain   *)
(* in its order, the rest given back, the doubt after an abandoned call.     *)
EXTENDS Environment

CONSTANTS
  Handlers,      \* a sequence of names: deliveries of one event in this order
  GroupOf(_),    \* handler -> name of its group
  Handles(_),    \* worker -> the handlers it has, all of one group
  Backlog,       \* a sequence of events [id, key] published at first
  Later,         \* a set of events that may be published at any time
  Early,         \* handlers that subscribe at first; the others at any time
  Transactional, \* handlers that end inside a transaction of their own
  BadRows,       \* deliveries whose row the store may refuse to write
  TTL,           \* length of a lease
  Timeout,       \* of a call: not-after is this far from when it is sent
  Delay,         \* of a failed delivery
  MaxNumber,     \* claim numbers of one process
  MaxPicks,      \* deliveries of one Claim action
  MaxAttempts,   \* failures of one delivery
  MaxRequeues,   \* of one delivery
  MaxDeliveries  \* ever published

EventType == "t"

ClaimFields == [ttl |-> TTL, now |-> clock, clock |-> clock]

---------------------------------------------------------------------------
(* The store at first: the early handlers subscribed, the backlog published. *)

SubscribeAction(h, time, lanes) ==
  [group |-> GroupOf(h), handlers |-> {[event |-> EventType, handler |-> h]}, revive |-> FALSE,
   lanes |-> lanes, now |-> time]

MissingLanes(s, h) == LanesOfGroup(GroupOr(s, GroupOf(h))) \ DOMAIN s.lanes

Joined(s, h, time) == SubscribeEffect(s, SubscribeAction(h, time, MissingLanes(s, h)))

RECURSIVE JoinedAll(_, _)
JoinedAll(s, i) ==
  IF i > Len(Handlers) THEN s
  ELSE JoinedAll(IF Handlers[i] \in Early THEN Joined(s, Handlers[i], 1) ELSE s, i + 1)

SubscribersOf(s) ==
  {h.handler : h \in {x \in DOMAIN s.subscriptions : ~s.subscriptions[x].removed}}

(* The rows for the new handlers of an event, in the order of Handlers.      *)
NewRows(s, e, new, first, time) ==
  LET names == SelectSeq(Handlers, LAMBDA h : h \in new)
      row(i) == [id |-> first + i - 1, event |-> e.id, handler |-> names[i], key |-> e.key,
                 lane |-> LaneFor(s, [id |-> e.id, type |-> EventType, key |-> e.key], names[i]),
                 sequence |-> first + i - 1, status |-> "pending", availableAt |-> time,
                 attempts |-> 0, takeovers |-> 0, fence |-> 0, diedAt |-> 0]
  IN [i \in DOMAIN names |-> row(i)]

PublishAction(s, l, e, time) ==
  LET p == [event |-> [id |-> e.id, type |-> EventType, key |-> e.key, publishedAt |-> 0],
            subscribed |-> SubscribersOf(s)]
      result == PublishResult(s, p)
      new == IF result = "Added" THEN NewHandlers(s, p) ELSE {}
  IN [now |-> time,
      events |-> <<[event |-> p.event, subscribed |-> p.subscribed, result |-> result,
                    deliveries |-> NewRows(s, e, new, Cardinality(DOMAIN l.pairs) + 1, time)]>>]

RECURSIVE Published(_, _, _)
Published(s, l, events) ==
  IF events = << >> THEN <<s, l>>
  ELSE LET a == PublishAction(s, l, Head(events), 1)
       IN Published(PublishEffect(s, a), RecordPublish(l, s, a), Tail(events))

Init ==
  LET first == Published(JoinedAll(EmptyStore, 1), EmptyLedger, Backlog)
  IN /\ store = first[1] /\ ledger = first[2]
     /\ workers = [w \in Workers |-> NewWorker(1)]
     /\ calls = {} /\ clock = 1

---------------------------------------------------------------------------
(* Publishers and operators.                                                 *)

Publish(e) ==
  LET a == PublishAction(store, ledger, e, clock) IN
  /\ Cardinality(DOMAIN ledger.pairs) + Len(a.events[1].deliveries) <= MaxDeliveries
  /\ a.events[1].deliveries # << >>
  /\ PublishRefusal(store, a) = ""
  /\ store' = PublishEffect(store, a)
  /\ ledger' = RecordPublish(ledger, store, a)
  /\ UNCHANGED <<workers, calls, clock>>

Subscribe(h) ==
  LET a == SubscribeAction(h, clock, MissingLanes(store, h)) IN
  /\ h \notin SubscribersOf(store)
  /\ SubscribeRefusal(store, a) = ""
  /\ store' = SubscribeEffect(store, a)
  /\ UNCHANGED <<ledger, workers, calls, clock>>

(* Sweeps one delivery, or finds none left. Its guards say which one.        *)
UnsubscribeOf(h) ==
  LET a(bury, swept) == [event |-> EventType, handler |-> h, bury |-> bury, swept |-> swept,
                         now |-> clock]
  IN /\ "Unsubscribe" \in Does
     /\ \E bury \in BOOLEAN :
        \E swept \in {<<id>> : id \in DOMAIN store.deliveries} \cup {<< >>} :
          /\ swept = << >> => ~bury
          /\ UnsubscribeRefusal(store, a(bury, swept)) = ""
          /\ store' = UnsubscribeEffect(store, a(bury, swept))
          /\ ledger' = RecordUnsubscribe(ledger, store, a(bury, swept))
     /\ UNCHANGED <<workers, calls, clock>>

RequeueOf(id) ==
  LET a == [ids |-> {id}, requeued |-> <<id>>, now |-> clock] IN
  /\ "Requeue" \in Does
  /\ ledger.pairs[id].lives < MaxRequeues
  /\ RequeueRefusal(store, a) = ""
  /\ store' = RequeueEffect(store, a)
  /\ ledger' = RecordRequeue(ledger, store, a)
  /\ UNCHANGED <<workers, calls, clock>>

PurgeBy(a) ==
  /\ "Purge" \in Does
  /\ PurgeRefusal(store, a) = ""
  /\ store' = PurgeEffect(store, a)
  /\ ledger' = RecordPurge(ledger, store, a)
  /\ UNCHANGED <<workers, calls, clock>>

(* What died, and what was published, before this moment.                    *)
PurgeDead(id) == PurgeBy([dead |-> <<id>>, events |-> << >>, diedTo |-> clock, eventsTo |-> clock])
PurgeEvent(e) == PurgeBy([dead |-> << >>, events |-> <<e>>, diedTo |-> clock, eventsTo |-> clock])

---------------------------------------------------------------------------
(* Claims. A worker has one Claim or Relinquish outstanding, states all that *)
(* it runs, and while it is in doubt asks for all its lanes and no suspect.  *)

Stated(w) ==
  {[delivery |-> x.delivery, claim |-> x.claim, lane |-> x.lane,
    handler |-> ledger.pairs[x.delivery].handler, key |-> ledger.pairs[x.delivery].key]
     : x \in workers[w].leases}

InDoubt(w) == workers[w].doubt # 0 /\ Rule("Worker.doubt")
SuspectRuns(w) == \E x \in workers[w].leases : x.suspect

ClaimCall(w, number) ==
  [kind |-> "Claim", worker |-> w, late |-> FALSE, holder |-> Holder(w), number |-> number,
   running |-> Stated(w), suspect |-> SuspectRuns(w) \/ InDoubt(w), all |-> InDoubt(w),
   sure |-> workers[w].past, notAfter |-> Plus(clock, Timeout), reached |-> {},
   granted |-> {}, lost |-> {}]

LanesOf(w) ==
  UNION {LanesOfGroup(GroupNumber(store, GroupOf(h))) : h \in Handles(w) \cap SubscribersOf(store)}

(* The number of a worker's group: its handlers are all of one.              *)
GroupOfWorker(w) == GroupNumber(store, GroupOf(CHOOSE h \in Handles(w) : TRUE))

(* A call may reach for any lane: whose it is, the guards ask. A worker      *)
(* without a subscription reaches for none.                                  *)
LanesFor(w) == IF LanesOf(w) = {} THEN {} ELSE DOMAIN store.lanes

(* A lane that a worker may hope to get something from.                      *)
Promises(w, lane) ==
  LET l == store.lanes[lane]
      free == {id \in DOMAIN store.deliveries :
                 /\ IsPending(store, id) /\ store.deliveries[id].lane = lane
                 /\ id \notin Ids(workers[w].leases)}
  IN IF l.holder = Holder(w) THEN free # {}
     ELSE IF l.holder = Nobody THEN free # {} ELSE Expired(l, clock)

SendClaim(w) ==
  LET number == workers[w].number + 2 IN   \* its takeovers use the number before
  /\ "Eager" \in Does => \E l \in LanesOf(w) : Promises(w, l)
  /\ workers[w].up /\ LaneCallOf(w) = {} /\ number <= MaxNumber
  /\ calls' = calls \cup {ClaimCall(w, number)}
  /\ workers' = [workers EXCEPT ![w].number = number]
  /\ UNCHANGED <<store, ledger, clock>>

RefusedSets(list) == SUBSET (BadRows \cap Ids(list))

(* A free lane is worth having only for a row that can be picked.            *)
Attracts(c, lane) ==
  \/ store.lanes[lane].holder # Nobody
  \/ \E id \in DOMAIN store.deliveries :
       /\ IsPending(store, id) /\ store.deliveries[id].lane = lane
       /\ store.deliveries[id].handler \in Handles(c.worker)
       /\ Due(store.deliveries[id], clock)

TakeOverBy(c, lane) ==
  \E refused \in IF Locking THEN RefusedSets(store.lanes[lane].inFlight) ELSE {{}} :
    LET a == [lane |-> lane, group |-> GroupOfWorker(c.worker), holder |-> c.holder,
              number |-> c.number - 1, notAfter |-> c.notAfter, refused |-> refused] @@ ClaimFields
    IN /\ lane \notin c.reached /\ Attracts(c, lane)
       /\ TakeOverRefusal(store, a) = ""
       /\ store' = TakeOverEffect(store, a)
       /\ ledger' = RecordTakeOver(ledger, store, a)
       /\ UNCHANGED <<workers, calls, clock>>

(* The picks that take a set of rows: in order, chains as they stand.        *)
PicksOf(ids) ==
  LET nth(i) == CHOOSE x \in ids : Cardinality({y \in ids : y < x}) = i - 1
      ahead(x) == {y \in ids : y < x /\ SameKey(ledger.pairs[x], ledger.pairs[y])}
      after(x) == IF ahead(x) = {} THEN NoDelivery ELSE Greatest(ahead(x))
  IN [i \in 1 .. Cardinality(ids) |->
       [delivery |-> nth(i), after |-> after(nth(i)), fence |-> store.deliveries[nth(i)].fence]]

Pickable(lane) ==
  {ids \in SUBSET {id \in DOMAIN store.deliveries :
                     Guard("Claim.row lane", store.deliveries[id].lane = lane)} :
     Cardinality(ids) <= MaxPicks}

Granted(a, p) ==
  [delivery |-> p.delivery, lane |-> a.lane, epoch |-> store.lanes[a.lane].epoch,
   holder |-> a.holder, claim |-> a.number, after |-> p.after, fence |-> p.fence,
   suspect |-> IsSuspect(store, p.delivery), phase |-> "run"]

(* The call after it was to a lane. What its reply will tell matters only    *)
(* while somebody waits for it.                                              *)
Told(c, a) ==
  LET listed == store.lanes[a.lane].inFlight
      lost == {Entry(r) : r \in {x \in c.running : x.lane = a.lane /\ Entry(x) \notin listed}}
      d == [c EXCEPT !.reached = @ \cup {a.lane}]
      granted == {Granted(a, p) : p \in Range(a.picks)}
  IN IF c.late THEN d ELSE [d EXCEPT !.granted = @ \cup granted, !.lost = @ \cup lost]

ClaimAction(c, lane, ids, unstuck) ==
  [lane |-> lane, holder |-> c.holder, number |-> c.number, handlers |-> Handles(c.worker),
   running |-> c.running, picks |-> PicksOf(ids), suspectRunning |-> c.suspect, renew |-> TRUE,
   notAfter |-> c.notAfter, unstuck |-> unstuck, seen |-> 0] @@ ClaimFields

CanPick(c, lane, ids) == ClaimRefusal(store, ClaimAction(c, lane, ids, {})) = ""

ClaimBy(c, lane) ==
  \E ids \in Pickable(lane), unstuck \in SUBSET store.lanes[lane].stuck :
    LET a == ClaimAction(c, lane, ids, unstuck)
    IN /\ lane \notin c.reached
       /\ ClaimRefusal(store, a) = ""
       /\ "Eager" \in Does /\ ids = {}
            => \A more \in Pickable(lane) \ {{}} : ~CanPick(c, lane, more)
       /\ store' = ClaimEffect(store, a)
       /\ ledger' = RecordClaim(ledger, store, a)
       /\ calls' = (calls \ {c}) \cup {Told(c, a)}
       /\ UNCHANGED <<workers, clock>>

(* Charges what a snapshot store's takeover found; whoever needs the lane.   *)
ChargeLostOf(lane) ==
  \E refused \in RefusedSets(store.lanes[lane].lost) :
    LET a == [lane |-> lane, refused |-> refused] IN
    /\ Snapshot /\ Rule("ChargeLost")
    /\ ChargeLostRefusal(store, a) = ""
    /\ store' = ChargeLostEffect(store, a)
    /\ ledger' = RecordChargeLost(ledger, store, a)
    /\ UNCHANGED <<workers, calls, clock>>

---------------------------------------------------------------------------
(* What a worker makes of a reply. Whoever is gone takes along what stands   *)
(* behind it in its chain: that is given back, not run.                      *)

ReleaseCall(w, leases) ==
  LET nth(i) == CHOOSE x \in leases : Cardinality({y \in leases : y.delivery < x.delivery}) = i - 1
  IN [kind |-> "Release", worker |-> w, late |-> FALSE,
      leases |-> [i \in 1 .. Cardinality(leases) |-> LeaseOf(nth(i))]]

(* The worker's leases without those that are gone; rest is given back.      *)
Left(leases, gone, rest) ==
  {x \in leases : x \notin gone /\ x \notin rest} \cup {[x EXCEPT !.phase = "ending"] : x \in rest}

RestOf(leases, lost) ==
  {y \in UNION {BehindIn(leases, x) : x \in lost} : y.phase = "run" /\ y \notin lost}

(* A Claim is answered when it has been to every lane that it names; while   *)
(* its worker is in doubt it names all that its holder has. An eager one has *)
(* left nothing out.                                                         *)
Reached(c) ==
  /\ c.all => \A l \in DOMAIN store.lanes :
       store.lanes[l].holder = c.holder => l \in c.reached \/ store.lanes[l].lost # {}
  /\ "Eager" \in Does =>
       ~ENABLED (\E l \in LanesFor(c.worker) : TakeOverBy(c, l) \/ ClaimBy(c, l) \/ ChargeLostOf(l))

Answer(w) ==
  \E c \in LaneCallOf(w) :
    LET leases == workers[w].leases
        lost == {x \in leases : Entry(x) \in c.lost /\ x.phase # "ending"}
        rest == RestOf(leases, lost)
        trusted == c.sure
    IN /\ c.kind = "Claim" /\ Reached(c)
       /\ workers' = [workers EXCEPT ![w] =
            [@ EXCEPT !.leases = Left(@, lost, rest) \cup c.granted,
                      !.doubt = IF trusted THEN 0 ELSE @,
                      !.past = ~trusted /\ workers[w].doubt # 0 /\ clock > workers[w].doubt]]
       /\ calls' = (calls \ {c}) \cup IF rest = {} THEN {} ELSE {ReleaseCall(w, rest)}
       /\ UNCHANGED <<store, ledger, clock>>

---------------------------------------------------------------------------
(* Giving lanes back, and keeping them. A worker may name a lane in which it *)
(* runs something: the store keeps that, so that a worker that stops need    *)
(* not know its lanes.                                                       *)

SendRelinquishOf(w, lane) ==
  LET number == workers[w].number + 1 IN
  /\ "Relinquish" \in Does
  /\ workers[w].up /\ LaneCallOf(w) = {} /\ workers[w].doubt = 0 /\ number <= MaxNumber
  /\ store.lanes[lane].holder = Holder(w)
  /\ calls' = calls \cup {[kind |-> "Relinquish", worker |-> w, late |-> FALSE,
       holder |-> Holder(w), number |-> number, running |-> Stated(w), lane |-> lane,
       notAfter |-> Plus(clock, Timeout)]}
  /\ workers' = [workers EXCEPT ![w].number = number]
  /\ UNCHANGED <<store, ledger, clock>>

(* Performed and heard, or refused and heard; a late one is heard by nobody. *)
RelinquishBy(c) ==
  LET a == [lane |-> c.lane, holder |-> c.holder, number |-> c.number, epoch |-> 0,
            running |-> c.running]
      refusal == IF clock > c.notAfter THEN "not-after" ELSE RelinquishRefusal(store, a)
  IN /\ IF refusal = ""
        THEN /\ store' = RelinquishEffect(store, a)
             /\ ledger' = RecordRelinquish(ledger, store, a)
        ELSE UNCHANGED <<store, ledger>>
     /\ calls' = calls \ {c}
     /\ UNCHANGED <<workers, clock>>

(* By what the worker believes, which may have been overtaken.               *)
ExtendLeaseOf(w, x) ==
  LET a == [lane |-> x.lane, epoch |-> x.epoch, holder |-> x.holder] @@ ClaimFields IN
  /\ "ExtendLease" \in Does
  /\ ExtendLeaseRefusal(store, a) = ""
  /\ store' = ExtendLeaseEffect(store, a)
  /\ ledger' = RecordExtendLease(ledger, store, a)
  /\ UNCHANGED <<workers, calls, clock>>

---------------------------------------------------------------------------
(* Ends of runs. One ending call per lease is outstanding, and its kind      *)
(* never changes; a definite error is followed by another end.               *)

Send(w, call, ending) ==
  /\ calls' = calls \cup {call}
  /\ workers' = [workers EXCEPT ![w].leases =
       {IF x \in ending THEN [x EXCEPT !.phase = "ending"] ELSE x : x \in @}]
  /\ UNCHANGED <<store, ledger, clock>>

IsTransactional(x) == ledger.pairs[x.delivery].handler \in Transactional

EndCall(w, kind, list) == [kind |-> kind, worker |-> w, late |-> FALSE, leases |-> list]

(* A handler returned; perhaps the next of its chain too, in the same call.  *)
SendCompleteManyOf(w, x) ==
  /\ IsStarted(w, x) /\ x.delivery \notin Poison /\ ~IsTransactional(x)
  /\ \/ Send(w, EndCall(w, "CompleteMany", <<LeaseOf(x)>>), {x})
     \/ \E y \in BehindIn(workers[w].leases, x) :
          /\ y.after = x.delivery /\ y.phase = "run" /\ y.delivery \notin Poison
          /\ Send(w, EndCall(w, "CompleteMany", <<LeaseOf(x), LeaseOf(y)>>), {x, y})

(* The handler's COMMIT. Its next in the chain waits for the acknowledgement.*)
SendCompleteOf(w, x) ==
  /\ x.phase = "run" /\ AheadIn(workers[w].leases, x) = {}
  /\ x.delivery \notin Poison /\ IsTransactional(x)
  /\ Send(w, EndCall(w, "Complete", <<LeaseOf(x)>>), {x})

(* An end that keeps the row takes the rest of the chain along.              *)
SendEndOf(w, x, kind) ==
  LET rest == {y \in BehindIn(workers[w].leases, x) : y.phase # "ending"} IN
  /\ kind \in Does
  /\ (IsStarted(w, x) /\ x.delivery \notin Poison) \/ x.phase = "failed"
  /\ kind = "Snooze" => x.phase # "failed"
  /\ Send(w, EndCall(w, kind, <<LeaseOf(x)>>) @@ [rest |-> {LeaseOf(y) : y \in rest}],
          {x} \cup rest)

(* A COMMIT whose outcome is unknown is settled by a Snooze.                 *)
SendSettleOf(w, x) ==
  LET rest == {y \in BehindIn(workers[w].leases, x) : y.phase # "ending"} IN
  /\ x.phase = "unknown"
  /\ Send(w, EndCall(w, "Snooze", <<LeaseOf(x)>>) @@ [rest |-> {LeaseOf(y) : y \in rest}],
          {x} \cup rest)

(* The worker cancels a run, or gives up one that never started.             *)
SendReleaseOf(w, x) ==
  LET given == {x} \cup {y \in BehindIn(workers[w].leases, x) : y.phase = "run"} IN
  /\ "Release" \in Does /\ x.phase = "run"
  /\ Send(w, ReleaseCall(w, given), given)

(* The worker waits no longer for a COMMIT that is still under way.          *)
GiveUpComplete(w) ==
  /\ Cardinality(Late) < MaxLate
  /\ \E c \in Waiting(w) :
       /\ c.kind = "Complete"
       /\ calls' = (calls \ {c}) \cup {[c EXCEPT !.late = TRUE]}
       /\ workers' = [workers EXCEPT ![w].leases =
            {IF LeaseOf(x) = c.leases[1] THEN [x EXCEPT !.phase = "unknown"] ELSE x : x \in @}]
  /\ UNCHANGED <<store, ledger, clock>>

(* A COMMIT that never happens: the transaction was rolled back.             *)
RollBack ==
  \E c \in calls :
    /\ c.kind = "Complete" /\ c.late
    /\ calls' = calls \ {c}
    /\ UNCHANGED <<store, ledger, workers, clock>>

(* Leases as their worker holds them.                                        *)
HeldBy(w, leases) == {x \in workers[w].leases : LeaseOf(x) \in leases}

(* What a worker makes of the verdicts on a list of leases.                  *)
Heard(c, list, refusals) ==
  LET w == c.worker
      leases == workers[w].leases
      by(Out(_)) == HeldBy(w, {list[i] : i \in {j \in DOMAIN list : Out(refusals[j])}})
      bad == by(LAMBDA o : o = "refused")
      lost == by(LAMBDA o : o \notin {"", "refused"})
      gone == by(LAMBDA o : o # "refused")
      rest == RestOf(leases, lost)
  IN /\ workers' = [workers EXCEPT ![w].leases =
          {IF x \in bad THEN [x EXCEPT !.phase = "failed"] ELSE x : x \in Left(@, gone, rest)}]
     /\ calls' = (calls \ {c}) \cup IF rest = {} THEN {} ELSE {ReleaseCall(w, rest)}

(* A late call is used up, and heard by nobody. Otherwise the reply arrives, *)
(* or is lost and the call will be sent again.                               *)
Replied(c, list, refusals) ==
  IF c.late THEN calls' = calls \ {c} /\ UNCHANGED workers
  ELSE \/ Heard(c, list, refusals)
       \/ "LoseReply" \in Does /\ UNCHANGED <<workers, calls>>

CompleteManyBy(c) ==
  \E refused \in SUBSET (BadRows \cap {l.delivery : l \in Range(c.leases)}) :
    LET a == [leases |-> c.leases, verdicts |-> << >>, refused |-> refused,
              unlisted |-> {}, seen |-> 0] IN
    /\ store' = CompleteManyEffect(store, a)
    /\ ledger' = RecordCompleteMany(ledger, store, a)
    /\ Replied(c, c.leases, CompleteManyRefusals(store, a))
    /\ UNCHANGED clock

(* A transaction commits once: when its reply is lost the worker has to      *)
(* settle. In a snapshot store either verdict may be right.                  *)
CompleteBy(c) ==
  \E verdict \in {"Applied", "LeaseLost"} :
    LET a == [lease |-> c.leases[1], verdict |-> verdict, seen |-> 0]
        refusal == CompleteRefusal(store, a)
    IN /\ VerdictOf(refusal) = verdict
       /\ IF verdict = "Applied"
          THEN /\ store' = CompleteEffect(store, a)
               /\ ledger' = RecordComplete(ledger, store, a)
          ELSE UNCHANGED <<store, ledger>>
       /\ IF c.late THEN calls' = calls \ {c} /\ UNCHANGED workers
          ELSE Heard(c, c.leases, <<refusal>>)
       /\ UNCHANGED clock

(* A settle waits, in a locking store, for the transaction it asks about.    *)
StillOpen(lease) ==
  Locking /\ \E c \in calls : c.kind = "Complete" /\ c.leases[1] = lease

FinishAction(c, refused) ==
  [lease |-> c.leases[1], rest |-> c.rest, delay |-> Delay, charge |-> TRUE, now |-> clock,
   verdict |-> "Applied", seen |-> 0, refused |-> refused]

(* How an end that keeps the row leaves store and ledger.                    *)
Finished(c, a) ==
  CASE c.kind = "Reschedule" -> <<RescheduleEffect(store, a), RecordReschedule(ledger, store, a)>>
    [] c.kind = "Snooze" -> <<SnoozeEffect(store, a), RecordSnooze(ledger, store, a)>>
    [] c.kind = "Bury" -> <<BuryEffect(store, a), RecordBury(ledger, store, a)>>

TooOften(c) ==
  LET id == c.leases[1].delivery
  IN c.kind # "Snooze" /\ Exists(store, id) /\ store.deliveries[id].attempts >= MaxAttempts

(* The rest goes with it; also when the verdict is LeaseLost.                *)
FinishBy(c) ==
  \E refused \in IF c.leases[1].delivery \in BadRows THEN BOOLEAN ELSE {FALSE} :
    LET a == FinishAction(c, refused)
        refusal == FinishRefusal(store, a)
        all == <<c.leases[1]>> \o ReleaseCall(c.worker, c.rest).leases
    IN /\ ~StillOpen(c.leases[1])
       /\ refusal = "" => ~TooOften(c)
       /\ IF refusal = ""
          THEN store' = Finished(c, a)[1] /\ ledger' = Finished(c, a)[2]
          ELSE UNCHANGED <<store, ledger>>
       /\ Replied(c, all, [i \in DOMAIN all |-> refusal])
       /\ UNCHANGED clock

ReleaseBy(c) ==
  LET a == [leases |-> c.leases, verdicts |-> << >>, seen |-> 0] IN
  /\ store' = ReleaseEffect(store, a)
  /\ ledger' = RecordRelease(ledger, store, a)
  /\ Replied(c, c.leases, ReleaseRefusals(store, a))
  /\ UNCHANGED clock
=============================================================================
