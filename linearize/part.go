package linearize

import (
	"cmp"
	"fmt"
	"slices"
)

// String says who called what and when.
func (p *part[P]) String() string {
	switch {
	case p.role == openRole && p.op.Outcome == Open:
		return fmt.Sprintf("client %d: %s; no answer", p.op.Client, p.in)
	case p.role == openRole && p.op.Outcome == Returned:
		return fmt.Sprintf("client %d: %s, perhaps", p.op.Client, p.in)
	case p.role == openRole:
		return fmt.Sprintf("client %d: %s; failed (%s), may be done in part", p.op.Client, p.in, p.op.Outcome)
	}
	return fmt.Sprintf("client %d: %s", p.op.Client, p.in)
}

// settledPart returns the part of a call whose answer is known.
func settledPart[P fmt.Stringer](o *op, in P) *part[P] {
	return &part[P]{op: o, call: o.Call, ret: o.Return, in: in}
}

// openPart returns the part of a call that may take effect.
func openPart[P fmt.Stringer](o *op, in P) *part[P] {
	return &part[P]{op: o, call: o.Call, ret: o.Call, until: o.until, role: openRole, in: in}
}

// crashPart returns the part of a crash.
func crashPart[P fmt.Stringer](o *op, in P) *part[P] {
	return &part[P]{op: o, call: o.Call, ret: o.Return, role: crashRole, in: in}
}

// newMachine makes the machine of one partition.
func newMachine[S state, P fmt.Stringer](title string, r rules[S, P], parts []*part[P]) *machine[S, P] {
	m := &machine[S, P]{title: title, rules: r}
	m.parts = make([]*part[P], len(parts))
	copies := make(map[*part[P]]*part[P], len(parts)) // two models may look at the same calls
	for i, p := range parts {
		own := *p
		m.parts[i], copies[p] = &own, &own
	}
	for _, p := range m.parts {
		p.like = copies[p.like]
	}
	slices.SortStableFunc(m.parts, func(a, b *part[P]) int {
		if c := cmp.Compare(a.call, b.call); c != 0 {
			return c
		}
		return cmp.Compare(a.op.number, b.op.number)
	})
	for i, p := range m.parts {
		p.index = i
		if p.role == crashRole {
			m.lastCrash = max(m.lastCrash, p.ret)
		}
	}
	return m
}
