package protocol

import "fmt"

// Invariant is a promise of the protocol, by the name it has in
// Invariants.tla and CORRECTNESS.md.
type Invariant struct {
	Name string
	Says string
	// check looks at a scope: everything, or what one action concerned. Nil
	// for a liveness property, which no single state can break.
	check func(*Scope) *Violation
}

// Invariants are all invariants, over the surviving history.
var Invariants = []Invariant{
	{"TypeOK", "rows, lanes and lists are well formed", TypeOK},
	{"NoLostDelivery", "a committed (event, handler) is pending, dead, or its completion is committed, or it was purged or unsubscribed", NoLostDelivery},
	{"NothingInvented", "nothing runs or completes that was not committed", NothingInvented},
	{"OneHolderPerLane", "at most one holder's calls on a lane are accepted between two takeovers", OneHolderPerLane},
	{"OneGroupPerHolder", "a holder has lanes of one group, the one that its worker named", OneGroupPerHolder},
	{"FencedOut", "after TakeOver (and its ChargeLost) no call with an older token changes a delivery that was then in flight", FencedOut},
	{"NothingDropped", "while no commit is lost, what the lane's holder still runs is in in_flight", NothingDropped},
	{"AtMostOneCompletion", "at most one completion of a delivery commits", AtMostOneCompletion},
	{"KeyOrder", "per (handler, key): never two accepted runs at once, completions in commit order (dead-lettered and requeued ones excepted)", KeyOrder},
	{"ChargedOnce", "attempts since the last Requeue are the failures and takeovers that cost a started run; each run is charged at most once", ChargedOnce},
	{"InnocentNeighbours", "a delivery that never ends badly itself is charged at most once per delivery that kills its worker", InnocentNeighbours},
	{"DeadStaysDead", "a dead delivery is never claimed until requeued", DeadStaysDead},
	{"CompletedStaysDone", "publishing the same event id again never re-runs a completed handler while the event is kept", CompletedStaysDone},
	{"Drains", "with faults stopped and one live worker per handler, every delivery completes or is dead, and no lane stays with the dead", nil},
}

// Check checks one invariant in full; nil when it holds, and always for a
// liveness property.
func (inv *Invariant) Check(s *State, l *Ledger) *Violation {
	if inv.check == nil {
		return nil
	}
	in := everything(s, l)
	in.findRows()
	return inv.check(in)
}

// Violation is a promise that was broken.
type Violation struct {
	Invariant string
	Subject   string // the delivery, lane or call that it is about
	Detail    string
}

// String returns the violation in one line.
func (v *Violation) String() string {
	return v.Invariant + " is broken by " + v.Subject + ": " + v.Detail
}

// Scope is what the invariants look at: everything, or what one action
// concerned.
type Scope struct {
	state    *State // nil: judge the history alone
	ledger   *Ledger
	pairs    []*pairHistory
	rows     []*row // of the pairs; nil: no row of that delivery
	lanes    []*laneHistory
	invented []string
	all      bool
}

// Check checks every invariant in full.
func Check(s *State, l *Ledger) *Violation {
	return everything(s, l).check()
}

func everything(s *State, l *Ledger) *Scope {
	return &Scope{state: s, ledger: l, pairs: l.pairs, lanes: l.lanes, invented: l.invented, all: true}
}

// findRows looks up the rows of the pairs in scope.
func (in *Scope) findRows() {
	in.rows = in.rows[:0]
	for _, p := range in.pairs {
		in.rows = append(in.rows, in.rowOf(p))
	}
}

func (in *Scope) check() *Violation {
	in.findRows()
	for i := range Invariants {
		if Invariants[i].check == nil {
			continue
		}
		if v := Invariants[i].check(in); v != nil {
			return v
		}
	}
	return nil
}

// rowOf returns a delivery's row, unless its id was issued to another.
func (in *Scope) rowOf(p *pairHistory) *row {
	if in.state == nil {
		return nil
	}
	r := in.state.row(p.id)
	if r == nil || r.Event != p.event || r.Handler != p.handler {
		return nil
	}
	return r
}

func (p *pairHistory) String() string {
	return fmt.Sprintf("#%d %s/%s", p.id, p.event, p.handler)
}

// breaks names a pair that broke an invariant.
func (p *pairHistory) breaks(invariant, format string, args ...any) *Violation {
	return &Violation{invariant, p.String(), fmt.Sprintf(format, args...)}
}

// NoLostDelivery: a committed (event, handler) is pending, dead, or its
// completion is committed, or it was purged or unsubscribed.
func NoLostDelivery(in *Scope) *Violation {
	for i, p := range in.pairs {
		if p.broken != nil && p.broken.deleted != "" {
			return p.breaks("NoLostDelivery", "%s", p.broken.deleted)
		}
		if in.state != nil && p.fate == alive && in.rows[i] == nil {
			return p.breaks("NoLostDelivery", "its row is gone and nothing accounts for it")
		}
	}
	return nil
}

// NothingInvented: nothing runs or completes that was not committed.
func NothingInvented(in *Scope) *Violation {
	if len(in.invented) > 0 {
		return &Violation{"NothingInvented", "a call", in.invented[0]}
	}
	for i, p := range in.pairs {
		if p.fate != alive && in.rows[i] != nil && in.ledger.byID[p.id] == p {
			return p.breaks("NothingInvented", "its row is there although it was deleted")
		}
	}
	if !in.all {
		return nil
	}
	for _, r := range in.state.rows {
		if p := in.ledger.byID[r.ID]; p == nil || p.event != r.Event || p.handler != r.Handler {
			return &Violation{"NothingInvented", fmt.Sprintf("#%d %s/%s", r.ID, r.Event, r.Handler), "nobody published it"}
		}
	}
	return nil
}

// OneHolderPerLane: at most one holder's calls on a lane are accepted between
// two takeovers. A Snapshot store may accept completions of what is in lost
// until ChargeLost.
func OneHolderPerLane(in *Scope) *Violation {
	for _, h := range in.lanes {
		if !h.intruder.IsZero() {
			return &Violation{"OneHolderPerLane", fmt.Sprintf("lane %d", h.id),
				fmt.Sprintf("%s of %s was accepted in a term of another holder", h.call, h.intruder.Short())}
		}
	}
	return nil
}

// OneGroupPerHolder: a holder has lanes of one group, the one that its worker
// named. It would have no handler for what waits in others. The group is judged
// by its number; one that a failover took back may be another group's now, and
// a worker that has not heard of it yet names that.
func OneGroupPerHolder(in *Scope) *Violation {
	for _, h := range in.lanes {
		if h.foreign != "" {
			return &Violation{"OneGroupPerHolder", fmt.Sprintf("lane %d", h.id), h.foreign}
		}
	}
	return nil
}

// FencedOut: after TakeOver (in a Snapshot store: and its ChargeLost) no call
// with an older token changes a delivery that was then in flight. An end under
// a token that the surviving history never granted counts as older, and so does
// one under a run that ended or was given back; a Snapshot store may complete
// such a run (docs/adr, 13).
func FencedOut(in *Scope) *Violation {
	for _, p := range in.pairs {
		switch b := p.broken; {
		case b == nil:
		case b.unknownEnd != nil:
			return p.breaks("FencedOut", "an end was accepted under %v, which was never granted", b.unknownEnd)
		case b.fencedEnd != nil:
			return p.breaks("FencedOut", "an end was accepted under %v after its takeover", b.fencedEnd)
		case b.overEnd != nil:
			return p.breaks("FencedOut", "an end was accepted under %v, a run that was over", b.overEnd)
		}
	}
	return nil
}

// NothingDropped: while no commit is lost, what the lane's holder still runs
// is in in_flight. The Ledger takes a run as going on until it ended, was
// released, was not stated by a call that its worker made later, or was taken
// over by another; what the worker really runs beyond that is for the simulator
// to compare.
func NothingDropped(in *Scope) *Violation {
	for _, p := range in.pairs {
		if p.broken != nil && p.broken.dropped != "" {
			return p.breaks("NothingDropped", "%s", p.broken.dropped)
		}
		if in.state == nil || p.last == nil || p.last.phase != open {
			continue
		}
		lane := in.state.lane(p.last.Lane)
		if lane == nil || lane.Holder != p.last.Holder || !lists(lane.InFlight, InFlight{p.id, p.last.Claim}) {
			return p.breaks("NothingDropped", "granted under %v and not ended, but its lane does not list it", p.last.Token)
		}
	}
	return nil
}

// AtMostOneCompletion: at most one completion of a delivery commits. That a
// transactional handler's effect commits exactly as often is for who can see
// the effects.
func AtMostOneCompletion(in *Scope) *Violation {
	for _, p := range in.pairs {
		if p.completions > 1 {
			return p.breaks("AtMostOneCompletion", "completed %d times", p.completions)
		}
	}
	return nil
}

// KeyOrder: per (handler, key) never two accepted runs at once, completions in
// commit order. A delivery that was ever a dead letter or requeued is excepted
// from the order of completions. A chain counts as one run: its followers
// start one after another.
func KeyOrder(in *Scope) *Violation {
	for _, p := range in.pairs {
		switch b := p.broken; {
		case b == nil:
		case b.behind:
			return p.breaks("KeyOrder", "its sequence is below that of one committed before it")
		case b.beside != "":
			return p.breaks("KeyOrder", "%s", b.beside)
		case b.early != nil:
			return p.breaks("KeyOrder", "completed before its predecessor %v", b.early)
		case b.overtakenBy != nil:
			return p.breaks("KeyOrder", "completed after %v, which was committed later", b.overtakenBy)
		}
	}
	return nil
}

// ChargedOnce: attempts since the last Requeue are the accepted Reschedules
// and charging Burials, and the takeovers that found the delivery in flight
// with no earlier pending one of its (handler, key) listed; each run is
// charged at most once, nothing is granted before it has paid, and only a dead
// letter is forgiven.
func ChargedOnce(in *Scope) *Violation {
	for i, p := range in.pairs {
		b, r := p.broken, in.rows[i]
		switch {
		case b != nil && b.overcharged:
			return p.breaks("ChargedOnce", "one run was charged twice")
		case b != nil && b.mischarged != "":
			return p.breaks("ChargedOnce", "%s", b.mischarged)
		case r == nil || p.fate != alive:
		case r.Attempts != p.charges:
			return p.breaks("ChargedOnce", "attempts %d, but %d charges", r.Attempts, p.charges)
		case r.Takeovers != p.takeovers:
			return p.breaks("ChargedOnce", "takeovers %d, but %d found it in flight", r.Takeovers, p.takeovers)
		}
	}
	return nil
}

// InnocentNeighbours: a delivery that never ends badly itself is charged at
// most once per delivery that kills its worker. Ending badly is an accepted
// Reschedule, charging Bury or refused end; who kills is told by
// [Ledger.Killed].
func InnocentNeighbours(in *Scope) *Violation {
	for _, p := range in.pairs {
		if b := p.broken; b != nil && b.chargedFor != nil && p.badEnds == 0 && !p.killer {
			return p.breaks("InnocentNeighbours", "charged twice for the deaths that %v caused", b.chargedFor)
		}
	}
	return nil
}

// DeadStaysDead: a dead delivery is never claimed until requeued, and no end
// revives it.
func DeadStaysDead(in *Scope) *Violation {
	for i, p := range in.pairs {
		if b := p.broken; b != nil && b.revived != "" {
			return p.breaks("DeadStaysDead", "dead, but %s was accepted", b.revived)
		}
		if r := in.rows[i]; r != nil && p.fate == alive && (r.Status == Dead) != p.dead {
			return p.breaks("DeadStaysDead", "the row is %s without a Bury, Unsubscribe or Requeue", r.Status)
		}
	}
	return nil
}

// CompletedStaysDone: publishing the same event id again never re-runs a
// completed handler while the event is kept.
func CompletedStaysDone(in *Scope) *Violation {
	for _, p := range in.pairs {
		switch b := p.broken; {
		case b == nil:
		case b.again:
			return p.breaks("CompletedStaysDone", "delivered again by a second publish")
		case b.regranted:
			return p.breaks("CompletedStaysDone", "granted although it is completed")
		}
	}
	return nil
}

// Drains is a liveness property: the simulator and TLC check it, no single
// state breaks it. It stands in [Invariants] without a check.
