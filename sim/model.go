package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// model is the protocol stepped beside the store: every action that the store
// committed must be one that the protocol allows in the state before it, with
// the same verdict.
//
// It does not see what handlers do, and it believes the store's choices (ids,
// sequences, picks) as far as they are allowed; that everything is picked some
// day is the liveness phase's business.
type model struct {
	// blind: it is not asked, so that the direct checkers show what they see
	// alone.
	blind  bool
	c      *checks
	state  *protocol.State
	ledger *protocol.Ledger
}

const (
	modelName = "lock-step model"
	// refusal stands in place of an invariant: the protocol does not allow
	// what the store did.
	refusal = "refusal"
)

func (m *model) init(c *checks) {
	m.c = c
	m.reset()
}

func (m *model) reset() {
	m.state, m.ledger = m.empty(), protocol.NewLedger()
	for _, lease := range m.c.lostEnds {
		m.ledger.LostCompletion(lease)
	}
}

func (m *model) empty() *protocol.State {
	k := &m.c.w.knobs
	return protocol.NewState(k.Semantics, int32(k.Lanes))
}

// killed tells the history what no store can know.
func (m *model) killed(k kill) { m.ledger.Killed(k.lease.Holder, k.lease.Delivery) }

// step steps the model with one action of the store.
func (m *model) step(position int64, a protocol.Action) {
	if m.blind {
		return
	}
	if seen, picks := readEarlier(a); seen != 0 {
		m.judgeAt(seen, position, a, picks)
	}
	refused, violation := protocol.Step(m.state, m.ledger, a)
	switch {
	case refused != nil:
		m.c.fail(modelName, refusal, "%v; position %d%s", refused, position, m.lastWriters(a, refused.Guard))
	case violation != nil:
		m.c.fail(modelName, violation.Invariant, "%v; after %s at position %d%s", violation, a.Name(), position, m.lastWriters(a, ""))
	}
}

// readEarlier returns the commit position at which an action's picks or
// verdicts were read, 0 when that is where it stands.
func readEarlier(a protocol.Action) (seen int64, picks bool) {
	switch a := a.(type) {
	case protocol.Claim:
		return a.Seen, true
	case protocol.CompleteMany:
		return a.Seen, false
	case protocol.Complete:
		return a.Seen, false
	case protocol.Reschedule:
		return a.Seen, false
	case protocol.Snooze:
		return a.Seen, false
	case protocol.Bury:
		return a.Seen, false
	case protocol.Release:
		return a.Seen, false
	}
	return 0, false
}

// judgeAt judges picks, or verdicts, that were read at an earlier position: a
// whole CompleteMany anywhere from there on, each lease by itself, since a
// store with row locks reads some leases again. What is right by now was right
// to commit; only otherwise are the states before it rebuilt, which is rare.
func (m *model) judgeAt(seen, position int64, a protocol.Action, picks bool) {
	if m.c.rewinding {
		return
	}
	var j judgement
	if j.of(m.state, a, picks); j.passed() {
		return
	}
	probeEarlier.Hit()
	last := seen
	if _, whole := a.(protocol.CompleteMany); whole {
		last = int64(len(m.c.log))
		if position > 0 {
			last = position - 1
		}
	}
	if j.at(m, seen, last, a, picks); !j.passed() {
		why := j.why()
		m.c.fail(modelName, refusal, "%s, read at position %d: %s%s", a.Name(), seen, why.text, m.lastWriters(a, why.guard))
	}
}

// at judges in every state from position seen to last.
func (j *judgement) at(m *model, seen, last int64, a protocol.Action, picks bool) {
	state, ledger := m.empty(), protocol.NewLedger()
	for i := int64(0); ; i++ {
		if i >= seen {
			j.of(state, a, picks)
		}
		if i >= last || int(i) >= len(m.c.log) || i >= seen && j.passed() {
			return
		}
		for _, b := range m.c.log[i].Actions {
			protocol.Step(state, ledger, b)
		}
	}
}

// judgement is what is wrong with the picks, or with each verdict, of an action
// in every state looked at so far; one without a text is right in one of them.
type judgement []objection

// objection says what is wrong, and which guard speaks against it.
type objection struct{ guard, text string }

func (j judgement) passed() bool { return j.why().text == "" }

func (j judgement) why() objection {
	for _, o := range j {
		if o.text != "" {
			return o
		}
	}
	return objection{}
}

// of looks at one state.
func (j *judgement) of(s *protocol.State, a protocol.Action, picks bool) {
	if picks {
		*j = judgement{{}}
		if o := s.PicksAllowed(a.(protocol.Claim)); !o.OK() {
			*j = judgement{{o.Guard, o.String()}}
		}
		return
	}
	first := *j == nil
	for i, o := range s.Judge(a) {
		var wrong objection
		if said, earlier := endVerdict(a, i); earlier && said != o.Verdict {
			wrong = objection{o.Guard, fmt.Sprintf("lease %d: have %v, want %v", i, said, o)}
		}
		if first {
			*j = append(*j, wrong)
		} else if wrong.text == "" {
			(*j)[i] = objection{}
		}
	}
}

// endVerdict returns verdict i of an end, and whether it was read earlier: the
// rest, the State judges where the action stands.
func endVerdict(a protocol.Action, i int) (v protocol.Verdict, earlier bool) {
	switch a := a.(type) {
	case protocol.CompleteMany:
		return a.Verdicts[i], a.Verdicts[i] == protocol.LeaseLost || unlisted(a, a.Leases[i])
	case protocol.Release:
		v = a.Verdicts[i]
	case protocol.Complete:
		v = a.Verdict
	case protocol.Reschedule:
		v = a.Verdict
	case protocol.Snooze:
		v = a.Verdict
	case protocol.Bury:
		v = a.Verdict
	}
	return v, v == protocol.LeaseLost
}

// laneWriters are, by the guard that reads it, the actions that write a lane's
// field.
var laneWriters = map[string][]string{
	"epoch":     {"TakeOver"},
	"holder":    {"TakeOver", "Relinquish"},
	"number":    {"Claim", "TakeOver", "Relinquish"},
	"expiry":    {"Claim", "TakeOver", "ExtendLease"},
	"lost":      {"TakeOver", "ChargeLost"},
	"in flight": {"Claim", "TakeOver", "Release", "Relinquish", "Reschedule", "Snooze", "Bury"},
	"running":   {"Claim", "TakeOver", "Release", "Relinquish", "Reschedule", "Snooze", "Bury"},
	"stuck":     {"Claim", "TakeOver", "ChargeLost", "Reschedule", "Snooze", "Bury"},
}

// rowGuards read rows of deliveries, and chargers write them without naming
// each.
var (
	rowGuards = []string{"row", "row lane", "pending", "dead", "died", "due", "charged", "fence", "delivery", "after"}
	chargers  = []string{"TakeOver", "ChargeLost"}
)

// wrote reports whether b wrote what a guard read for an action about these.
func wrote(b protocol.Action, guard string, about subjects) bool {
	by := subjectsOf(b)
	switch writers := laneWriters[guard]; {
	case writers != nil:
		return slices.Contains(writers, b.Name()) && about.meets(subjects{lanes: by.lanes})
	case slices.Contains(rowGuards, guard):
		ended := b.Name() != "Claim" && b.Name() != "Release" && about.meets(subjects{deliveries: by.deliveries})
		return ended || slices.Contains(chargers, b.Name()) && about.meets(subjects{lanes: by.lanes})
	}
	return about.meets(by)
}

// lastWriters names the latest commits that wrote what a guard read; without a
// guard, or with one that reads more than a lane or a row, what the action is
// about.
func (m *model) lastWriters(a protocol.Action, guard string) string {
	const most = 4
	about := subjectsOf(a)
	var lines []string
	for i := len(m.c.log) - 1; i >= 0 && len(lines) < most; i-- {
		for _, b := range m.c.log[i].Actions {
			if len(lines) < most && wrote(b, guard, about) && fmt.Sprint(a) != fmt.Sprint(b) {
				lines = append(lines, fmt.Sprintf("\n    written at %d: %s %s", i+1, b.Name(), summary(b)))
			}
		}
	}
	return strings.Join(lines, "")
}

// subjects are the lanes and deliveries that an action is about.
type subjects struct {
	lanes      []protocol.LaneID
	deliveries []protocol.DeliveryID
}

func (s subjects) meets(o subjects) bool {
	return slices.ContainsFunc(s.lanes, func(l protocol.LaneID) bool { return slices.Contains(o.lanes, l) }) ||
		slices.ContainsFunc(s.deliveries, func(d protocol.DeliveryID) bool { return slices.Contains(o.deliveries, d) })
}

func (s *subjects) lease(l protocol.Lease) {
	s.lanes = append(s.lanes, l.Lane)
	s.deliveries = append(s.deliveries, l.Delivery)
}

func subjectsOf(a protocol.Action) (s subjects) {
	switch a := a.(type) {
	case protocol.Publish:
		for _, e := range a.Events {
			for _, d := range e.Deliveries {
				s.deliveries = append(s.deliveries, d.ID)
			}
		}
	case protocol.Claim:
		s.lanes = append(s.lanes, a.Lane)
		for _, p := range a.Picks {
			s.deliveries = append(s.deliveries, p.Delivery)
		}
	case protocol.TakeOver:
		s.lanes = append(s.lanes, a.Lane)
	case protocol.ChargeLost:
		s.lanes = append(s.lanes, a.Lane)
	case protocol.ExtendLease:
		s.lanes = append(s.lanes, a.Lane)
	case protocol.Relinquish:
		s.lanes = append(s.lanes, a.Lane)
	case protocol.CompleteMany:
		for _, l := range a.Leases {
			s.lease(l)
		}
	case protocol.Release:
		for _, l := range a.Leases {
			s.lease(l)
		}
	case protocol.Complete:
		s.lease(a.Lease)
	case protocol.Reschedule:
		s.lease(a.Lease)
	case protocol.Snooze:
		s.lease(a.Lease)
	case protocol.Bury:
		s.lease(a.Lease)
	case protocol.Requeue:
		s.deliveries = a.Requeued
	case protocol.Purge:
		s.deliveries = a.Dead
	case protocol.Unsubscribe:
		s.deliveries = a.Swept
	}
	return s
}
