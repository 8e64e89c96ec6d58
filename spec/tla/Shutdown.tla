------------------------------ MODULE Shutdown ------------------------------
(* A worker stops while calls of its own are still on their way. When it   *)
(* says that it stopped, it must hold no lane but those whose ends it      *)
(* could not settle, and no late call may give it one back. The same       *)
(* question decides, while it runs, when it may trust what it knows about  *)
(* its lanes (docs/adr/0010).                                              *)
(*                                                                         *)
(* Models: one worker whose Claim and Relinquish calls are abandoned and   *)
(* arrive late, in any order; its runs, its completion window, its stop    *)
(* with a grace, and further stops; a second worker that takes what is     *)
(* free or has expired; the store's clock, and each call's not-after.      *)
(*                                                                         *)
(* Abstracts: one delivery per lane. The second worker's calls are one     *)
(* step each. A completion arrives at once, its answer may be lost.        *)
(*                                                                         *)
(* Cannot see: a store that stays away for longer than a lease.            *)

EXTENDS Naturals, FiniteSets, Guards

CONSTANTS
  Lanes,       \* each with one delivery of the same name
  Waits,       \* whether writes may wait past their not-after, as on MongoDB
  Suspects,    \* deliveries that were in flight when a worker died
  TTL, Timeout, \* of a lease and of a call, in ticks; Timeout < TTL
  MaxClock,
  Calm,        \* no call that is sent after this tick is abandoned
  MaxClaims,   \* Claim calls, and Relinquish calls while it runs
  MaxAbandoned,
  MaxUnknown,  \* answers to completions that get lost
  MaxStops,
  MaxOther,    \* takeovers by the second worker
  Grace        \* ticks that handlers have to finish after the first Stop

VARIABLES
  clock,   \* of the store
  lane,    \* [holder, last, epoch, claim, expires, list]; list: claim numbers;
           \* back is a ghost: the number by which the worker last gave it
           \* back, 0 when somebody else held it since
  row,     \* pending or gone
  theirs,  \* lane -> the epoch in which the second worker works there, or 0
  me,      \* the worker
  calls,   \* its calls on their way
  left     \* how often each bounded thing may still happen

vars == <<clock, lane, row, theirs, me, calls, left>>

Nobody == 0
Me == 1
Other == 2

Max(a, b) == IF a > b THEN a ELSE b
Spend(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]

Init ==
  /\ clock = 1
  /\ lane = [l \in Lanes |-> [holder |-> Nobody, last |-> Nobody, epoch |-> 0, claim |-> 0,
                              expires |-> 0, list |-> {}, back |-> 0]]
  /\ row = [l \in Lanes |-> "pending"] /\ theirs = [l \in Lanes |-> 0]
  /\ me = [phase |-> "running", grace |-> Grace, n |-> 0, heard |-> 1, out |-> 0,
           abandoned |-> FALSE, doubt |-> 0, asked |-> 0,
           lanes |-> [l \in Lanes |-> 0], runs |-> {}]
  /\ calls = {}
  /\ left = [claim |-> MaxClaims, abandon |-> MaxAbandoned, unknown |-> MaxUnknown,
             stop |-> MaxStops, other |-> MaxOther]

-----------------------------------------------------------------------------
(* What the worker knows. A run is [l, e, n, phase]: running, returned     *)
(* (its completion waits in the window), or unknown (its completion was    *)
(* sent and not answered).                                                 *)

Known == {l \in Lanes : me.lanes[l] # 0}
Stated == {<<r.l, r.n>> : r \in me.runs}
In(phase) == {r \in me.runs : r.phase = phase}
RunsOf(l) == {r \in me.runs : r.l = l}

Send(kind, named, all) ==
  /\ me.out = 0
  /\ LET n == me.n + 2 IN \* one number for its takeovers, one for itself
     /\ me' = [me EXCEPT !.n = n, !.out = n, !.asked = clock]
     /\ calls' = calls \cup
          {[kind |-> kind, n |-> n, notAfter |-> clock + Timeout, named |-> named, all |-> all,
            running |-> Stated, heard |-> me.heard,
            suspect |-> ~(\E r \in me.runs : r.l \in Suspects)
                        /\ Guard("no suspect in doubt", me.doubt = 0)]}
  /\ UNCHANGED <<clock, lane, row, theirs>>

SendClaim ==
  /\ me.phase = "running" /\ Spend("claim")
  /\ Send("claim", {<<l, me.lanes[l]>> : l \in Known}, me.abandoned)

(* While it runs it gives back one lane where nothing is in hand.          *)
SendRelinquish(l) ==
  /\ me.phase = "running" /\ ~me.abandoned /\ l \in Known /\ Spend("claim")
  /\ RunsOf(l) = {}
  /\ Send("relinquish", {<<l, me.lanes[l]>>}, FALSE)

(* The deadline is over by the worker's own clock, which may run fast. The *)
(* call may have been applied, may still be, or is lost for good.          *)
Abandon ==
  /\ me.out # 0 /\ me.asked <= Calm /\ Spend("abandon")
  /\ me' = [me EXCEPT !.out = 0, !.abandoned = TRUE, !.doubt = Max(@, me.asked + Timeout)]
  /\ UNCHANGED <<clock, lane, row, theirs, calls>>

-----------------------------------------------------------------------------
(* The store.                                                              *)

InTime(c) == Waits \/ Guard("not-after", clock <= c.notAfter)

Renews(c) ==
  {l \in Lanes : /\ lane[l].holder = Me
                 /\ c.all \/ l \in {x[1] : x \in c.named}
                 /\ Guard("claim number", c.n > lane[l].claim)}

(* A lane that this holder gave back is taken again only by a newer call.  *)
MayTake(c) ==
  {l \in Lanes : /\ lane[l].holder # Me
                 /\ lane[l].holder = Nobody \/ lane[l].expires < clock
                 /\ (lane[l].holder = Nobody /\ lane[l].last = Me) =>
                      Guard("last holder", c.n > lane[l].claim)}

Granted(c, l, picks) == IF l \in picks THEN {c.n} ELSE {}

Taken(c, l, picks) ==
  [holder |-> Me, last |-> Nobody, epoch |-> lane[l].epoch + 1, claim |-> c.n,
   expires |-> clock + TTL, list |-> Granted(c, l, picks), back |-> lane[l].back]

Kept(c, l) == {n \in lane[l].list : <<l, n>> \in c.running}

Renewed(c, l, picks) ==
  [lane[l] EXCEPT !.claim = c.n, !.expires = clock + TTL,
                  !.list = Kept(c, l) \cup Granted(c, l, picks)]

Allowed(c, picks) ==
  /\ \A l \in picks : row[l] = "pending" /\ \A x \in c.running : x[1] # l
  /\ Cardinality(picks \cap Suspects) <= (IF c.suspect THEN 1 ELSE 0)

(* Doubt ends with a call that succeeded and that was sent when the store  *)
(* had been heard to say a time past the not-after of all that was         *)
(* abandoned: from then on the store refuses those. A call that merely     *)
(* succeeded proves nothing: the abandoned one may arrive behind it.       *)
Trusts(c) == IF Rule("doubt") THEN c.heard > me.doubt ELSE TRUE

(* The reply is lost, or nobody waits for it any more.                     *)
Unheard(c) == me.out = c.n => me.asked <= Calm /\ left.abandon > 0

HeardOf(c, new) ==
  LET m == [new EXCEPT !.out = 0, !.heard = clock] IN
  IF Trusts(c) THEN [m EXCEPT !.abandoned = FALSE, !.doubt = 0] ELSE m

(* The store says that a call came too late: it changed nothing, and the   *)
(* worker learns the time and asks again.                                  *)
TooLate(c) ==
  /\ ~InTime(c)
  /\ IF me.out = c.n
       THEN me' = [me EXCEPT !.out = 0, !.heard = clock, !.abandoned = TRUE]
       ELSE UNCHANGED me
  /\ calls' = calls \ {c}
  /\ UNCHANGED <<clock, lane, row, theirs, left>>

Run(c, l, e) == [l |-> l, e |-> e, n |-> c.n, phase |-> "running"]

Claim(c) ==
  /\ c.kind = "claim" /\ InTime(c)
  /\ \E taken \in SUBSET MayTake(c) : \E picks \in SUBSET (taken \cup Renews(c)) :
       LET renewed == Renews(c)
           new == [l \in Lanes |-> CASE l \in taken -> Taken(c, l, picks)
                                     [] l \in renewed -> Renewed(c, l, picks)
                                     [] OTHER -> lane[l]]
           \* lanes that the reply says are not the worker's, or it does not list
           lost == {l \in Known : l \notin taken \cup renewed}
           lanes == [l \in Lanes |-> IF l \in taken \cup renewed THEN new[l].epoch
                                     ELSE IF l \in lost THEN 0 ELSE me.lanes[l]]
           kept == {r \in me.runs : r.l \in renewed /\ r.n \in new[r.l].list}
       IN
       /\ Allowed(c, picks)
       /\ lane' = new
       /\ \/ me.out = c.n /\ me' = HeardOf(c, [me EXCEPT !.lanes = lanes,
                !.runs = kept \cup {Run(c, l, new[l].epoch) : l \in picks}])
          \/ Unheard(c) /\ UNCHANGED me
  /\ calls' = calls \ {c}
  /\ UNCHANGED <<clock, row, theirs, left>>

(* Never a lane where the worker still has something in hand. The epoch is *)
(* what the caller meant. Safety does not need it: a lane of another epoch *)
(* that the number lets through is one that the worker never heard of.     *)
GivesBack(c) ==
  {l \in Lanes :
     /\ Guard("holder", lane[l].holder = Me)
     /\ c.all \/ <<l, lane[l].epoch>> \in c.named
     /\ Guard("relinquish number", c.n > lane[l].claim)
     /\ Guard("running", \A n \in lane[l].list : <<l, n>> \notin c.running)}

Relinquish(c) ==
  /\ c.kind = "relinquish" /\ InTime(c)
  /\ lane' = [l \in Lanes |-> IF l \in GivesBack(c)
                THEN [lane[l] EXCEPT !.holder = Nobody, !.last = Me, !.claim = c.n, !.list = {},
                                     !.back = c.n]
                ELSE lane[l]]
  /\ \/ /\ me.out = c.n
        /\ LET back == GivesBack(c)
               gone == {l \in Known : lane[l].holder # Me \/ lane[l].epoch # me.lanes[l]} IN
           me' = HeardOf(c, [me EXCEPT
                   !.lanes = [l \in Lanes |-> IF l \in back \cup gone THEN 0 ELSE @[l]],
                   !.runs = {r \in @ : r.l \notin back \cup gone}])
     \/ Unheard(c) /\ UNCHANGED me
  /\ calls' = calls \ {c}
  /\ UNCHANGED <<clock, row, theirs, left>>

-----------------------------------------------------------------------------
(* Runs.                                                                   *)

Holds(r) == lane[r.l].holder = Me /\ lane[r.l].epoch = r.e /\ r.n \in lane[r.l].list
Put(r, phase) == me' = [me EXCEPT !.runs = (@ \ {r}) \cup {[r EXCEPT !.phase = phase]}]

Return(r) ==
  /\ r.phase = "running" /\ Put(r, "returned")
  /\ UNCHANGED <<clock, lane, row, theirs, calls, left>>

CompleteMany(r) ==
  /\ me.phase # "stopped" /\ r.phase \in {"returned", "unknown"}
  /\ row' = IF Holds(r) THEN [row EXCEPT ![r.l] = "gone"] ELSE row
  /\ \/ me' = [me EXCEPT !.runs = @ \ {r}] /\ UNCHANGED left
     \/ r.phase = "returned" /\ Put(r, "unknown") /\ Spend("unknown")
  /\ UNCHANGED <<clock, lane, theirs, calls>>

-----------------------------------------------------------------------------
(* Stop. No new claim; what runs has the grace to finish, then it is       *)
(* cancelled and released. A further Stop can only hasten it.              *)

Stop ==
  /\ CASE me.phase = "running" -> Spend("stop") /\ me' = [me EXCEPT !.phase = "stopping"]
       [] me.phase = "stopping" ->
            /\ me' = [me EXCEPT !.grace = IF ~Rule("hasten") THEN Grace
                                          ELSE IF @ = 0 THEN 0 ELSE @ - 1]
            /\ UNCHANGED left
       [] OTHER -> UNCHANGED <<me, left>>
  /\ UNCHANGED <<clock, lane, row, theirs, calls>>

GracePasses ==
  /\ me.phase = "stopping" /\ me.grace > 0 /\ me' = [me EXCEPT !.grace = @ - 1]
  /\ UNCHANGED <<clock, lane, row, theirs, calls, left>>

Cancel(r) ==
  /\ me.phase = "stopping" /\ me.grace = 0 /\ r.phase = "running"
  /\ lane' = IF Holds(r) THEN [lane EXCEPT ![r.l].list = @ \ {r.n}] ELSE lane
  /\ me' = [me EXCEPT !.runs = @ \ {r}]
  /\ UNCHANGED <<clock, row, theirs, calls, left>>

(* The window is flushed first: what returned and was not sent is work     *)
(* that would be done again.                                               *)
Flushed == In("running") = {} /\ (Rule("window") => In("returned") = {})
Settled(l) == RunsOf(l) = {}

(* All lanes of this holder, also such as it never heard of; again after   *)
(* some time, until nothing abandoned can arrive any more. After an        *)
(* abandoned call it does not wait for the handlers: nobody renews a lane  *)
(* that the worker never heard of. One that lists what runs is kept.       *)
SendLastRelinquish ==
  /\ me.phase = "stopping" /\ (Flushed \/ me.abandoned)
  /\ (\E l \in Known : Settled(l)) \/ me.abandoned
  /\ me.asked < clock \/ me.heard > me.doubt \/ ~me.abandoned
  /\ Send("relinquish", {}, TRUE) /\ UNCHANGED left

Stopped ==
  /\ me.phase = "stopping" /\ me.out = 0 /\ Flushed
  /\ \A l \in Known : ~Settled(l)
  /\ Guard("wait for the abandoned", ~me.abandoned)
  /\ me' = [me EXCEPT !.phase = "stopped"]
  /\ UNCHANGED <<clock, lane, row, theirs, calls, left>>

-----------------------------------------------------------------------------
(* The second worker takes what is free or has expired, runs it, and gives *)
(* the lane back.                                                          *)

OtherTakes(l) ==
  /\ lane[l].holder = Nobody \/ (lane[l].holder = Me /\ lane[l].expires < clock)
  /\ row[l] = "pending" /\ Spend("other")
  /\ lane' = [lane EXCEPT ![l] = [holder |-> Other, last |-> Nobody, epoch |-> @.epoch + 1,
                                  claim |-> 0, expires |-> clock + TTL, list |-> {0},
                                  back |-> 0]]
  /\ theirs' = [theirs EXCEPT ![l] = lane[l].epoch + 1]
  /\ UNCHANGED <<clock, row, me, calls>>

OtherEnds(l) ==
  /\ theirs[l] # 0
  /\ IF lane[l].holder = Other /\ lane[l].epoch = theirs[l]
       THEN /\ lane' = [lane EXCEPT ![l].holder = Nobody, ![l].last = Other, ![l].list = {}]
            /\ row' \in {row, [row EXCEPT ![l] = "gone"]}
       ELSE UNCHANGED <<lane, row>>
  /\ theirs' = [theirs EXCEPT ![l] = 0]
  /\ UNCHANGED <<clock, me, calls, left>>

Tick ==
  /\ clock < MaxClock /\ clock' = clock + 1
  /\ UNCHANGED <<lane, row, theirs, me, calls, left>>

Next ==
  \/ SendClaim \/ Abandon \/ Stop \/ GracePasses \/ SendLastRelinquish \/ Stopped \/ Tick
  \/ \E l \in Lanes : SendRelinquish(l) \/ OtherTakes(l) \/ OtherEnds(l)
  \/ \E c \in calls : Claim(c) \/ Relinquish(c) \/ TooLate(c)
  \/ \E r \in me.runs : Return(r) \/ CompleteMany(r) \/ Cancel(r)

Spec == Init /\ [][Next]_vars

(* For Stops: time passes, handlers are cancelled, and calls that are not  *)
(* abandoned are answered some day. No handler has to return.              *)
Answered(c) == c.n = me.out /\ (Claim(c) \/ Relinquish(c) \/ TooLate(c)) /\ me' # me
Fair ==
  /\ WF_vars(Tick) /\ WF_vars(Abandon) /\ WF_vars(GracePasses) /\ WF_vars(Stopped)
  /\ SF_vars(SendLastRelinquish)
  /\ SF_vars(\E c \in calls : Answered(c))
  /\ WF_vars(\E r \in me.runs : CompleteMany(r) \/ Cancel(r))

FairSpec == Spec /\ Fair

-----------------------------------------------------------------------------
TypeOK ==
  /\ clock \in 1..MaxClock
  /\ \A l \in Lanes : lane[l].holder \in {Nobody, Me, Other} /\ row[l] \in {"pending", "gone"}
  /\ me.phase \in {"running", "stopping", "stopped"}
  /\ Cardinality(calls) <= MaxAbandoned + 1

(* Once it stopped it holds nothing but lanes with ends it cannot settle,  *)
(* whatever of its calls is still on the way.                              *)
NothingLeftBehind ==
  me.phase = "stopped" => \A l \in Lanes : lane[l].holder = Me => ~Settled(l)

(* A stop loses no success that it had in hand.                            *)
WindowFlushed == me.phase = "stopped" => In("returned") = {}

(* Without doubt and without a call on its way the worker knows all lanes  *)
(* that the store keeps for it.                                            *)
NothingUnknown ==
  ~me.abandoned /\ me.out = 0 => \A l \in Lanes : lane[l].holder = Me => l \in Known

(* What the worker has in hand stays listed until somebody takes it over.  *)
NothingDropped ==
  \A r \in me.runs : lane[r.l].epoch = r.e => lane[r.l].holder = Me /\ r.n \in lane[r.l].list

(* A lane that was given back is not taken again by an older call, unless  *)
(* another held it since: last_holder remembers one holder. This is all    *)
(* that is left where a write may wait past its not-after, and then such a *)
(* call may still take a lane that the worker never hears of.              *)
GivenBackStaysBack == \A l \in Lanes : lane[l].holder = Me => lane[l].claim > lane[l].back

(* What the other was granted stays its own until the next takeover.       *)
OneHolderPerLane ==
  \A l \in Lanes : theirs[l] # 0 /\ theirs[l] = lane[l].epoch => lane[l].holder = Other

(* At most one suspect is in flight at this worker: the premise of         *)
(* InnocentNeighbours.                                                     *)
OneSuspect ==
  Cardinality({l \in Suspects : /\ lane[l].holder = Me /\ lane[l].list # {}
                                /\ row[l] = "pending"}) <= 1

Stops == me.phase = "stopping" ~> me.phase = "stopped"

NeverStopped == me.phase # "stopped" \/ me.n < 4
NeverStoppedUnsettled == ~(me.phase = "stopped" /\ me.runs # {})
NeverLateAfterStop == ~(me.phase = "stopped" /\ \E c \in calls : c.kind = "claim")
NeverUnknownLane == ~(\E l \in Lanes : lane[l].holder = Me /\ l \notin Known /\ me.out = 0)
NeverTakenFromStopping == ~(me.phase = "stopping" /\ \E l \in Known : lane[l].holder = Other)
NeverRelinquishedWhileRunning ==
  ~(me.phase = "running" /\ \E l \in Lanes : lane[l].holder = Nobody /\ lane[l].last = Me)
=============================================================================
