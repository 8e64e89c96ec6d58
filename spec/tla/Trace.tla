------------------------------- MODULE Trace -------------------------------
(* Traces of the simulator against the specification: does each action that  *)
(* a store committed, or evaluated and refused, have in State's operators    *)
(* the verdict that the store gave, in the store that they have built up?    *)
(*                                                                           *)
(* Every trace is one behaviour: an initial state per trace, and one step    *)
(* per event. A trace that is explained to its end prints                    *)
(* <<"accepted", n>>; one that is not stops, and prints <<"refused", n,      *)
(* line, action, guard, what the store had>>. go run ./spec/trace compares.  *)
(*                                                                           *)
(* The traces are in TraceBatch, which that command replaces by a batch of   *)
(* real ones. Their times are ranks: TLC counts in 32 bits, and rules only   *)
(* compare. A duration is the set of its sums with the times of its action.  *)
(*                                                                           *)
(* Believed, as in protocol.Step: the ids, sequences and picks that the      *)
(* store chose, as far as they are allowed. Not seen: whether a delivery is  *)
(* ever picked, what handlers do, and what the invariants say of it all.     *)
EXTENDS Finish, Operate, TraceBatch, TLC

VARIABLES
  trace,  \* a number of Traces
  step,   \* how many of its events are explained; 0 - n when event n is not
  store,
  kept    \* stores by commit position, as far as later events ask for them

(* What the config puts in place of operators of State and Publish. *)
SumOf(time, length) == (CHOOSE sum \in length : sum[1] = time)[2]
HashOf == [name \in {h[1] : h \in Hashes} |-> CHOOSE h \in Hashes : h[1] = name]
LaneOf(key, id) == HashOf[IF key = NoKey THEN id ELSE key][2]
SlotOfKey(key) == HashOf[key][3]

(* The behaviour of a trace is a function of its length, so that no store    *)
(* need be fingerprinted.                                                    *)
Place == <<trace, step>>

---------------------------------------------------------------------------
(* Verdicts. An objection is the guard that the store passed over; "verdict" *)
(* when it refused what every guard allows.                                  *)

Told(refusal, verdict) ==
  IF VerdictOf(refusal) = verdict THEN ""
  ELSE IF verdict = "Applied" THEN refusal ELSE "verdict"

(* A row that the store refused has no verdict: its lane was written.        *)
ToldEnd(refusal, a) == Told(refusal, IF a.refused THEN "Applied" ELSE a.verdict)

ToldEach(refusals, verdicts) ==
  IF Len(refusals) # Len(verdicts) THEN "verdicts"
  ELSE First(Len(refusals), LAMBDA i :
         IF refusals[i] = "refused" THEN "" ELSE Told(refusals[i], verdicts[i]))

ToldCharged(refusal, expected, said) ==
  IF refusal # "" THEN refusal ELSE IF expected # said THEN "charged" ELSE ""

Objection(s, action, a) ==
  CASE action = "Publish" -> PublishRefusal(s, a)
    [] action = "Claim" -> ClaimRefusal(s, a)
    [] action = "TakeOver" ->
         LET r == TakeOverRefusal(s, a)
         IN IF r # "" THEN r ELSE ToldCharged(r, TakeOverCharged(s, a), a.charged)
    [] action = "ChargeLost" ->
         LET r == ChargeLostRefusal(s, a)
         IN IF r # "" THEN r ELSE ToldCharged(r, ChargeLostCharged(s, a), a.charged)
    [] action = "ExtendLease" -> Told(ExtendLeaseRefusal(s, a), a.verdict)
    [] action = "CompleteMany" -> ToldEach(CompleteManyRefusals(s, a), a.verdicts)
    [] action = "Complete" -> Told(CompleteRefusal(s, a), a.verdict)
    [] action = "Reschedule" -> ToldEnd(RescheduleRefusal(s, a), a)
    [] action = "Snooze" -> ToldEnd(SnoozeRefusal(s, a), a)
    [] action = "Bury" -> ToldEnd(BuryRefusal(s, a), a)
    [] action = "Release" -> ToldEach(ReleaseRefusals(s, a), a.verdicts)
    [] action = "Relinquish" -> Told(RelinquishRefusal(s, a), a.verdict)
    [] action = "Requeue" -> RequeueRefusal(s, a)
    [] action = "Purge" -> PurgeRefusal(s, a)
    [] action = "Subscribe" -> SubscribeRefusal(s, a)
    [] action = "Unsubscribe" -> UnsubscribeRefusal(s, a)

(* The store after an action to which there is no objection.                 *)
After(s, action, a) ==
  CASE action = "Publish" -> PublishEffect(s, a)
    [] action = "Claim" -> ClaimEffect(s, a)
    [] action = "TakeOver" -> TakeOverEffect(s, a)
    [] action = "ChargeLost" -> ChargeLostEffect(s, a)
    [] action = "CompleteMany" -> CompleteManyEffect(s, a)
    [] action = "Release" -> ReleaseEffect(s, a)
    [] action = "Requeue" -> RequeueEffect(s, a)
    [] action = "Purge" -> PurgeEffect(s, a)
    [] action = "Subscribe" -> SubscribeEffect(s, a)
    [] action = "Unsubscribe" -> UnsubscribeEffect(s, a)
    \* The others have one verdict, which is right by now.
    [] action = "ExtendLease" -> IF a.verdict = "Applied" THEN ExtendLeaseEffect(s, a) ELSE s
    [] action = "Complete" -> IF a.verdict = "Applied" THEN CompleteEffect(s, a) ELSE s
    [] action = "Relinquish" -> IF a.verdict = "Applied" THEN RelinquishEffect(s, a) ELSE s
    [] action = "Reschedule" ->
         IF a.verdict = "Applied" \/ a.refused THEN RescheduleEffect(s, a) ELSE s
    [] action = "Snooze" -> IF a.verdict = "Applied" \/ a.refused THEN SnoozeEffect(s, a) ELSE s
    [] action = "Bury" -> IF a.verdict = "Applied" \/ a.refused THEN BuryEffect(s, a) ELSE s

---------------------------------------------------------------------------
(* Reads of an earlier store. With seen, the picks of a claim, verdicts of   *)
(* LeaseLost, and what is unlisted were decided on the store at that         *)
(* position; of a whole CompleteMany, each lease by itself, on any store from*)
(* there on, since a locking store reads some leases again. What is right by *)
(* now was right to commit.                                                  *)

(* A commit without an action of the protocol leaves the store as it was.    *)
LastKept(position) == Greatest({p \in DOMAIN kept : p <= position})

PlacesOf(e) ==
  LET first == LastKept(e.args.seen)
  IN IF e.action = "CompleteMany" THEN {p \in DOMAIN kept : p >= first} ELSE {first}

(* The refusals of an end, as if it stood in store s.                        *)
RefusalsThere(s, action, a) ==
  LET there == [a EXCEPT !.seen = 0] IN
  CASE action = "CompleteMany" -> CompleteManyRefusals(s, [there EXCEPT !.unlisted = {}])
    [] action = "Release" -> ReleaseRefusals(s, there)
    [] action = "Complete" -> <<CompleteRefusal(s, there)>>
    [] OTHER -> <<FinishRefusal(s, there)>>

VerdictsOf(a) == IF "verdicts" \in DOMAIN a THEN a.verdicts ELSE <<a.verdict>>

(* The verdicts that were decided earlier and would be others in store s.    *)
WrongIn(s, e) ==
  LET a == e.args
      refusals == RefusalsThere(s, e.action, a)
      earlier(i) ==
        \/ VerdictsOf(a)[i] = "LeaseLost"
        \/ e.action = "CompleteMany" /\ a.leases[i].delivery \in a.unlisted
  IN {i \in DOMAIN refusals : earlier(i) /\ VerdictOf(refusals[i]) # VerdictsOf(a)[i]}

(* A refusal, or "verdict" where the store refused what every guard allows.  *)
ObjectionTo(e, i) ==
  LET refusal == RefusalsThere(kept[LastKept(e.args.seen)], e.action, e.args)[i]
  IN IF refusal = "" THEN "verdict" ELSE refusal

ObjectionToEnd(e) ==
  LET now == WrongIn(store, e)
      wrong == {i \in now : \A p \in PlacesOf(e) : i \in WrongIn(kept[p], e)}
  IN IF now = {} \/ wrong = {} THEN "" ELSE ObjectionTo(e, Least(wrong))

ObjectionToPicks(e) ==
  IF PicksRefusal(store, e.args) = "" THEN ""
  ELSE PicksRefusal(kept[LastKept(e.args.seen)], e.args)

ObjectionEarlier(e) ==
  IF "seen" \notin DOMAIN e.args THEN ""
  ELSE IF e.args.seen = 0 THEN ""
  ELSE IF e.action = "Claim" THEN ObjectionToPicks(e) ELSE ObjectionToEnd(e)

---------------------------------------------------------------------------
(* What a refusal prints beside the guard: the lanes and rows of the store   *)
(* that the action is about.                                                 *)

Field(a, name) == IF name \in DOMAIN a THEN {a[name]} ELSE {}
Leases(a) == Field(a, "lease") \cup UNION {Range(l) : l \in Field(a, "leases")}
LanesOf(a) == Field(a, "lane") \cup {l.lane : l \in Leases(a)}
RowsOfAction(a) ==
  {l.delivery : l \in Leases(a)}
    \cup UNION {{p.delivery : p \in Range(q)} : q \in Field(a, "picks")}

Only(f, keys) == [x \in DOMAIN f \cap keys |-> f[x]]

Had(s, e) ==
  [lanes |-> Only(s.lanes, LanesOf(e.args)), rows |-> Only(s.deliveries, RowsOfAction(e.args))]

---------------------------------------------------------------------------
Event == Traces[trace][step + 1]
Left == Len(Traces[trace]) - step

\* IF and not \/: TLC takes a disjunction of an action for two ways to go.
Accept == IF Left > 1 THEN TRUE ELSE PrintT(<<"accepted", trace>>)

Refuse(e, guard, had) ==
  /\ PrintT(<<"refused", trace, e.line, e.action, guard, had>>)
  /\ step' = 0 - (step + 1)
  /\ UNCHANGED <<trace, store, kept>>

(* An action, committed or evaluated. One that has no position changed       *)
(* nothing.                                                                  *)
Act(e) ==
  LET now == Objection(store, e.action, e.args)
      guard == IF now # "" THEN now ELSE ObjectionEarlier(e)
      after == After(store, e.action, e.args)
      why == IF guard = "" /\ e.position = 0 /\ after # store THEN "position" ELSE guard
  IN IF why # "" THEN Refuse(e, why, Had(store, e))
     ELSE /\ Accept
          /\ step' = step + 1
          /\ store' = after
          /\ kept' = IF e.keep THEN Put(kept, e.position, after) ELSE kept
          /\ UNCHANGED trace

(* A crash or a failover: the commits up to a position are left.             *)
StoreCrash(e) ==
  /\ Accept
  /\ step' = step + 1
  /\ store' = kept[LastKept(e.position)]
  /\ kept' = Only(kept, 0 .. e.position)
  /\ UNCHANGED trace

Init ==
  /\ trace \in DOMAIN Traces
  /\ step = 0
  /\ store = EmptyStore
  /\ kept = [p \in {0} |-> EmptyStore]

Explain ==
  /\ step >= 0
  /\ Left > 0
  /\ IF Event.action = "StoreCrash" THEN StoreCrash(Event) ELSE Act(Event)

(* Holds of the example in the tree; a batch goes on without what is refused. *)
Explained == step >= 0

Spec == Init /\ [][Explain]_<<trace, step, store, kept>>
=============================================================================
