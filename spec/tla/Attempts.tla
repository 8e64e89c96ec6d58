------------------------------ MODULE Attempts ------------------------------
(* A delivery that kills its worker must reach the dead letters, one that  *)
(* merely ran beside it must not, and no run may be charged twice. This    *)
(* module is about the two counters of a delivery: attempts, which has a   *)
(* limit, and takeovers, which makes it a suspect.                         *)
(*                                                                         *)
(* Models: lanes with deliveries, of which some kill the worker that runs  *)
(* them (poison), some fail, some cannot be written for a while, and some  *)
(* form a chain; workers that die and come back under a new holder, and    *)
(* workers that were only frozen; ends as calls that arrive late and are   *)
(* repeated; claims whose replies are lost.                                *)
(*                                                                         *)
(* Abstracts: a claim is applied when it is sent. Claims that arrive late, *)
(* and the doubt about them, are in Shutdown and Relaybus. Delays do not   *)
(* exist: what failed is due again at once. Completions always get their   *)
(* answer (BatchCompletion).                                               *)
(*                                                                         *)
(* Cannot see: handlers that hang, and how long anything takes.            *)

EXTENDS Naturals, FiniteSets, Guards

CONSTANTS
  LaneOf,     \* [delivery -> lane]; the deliveries are 1, 2, ...
  Chained,    \* the deliveries that share one handler and key, in order
  Poison,     \* running one of these kills the worker
  Failing,    \* the handlers of these may return an error
  Refusing,   \* the store refuses to write these rows, until it heals
  Limit,      \* attempts
  Live,       \* workers that live at a time
  MaxDeaths,
  MaxPauses,  \* takeovers of a lane whose worker lives
  MaxClaims,  \* per holder
  MaxLost,    \* replies to claims that get lost
  MaxFailures,
  MaxCancels,
  MaxRequeues,
  MaxRemoved  \* deliveries buried because their handler was removed

VARIABLES
  row,       \* delivery -> pending, dead, gone
  attempts, takeovers,
  lane,      \* lane -> [holder, epoch, list, stuck]; list: what is in flight
  refusing,  \* rows that cannot be written now
  alive,     \* the holders that live
  cause,     \* holder -> the poison that killed it, as <<delivery, requeues>>
  runs,      \* holder -> what it has in hand
  doubt,     \* holders whose last claim got no reply
  number,    \* holder -> its last claim number
  calls,     \* ends on their way
  left,      \* how often each bounded thing may still happen
  ghost      \* what the invariants remember; no action looks at it

rows == <<row, attempts, takeovers>>
deaths == <<refusing, alive, cause>>
claims == <<doubt, number>>
vars == <<rows, lane, deaths, claims, runs, calls, left, ghost>>

(* Values for LaneOf.                                                      *)
OneLane == <<1>>
OneLaneOfTwo == <<1, 1>>
OneLaneOfThree == <<1, 1, 1>>
TwoLanes == <<1, 2>>

Deliveries == DOMAIN LaneOf
Lanes == {LaneOf[d] : d \in Deliveries}
Holders == 1..(Live + MaxDeaths)
None == 0
Nobody == <<0, 0>>

(* An entry of a list, and the name of a run: no two claims of any holder  *)
(* make the same.                                                          *)
Entry(r) == [d |-> r.d, w |-> r.w, n |-> r.n]

Spend(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]
Pending == {d \in Deliveries : row[d] = "pending"}
First(S) == CHOOSE d \in S : \A c \in S : d <= c
Held(h) == {l \in Lanes : lane[l].holder = h}

Init ==
  /\ row = [d \in Deliveries |-> "pending"]
  /\ attempts = [d \in Deliveries |-> 0] /\ takeovers = [d \in Deliveries |-> 0]
  /\ lane = [l \in Lanes |-> [holder |-> None, epoch |-> 0, list |-> {}, stuck |-> {}]]
  /\ refusing = Refusing
  /\ alive = 1..Live /\ cause = [h \in Holders |-> Nobody]
  /\ runs = [h \in Holders |-> {}] /\ doubt = {} /\ number = [h \in Holders |-> 0]
  /\ calls = {}
  /\ left = [death |-> MaxDeaths, pause |-> MaxPauses, lost |-> MaxLost, fail |-> MaxFailures,
             cancel |-> MaxCancels, requeue |-> MaxRequeues, remove |-> MaxRemoved]
  /\ ghost = [charges |-> attempts,  \* charges since the last Requeue, as they should be
              charged |-> {},        \* the runs that were charged
              twice |-> {},          \* those charged again
              waiting |-> {},        \* followers granted and not started
              idle |-> {},           \* what was charged and must not have been
              blamed |-> [d \in Deliveries |-> {}], \* the killers that cost d an attempt
              wronged |-> {},        \* deliveries charged again for the same killer
              bad |-> {},            \* deliveries with a failed run of their own
              died |-> {},           \* dead letters
              starts |-> [d \in Deliveries |-> 0],
              requeues |-> [d \in Deliveries |-> 0]]

-----------------------------------------------------------------------------
(* Charging. killer is Nobody for a failure and for a death without a      *)
(* culprit among the deliveries.                                           *)

Charged(g, entries, killer) ==
  LET ds == {x.d : x \in entries} IN
  [g EXCEPT
    !.charges = [d \in Deliveries |-> @[d] + IF d \in ds THEN 1 ELSE 0],
    !.twice = @ \cup (entries \cap g.charged),
    !.charged = @ \cup entries,
    !.wronged = @ \cup {d \in ds : killer # Nobody /\ killer \in g.blamed[d]},
    !.blamed = [d \in Deliveries |->
                  IF d \in ds /\ killer # Nobody THEN @[d] \cup {killer} ELSE @[d]]]

Raise(counter, ds) == [d \in Deliveries |-> counter[d] + IF d \in ds THEN 1 ELSE 0]

(* Of a chain only the first one listed can have started.                  *)
FirstListed(list, x) ==
  x.d \in Chained =>
    \A y \in list : y.d \in Chained \cap Pending => y.d >= x.d

-----------------------------------------------------------------------------
(* Claim. It names the lanes it asks; after a claim without a reply, all   *)
(* lanes of the holder: the lost reply may have granted a suspect in any   *)
(* of them.                                                                *)

MayAsk(h, lanes) ==
  /\ lanes \subseteq Held(h) /\ lanes # {}
  /\ h \in doubt => Guard("all mine", lanes = Held(h))

Chain(picks) ==
  LET chain == picks \cap Chained IN
  /\ \A d \in Pending \cap Chained : (\E c \in chain : d < c) => d \in chain
  /\ Cardinality(chain) > 1 =>
       \A d \in chain : attempts[d] = 0 /\ takeovers[d] = 0

(* What was in flight when a worker died may have killed it. Such suspects *)
(* run one at a time, over all lanes of the worker, so that the one which  *)
(* kills again costs an innocent nothing more.                             *)
SuspectsAmong(picks) == {d \in picks : takeovers[d] > 0}
SuspectsOf(h, lanes) ==
  {r.d : r \in {r \in runs[h] : r.suspect /\ (Rule("per worker") \/ r.l \in lanes)}}
OneSuspect(h, lanes, picks) ==
  SuspectsAmong(picks) # {} =>
    Cardinality(SuspectsAmong(picks)) + Cardinality(SuspectsOf(h, lanes)) = 1

MayPick(h, lanes, picks) ==
  /\ \A d \in picks : /\ LaneOf[d] \in lanes /\ d \in Pending
                      /\ Guard("stuck", d \notin lane[LaneOf[d]].stuck)
                      /\ \A r \in runs[h] : r.d # d
  /\ picks \cap Chained # {} => \A r \in runs[h] : r.d \notin Chained
  /\ Chain(picks)
  /\ Guard("suspect", OneSuspect(h, lanes, picks))

(* A stuck delivery owes the charge that the store refused to write. It is *)
(* charged when the row can be written again, and only then leaves stuck.  *)
Unstuck(lanes) == UNION {lane[l].stuck : l \in lanes} \ refusing

Grant(h, n, picks) ==
  {[w |-> h, d |-> d, l |-> LaneOf[d], e |-> lane[LaneOf[d]].epoch, n |-> n,
    attempts |-> attempts[d], suspect |-> takeovers[d] > 0, phase |-> "waiting"] : d \in picks}

Followers(granted) ==
  LET chain == {r \in granted : r.d \in Chained} IN
  {Entry(r) : r \in {r \in chain : \E c \in chain : c.d < r.d}}

Claim(h, lanes, picks, reply) ==
  LET n == number[h] + 1
      stated == {Entry(r) : r \in runs[h]}
      granted == Grant(h, n, picks)
      kept(l) == lane[l].list \cap stated
      owing == Unstuck(lanes) \cap Pending
      lost == {r \in runs[h] : r.l \in lanes /\ Entry(r) \notin lane[r.l].list}
  IN
  /\ MayPick(h, lanes, picks)
  /\ number' = [number EXCEPT ![h] = n]
  /\ lane' = [l \in Lanes |-> IF l \notin lanes THEN lane[l] ELSE
       [lane[l] EXCEPT !.list = kept(l) \cup {Entry(r) : r \in {r \in granted : r.l = l}},
                       !.stuck = @ \ Unstuck(lanes)]]
  /\ attempts' = Raise(attempts, IF Rule("owing") THEN owing ELSE {})
  /\ takeovers' = Raise(takeovers, owing)
  /\ ghost' = [ghost EXCEPT !.charges = Raise(@, owing),
                            !.waiting = @ \cup Followers(granted)]
  /\ IF reply
       THEN /\ runs' = [runs EXCEPT ![h] = (@ \ lost) \cup granted]
            /\ doubt' = doubt \ {h} /\ UNCHANGED left
       ELSE /\ doubt' = doubt \cup {h} /\ Spend("lost") /\ UNCHANGED runs
  /\ UNCHANGED <<deaths, row, calls>>

Claims(h) ==
  /\ h \in alive /\ number[h] < MaxClaims
  /\ \E lanes \in SUBSET Held(h) :
       /\ MayAsk(h, lanes)
       /\ \E picks \in SUBSET {d \in Pending : LaneOf[d] \in lanes} :
            \E reply \in BOOLEAN : Claim(h, lanes, picks, reply)

CannotHaveStarted(x) == x \in ghost.waiting /\ \E c \in Chained \cap Pending : c < x.d

(* TakeOver charges what it finds in flight, because a death is a lost     *)
(* attempt, and clears the list, so that nobody is charged for it again.   *)
TakeOver(h, l) ==
  LET list == lane[l].list
      found == {x \in list : x.d \in Pending}
      owed == {x \in found : x.d \in refusing}
      started == {x \in found : FirstListed(list, x)}
      paid == (IF Rule("first") THEN started ELSE found) \ owed
  IN
  /\ h \in alive /\ lane[l].holder # h
  /\ IF lane[l].holder \in alive THEN Spend("pause") ELSE UNCHANGED left
  /\ takeovers' = Raise(takeovers, {x.d : x \in found \ owed})
  /\ attempts' = Raise(attempts, IF Rule("charge") THEN {x.d : x \in paid} ELSE {})
  /\ lane' = [lane EXCEPT ![l] =
       [holder |-> h, epoch |-> @.epoch + 1, list |-> IF Rule("clear") THEN {} ELSE list,
        stuck |-> @.stuck \cup {x.d : x \in owed}]]
  /\ ghost' = Charged([ghost EXCEPT !.idle = @ \cup {x \in paid : CannotHaveStarted(x)}],
                      paid, IF lane[l].holder = None THEN Nobody ELSE cause[lane[l].holder])
  /\ UNCHANGED <<deaths, claims, row, runs, calls>>

-----------------------------------------------------------------------------
(* A worker runs what it was granted.                                      *)

SameChain(r, c) == r.n = c.n /\ {r.d, c.d} \subseteq Chained
Rest(r) == {c \in runs[r.w] : SameChain(r, c) /\ c.d > r.d}
Alone(r) == \A c \in runs[r.w] : SameChain(r, c) => c.d >= r.d

Set(r, phase) == runs' = [runs EXCEPT ![r.w] = (@ \ {r}) \cup {[r EXCEPT !.phase = phase]}]

(* No attempt is left: bury it, without another start and another charge.  *)
Start(r) ==
  /\ r.phase = "waiting" /\ Alone(r)
  /\ IF Rule("limit") /\ r.attempts >= Limit
       THEN Set(r, "over") /\ UNCHANGED ghost
       ELSE /\ Set(r, "running")
            /\ ghost' = [ghost EXCEPT !.starts[r.d] = @ + 1, !.waiting = @ \ {Entry(r)}]
  /\ UNCHANGED <<rows, deaths, claims, lane, calls, left>>

Die(h, culprit) ==
  /\ Spend("death")
  /\ alive' = (alive \ {h}) \cup {Live + MaxDeaths - left.death + 1}
  /\ cause' = [cause EXCEPT ![h] = culprit]
  /\ runs' = [runs EXCEPT ![h] = {}]
  /\ UNCHANGED <<rows, claims, lane, refusing, calls, ghost>>

Kill(r) ==
  /\ r.phase = "running" /\ r.d \in Poison
  /\ Die(r.w, <<r.d, ghost.requeues[r.d]>>)

Crash(h) == h \in alive /\ Poison = {} /\ Die(h, Nobody)

Listed(c) == lane[c.l].holder = c.w /\ lane[c.l].epoch = c.e
             /\ IF Rule("run") THEN Entry(c) \in lane[c.l].list
                               ELSE \E x \in lane[c.l].list : x.d = c.d

(* A completion deletes the row; the list keeps its entry until a claim.   *)
Complete(r) ==
  /\ r.phase = "running" /\ r.d \notin Poison /\ Alone(r)
  /\ IF Listed(r) /\ r.d \in Pending \ refusing
       THEN row' = [row EXCEPT ![r.d] = "gone"] ELSE UNCHANGED row
  /\ runs' = [runs EXCEPT ![r.w] = @ \ {r}]
  /\ UNCHANGED <<deaths, claims, attempts, takeovers, lane, calls, left, ghost>>

Fail(r) ==
  /\ r.phase = "running" /\ r.d \in Failing /\ Spend("fail")
  /\ Set(r, "failed")
  /\ UNCHANGED <<rows, deaths, claims, lane, calls, ghost>>

(* The worker cancels a run of its own accord, as at shutdown: given back, *)
(* and not charged.                                                        *)
Cancel(r) ==
  /\ r.phase = "running" /\ Spend("cancel")
  /\ Set(r, "cancelled")
  /\ UNCHANGED <<rows, deaths, claims, lane, calls, ghost>>

-----------------------------------------------------------------------------
(* Ends: sent, applied once or more and whenever, answered or not.         *)

KindOf(r) == CASE r.phase = "failed" -> IF r.attempts + 1 >= Limit THEN "bury" ELSE "reschedule"
               [] r.phase = "over" -> "bury without charge"
               [] r.phase = "cancelled" -> IF Rule("cancelled") THEN "release" ELSE "reschedule"

SendEnd(r) ==
  /\ r.phase \in {"failed", "over", "cancelled"} /\ Alone(r)
  /\ calls' = calls \cup {[run |-> r, kind |-> KindOf(r), rest |-> {Entry(c) : c \in Rest(r)}]}
  /\ UNCHANGED <<rows, deaths, claims, lane, runs, left, ghost>>

Charges(kind) == kind \in {"reschedule", "bury"}
Buries(kind) == kind \in {"bury", "bury without charge"}

Accepts(c) ==
  /\ Listed(c.run)
  /\ c.kind # "release" => Guard("pending", c.run.d \in Pending) /\ row[c.run.d] # "gone"

(* Reschedule, Bury, Release. A row that cannot be written goes to stuck,  *)
(* with its charge owing.                                                  *)
Apply(c) ==
  LET r == c.run
      refused == r.d \in refusing /\ c.kind # "release"
      charge == ~refused /\ Charges(c.kind)
      again == ~refused /\ c.kind = "bury without charge" /\ ~Rule("uncharged burial")
      entry == IF Rule("run") THEN {Entry(r)} ELSE {x \in lane[r.l].list : x.d = r.d}
  IN
  /\ lane' = [lane EXCEPT ![r.l].list = @ \ (entry \cup IF Rule("rest") THEN c.rest ELSE {}),
                          ![r.l].stuck = IF refused THEN @ \cup {r.d} ELSE @]
  /\ attempts' = Raise(attempts, IF charge \/ again THEN {r.d} ELSE {})
  /\ takeovers' = [takeovers EXCEPT ![r.d] = IF charge /\ ~Rule("suspects stay") THEN 0 ELSE @]
  /\ row' = IF refused THEN row ELSE
            [row EXCEPT ![r.d] = IF Buries(c.kind) THEN "dead"
                                 ELSE IF c.kind = "reschedule" THEN "pending" ELSE @]
  /\ LET g == IF ~refused /\ Buries(c.kind)
                THEN [ghost EXCEPT !.died = @ \cup {r.d}] ELSE ghost
     IN ghost' = IF charge
          THEN Charged([g EXCEPT !.bad = @ \cup {r.d},
                                 !.idle = IF r.phase = "cancelled" THEN @ \cup {Entry(r)} ELSE @],
                       {Entry(r)}, Nobody)
          ELSE g

Forget(r) ==
  runs' = [runs EXCEPT ![r.w] = {c \in @ : Entry(c) # Entry(r) /\ c \notin Rest(r)}]

(* The call may stay: a copy of it was sent and arrives later.             *)
End(c) ==
  /\ IF Accepts(c) THEN Apply(c) ELSE UNCHANGED <<rows, lane, ghost>>
  /\ \/ Forget(c.run) /\ calls' \in {calls, calls \ {c}}
     \/ UNCHANGED <<runs, calls>>
  /\ UNCHANGED <<deaths, claims, left>>

-----------------------------------------------------------------------------
(* A run whose lease is lost is cancelled and forgotten.                   *)
LoseLane(h, l) ==
  /\ lane[l].holder # h /\ \E r \in runs[h] : r.l = l
  /\ runs' = [runs EXCEPT ![h] = {r \in @ : r.l # l}]
  /\ UNCHANGED <<rows, deaths, claims, lane, calls, left, ghost>>

Heal(d) ==
  /\ d \in refusing /\ refusing' = refusing \ {d}
  /\ UNCHANGED <<rows, claims, lane, alive, cause, runs, calls, left, ghost>>

Requeue(d) ==
  /\ row[d] = "dead" /\ Spend("requeue")
  /\ row' = [row EXCEPT ![d] = "pending"]
  /\ attempts' = [attempts EXCEPT ![d] = 0] /\ takeovers' = [takeovers EXCEPT ![d] = 0]
  /\ ghost' = [ghost EXCEPT !.charges[d] = 0, !.blamed[d] = {}, !.died = @ \ {d},
                            !.starts[d] = 0, !.requeues[d] = @ + 1]
  /\ UNCHANGED <<deaths, claims, lane, runs, calls>>

(* Unsubscribe buries what is pending for a handler, even while it runs.   *)
Unsubscribe(d) ==
  /\ d \in Pending /\ Spend("remove")
  /\ row' = [row EXCEPT ![d] = "dead"] /\ ghost' = [ghost EXCEPT !.died = @ \cup {d}]
  /\ UNCHANGED <<deaths, claims, attempts, takeovers, lane, runs, calls>>

-----------------------------------------------------------------------------
Next ==
  \/ \E h \in Holders : Claims(h) \/ Crash(h) \/ \E l \in Lanes : TakeOver(h, l) \/ LoseLane(h, l)
  \/ \E h \in Holders : \E r \in runs[h] :
       Start(r) \/ Kill(r) \/ Complete(r) \/ Fail(r) \/ Cancel(r) \/ SendEnd(r)
  \/ \E c \in calls : End(c)
  \/ \E d \in Deliveries : Heal(d) \/ Requeue(d) \/ Unsubscribe(d)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
TypeOK ==
  /\ row \in [Deliveries -> {"pending", "dead", "gone"}]
  /\ \A l \in Lanes : lane[l].holder \in Holders \cup {None} /\ lane[l].stuck \subseteq Deliveries
  /\ alive \subseteq Holders /\ Cardinality(alive) = Live
  /\ \A h \in Holders \ alive : runs[h] = {}

(* attempts is what it should be, no run was charged twice, none that its  *)
(* worker cancelled, and no follower that did not start behind a           *)
(* predecessor that has to run again.                                      *)
ChargedOnce ==
  /\ \A d \in Deliveries : row[d] # "gone" => attempts[d] = ghost.charges[d]
  /\ ghost.twice = {} /\ ghost.idle = {}

(* A delivery that never ends badly itself is charged at most once per     *)
(* delivery that kills its worker.                                         *)
InnocentNeighbours == ghost.wronged \subseteq Poison \cup ghost.bad

DeadStaysDead == \A d \in ghost.died : row[d] = "dead"

(* With enough attempts to bear one charge per poison, only it dies.       *)
OnlyPoisonDies == \A d \in Deliveries : row[d] = "dead" => d \in Poison

(* Inside a chain one start may go uncharged: its predecessor, finished    *)
(* and not yet acknowledged, was then the first one listed.                *)
StartsBounded ==
  \A d \in Deliveries : ghost.starts[d] <= Limit + IF d \in Chained THEN 1 ELSE 0

NeverPoisonDead == ~(\E d \in Poison : row[d] = "dead")
NeverNeighbourCharged == ~(\E d \in Deliveries \ Poison : attempts[d] > 0 /\ row[d] = "gone")
NeverFollowerSpared == ~(\E d \in Chained : takeovers[d] > 0 /\ attempts[d] = 0)
NeverStuck == ~(\E l \in Lanes : lane[l].stuck # {})
NeverRequeuedInFlight ==
  ~(\E c \in calls : ghost.requeues[c.run.d] > 0 /\
      \E r \in runs[c.run.w] : r.d = c.run.d /\ r.n > c.run.n)
=============================================================================
