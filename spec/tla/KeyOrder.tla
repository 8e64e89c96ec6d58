------------------------------ MODULE KeyOrder ------------------------------
(* Deliveries of one handler with one key run one at a time and complete   *)
(* in the order in which their events were committed. This module is about *)
(* what that takes: where a sequence is drawn, which deliveries one claim  *)
(* may grant together (a chain), and what an end does to the rest of its   *)
(* chain.                                                                  *)
(*                                                                         *)
(* Models: one key of one handler, so one lane. Publishers that lock the   *)
(* key's slot, draw a sequence and commit or roll back. Workers that claim *)
(* chains, run them, fail, snooze and bury; completions as calls that are  *)
(* late, repeated and partly refused; takeovers at any moment (no worker   *)
(* can tell a slow owner from a dead one); one failover to a replica that  *)
(* had stopped copying.                                                    *)
(*                                                                         *)
(* Abstracts: a claim and an end that keeps the row are one step each,     *)
(* with a reply that may be lost. Late claims are Relaybus's business,     *)
(* charges are Attempts's, batches over several lanes BatchCompletion's.   *)
(*                                                                         *)
(* Cannot see: what transactional handlers read of each other, and time.   *)
(*                                                                         *)
(* A delivery is named by its sequence.                                    *)

EXTENDS Naturals, FiniteSets, Guards

CONSTANTS
  Published,    \* so many deliveries of the key are committed at the start
  Publishers,   \* and so many transactions publish one more each
  Workers,
  MaxClaims,    \* claims per worker
  MaxTakeOvers,
  MaxEnds,      \* ends that keep the row: Reschedule, Snooze, Bury
  MaxRequeues,
  Failovers,    \* 0 or 1
  BadRows       \* deliveries that the store refuses to delete

VARIABLES
  slot,    \* the publisher that locks the key's slot, or 0
  drawn,   \* the last sequence drawn
  pub,     \* per publisher: the sequence it drew (0: none), and whether it is open
  place,   \* ghost: the position of a delivery's commit, 0 before it
  store,   \* the rows of the key, and its lane
  replica, \* what a replica holds that stopped copying: {the store then}, or {}
  runs,    \* per worker: what it believes to have in hand
  calls,   \* CompleteMany calls on their way
  number,  \* per worker: its last claim number
  left,    \* how much of each bounded thing may still happen
  seen     \* what a claim read in an earlier statement (Without "snapshot")

vars == <<slot, drawn, pub, place, store, replica, runs, calls, number, left, seen>>

Deliveries == 1..(Published + Publishers)
None == 0

-----------------------------------------------------------------------------
(* What the store holds. row: none, pending, dead or gone (completed).     *)
(* charged: attempts or takeovers above 0. excepted is a ghost: it was a   *)
(* dead letter once, and KeyOrder does not speak of it any more.           *)
(* list: what is in flight, as <<delivery, claim number>>.                 *)

Pending == {d \in Deliveries : store.row[d] = "pending"}
First(S) == CHOOSE d \in S : \A c \in S : d <= c

Listed(r) == store.holder = r.w /\ store.epoch = r.e /\ <<r.d, r.n>> \in store.list

Holds(w) == store.holder = w

(* A chain is a set of runs of one claim; c stands behind r in it.         *)
SameChain(r, c) == r.w = c.w /\ r.e = c.e /\ r.n = c.n
RestOf(r) == {c \in runs[r.w] : SameChain(r, c) /\ c.d > r.d}
Before(r) == {c \in runs[r.w] : SameChain(r, c) /\ c.d < r.d}

In(w, phase) == {r \in runs[w] : r.phase = phase}
Set(r, phase) == runs' = [runs EXCEPT ![r.w] = (@ \ {r}) \cup {[r EXCEPT !.phase = phase]}]
Running(w) == {<<r.d, r.n>> : r \in runs[w]}

Spend(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]

Init ==
  /\ slot = None /\ drawn = Published
  /\ pub = [p \in 1..Publishers |-> [sequence |-> 0, open |-> TRUE]]
  /\ place = [d \in Deliveries |-> IF d <= Published THEN d ELSE 0]
  /\ store = [row |-> [d \in Deliveries |-> IF d <= Published THEN "pending" ELSE "none"],
              charged |-> {}, due |-> Deliveries, excepted |-> {},
              epoch |-> 1, holder |-> CHOOSE w \in Workers : TRUE, list |-> {}]
  /\ replica = {}
  /\ runs = [w \in Workers |-> {}] /\ calls = {} /\ number = [w \in Workers |-> 0]
  /\ left = [takeOver |-> MaxTakeOvers, end |-> MaxEnds, requeue |-> MaxRequeues,
             failover |-> Failovers]
  /\ seen = {}

-----------------------------------------------------------------------------
(* Publish, as the steps of a transaction. The slot stays locked until the *)
(* commit, so whoever draws next commits later: sequence order is commit   *)
(* order. A sequence drawn first and a lock taken afterwards would be a    *)
(* race between two commits.                                               *)

publishing == <<slot, drawn, pub, place>>
working == <<replica, runs, calls, number, left, seen>>

LockSlot(p) ==
  /\ pub[p].open /\ slot = None
  /\ slot' = p
  /\ UNCHANGED <<drawn, pub, place, store>> /\ UNCHANGED working

DrawSequence(p) ==
  /\ pub[p].open /\ pub[p].sequence = 0
  /\ Guard("slot", slot = p)
  /\ drawn' = drawn + 1
  /\ pub' = [pub EXCEPT ![p].sequence = drawn + 1]
  /\ UNCHANGED <<slot, place, store>> /\ UNCHANGED working

Publish(p) ==
  /\ slot = p /\ pub[p].sequence > 0
  /\ slot' = None /\ pub' = [pub EXCEPT ![p].open = FALSE]
  /\ LET d == pub[p].sequence IN
     /\ store' = [store EXCEPT !.row[d] = "pending"]
     /\ place' = [place EXCEPT ![d] = 1 + Cardinality({c \in Deliveries : place[c] > 0})]
  /\ UNCHANGED drawn /\ UNCHANGED working

Rollback(p) ==
  /\ slot = p
  /\ slot' = None /\ pub' = [pub EXCEPT ![p].open = FALSE]
  /\ UNCHANGED <<drawn, place, store>> /\ UNCHANGED working

-----------------------------------------------------------------------------
(* Claim. The set picked is empty, or a head and its followers.            *)

(* The earlier rows must be read in one snapshot with the candidate, or    *)
(* after it. Read before it, they may miss what was committed in between.  *)
(* A dead letter does not block its key.                                   *)
Dead == {d \in Deliveries : store.row[d] = "dead"}
Blocking == (IF Rule("snapshot") THEN Pending ELSE seen) \cup (IF Rule("dead") THEN {} ELSE Dead)
Earlier(d) == {c \in Blocking : c < d}

(* A chain ends before the first row that is not due or was charged. To    *)
(* pass over such a row would let its successors overtake it.              *)
MayJoin(d) == d \in store.due /\ d \notin store.charged
Gap(chain, d) == d \in Pending \ chain /\ \E before, after \in chain : before < d /\ d < after

Chain(chain) ==
  LET head == First(chain) IN
  /\ head \in store.due
  /\ Guard("earlier", Earlier(head) = {})
  /\ \A d \in Deliveries : Gap(chain, d) => ~Rule("stop") /\ ~MayJoin(d)
  /\ Cardinality(chain) > 1 => \A d \in chain : MayJoin(d)

(* What the worker runs holds its key back, whatever the rows say: its own *)
(* may be gone, and one before it may have been requeued. It is not enough *)
(* to wait for what stands before the pick.                                *)
Waits(r, head) == IF Rule("requeued") THEN TRUE ELSE r.d < head

MayPick(w, chain) ==
  /\ Chain(chain)
  /\ \A r \in runs[w] : r.d \notin chain
  /\ Guard("running", \A r \in runs[w] : ~Waits(r, First(chain)))

Grant(w, n, chain) ==
  {[w |-> w, d |-> d, e |-> store.epoch, n |-> n, phase |-> "waiting",
    after |-> LET b == {c \in chain : c < d} IN
              IF b = {} THEN 0 ELSE CHOOSE c \in b : \A x \in b : x <= c] : d \in chain}

(* A run whose lease the reply calls lost is cancelled, and with it what   *)
(* stands behind it in its chain.                                          *)
Survivors(w, kept) ==
  {r \in runs[w] : \A c \in Before(r) \cup {r} : <<c.d, c.n>> \in kept}

Claim(w) ==
  /\ Holds(w) /\ number[w] < MaxClaims
  /\ number' = [number EXCEPT ![w] = @ + 1]
  /\ LET kept == store.list \cap Running(w) IN
     \E chain \in SUBSET Pending :
       /\ IF chain = {} THEN TRUE ELSE MayPick(w, chain)
       /\ store' = [store EXCEPT !.list = kept \cup {<<d, number'[w]>> : d \in chain}]
       /\ \/ runs' = [runs EXCEPT ![w] = Survivors(w, kept) \cup Grant(w, number'[w], chain)]
          \/ UNCHANGED runs \* the reply is lost: the next claim lets it drop out
  /\ UNCHANGED <<replica, calls, left, seen>> /\ UNCHANGED publishing

LookUp ==
  /\ ~Rule("snapshot") /\ seen' = Pending
  /\ UNCHANGED <<store, replica, runs, calls, number, left>> /\ UNCHANGED publishing

(* The first one listed had started, its followers had not.                *)
TakeOver(w) ==
  /\ ~Holds(w) /\ Spend("takeOver")
  /\ LET started == {x[1] : x \in store.list} \cap Pending IN
     store' = [store EXCEPT !.epoch = @ + 1, !.holder = w, !.list = {},
                 !.charged = @ \cup (IF started = {} THEN {} ELSE {First(started)})]
  /\ UNCHANGED <<replica, runs, calls, number, seen>> /\ UNCHANGED publishing

(* A worker that hears that its lane has another holder gives up.          *)
LoseLane(w) ==
  /\ runs[w] # {} /\ \E r \in runs[w] : store.holder # w \/ store.epoch # r.e
  /\ runs' = [runs EXCEPT ![w] = {}]
  /\ UNCHANGED <<store, replica, calls, number, left, seen>> /\ UNCHANGED publishing

-----------------------------------------------------------------------------
(* Running a chain. A plain handler's next may start before the one before *)
(* is acknowledged, but not before it returned.                            *)

Start(r) ==
  /\ r.phase = "waiting" /\ \A c \in Before(r) : c.phase \in {"returned", "sent"}
  /\ Set(r, "running")
  /\ UNCHANGED <<store, replica, calls, number, left, seen>> /\ UNCHANGED publishing

Return(r) ==
  /\ r.phase = "running" /\ \E outcome \in {"returned", "failed"} : Set(r, outcome)
  /\ UNCHANGED <<store, replica, calls, number, left, seen>> /\ UNCHANGED publishing

(* One call ends a prefix of what returned; one call per chain is on its   *)
(* way. The worker may repeat it for as long as it does not know better.   *)
SendCompleteMany(w) ==
  /\ In(w, "sent") = {}
  /\ \E ended \in SUBSET In(w, "returned") :
       /\ ended # {}
       /\ \A r \in ended : Before(r) \subseteq ended
       /\ runs' = [runs EXCEPT ![w] = (@ \ ended) \cup {[r EXCEPT !.phase = "sent"] : r \in ended}]
       /\ calls' = calls \cup {ended}
  /\ UNCHANGED <<store, replica, number, left, seen>> /\ UNCHANGED publishing

Repeat(w) ==
  /\ In(w, "sent") # {}
  /\ calls' = calls \cup {{[r EXCEPT !.phase = "returned"] : r \in In(w, "sent")}}
  /\ UNCHANGED <<store, replica, runs, number, left, seen>> /\ UNCHANGED publishing

(* CompleteMany judges each lease. Its predecessor must not be pending,    *)
(* unless this very call deletes it: not merely "stands in the same call", *)
(* for a refused predecessor stays pending.                                *)
RECURSIVE MayComplete(_, _)
MayComplete(call, r) ==
  /\ Listed(r) /\ r.d \notin BadRows /\ store.row[r.d] # "dead"
  /\ Guard("after",
       \/ r.after \notin Pending
       \/ \E c \in call : c.d = r.after /\ Guard("together", MayComplete(call, c)))

(* What the worker learns. A row that the store refuses is a failed        *)
(* attempt. What stands behind it was refused for its sake; it is kept     *)
(* until that attempt is recorded, and leaves the list in the same write.  *)
Told(call, applied) ==
  LET w == (CHOOSE r \in call : TRUE).w
      refused == {r.d : r \in {r \in call \ applied : Listed(r) /\ r.d \in BadRows}}
      failed == {c \in runs[w] : c.d \in refused /\ \E r \in call : SameChain(r, c)}
      rest == IF Rule("later") THEN UNION {RestOf(c) : c \in failed} ELSE {}
      lost == {c \in runs[w] : \E r \in call \ applied : SameChain(r, c) /\ r.d <= c.d}
      done == {c \in runs[w] : \E r \in applied : SameChain(r, c) /\ r.d = c.d}
  IN [runs EXCEPT ![w] =
        (@ \ (done \cup lost)) \cup {[c EXCEPT !.phase = "failed"] : c \in failed}
                                \cup {[c EXCEPT !.phase = "rest"] : c \in rest}]

CompleteMany(call) ==
  LET applied == {r \in call : MayComplete(call, r)} IN
  /\ store' = [store EXCEPT !.row = [d \in Deliveries |->
                 IF \E r \in applied : r.d = d THEN "gone" ELSE @[d]]]
  /\ calls' \in (IF Failovers = 0 THEN {calls \ {call}} ELSE {calls \ {call}, calls})
  /\ runs' \in {Told(call, applied), runs}
  /\ UNCHANGED <<replica, number, left, seen>> /\ UNCHANGED publishing

-----------------------------------------------------------------------------
(* Reschedule, Snooze and Bury. The rest of the chain leaves the list in   *)
(* the same write: released by a later call it would still count as in     *)
(* flight behind a delivery that has to run again.                         *)

(* A later member's end waits for its turn: refused because the one before *)
(* is pending, it would be taken for a lost lease and be forgotten.        *)
WillEnd(r) == r.phase = "failed" /\ Guard("turn", Before(r) = {})

MayEnd(r) ==
  /\ Listed(r) /\ r.d \in Pending
  /\ Guard("after", r.after \notin Pending)

Leave(r) ==
  store.list \ ({<<r.d, r.n>>} \cup
                (IF Rule("rest") THEN {<<c.d, c.n>> : c \in RestOf(r)} ELSE {}))

Ended(r) == runs' \in {[runs EXCEPT ![r.w] = @ \ ({r} \cup RestOf(r))], runs}

Reschedule(r) ==
  /\ WillEnd(r) /\ MayEnd(r) /\ Spend("end")
  /\ store' = [store EXCEPT !.list = Leave(r), !.charged = @ \cup {r.d}, !.due = @ \ {r.d}]
  /\ Ended(r)
  /\ UNCHANGED <<replica, calls, number, seen>> /\ UNCHANGED publishing

Snooze(r) ==
  /\ WillEnd(r) /\ MayEnd(r) /\ Spend("end")
  /\ store' = [store EXCEPT !.list = Leave(r), !.due = @ \ {r.d}]
  /\ Ended(r)
  /\ UNCHANGED <<replica, calls, number, seen>> /\ UNCHANGED publishing

Bury(r) ==
  /\ WillEnd(r) /\ MayEnd(r) /\ Spend("end")
  /\ store' = [store EXCEPT !.list = Leave(r), !.row[r.d] = "dead", !.excepted = @ \cup {r.d}]
  /\ Ended(r)
  /\ UNCHANGED <<replica, calls, number, seen>> /\ UNCHANGED publishing

EndLost(r) ==
  /\ WillEnd(r) /\ ~MayEnd(r)
  /\ runs' = [runs EXCEPT ![r.w] = @ \ ({r} \cup RestOf(r))]
  /\ UNCHANGED <<store, replica, calls, number, left, seen>> /\ UNCHANGED publishing

BecomeDue(d) ==
  /\ d \notin store.due
  /\ store' = [store EXCEPT !.due = @ \cup {d}]
  /\ UNCHANGED working /\ UNCHANGED publishing

Requeue(d) ==
  /\ store.row[d] = "dead" /\ Spend("requeue")
  /\ store' = [store EXCEPT !.row[d] = "pending", !.charged = @ \ {d}, !.due = @ \cup {d}]
  /\ UNCHANGED <<replica, runs, calls, number, seen>> /\ UNCHANGED publishing

(* An operator buries a pending delivery, even one that runs: what stands  *)
(* behind it may then be a head while it still runs.                       *)
Unsubscribe(d) ==
  /\ d \in Pending /\ MaxRequeues > 0 /\ Spend("end")
  /\ store' = [store EXCEPT !.row[d] = "dead", !.excepted = @ \cup {d}]
  /\ UNCHANGED <<replica, runs, calls, number, seen>> /\ UNCHANGED publishing

-----------------------------------------------------------------------------
(* A replica stops copying, and becomes the store some time later: what    *)
(* was acknowledged in between is lost, and the workers do not know.       *)

StopCopying ==
  /\ left.failover > 0 /\ replica = {}
  /\ replica' = {store}
  /\ UNCHANGED <<store, runs, calls, number, left, seen>> /\ UNCHANGED publishing

Failover ==
  /\ replica # {} /\ Spend("failover")
  /\ store' \in replica /\ replica' = {}
  /\ UNCHANGED <<runs, calls, number, seen>> /\ UNCHANGED publishing

-----------------------------------------------------------------------------
Next ==
  \/ \E p \in 1..Publishers : LockSlot(p) \/ DrawSequence(p) \/ Publish(p) \/ Rollback(p)
  \/ \E w \in Workers : Claim(w) \/ TakeOver(w) \/ LoseLane(w) \/ SendCompleteMany(w) \/ Repeat(w)
  \/ \E w \in Workers : \E r \in runs[w] :
       Start(r) \/ Return(r) \/ Reschedule(r) \/ Snooze(r) \/ Bury(r) \/ EndLost(r)
  \/ \E call \in calls : CompleteMany(call)
  \/ \E d \in Deliveries : BecomeDue(d) \/ Requeue(d) \/ Unsubscribe(d)
  \/ StopCopying \/ Failover \/ LookUp

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
TypeOK ==
  /\ slot \in 0..Publishers
  /\ \A d \in Deliveries : store.row[d] \in {"none", "pending", "dead", "gone"}
  /\ store.holder \in Workers \cup {None}
  /\ \A x \in store.list : x[1] \in Deliveries
  /\ \A w \in Workers : \A r \in runs[w] :
       r.phase \in {"waiting", "running", "returned", "sent", "failed", "rest"}

Committed(c, d) == 0 < place[c] /\ place[c] < place[d]

InOrder ==
  \A c, d \in Deliveries \ store.excepted :
    Committed(c, d) /\ store.row[d] = "gone" => store.row[c] = "gone"

OneRun == \A x, y \in store.list : x[2] = y[2]

(* Completions in commit order, and never two accepted runs at once: all   *)
(* that is in flight was granted by one claim, as one chain.               *)
KeyOrder == InOrder /\ OneRun

(* What is in flight stands at the front of its key: nothing pending is    *)
(* passed over, dead letters that came back excepted. A failover that      *)
(* loses a completion breaks it; then only the guard "after" is left.      *)
ChainFromHead ==
  \A x \in store.list : \A d \in Pending \ store.excepted :
    x[1] \in Pending /\ d < x[1] => <<d, x[2]>> \in store.list

(* The first pending delivery, when it is due, can be granted to a worker  *)
(* that has nothing of the key in hand.                                    *)
DeadBlocksNobody ==
  Pending # {} /\ First(Pending) \in store.due => Chain({First(Pending)})

(* Situations that must be reachable: TLC has to refute each.              *)
NeverCompletedChain == ~(\A d \in Deliveries : store.row[d] = "gone")
NeverOvertakenByRequeue ==
  ~(\E x \in store.list : \E d \in Pending : d < x[1] /\ d \in store.excepted)
NeverCompletionLost ==
  ~(\E w \in Workers : \E r \in runs[w] :
      r.after > 0 /\ store.row[r.after] = "pending" /\ Listed(r) /\ Before(r) = {})
NeverRefusedInTheMiddle ==
  ~(\E b \in BadRows : \E d \in Deliveries :
      b < d /\ b \in Pending /\ b \in store.charged /\ d \in Pending /\
      \E c \in Deliveries : c < b /\ store.row[c] = "gone")
=============================================================================
