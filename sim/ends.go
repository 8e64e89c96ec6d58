package sim

import "github.com/relaybus-go/relaybus/engine/protocol"

// end is one lease whose end a store accepted, whatever the action.
type end struct {
	lease  protocol.Lease
	action string
	plain  bool // CompleteMany, which a snapshot store judges by the fence
	tx     bool // Complete
	// refused: the store could not write the row; the run is over all the same.
	refused bool
}

// acceptedEnds calls each for every end that the action applied, Release
// among them, and for the rest of chains that it released.
func acceptedEnds(a protocol.Action, each func(end)) {
	one := func(lease protocol.Lease, rest []protocol.Lease, v protocol.Verdict) {
		if v != protocol.Applied {
			return
		}
		each(end{lease: lease, action: a.Name(), refused: refusedRow(a)})
	}
	switch a := a.(type) {
	case protocol.CompleteMany:
		for i := range a.Leases {
			if a.Verdicts[i] == protocol.Applied {
				each(end{lease: a.Leases[i], action: a.Name(), plain: true})
			}
		}
	case protocol.Complete:
		if a.Verdict == protocol.Applied {
			each(end{lease: a.Lease, action: a.Name(), tx: true})
		}
	case protocol.Reschedule:
		one(a.Lease, a.Rest, a.Verdict)
	case protocol.Snooze:
		one(a.Lease, a.Rest, a.Verdict)
	case protocol.Bury:
		one(a.Lease, a.Rest, a.Verdict)
	case protocol.Release:
		for i := range a.Leases {
			one(a.Leases[i], nil, a.Verdicts[i])
		}
	}
}

// refusedRow reports whether an end wrote its lane alone.
func refusedRow(a protocol.Action) bool {
	switch a := a.(type) {
	case protocol.Reschedule:
		return a.Refused
	case protocol.Snooze:
		return a.Refused
	case protocol.Bury:
		return a.Refused
	}
	return false
}

// byFence reports whether the store judges the end by the row's fence alone.
func (f *facts) byFence(e end) bool { return e.plain && f.semantics == protocol.Snapshot }
