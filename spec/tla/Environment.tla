---------------------------- MODULE Environment ----------------------------
(* What nobody chooses: time, deaths, and what a network does to calls. The  *)
(* variables of the system are declared here; who acts on purpose is in      *)
(* Relaybus.                                                                 *)
(*                                                                           *)
(* calls is an unordered set of messages. Nothing forces a call to reach the *)
(* store, and none overtakes another by rule. A call that its worker still   *)
(* waits for has late = FALSE; with late = TRUE it was given up, or it is a  *)
(* copy, or its worker is dead, and whatever it does nobody hears. Worker's  *)
(* beliefs stand apart from the store, and are wrong whenever a reply was    *)
(* lost.                                                                     *)
(*                                                                           *)
(* Kinds of calls, and fields beside kind, worker and late:                  *)
(*   Claim       holder, number, running, suspect, all, sure, notAfter,      *)
(*               reached (lanes), granted (leases), lost (entries that the   *)
(*               store does not list)                                        *)
(*   Relinquish  holder, number, running, lane, notAfter                     *)
(*   CompleteMany, Release             leases (a sequence)                   *)
(*   Complete                          leases (one)                          *)
(*   Reschedule, Snooze, Bury          leases (one), rest                    *)
EXTENDS Invariants

CONSTANTS
  Workers,    \* names; each is one process after another
  Does,       \* names of the optional actions that happen in this run
  Poison,     \* deliveries that kill the worker that runs them
  MaxClock,   \* the store's clock runs from 1 to this
  MaxLives,   \* processes of a worker, one after another
  MaxLate     \* late calls under way at a time

VARIABLES
  workers,    \* worker -> [life, up, number, doubt, past, leases]
  calls,      \* messages under way
  clock       \* the store's clock

vars == <<store, ledger, workers, calls, clock>>

(* Each process is a holder of its own, whatever its name.                   *)
Names == [w \in Workers |-> [life \in 1 .. MaxLives |-> w \o ToString(life)]]
Holder(w) == Names[w][workers[w].life]

(* life:   which process of this name it is                                  *)
(* number: the last claim number used                                        *)
(* doubt:  the not-after up to which an abandoned call may still be applied, *)
(*         0 when there is none                                              *)
(* past:   the store was heard to say a time past the doubt                  *)
(* leases: what it runs or is to end: leases with phase and suspect          *)
NewWorker(life) ==
  [life |-> life, up |-> TRUE, number |-> 0, doubt |-> 0, past |-> FALSE, leases |-> {}]

LeaseOf(x) ==
  [delivery |-> x.delivery, lane |-> x.lane, epoch |-> x.epoch, holder |-> x.holder,
   claim |-> x.claim, after |-> x.after, fence |-> x.fence]

(* Members of a lease's chain, and those behind it.                          *)
SameChain(x, y) == x.lane = y.lane /\ x.claim = y.claim /\ SameKey(ledger.pairs[x.delivery],
                                                                   ledger.pairs[y.delivery])
BehindIn(leases, x) == {y \in leases : SameChain(x, y) /\ y.delivery > x.delivery}
AheadIn(leases, x) == {y \in leases : SameChain(x, y) /\ y.delivery < x.delivery}

(* A follower starts when those before it were ended: its worker does not    *)
(* wait for the acknowledgement.                                             *)
IsStarted(w, x) ==
  x.phase = "run" /\ \A y \in AheadIn(workers[w].leases, x) : y.phase = "ending"

LaneCalls == {"Claim", "Relinquish"}
Late == {c \in calls : c.late}
Waiting(w) == {c \in calls : c.worker = w /\ ~c.late}
LaneCallOf(w) == {c \in Waiting(w) : c.kind \in LaneCalls}

(* A call that can no longer do anything is as good as gone.                 *)
Vain(c, time) ==
  /\ c.kind \in LaneCalls
  /\ ~Guard("Claim.not-after", time <= c.notAfter)
  /\ ~Guard("TakeOver.not-after", time <= c.notAfter)

---------------------------------------------------------------------------

(* Time passes, and leases with it: one that is not renewed in time can be   *)
(* taken over.                                                               *)
Expire ==
  /\ clock < MaxClock
  /\ clock' = clock + 1
  /\ calls' = {c \in calls : ~(c.late /\ Vain(c, clock + 1))}
  /\ UNCHANGED <<store, ledger, workers>>

(* A worker dies and forgets; its calls die with it, except what became late *)
(* before. A Claim under way may be late still.                              *)
Dies(w, kept) ==
  /\ calls' = {c \in calls : c \notin Waiting(w)} \cup kept
  /\ workers' = [workers EXCEPT ![w] =
       [NewWorker(workers[w].life) EXCEPT !.up = FALSE, !.number = 0]]

Forgotten(c) == IF c.kind = "Claim" THEN [c EXCEPT !.late = TRUE, !.granted = {}, !.lost = {}]
                ELSE [c EXCEPT !.late = TRUE]

KeptCalls(w) ==
  {{}} \cup IF Cardinality(Late) < MaxLate THEN {{Forgotten(c)} : c \in LaneCallOf(w)} ELSE {}

Crash(w) ==
  /\ "Crash" \in Does /\ workers[w].up
  /\ "Eager" \in Does => clock < MaxClock   \* its leases are to run out yet
  /\ \E kept \in KeptCalls(w) : Dies(w, kept)
  /\ UNCHANGED <<store, ledger, clock>>

(* A poison delivery kills the worker that runs it.                          *)
Kill(w) ==
  /\ workers[w].up
  /\ \E x \in workers[w].leases :
       /\ x.delivery \in Poison /\ IsStarted(w, x)
       /\ ledger' = [ledger EXCEPT !.kills = Put(@, Holder(w),
            [by |-> x.delivery, life |-> ledger.pairs[x.delivery].lives])]
  /\ \E kept \in KeptCalls(w) : Dies(w, kept)
  /\ UNCHANGED <<store, clock>>

(* The next process under the same name: a new holder, which knows nothing.  *)
Restart(w) ==
  /\ ~workers[w].up /\ workers[w].life < MaxLives
  /\ workers' = [workers EXCEPT ![w] = NewWorker(@.life + 1)]
  /\ UNCHANGED <<store, ledger, calls, clock>>

(* A worker gives up a Claim or Relinquish, whose request or reply may be    *)
(* lost or only late, and from then on is in doubt about its lanes.          *)
Abandon(w) ==
  \E c \in LaneCallOf(w) :
    /\ Vain(c, clock) \/ Cardinality(Late) < MaxLate
    /\ calls' = (calls \ {c}) \cup IF Vain(c, clock) THEN {} ELSE {Forgotten(c)}
    /\ workers' = [workers EXCEPT ![w].doubt = Max(@, c.notAfter), ![w].past = FALSE]
    /\ UNCHANGED <<store, ledger, clock>>

(* The copy of an ending call that is still to come when another was heard.  *)
Repeat ==
  /\ Cardinality(Late) < MaxLate
  /\ \E c \in calls :
       /\ ~c.late /\ c.kind \notin LaneCalls
       /\ calls' = calls \cup {[c EXCEPT !.late = TRUE]}
  /\ UNCHANGED <<store, ledger, workers, clock>>
=============================================================================
