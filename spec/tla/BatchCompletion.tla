-------------------------- MODULE BatchCompletion ---------------------------
(* One CompleteMany ends many runs at once: of several lanes, and of whole *)
(* chains. Each lease gets a verdict of its own, the caller may have to    *)
(* ask twice, and a lane may change hands in between. This module is about *)
(* what the worker is told, and what it may conclude.                      *)
(*                                                                         *)
(* Models: a worker that holds all lanes with everything in flight, and a  *)
(* second one that takes lanes over when their leases run out. Handlers    *)
(* return; completions are sent in calls that are late, lost, repeated and *)
(* answered or not; some rows cannot be deleted; followers are given back. *)
(*                                                                         *)
(* Abstracts: a call is applied in one step (CompleteVsTakeover looks      *)
(* inside), and time: a lease is fresh, old, or over.                      *)
(*                                                                         *)
(* Cannot see: transactional handlers. For them a row that is gone is a    *)
(* lost lease (Complete), here it is not.                                  *)

EXTENDS Naturals, FiniteSets, Guards

CONSTANTS
  Lanes,
  LaneOf,     \* [delivery -> lane]
  After,      \* [delivery -> the one before it in its chain, or 0]
  Refusing,   \* deliveries whose row the store does not delete
  Timed,      \* whether a lease runs out only by the passing of time
  Silent,     \* workers whose ends never reach the store
  MaxClaims, MaxReleases,
  MaxRepeats

VARIABLES
  row,     \* delivery -> pending or gone
  lane,    \* lane -> [holder, epoch, list, lease]
  runs,    \* what the workers have in hand
  calls,   \* CompleteMany calls on their way, as [runs, try]
  number,  \* worker -> its last claim number
  left,    \* how often each bounded thing may still happen
  by,      \* ghost: delivery -> the run that completed it, as a set
  untrue   \* ghost: runs that were told something false

vars == <<row, lane, runs, calls, number, left, by, untrue>>

(* Values for the configs: a chain of two or three beside one of another.  *)
TwoAndOne == <<1, 1, 2>>
AfterTwoAndOne == <<0, 1, 0>>
Two == <<1, 1>>
AfterTwo == <<0, 1>>
Three == <<1, 1, 1>>
AfterThree == <<0, 1, 2>>
One == <<1>>
AfterOne == <<0>>

Deliveries == DOMAIN LaneOf
Workers == {1, 2}
None == 0

Name(r) == [w |-> r.w, d |-> r.d, n |-> r.n]
Of(w) == {r \in runs : r.w = w}
Pending == {d \in Deliveries : row[d] = "pending"}
Spend(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]

Run(w, d, n, e, after) ==
  [w |-> w, d |-> d, n |-> n, e |-> e, after |-> after, phase |-> "running", b |-> 0]

Init ==
  /\ row = [d \in Deliveries |-> "pending"]
  /\ lane = [l \in Lanes |-> [holder |-> 1, epoch |-> 1, lease |-> "fresh",
               list |-> {<<d, 1>> : d \in {d \in Deliveries : LaneOf[d] = l}}]]
  /\ runs = {Run(1, d, 1, 1, After[d]) : d \in Deliveries}
  /\ calls = {} /\ number = <<1, 0>>
  /\ left = [release |-> MaxReleases, repeat |-> MaxRepeats]
  /\ by = [d \in Deliveries |-> {}] /\ untrue = {}

-----------------------------------------------------------------------------
(* The worker. Chain mates are runs of one claim that follow each other.   *)

Mates(r) == {c \in Of(r.w) : c.n = r.n /\ LaneOf[c.d] = LaneOf[r.d]}
Before(r) == {c \in Mates(r) : c.d < r.d /\ After[r.d] # 0}
Behind(r) == {c \in Mates(r) : c.d > r.d /\ After[c.d] # 0}

Replace(old, new) == runs' = (runs \ old) \cup new

(* A handler returns; the next of its chain may have started then.         *)
Return(r) ==
  /\ r.phase = "running" /\ \A c \in Before(r) : c.phase # "running"
  /\ Replace({r}, {[r EXCEPT !.phase = "returned"]})
  /\ UNCHANGED <<row, lane, calls, number, left, by, untrue>>

Waiting(w) == {r \in Of(w) : r.phase = "sent"}
Sendable(w) == {r \in Of(w) : r.phase = "returned"}
Outstanding(w) == {r.b : r \in Waiting(w)}

(* At most two calls are on their way, and never two for one chain: the    *)
(* second might arrive first, and its followers be refused for the sake of *)
(* runs that are about to complete. Within a chain the order is that of    *)
(* the chain.                                                              *)
Unused(w) == CHOOSE b \in 1..2 : b \notin Outstanding(w)

MayBatch(ended) ==
  \A r \in ended : \A c \in Before(r) :
    IF c.phase = "sent" THEN ~Rule("disjoint") ELSE Guard("prefix", c \in ended)

SendCompleteMany(w) ==
  /\ Cardinality(Outstanding(w)) < 2
  /\ \E ended \in SUBSET Sendable(w) :
       /\ ended # {} /\ MayBatch(ended)
       /\ LET sent == {[r EXCEPT !.phase = "sent", !.b = Unused(w)] : r \in ended} IN
          Replace(ended, sent) /\ calls' = calls \cup {[runs |-> sent, try |-> 0]}
  /\ UNCHANGED <<row, lane, number, left, by, untrue>>

(* The outcome is unknown: the same batch again, under the same leases.    *)
(* Both copies may arrive, in any order.                                   *)
Repeat(w, b) ==
  /\ Spend("repeat")
  /\ calls' = calls \cup {[runs |-> {r \in Waiting(w) : r.b = b}, try |-> left.repeat]}
  /\ UNCHANGED <<row, lane, runs, number, by, untrue>>

-----------------------------------------------------------------------------
(* The store's judgement of one lease in a call.                           *)

Held(r) == lane[LaneOf[r.d]].holder = r.w /\ lane[LaneOf[r.d]].epoch = r.e
Listed(r) == Held(r) /\ <<r.d, r.n>> \in lane[LaneOf[r.d]].list

(* One bad row stops nobody else: the store tries row by row behind a      *)
(* savepoint. One lost lane stops nobody else either.                      *)
Refused(call, r) ==
  IF Rule("savepoint") THEN r.d \in Refusing /\ Listed(r)
                       ELSE \E c \in call : c.d \in Refusing /\ Listed(c)

LaneLost(call, r) ==
  IF Rule("lane by lane") THEN ~Listed(r) ELSE \E c \in call : ~Listed(c)

(* A row that is gone while the lane still lists the run was deleted by an *)
(* earlier try of this very end: Applied, so that asking again is safe. If *)
(* the lane lists the run no more, somebody else may have completed it.    *)
Gone(r) == row[r.d] = "gone"

RECURSIVE Applies(_, _)
Applies(call, r) ==
  /\ ~Refused(call, r)
  /\ IF Gone(r) /\ ~Rule("gone and listed") THEN TRUE ELSE ~LaneLost(call, r)
  /\ Gone(r) => Rule("gone is done")
  /\ Guard("after", r.after \notin Pending
                    \/ \E c \in call : c.d = r.after /\ Guard("together", Applies(call, c)))

Verdict(call, r) ==
  CASE Applies(call, r) -> "Applied"
    [] ~Applies(call, r) /\ Refused(call, r) -> "Refused"
    [] OTHER -> "LeaseLost"

(* The worker's own list of verdicts, as the reply words them.             *)
Answer(call, r) ==
  IF Rule("each verdict") \/ \A c \in call : Verdict(call, c) # "Applied"
    THEN Verdict(call, r) ELSE "Applied"

(* LeaseLost is true while the worker may have lost the run, or while the  *)
(* store refused one before it in its chain. Applied is true when this run *)
(* completed the delivery. Refused is true of the rows that are.           *)
BehindRefused(r) == \E d \in Refusing : d < r.d /\ LaneOf[d] = LaneOf[r.d] /\ After[r.d] # 0
True(call, r, completed) ==
  CASE Answer(call, r) = "Applied" -> Name(r) \in completed[r.d]
    [] Answer(call, r) = "Refused" -> r.d \in Refusing
    [] OTHER -> ~Listed(r) \/ BehindRefused(r)

(* A worker concludes: Applied ends the run. Refused is a failed attempt   *)
(* for later. LeaseLost ends the run, and its followers with it, unless it *)
(* stands behind a refused one, whose end releases it.                     *)
Conclude(call) ==
  LET mine == {r \in call : r \in runs}
      applied == {r \in mine : Answer(call, r) = "Applied"}
      refused == {r \in mine : Answer(call, r) = "Refused"}
      lost == {r \in mine : Answer(call, r) = "LeaseLost"}
      rest == UNION {Behind(r) : r \in refused}
      over == (applied \cup lost \cup UNION {Behind(r) : r \in lost}) \ rest
  IN Replace(over \cup refused \cup rest,
             {[r EXCEPT !.phase = "failed"] : r \in refused}
             \cup {[r EXCEPT !.phase = "rest"] : r \in rest})

CompleteMany(sent) ==
  LET call == sent.runs
      applied == {r \in call : Applies(call, r)}
      deleted == {r \in applied : ~Gone(r)}
      completed == [d \in Deliveries |-> by[d] \cup {Name(r) : r \in {r \in deleted : r.d = d}}]
  IN
  /\ \A r \in call : r.w \notin Silent
  /\ row' = [d \in Deliveries |-> IF \E r \in deleted : r.d = d THEN "gone" ELSE row[d]]
  /\ by' = completed
  /\ \/ UNCHANGED <<runs, untrue>> \* the reply is lost
     \/ /\ Conclude(call)
        /\ untrue' = untrue \cup {Name(r) : r \in {r \in call : ~True(call, r, completed)}}
  /\ calls' = calls \ {sent}
  /\ UNCHANGED <<lane, number, left>>

-----------------------------------------------------------------------------
Leave(ended) ==
  [lane EXCEPT ![LaneOf[(CHOOSE r \in ended : TRUE).d]].list = @ \ {<<c.d, c.n>> : c \in ended}]

(* The failed attempt of a refused row is recorded, as a Reschedule that   *)
(* releases the rest of the chain in the same write.                       *)
Reschedule(r) ==
  /\ r.phase = "failed"
  /\ lane' = IF Listed(r) THEN Leave({r} \cup Behind(r)) ELSE lane
  /\ Replace({r} \cup Behind(r), {})
  /\ UNCHANGED <<row, calls, number, left, by, untrue>>

(* A lane that drains gives its followers back while the head still runs.  *)
(* So Release asks nothing about the run before it.                        *)
Release(r) ==
  /\ r.phase = "running" /\ Before(r) # {} /\ Spend("release")
  /\ lane' = IF Listed(r) /\ (Rule("release anything") \/ r.after \notin Pending)
               THEN Leave({r} \cup Behind(r)) ELSE lane
  /\ Replace({r} \cup Behind(r), {})
  /\ UNCHANGED <<row, calls, number, by, untrue>>

-----------------------------------------------------------------------------
(* Leases. A worker that cannot learn the outcome of an end must let that  *)
(* lane expire. Renewed for ever, it would keep from everybody else what   *)
(* it can neither complete nor give back.                                  *)

Pass(l) ==
  /\ Timed /\ lane[l].lease # "over"
  /\ lane' = [lane EXCEPT ![l].lease = IF @ = "fresh" THEN "old" ELSE "over"]
  /\ UNCHANGED <<row, runs, calls, number, left, by, untrue>>

ExtendLease(w, l) ==
  /\ lane[l].holder = w /\ lane[l].lease = "old"
  /\ Guard("let expire", \A r \in Waiting(w) : LaneOf[r.d] # l)
  /\ lane' = [lane EXCEPT ![l].lease = "fresh"]
  /\ UNCHANGED <<row, runs, calls, number, left, by, untrue>>

TakeOver(w, l) ==
  /\ lane[l].holder # w /\ w = 2 /\ (Timed => lane[l].lease = "over")
  /\ lane' = [lane EXCEPT ![l] =
       [holder |-> w, epoch |-> @.epoch + 1, lease |-> "fresh", list |-> {}]]
  /\ UNCHANGED <<row, runs, calls, number, left, by, untrue>>

(* What is not stated drops out. A chain is granted from its first pending *)
(* delivery, and nothing while one of it is in hand.                       *)
Claim(w, l) ==
  LET n == number[w] + 1
      here == {d \in Pending : LaneOf[d] = l}
      idle == {d \in here : \A r \in Of(w) : LaneOf[r.d] # l}
      before(d) == LET b == {c \in here : c < d /\ After[d] # 0} IN
                   IF b = {} THEN 0 ELSE CHOOSE c \in b : \A x \in b : x <= c
      kept == lane[l].list \cap {<<r.d, r.n>> : r \in Of(w)}
  IN
  /\ lane[l].holder = w /\ number[w] < MaxClaims
  /\ number' = [number EXCEPT ![w] = n]
  /\ lane' = [lane EXCEPT ![l].list = kept \cup {<<d, n>> : d \in idle}]
  /\ Replace({r \in Of(w) : LaneOf[r.d] = l /\ <<r.d, r.n>> \notin kept},
             {Run(w, d, n, lane[l].epoch, before(d)) : d \in idle})
  /\ UNCHANGED <<row, calls, left, by, untrue>>

(* A worker learns that a lane is no longer its own.                       *)
LoseLane(w, l) ==
  /\ \E r \in Of(w) : LaneOf[r.d] = l /\ ~Held(r)
  /\ Replace({r \in Of(w) : LaneOf[r.d] = l /\ ~Held(r)}, {})
  /\ UNCHANGED <<row, lane, calls, number, left, by, untrue>>

Next ==
  \/ \E r \in runs : Return(r) \/ Reschedule(r) \/ Release(r)
  \/ \E w \in Workers : SendCompleteMany(w) \/ \E b \in Outstanding(w) : Repeat(w, b)
  \/ \E call \in calls : CompleteMany(call)
  \/ \E l \in Lanes : Pass(l) \/ \E w \in Workers :
       ExtendLease(w, l) \/ TakeOver(w, l) \/ Claim(w, l) \/ LoseLane(w, l)

Spec == Init /\ [][Next]_vars

(* For Drains: what a live worker would do it does some day, time passes,  *)
(* and the second worker hears what it is told.                            *)
Heard(sent) == (\A r \in sent.runs : r.w = 2) /\ CompleteMany(sent) /\ runs' # runs

Fair ==
  /\ \A l \in Lanes : WF_vars(Pass(l)) /\ WF_vars(TakeOver(2, l)) /\ WF_vars(Claim(2, l))
  /\ WF_vars(\E r \in runs : Return(r))
  /\ \A w \in Workers : WF_vars(SendCompleteMany(w))
  /\ SF_vars(\E call \in calls : Heard(call))

FairSpec == Spec /\ Fair

-----------------------------------------------------------------------------
TypeOK ==
  /\ row \in [Deliveries -> {"pending", "gone"}]
  /\ \A l \in Lanes : lane[l].holder \in Workers /\ lane[l].lease \in {"fresh", "old", "over"}
  /\ \A r \in runs : r.phase \in {"running", "returned", "sent", "failed", "rest"}

KeyOrder == \A d \in Deliveries : row[d] = "gone" /\ After[d] # 0 => row[After[d]] = "gone"

AtMostOneCompletion == \A d \in Deliveries : Cardinality(by[d]) <= 1

(* No worker was told something false: Applied of what is pending or was   *)
(* completed by another, LeaseLost of what it still holds, Refused of a    *)
(* row that can be deleted.                                                *)
TrueVerdicts == untrue = {}

(* What the lane's holder runs is in the list, and nothing else of its     *)
(* runs is: what it gave back is gone from there.                          *)
NothingDropped ==
  \A r \in runs : Held(r) => Listed(r)

ReleasedIsGone ==
  \A l \in Lanes : \A x \in lane[l].list :
    x[1] \in Pending => \E r \in runs : r.d = x[1] /\ r.n = x[2] /\ r.w = lane[l].holder

Drains == <>[](\A d \in Deliveries : row[d] = "gone")

NeverAppliedTwice == ~(\E c \in calls : \E r \in c.runs : Listed(r) /\ Gone(r) /\ r \in runs)
NeverCompletedByAnother == ~(\E d \in Deliveries : \E r \in by[d] : r.w = 2)
Answers(c) == {Answer(c.runs, r) : r \in c.runs}
NeverIndependent == ~(\E c \in calls : {"Applied", "LeaseLost"} \subseteq Answers(c))
NeverRefusedBetween ==
  ~(\E c \in calls : {"Applied", "LeaseLost", "Refused"} \subseteq Answers(c))
NeverTwoCalls ==
  ~(\E c, d \in calls : c # d /\ \A r \in c.runs, s \in d.runs : LaneOf[r.d] # LaneOf[s.d])
=============================================================================
