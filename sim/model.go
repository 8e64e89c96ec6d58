package sim

import (
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
	k := &m.c.w.knobs
	m.state = protocol.NewState(k.Semantics, int32(k.Lanes))
	m.ledger = protocol.NewLedger()
}

// killed tells the history what no store can know.
func (m *model) killed(k kill) { m.ledger.Killed(k.holder, k.delivery) }

func (m *model) step(position int64, a protocol.Action) {
	state := m.state
	refused, violation := protocol.Step(state, m.ledger, a)
	switch {
	case refused != nil:
		m.c.fail(modelName, refusal, "%v at position %d", refused, position)
	case violation != nil:
		m.c.fail(modelName, violation.Invariant, "%v", violation)
	}
}
