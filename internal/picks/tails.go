package picks

import (
	"slices"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// Tails are the followers that chosen heads of keys bring, as far as the limit
// of the call goes.
type Tails struct {
	p     *Picker
	lanes []*Lane
	heads []*Candidate

	// Heads are those of the chosen heads that may bring followers. A head
	// that was charged comes alone.
	Heads []*Candidate
	// Most is how many rows to read behind each: twice an even share, because
	// some keys have fewer. 0: none may follow.
	Most int

	of []tail // per element of Heads
}

type tail struct {
	rows  []*Candidate
	ended bool
}

// Tails begins the choice of the followers of the chosen heads.
func (p *Picker) Tails(lanes []*Lane, heads []*Candidate) *Tails {
	t := &Tails{p: p, lanes: lanes, heads: heads}
	for _, c := range heads {
		switch {
		case c.Key == "":
		case c.charged() && !mutant.On("chain-not-stopped-at-charged"):
			chargedHeads.Hit()
		default:
			t.Heads = append(t.Heads, c)
		}
	}
	t.of = make([]tail, len(t.Heads))
	if n := len(t.Heads); n > 0 && p.left > 0 {
		t.Most = min(p.left, max(1, 2*p.left/n))
	}
	return t
}

// Offer hands over the next pending row behind Heads[i], in sequence, and
// reports whether the one behind it may follow too. A chain ends at the first
// row that is not due, was charged, or is stuck: passing over one would break
// the order of its key.
func (t *Tails) Offer(i int, c *Candidate) bool {
	own := &t.of[i]
	if c.charged() && mutant.On("chain-not-stopped-at-charged") {
		return true
	}
	if own.ended || c.Early || c.charged() || t.p.Runs(c.ID) || slices.Contains(laneOf(t.lanes, c.Lane).Stuck, c.ID) {
		if c.charged() {
			chainsCharged.Hit()
		} else if c.Early {
			chainsEarly.Hit()
		}
		own.ended = true
		return false
	}
	if len(own.rows) < t.Most {
		own.rows = append(own.rows, c)
	}
	return len(own.rows) < t.Most
}

// Grant puts the heads and what follows them into their lanes.
func (t *Tails) Grant() {
	t.share()
	for _, c := range t.heads {
		l := laneOf(t.lanes, c.Lane)
		l.Picked = append(l.Picked, c)
		after := c.ID
		for _, f := range t.behind(c) {
			f.After, after = after, f.ID
			l.Picked = append(l.Picked, f)
		}
	}
}

func (t *Tails) behind(head *Candidate) []*Candidate {
	i := slices.Index(t.Heads, head)
	if i < 0 {
		return nil
	}
	if len(t.of[i].rows) > 0 {
		chainsGranted.Hit()
	}
	return t.of[i].rows
}

// share cuts the tails so that together they fit into what is left: one each,
// in turns.
func (t *Tails) share() {
	if mutant.On("first-chain-takes-all") {
		for i := range t.of {
			n := min(len(t.of[i].rows), t.p.left)
			t.of[i].rows = t.of[i].rows[:n]
			t.p.left -= n
		}
		return
	}
	for turn, more := 1, true; more; turn++ {
		more = false
		for i := range t.of {
			switch own := &t.of[i]; {
			case len(own.rows) < turn:
			case t.p.left <= 0:
				own.rows = own.rows[:turn-1]
			default:
				t.p.left--
				more = true
			}
		}
	}
}
