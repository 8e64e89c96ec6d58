------------------------------- MODULE Ledger -------------------------------
(* Ghost history: what no store keeps, and what the invariants speak of. It  *)
(* is a value, as the store is; RecordX(l, s, a) is the ledger after action  *)
(* a, which store s (as it was before) accepted. The history only reads the  *)
(* action, never the guards that let it pass: with a guard left out it shows *)
(* what that costs.                                                          *)
(*                                                                           *)
(* It is as small as the invariants allow, so that histories which no longer *)
(* matter are one state: of each delivery the one run that may still be      *)
(* charged, not all it ever had. In a run without a fault of the protocol    *)
(* nearly all of it follows from the store. protocol.Ledger in Go keeps      *)
(* every run, to say more in its reports.                                    *)
(*                                                                           *)
(* pairs: by delivery id, which are drawn 1, 2, ...:                         *)
(*   event, handler, key, lane  what the delivery is                         *)
(*   fate       "alive" (a row must be there), "completed", "purged" or      *)
(*              "unsubscribed"                                               *)
(*   forgotten  its event was purged: the id may be published anew           *)
(*   dead       a dead letter                                                *)
(*   lives      how often it was requeued                                    *)
(*   excepted   from the order of completions: once dead or requeued         *)
(*   bad        ended badly once: Reschedule, charging Bury, refused end     *)
(*   charges, takeovers  since the last Requeue                              *)
(*   blamed     the kills that it was charged for                            *)
(*   run        the run that is open, or taken over and not charged (lost)   *)
(*   fenced     [holder, claim] of runs taken over and charged (snapshot)    *)
(* terms:  lane -> whose calls are to be accepted                            *)
(* kills:  holder -> [by, life], for workers that a delivery killed          *)
(* broken: names of the invariants that an action broke                      *)
EXTENDS Finish, Operate

NoKill == [by |-> NoDelivery, life |-> 0]
NoRun == [phase |-> "none", epoch |-> 0, holder |-> Nobody, claim |-> 0, death |-> NoKill]

EmptyLedger == [pairs |-> Nothing, terms |-> Nothing, kills |-> Nothing, broken |-> {}]

NewPair(d) ==
  [event |-> d.event, handler |-> d.handler, key |-> d.key, lane |-> d.lane,
   fate |-> "alive", forgotten |-> FALSE, dead |-> FALSE, lives |-> 0, excepted |-> FALSE,
   bad |-> FALSE, charges |-> 0, takeovers |-> 0, blamed |-> {}, run |-> NoRun, fenced |-> {}]

(* What is over needs no accounts any more.                                  *)
Over(p, fate) ==
  [p EXCEPT !.fate = fate, !.dead = FALSE, !.lives = 0, !.bad = FALSE, !.charges = 0,
            !.takeovers = 0, !.blamed = {}, !.fenced = {}]

Breaks(l, name, broke) == IF broke THEN [l EXCEPT !.broken = @ \cup {name}] ELSE l

Alive(p) == p.fate = "alive" /\ ~p.dead
IsOpen(p) == p.run.phase = "open"
OpenIn(l, lane) == {id \in DOMAIN l.pairs : l.pairs[id].lane = lane /\ IsOpen(l.pairs[id])}
IsRun(run, lease) ==
  run.epoch = lease.epoch /\ run.holder = lease.holder /\ run.claim = lease.claim

CloseRuns(l, ids) ==
  [l EXCEPT !.pairs = [id \in DOMAIN @ |->
    IF id \in ids THEN [@[id] EXCEPT !.run = NoRun] ELSE @[id]]]

(* A call on a lane was accepted from a holder.                              *)
Accept(l, lane, holder) ==
  Breaks(l, "OneHolderPerLane", lane \notin DOMAIN l.terms \/ l.terms[lane] # holder)

---------------------------------------------------------------------------
(* Publishing and operating.                                                 *)

RECURSIVE CommitAll(_, _)
CommitAll(l, deliveries) ==
  IF deliveries = << >> THEN l
  ELSE LET d == Head(deliveries)
           again == \E id \in DOMAIN l.pairs : /\ l.pairs[id].event = d.event
                                               /\ l.pairs[id].handler = d.handler
                                               /\ ~l.pairs[id].forgotten
           t == Breaks(l, "CompletedStaysDone", again)
       IN CommitAll([t EXCEPT !.pairs = Put(@, d.id, NewPair(d))], Tail(deliveries))

RECURSIVE RecordEvents(_, _)
RecordEvents(l, events) ==
  IF events = << >> THEN l
  ELSE RecordEvents(CommitAll(l, Head(events).deliveries), Tail(events))

RecordPublish(l, s, a) == RecordEvents(l, a.events)

(* Only a dead letter is forgiven what it was charged.                       *)
RecordRequeue(l, s, a) ==
  LET t == Breaks(l, "ChargedOnce", \E id \in Range(a.requeued) : ~l.pairs[id].dead)
  IN [t EXCEPT !.pairs = [id \in DOMAIN @ |->
       IF id \notin Range(a.requeued) THEN @[id]
       ELSE [@[id] EXCEPT !.dead = FALSE, !.excepted = TRUE, !.lives = @ + 1,
                          !.charges = 0, !.takeovers = 0, !.blamed = {}]]]

RecordPurge(l, s, a) ==
  LET dead == Range(a.dead)
      of(id) == l.pairs[id].event \in Range(a.events)
      t == [l EXCEPT !.pairs = [id \in DOMAIN @ |->
             IF id \in dead THEN [Over(@[id], "purged") EXCEPT !.forgotten = @ \/ of(id)]
             ELSE IF of(id) THEN [@[id] EXCEPT !.forgotten = TRUE] ELSE @[id]]]
  IN Breaks(t, "NoLostDelivery",
            \/ \E id \in dead : Alive(l.pairs[id])
            \/ \E id \in DOMAIN l.pairs : of(id) /\ t.pairs[id].fate = "alive")

(* A swept run goes on until its worker hears of it.                         *)
RecordUnsubscribe(l, s, a) ==
  LET swept == Range(a.swept)
      t == Breaks(l, "NoLostDelivery",
                  \E id \in swept : ~Alive(l.pairs[id]) \/ l.pairs[id].handler # a.handler)
  IN [t EXCEPT !.pairs = [id \in DOMAIN @ |->
       IF id \notin swept THEN @[id]
       ELSE IF a.bury THEN [@[id] EXCEPT !.dead = TRUE, !.excepted = TRUE]
       ELSE Over(@[id], "unsubscribed")]]

---------------------------------------------------------------------------
(* Leases.                                                                   *)

PairsOfKey(l, id) ==
  {x \in DOMAIN l.pairs : x # id /\ SameKey(l.pairs[x], l.pairs[id])}

(* Does a grant let two runs of a delivery, or of its key, go on at once?    *)
Beside(l, a, i) ==
  LET p == a.picks[i]
      id == p.delivery
  IN \/ IsOpen(l.pairs[id])
     \/ p.after = NoDelivery
          /\ \E x \in PairsOfKey(l, id) : IsOpen(l.pairs[x]) \/ PickedBefore(a, i, x)
     \/ p.after # NoDelivery /\ ~PickedBefore(a, i, p.after)

(* Was the open run granted by the call of this number, or by a later one?   *)
(* What such a call states says nothing of the run.                          *)
Since(l, id, number) == l.pairs[id].run.claim >= number

RecordClaim(l, s, a) ==
  LET picks == {p.delivery : p \in Range(a.picks)}
      over == {id \in OpenIn(l, a.lane) :
                 ~Runs(a.running, [delivery |-> id, claim |-> l.pairs[id].run.claim])}
      owes(id) == l.pairs[id].run.phase = "lost" \/ id \in s.lanes[a.lane].stuck
      run == [NoRun EXCEPT !.phase = "open", !.epoch = s.lanes[a.lane].epoch,
                           !.holder = a.holder, !.claim = a.number]
      closed == CloseRuns(Accept(l, a.lane, a.holder), over)
      judged == Breaks(Breaks(Breaks(Breaks(Breaks(closed,
        "KeyOrder", \E i \in DOMAIN a.picks : Beside(closed, a, i)),
        "CompletedStaysDone", \E id \in picks : l.pairs[id].fate = "completed"),
        "DeadStaysDead", \E id \in picks : l.pairs[id].dead),
        "NothingDropped", \E id \in over : Since(l, id, a.number)),
        \* Nothing runs again before it has paid for the run before.
        "ChargedOnce", \E id \in picks : owes(id))
      paid(p, id) ==
        IF id \in a.unstuck /\ Alive(p)
        THEN [p EXCEPT !.charges = @ + 1, !.takeovers = @ + 1] ELSE p
      row(p, id) == IF id \in picks THEN [paid(p, id) EXCEPT !.run = run] ELSE paid(p, id)
  IN [judged EXCEPT !.pairs = [id \in DOMAIN @ |-> row(@[id], id)]]

(* Charges of a takeover, by the history's own reckoning, compared with what *)
(* the store says whose attempts rose. Every listed delivery was in flight;  *)
(* the followers of a chain never started.                                   *)
Charge(l, list, refused, charged) ==
  LET counted == {id \in list \ refused : Alive(l.pairs[id])}
      started == {id \in counted :
                    ~\E x \in list : x < id /\ x \in PairsOfKey(l, id) /\ Alive(l.pairs[x])}
      death(id) == l.pairs[id].run.death
      blames == {id \in started : death(id) # NoKill /\ death(id).by # id}
      killer(id) == \E h \in DOMAIN l.kills : l.kills[h].by = id
      twice == {id \in blames : death(id) \in l.pairs[id].blamed
                                  /\ ~l.pairs[id].bad /\ ~killer(id)}
      one(ids, id) == IF id \in ids THEN 1 ELSE 0
      paid(p, id) ==
        [p EXCEPT !.takeovers = @ + one(counted, id), !.charges = @ + one(started, id),
                  !.blamed = IF id \in blames THEN @ \cup {death(id)} ELSE @,
                  !.fenced = IF Snapshot /\ id \notin refused /\ Alive(p)
                             THEN @ \cup {[holder |-> p.run.holder, claim |-> p.run.claim]}
                             ELSE @,
                  !.run = NoRun]
      judged == Breaks(Breaks(l, "ChargedOnce", charged # started),
                       "InnocentNeighbours", twice # {})
  IN [judged EXCEPT !.pairs = [id \in DOMAIN @ |->
       IF id \in list THEN paid(@[id], id) ELSE @[id]]]

RecordTakeOver(l, s, a) ==
  LET open == OpenIn(l, a.lane)
      old == IF a.lane \in DOMAIN l.terms THEN l.terms[a.lane] ELSE Nobody
      death == IF old \in DOMAIN l.kills THEN l.kills[old] ELSE NoKill
      taken == [l EXCEPT !.terms = Put(@, a.lane, a.holder),
                         !.pairs = [id \in DOMAIN @ |->
                           IF id \in open
                           THEN [@[id] EXCEPT !.run.phase = "lost", !.run.death = death]
                           ELSE @[id]]]
      judged == Breaks(Breaks(taken,
        \* What its own holder takes over is still running.
        "NothingDropped", old = a.holder /\ open # {}),
        "OneGroupPerHolder", a.lane \notin LanesOfGroup(a.group))
  IN IF Snapshot THEN judged ELSE Charge(judged, open, a.refused, TakeOverCharged(s, a))

RecordChargeLost(l, s, a) ==
  LET lost == {id \in DOMAIN l.pairs :
                 l.pairs[id].lane = a.lane /\ l.pairs[id].run.phase = "lost"}
  IN Charge(l, lost, a.refused, ChargeLostCharged(s, a))

RecordExtendLease(l, s, a) == Accept(l, a.lane, a.holder)

RecordRelinquish(l, s, a) ==
  LET open == OpenIn(l, a.lane)
      stated == {id \in open :
                   Runs(a.running, [delivery |-> id, claim |-> l.pairs[id].run.claim])}
      t == Breaks(Accept(l, a.lane, a.holder), "NothingDropped",
                  stated # {} \/ \E id \in open : Since(l, id, a.number))
  IN [CloseRuns(t, open) EXCEPT !.terms = Put(@, a.lane, Nobody)]

---------------------------------------------------------------------------
(* Ends of runs. "Changed" says whether the row was there.                   *)

(* A snapshot store may accept a completion of what was taken over, and of   *)
(* what was released, until something wrote the row (docs/adr, 13).          *)
AcceptEnd(l, lease, plain, changed) ==
  LET p == l.pairs[lease.delivery]
      open == IsOpen(p) /\ IsRun(p.run, lease)
      fenced == [holder |-> lease.holder, claim |-> lease.claim] \in p.fenced
      late == Snapshot /\ plain /\ ~open /\ ~fenced
      t == IF late THEN l ELSE Accept(l, lease.lane, lease.holder)
  IN Breaks(t, "FencedOut", changed /\ ~open /\ ~late)

EndRun(l, leases) ==
  CloseRuns(l, {id \in DOMAIN l.pairs :
                  IsOpen(l.pairs[id])
                    /\ \E m \in leases : m.delivery = id /\ IsRun(l.pairs[id].run, m)})

Done(l, lease) ==
  LET id == lease.delivery
      p == l.pairs[id]
      others == PairsOfKey(l, id)
      early == /\ lease.after \in others
               /\ Alive(l.pairs[lease.after]) /\ ~l.pairs[lease.after].excepted
      overtaken == /\ ~p.excepted
                   /\ \E x \in others : x > id /\ l.pairs[x].fate = "completed"
                                               /\ ~l.pairs[x].excepted
      t == Breaks(Breaks(Breaks(l, "AtMostOneCompletion", p.fate = "completed"),
                         "DeadStaysDead", p.dead),
                  "KeyOrder", early \/ overtaken)
  IN [t EXCEPT !.pairs[id] = [Over(p, "completed") EXCEPT !.run = NoRun]]

(* The leases that were Applied, in order; a row that was gone changes       *)
(* nothing.                                                                  *)
RECURSIVE RecordCompletions(_, _, _, _)
RecordCompletions(l, a, refusals, i) ==
  IF i > Len(a.leases) THEN l
  ELSE LET lease == a.leases[i]
           here == l.pairs[lease.delivery].fate = "alive"
           t == AcceptEnd(l, lease, TRUE, here)
           u == IF refusals[i] # "" THEN l ELSE IF here THEN Done(t, lease) ELSE t
       IN RecordCompletions(u, a, refusals, i + 1)

RecordCompleteMany(l, s, a) == RecordCompletions(l, a, CompleteManyRefusals(s, a), 1)

RecordComplete(l, s, a) == Done(AcceptEnd(l, a.lease, Snapshot, TRUE), a.lease)

(* An end that keeps the row. Pay: it costs an attempt.                      *)
RecordFinish(l, a, pay) ==
  LET id == a.lease.delivery
      p == l.pairs[id]
      open == IsOpen(p) /\ IsRun(p.run, a.lease)
      t == EndRun(AcceptEnd(l, a.lease, FALSE, p.fate = "alive"), {a.lease} \cup a.rest)
      u == Breaks(Breaks(t, "DeadStaysDead", ~a.refused /\ p.dead),
                  "ChargedOnce", ~a.refused /\ pay /\ ~open)
  IN [u EXCEPT !.pairs[id].bad = @ \/ a.refused \/ pay,
               !.pairs[id].charges = IF pay /\ ~a.refused THEN @ + 1 ELSE @]

RecordReschedule(l, s, a) == RecordFinish(l, a, TRUE)
RecordSnooze(l, s, a) == RecordFinish(l, a, FALSE)

RecordBury(l, s, a) ==
  LET t == RecordFinish(l, a, a.charge)
      id == a.lease.delivery
  IN IF a.refused THEN t
     ELSE [t EXCEPT !.pairs[id].dead = TRUE, !.pairs[id].excepted = TRUE]

RECURSIVE RecordReleases(_, _, _, _)
RecordReleases(l, a, refusals, i) ==
  IF i > Len(a.leases) THEN l
  ELSE LET t == EndRun(AcceptEnd(l, a.leases[i], FALSE, FALSE), {a.leases[i]})
       IN RecordReleases(IF refusals[i] = "" THEN t ELSE l, a, refusals, i + 1)

RecordRelease(l, s, a) == RecordReleases(l, a, ReleaseRefusals(s, a), 1)
=============================================================================
