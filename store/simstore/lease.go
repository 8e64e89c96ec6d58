package simstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
	"github.com/relaybus-go/relaybus/internal/picks"
)

// current marks a verdict or pick that was read at the very state it commits
// on, or that locks kept valid until then.
const current = math.MaxInt64

// meanwhile marks a verdict of LeaseLost for a row that somebody wrote between
// the statement's snapshot and its lock, and that looks the same again (buried
// by an Unsubscribe and requeued). It was right at some position in between; of
// a Complete, which has one verdict and one position, nothing is told then.
const meanwhile = -1

// work is one lane within a Claim.
type work struct {
	id        protocol.LaneID
	lane      *protocol.Lane // as the call works on it
	picksFrom bool
	renew     bool
	takenOver bool
	lacking   bool
	stuck     []protocol.DeliveryID
	unstuck   []protocol.DeliveryID
	granted   []granted
	read      int64 // position at which the picks were read
}

type granted struct {
	d     *protocol.Delivery
	after protocol.DeliveryID
}

// grant adds a pick.
func (w *work) grant(d *protocol.Delivery, after protocol.DeliveryID) {
	w.granted = append(w.granted, granted{d, after})
}

// claiming is one Claim call at work.
type claiming struct {
	*call
	in       *engine.ClaimInput
	picker   *picks.Picker
	handlers []string
	reply    engine.ClaimReply
	taken    int // lanes taken over so far
	start    int // where the search for lanes to take over begins
}

// Claim performs TakeOver, ChargeLost, Claim and Relinquish as the input asks.
// A locking store commits them together, a Snapshot store each on its own.
func (s *Store) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	if in.Holder.IsZero() {
		return engine.ClaimReply{}, fmt.Errorf("simstore: claim: %w: no holder", engine.ErrInvalid)
	}
	var k *claiming
	err := s.serve(ctx, "Claim", func(c *call) error {
		k = &claiming{call: c, in: &in, picker: picks.New(&in), handlers: handlersWithRoom(&in)}
		k.start = in.SearchFrom(int(s.options.Lanes))
		err := k.perform()
		if err != nil {
			s.forgetHints(in.Holder, in.Held)
		}
		return err
	})
	if err != nil && !(mutant.On("claim-shows-uncommitted") && errors.Is(err, engine.ErrRetryable)) {
		return engine.ClaimReply{}, err
	}
	k.reply.Now = s.db.sched.Now()
	return k.reply, nil
}

func (k *claiming) perform() error {
	if k.db.semantics == protocol.Snapshot {
		return k.snapshot()
	}
	return k.locking()
}

// late reports whether the call's not-after has passed.
func (k *claiming) late(clock protocol.Time) bool { return tooLate(clock, k.in.NotAfter) }

func tooLate(clock, notAfter protocol.Time) bool {
	if mutant.On("not-after-ignored") {
		return false
	}
	if mutant.On("not-after-one-tick-late") {
		clock--
	}
	if notAfter != 0 && clock > notAfter {
		lateCalls.Hit()
		return true
	}
	return false
}

// named returns the lanes that the call names, ascending: with AllMine those
// the statement sees to be the holder's too.
func (k *claiming) named(st *stmt) []protocol.LaneID {
	var ids []protocol.LaneID
	for _, l := range k.in.Held {
		ids = append(ids, l.Lane)
	}
	ids = append(ids, k.in.LetExpire...)
	if k.in.AllMine {
		k.eachLane(0, func(id protocol.LaneID) bool {
			if l := read(st, k.db.lanes, id); l != nil && l.Holder == k.in.Holder {
				if !slices.ContainsFunc(k.in.Held, func(h protocol.LaneEpoch) bool { return h.Lane == id }) {
					unknownLanes.Hit()
				}
				ids = append(ids, id)
			}
			return true
		})
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// eachLane visits the lanes of the group, from the given offset around.
func (k *claiming) eachLane(start int, visit func(protocol.LaneID) bool) {
	n := int(k.s.options.Lanes)
	first := int(k.in.Group) * n
	if mutant.On("takeover-of-another-group") {
		first, n = 0, n*len(k.db.groups.rows)
	}
	for i := range n {
		if !visit(protocol.LaneID(first + (start+i)%n)) {
			return
		}
	}
}

// mine is the guard of the action Claim, as far as it looks at the lane.
func (k *claiming) mine(l *protocol.Lane) bool {
	return l.Holder == k.in.Holder && (k.in.Number > l.Claim || mutant.On("claim-without-number-check"))
}

// takeable is the guard of the action TakeOver.
func (k *claiming) takeable(l *protocol.Lane, now protocol.Time) bool {
	if l.Holder.IsZero() {
		if l.LastHolder == k.in.Holder && k.in.Number <= l.Claim {
			lateTakeovers.Hit()
		}
		return l.LastHolder != k.in.Holder || k.in.Number > l.Claim || mutant.On("claim-without-number-check")
	}
	if l.Holder == k.in.Holder && !mutant.On("takeover-of-own-lane") {
		return false
	}
	if mutant.On("takeover-one-tick-early") {
		now = now.Add(k.in.TTL / 16)
	}
	if mutant.On("takeover-at-expiry") {
		return l.ExpiresAt <= now
	}
	return l.ExpiresAt < now
}

// candidate reports whether a lane is worth taking over: any that expired, but
// of the free ones only those with a row this worker can pick; and, when stuck
// rows are tried again, those that have some: nobody else would.
func (k *claiming) candidate(st *stmt, id protocol.LaneID) bool {
	l := read(st, k.db.lanes, id)
	if l == nil || !k.takeable(l, st.tx.now) {
		return false
	}
	if !l.Holder.IsZero() || len(l.Lost) > 0 {
		return true
	}
	if k.in.RetryStuck && len(l.Stuck) > 0 {
		return true
	}
	return !slices.Contains(k.in.Avoid, protocol.LaneEpoch{Lane: id, Epoch: l.Epoch}) && k.hasPick(st, l)
}

// prepare returns the work on a lane that the holder holds.
func (k *claiming) prepare(l *protocol.Lane) *work {
	w := &work{id: l.ID, lane: l, stuck: l.Stuck}
	if w.renew = !slices.Contains(k.in.LetExpire, l.ID); !w.renew {
		unrenewed.Hit()
	}
	w.picksFrom = w.renew && !slices.Contains(k.in.Draining, l.ID)
	return w
}

// claimed returns the lane after the action Claim: what it lists is kept only
// as far as the worker states it, and nothing but picks is added.
func (k *claiming) claimed(w *work, l *protocol.Lane, now, clock protocol.Time) *protocol.Lane {
	next := *l
	next.Claim = k.in.Number
	next.InFlight = k.kept(l)
	if len(next.InFlight) < len(l.InFlight) {
		dropped.Hit()
	}
	if l.ExpiresAt < clock {
		ownExpired.Hit()
	}
	for _, g := range w.granted {
		next.InFlight = append(next.InFlight, protocol.InFlight{Delivery: g.d.ID, Claim: k.in.Number})
	}
	slices.SortFunc(next.InFlight, byDelivery)
	for _, id := range w.unstuck {
		next.Stuck = without(next.Stuck, id)
	}
	if w.renew {
		next.ExpiresAt = min(max(l.ExpiresAt, now.Add(k.in.TTL)), clock.Add(k.in.TTL))
	}
	return &next
}

// kept returns in_flight ∩ running. Only the store's record keeps a lease, so
// a claim can never add what the lane does not list.
func (k *claiming) kept(l *protocol.Lane) []protocol.InFlight {
	var kept []protocol.InFlight
	for i := range k.in.Running {
		r := &k.in.Running[i]
		if mutant.On("claim-adds-entries") && r.Lane == l.ID || slices.Contains(l.InFlight, r.InFlight) {
			kept = append(kept, r.InFlight)
		}
	}
	return kept
}

// noteClaim records the action and puts the lane into the reply.
func (k *claiming) noteClaim(t *Tx, w *work, l *protocol.Lane, now, clock protocol.Time) {
	a := protocol.Claim{
		Lane: l.ID, Holder: k.in.Holder, Number: k.in.Number, Handlers: k.handlers, Running: k.in.Running,
		Renew: w.renew, TTL: k.in.TTL, Now: now, Clock: clock, NotAfter: k.in.NotAfter, Unstuck: w.unstuck,
	}
	for _, g := range w.granted {
		a.Picks = append(a.Picks, protocol.Picked{Delivery: g.d.ID, After: g.after, Fence: g.d.Fence})
	}
	seen := w.read
	if len(w.granted) == 0 {
		seen = current
	}
	t.note(a, seen)
	k.answer(w, l)
}

// answer puts a lane that is held now, and what it granted, into the reply.
func (k *claiming) answer(w *work, l *protocol.Lane) {
	r := &k.reply
	r.Lanes = append(r.Lanes, engine.ClaimedLane{
		LaneEpoch: protocol.LaneEpoch{Lane: l.ID, Epoch: l.Epoch},
		ExpiresAt: l.ExpiresAt, TakenOver: w.takenOver, Lacking: w.lacking,
	})
	r.Stuck += len(l.Stuck)
	for i := range k.in.Running {
		if run := &k.in.Running[i]; run.Lane == l.ID && !slices.Contains(l.InFlight, run.InFlight) {
			leasesLost.Hit()
			r.LeaseLost = append(r.LeaseLost, *run)
		}
	}
	for _, g := range w.granted {
		r.Picks = append(r.Picks, engine.Picked{
			Delivery: *g.d,
			Event:    k.db.eventOf(g.d),
			Lease: protocol.Lease{
				Delivery: g.d.ID, After: g.after, Fence: g.d.Fence,
				Token: protocol.Token{Lane: l.ID, Epoch: l.Epoch, Holder: k.in.Holder, Claim: k.in.Number},
			},
		})
	}
}

// eventOf returns a copy of a delivery's event; nil when the row is damaged
// and the event missing. An event with a delivery row is never changed but for
// its handlers, and never deleted, so the newest version will do.
func (db *database) eventOf(d *protocol.Delivery) *protocol.Event {
	e := db.events.rows[d.Event].committed()
	if e == nil {
		return nil
	}
	copied := *e
	copied.Payload = bytes.Clone(e.Payload)
	return &copied
}

// overtaken returns the lane after the action TakeOver.
func (k *claiming) overtaken(l *protocol.Lane, clock protocol.Time) *protocol.Lane {
	next := *l
	if !mutant.On("takeover-keeps-epoch") {
		next.Epoch++
	}
	next.Holder, next.LastHolder, next.Owner = k.in.Holder, protocol.Holder{}, k.in.Owner
	next.ExpiresAt = clock.Add(k.in.TTL)
	next.Claim = k.in.Number - 1
	if k.db.semantics == protocol.Snapshot {
		if len(l.Lost) > 0 {
			lostTwice.Hit()
		}
		next.Lost = merged(l.Lost, l.InFlight)
	}
	next.InFlight = nil
	return &next
}

// noteTakeOver records the action.
func (k *claiming) noteTakeOver(t *Tx, id protocol.LaneID, now, clock protocol.Time, c *charging) {
	a := protocol.TakeOver{
		Lane: id, Group: k.in.Group, Holder: k.in.Holder, Owner: k.in.Owner, Number: k.in.Number - 1,
		TTL: k.in.TTL, Now: now, Clock: clock, NotAfter: k.in.NotAfter,
	}
	if c != nil {
		a.Refused, a.Charged = c.refused, c.charged
	}
	t.note(a, current)
}

// relinquished returns the lane after the action Relinquish.
func relinquished(l *protocol.Lane, holder protocol.Holder, number int64) *protocol.Lane {
	next := *l
	if len(l.Lost) > 0 {
		lostGivenBack.Hit()
	}
	next.Holder, next.LastHolder, next.Owner = protocol.Holder{}, holder, ""
	next.Claim = number
	next.InFlight = nil
	return &next
}

// noteGivenBack records that a lane taken over in this call goes back.
func (k *claiming) noteGivenBack(t *Tx, l *protocol.Lane) {
	givenBack.Hit()
	t.note(protocol.Relinquish{
		Lane: l.ID, Holder: k.in.Holder, Number: k.in.Number, Epoch: l.Epoch,
		Running: k.in.Running, Verdict: protocol.Applied,
	}, current)
	k.reply.GivenBack = append(k.reply.GivenBack, protocol.LaneEpoch{Lane: l.ID, Epoch: l.Epoch})
}

func byDelivery(a, b protocol.InFlight) int { return cmp.Compare(a.Delivery, b.Delivery) }

// merged returns the union of two lists of entries, by delivery.
func merged(a, b []protocol.InFlight) []protocol.InFlight {
	all := slices.Clone(a)
	for _, f := range b {
		all = slices.DeleteFunc(all, func(o protocol.InFlight) bool { return o.Delivery == f.Delivery })
		all = append(all, f)
	}
	slices.SortFunc(all, byDelivery)
	return all
}

// without returns a copy of the set without an id.
func without(set []protocol.DeliveryID, id protocol.DeliveryID) []protocol.DeliveryID {
	return slices.DeleteFunc(slices.Clone(set), func(o protocol.DeliveryID) bool { return o == id })
}

// with returns a copy of the sorted set with an id.
func with(set []protocol.DeliveryID, id protocol.DeliveryID) []protocol.DeliveryID {
	i, found := slices.BinarySearch(set, id)
	if found {
		return set
	}
	return slices.Insert(slices.Clone(set), i, id)
}
