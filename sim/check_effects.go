package sim

import (
	"context"
	"strings"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// effects checks AtMostOneCompletion: every delivery completes at most once,
// what a transactional handler wrote is there exactly as often as its
// completion, and nothing completes without a run that succeeded under the
// same lease.
//
// It does not check that handlers of the plain kind run only once: they may
// run again after a crash, that is their contract.
type effects struct {
	unconcerned
	c       *checks
	success map[leaseName]bool // runs of plain handlers that returned nil
}

// leaseName is a lease as the store can only issue it once.
type leaseName struct {
	delivery protocol.DeliveryID
	holder   protocol.Holder
	claim    int64
}

func nameOf(l protocol.Lease) leaseName { return leaseName{l.Delivery, l.Holder, l.Claim} }

func (*effects) name() string { return "AtMostOneCompletion" }

func (k *effects) returned(r *handlerRun, err error) {
	if err != nil || r.handler.transactional {
		return
	}
	if k.success == nil {
		k.success = map[leaseName]bool{}
	}
	k.success[nameOf(r.run.Picked.Lease)] = true
}

func (k *effects) action(_ int64, a protocol.Action) {
	switch a := a.(type) {
	case protocol.CompleteMany:
		for i := range a.Leases {
			if a.Verdicts[i] == protocol.Applied {
				k.plain(a.Leases[i])
			}
		}
	case protocol.Complete:
		if a.Verdict == protocol.Applied {
			k.transactional(a.Lease)
		}
	}
}

// plain judges a completion that may be the retry of one whose reply was lost.
// The row is gone once, whoever is told Applied: after a completion by an
// earlier run of the same holder, the run granted since is told so too.
func (k *effects) plain(lease protocol.Lease) {
	d := k.c.facts.delivery(lease.Delivery)
	switch {
	case d == nil:
		k.c.fail(k.name(), "NothingInvented", "%v was completed and never committed", lease)
	case d.fate == completed && nameOf(d.ended) != nameOf(lease) && !(d.early && sameHolding(d.ended.Token, lease.Token)):
		k.c.fail(k.name(), k.name(), "%s of %s was completed twice: under %v and %v", d.handler, d.event, d.ended, lease)
	case !k.success[nameOf(lease)]:
		k.c.fail(k.name(), k.name(), "%s of %s was completed under %v, and no run under that lease returned without an error", d.handler, d.event, lease)
	}
}

func (k *effects) transactional(lease protocol.Lease) {
	d := k.c.facts.delivery(lease.Delivery)
	switch {
	case d == nil:
		k.c.fail(k.name(), "NothingInvented", "%v was completed and never committed", lease)
	case d.fate == completed:
		k.c.fail(k.name(), k.name(), "%s of %s was completed twice: under %v and %v", d.handler, d.event, d.ended, lease)
	}
}

// finish counts the rows that transactional handlers wrote.
func (k *effects) finish(bool) {
	rows := k.c.w.rows(effectTable)
	count := make(map[string]int, len(rows))
	for _, r := range rows {
		pair, _, _ := strings.Cut(r.Key, "@")
		count[pair]++
	}
	// An event that was purged and published anew has a second delivery.
	completions := make(map[string]int, len(rows))
	for _, d := range k.c.facts.deliveries {
		if d != nil && d.fate == completed {
			completions[d.event+"/"+d.handler]++
		}
	}
	for _, d := range k.c.facts.deliveries {
		if d == nil || !k.c.w.handlerNamed(d.handler).transactional {
			continue
		}
		pair := d.event + "/" + d.handler
		if _, seen := count[pair]; !seen && completions[pair] == 0 {
			continue
		}
		if count[pair] != completions[pair] {
			k.c.fail(k.name(), k.name(), "%s of %s: its effect is committed %d times, its completion %d times", d.handler, d.event, count[pair], completions[pair])
		}
		delete(count, pair)
		delete(completions, pair)
	}
	if len(count) > 0 {
		for _, r := range rows {
			pair, _, _ := strings.Cut(r.Key, "@")
			if count[pair] > 0 {
				k.c.fail(k.name(), "NothingInvented", "the effect %s is committed, its event is not", r.Key)
			}
		}
	}
}

// rows reads a user table from outside of the simulation.
func (w *world) rows(table string) []simstore.Row {
	tx, err := w.store.Begin(context.Background())
	if err != nil {
		panic(err)
	}
	defer tx.Rollback()
	rows, err := tx.List(context.Background(), table)
	if err != nil {
		panic(err)
	}
	return rows
}
