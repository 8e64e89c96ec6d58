package linearize

import (
	"encoding/binary"
	"fmt"
)

// Effectively once, a model per delivery.
//
// Verified: at most one completion of a delivery is accepted, and it is one by
// the run that was granted last and has not ended otherwise; no run is granted
// after it. CompleteMany may say Applied again, but only to the very lease that
// completed the delivery, whose first answer may have been lost. A transaction
// that completes a run commits at most once, never after another completion,
// never when its Complete said LeaseLost, and its effect is there as often as
// its completion: what CountEffects counts. Other ends are accepted only from
// the run granted last.
//
// Not verified: that plain handlers run only once, which nobody promises; that
// the delivery was published (at-least-once does); that the lane still lists
// the run (lane ownership does, where a lane decides). An effect that nobody
// recorded or counted is not seen.
type onceRules struct {
	family Family
	of     *delivery
}

// onceState is what counts of one delivery.
type onceState struct {
	tenure      tenure
	doneBy      int // the run that completed it
	completions int // over the lives of the event
	swept       bool
	past        former

	since *op // what last changed the state; no part of the key
}

func (s onceState) appendKey(b []byte) []byte {
	b = s.tenure.appendKey(b)
	b = binary.AppendVarint(b, int64(s.doneBy))
	b = binary.AppendVarint(b, int64(s.completions))
	return appendBool(s.past.appendKey(b), s.swept)
}

// String says which run counts.
func (s onceState) String() string {
	switch {
	case s.doneBy != 0:
		return fmt.Sprintf("completed by run %d", s.doneBy)
	case s.tenure.run != 0:
		return fmt.Sprintf("run %d may complete it", s.tenure.run)
	}
	return "nobody may complete it"
}

func (onceRules) start() onceState { return onceState{tenure: ended()} }

func (r onceRules) settled(s onceState, p *part[rowCall]) ([]onceState, *misfit) {
	c := &p.in
	switch c.kind {
	case rowGranted:
		if s.doneBy != 0 {
			return nil, mismatch(s.since, "it was completed")
		}
		s.tenure, s.since = tenure{c.run, c.lease.Fence}, p.op
	case rowCompleted:
		return r.completed(s, p)
	case rowCommitted:
		if m := r.mayEnd(s, c); m != nil {
			return nil, m
		}
		if c.effects > 1 {
			return nil, mismatch(nil, "%d effects were written for one completion", c.effects)
		}
		return one(s.done(p)), nil
	case rowUndone:
		return nil, mismatch(nil, "a transaction whose Complete says LeaseLost must not commit")
	case rowEffect:
		return nil, mismatch(nil, "an effect must commit with its completion")
	case rowEnded, rowBuried:
		if m := r.mayEnd(s, c); m != nil {
			return nil, m
		}
		s.tenure, s.since = ended(), p.op
	case rowReleased:
		if s.tenure.run == c.run {
			s.tenure.run, s.since = 0, p.op
		}
	case rowRequeued:
		s.tenure, s.since = s.tenure.requeued(), p.op
	case rowListed:
		if s.doneBy != 0 {
			return nil, mismatch(s.since, "it was completed")
		}
	case rowCounted:
		if c.effects != s.completions {
			return nil, mismatch(s.since, "it was completed %d times", s.completions)
		}
	}
	return one(s), nil
}

// mayEnd checks that a run is the one that counts.
func (r onceRules) mayEnd(s onceState, c *rowCall) *misfit {
	switch {
	case s.doneBy != 0:
		return mismatch(s.since, "it was completed by run %d already", s.doneBy)
	case c.run == 0:
		return mismatch(nil, "no claim granted %s", &c.lease)
	case !s.tenure.entitles(r.family, c):
		return mismatch(s.since, "run %d had ended or was granted anew, and %s", c.run, s)
	}
	return nil
}

func (r onceRules) completed(s onceState, p *part[rowCall]) ([]onceState, *misfit) {
	c := &p.in
	if s.doneBy != 0 && s.doneBy == c.run || s.past.repeats(c) {
		return one(s), nil
	}
	if m := r.mayEnd(s, c); m != nil {
		return nil, m
	}
	next := one(s.done(p))
	if s.swept {
		next = append(next, s) // the row was gone, and the lane still listed the run
	}
	return next, nil
}

// done is the state after a completion.
func (s onceState) done(p *part[rowCall]) onceState {
	s.doneBy, s.completions, s.tenure, s.since = p.in.run, s.completions+1, ended(), p.op
	return s
}

func (r onceRules) effects(s onceState, p, _ *part[rowCall]) []onceState {
	switch p.in.kind {
	case rowCompleted, rowCommitted:
		if r.mayEnd(s, &p.in) == nil {
			return one(s.done(p))
		}
	case rowSwept:
		if !s.swept {
			s.swept = true
			return one(s)
		}
	case rowPurged:
		if s.doneBy != 0 && r.of.publishes > 1 {
			// The event may be forgotten, and its id new again.
			past := s.past.with(r.of.grants[s.doneBy-1].lease.Delivery)
			return one(onceState{tenure: ended(), completions: s.completions, past: past, since: p.op})
		}
	}
	return nil
}

func (onceRules) silent(onceState) []onceState { return nil }

func (r onceRules) spent(s onceState, p *part[rowCall]) bool {
	switch p.in.kind {
	case rowCompleted, rowCommitted:
		return s.doneBy != 0 && r.of.publishes < 2
	case rowSwept, rowPurged:
		return false
	}
	return true // nothing that this model would notice
}
