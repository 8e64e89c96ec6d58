package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/picks"
)

// claiming is one Claim call at work.
type claiming struct {
	*work
	ctx    context.Context
	in     *engine.ClaimInput
	picker *picks.Picker
	runs   map[protocol.LaneID][]*engine.Running // what the worker states, by lane
	reply  engine.ClaimReply
	taken  int // lanes taken over so far
}

// Claim performs TakeOver, Claim and Relinquish as the input asks, in one
// transaction.
func (s *Store) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	if in.Holder.IsZero() {
		return engine.ClaimReply{}, fmt.Errorf("postgres: claim: %w: no holder", engine.ErrInvalid)
	}
	var k *claiming
	err := s.transact(ctx, "claim", true, lockWait(in.TTL), func(w *work) error {
		k = &claiming{work: w, ctx: ctx, in: &in, picker: picks.New(&in)}
		if err := k.held(); err != nil {
			return err
		}
		return k.takeOverSome()
	})
	if err != nil {
		s.forget(in.Held)
		return engine.ClaimReply{}, err
	}
	if k.reply.Now == 0 {
		k.reply.Now = stored(k.began)
	}
	return k.reply, s.withClock(ctx, &k.reply.Now, nil)
}

// named returns the lanes that the call names, ascending: with AllMine those
// that the store says are the holder's too.
func (k *claiming) named() ([]protocol.LaneID, error) {
	var list []protocol.LaneID
	for _, l := range k.in.Held {
		list = append(list, l.Lane)
	}
	list = append(list, k.in.LetExpire...)
	if k.in.AllMine {
		mine, err := k.lanesOf(k.ctx, k.in.Group, k.in.Holder)
		if err != nil {
			return nil, err
		}
		list = append(list, mine...)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// lanesOf asks which lanes of a group a holder has.
func (w *work) lanesOf(ctx context.Context, group int32, holder protocol.Holder) ([]protocol.LaneID, error) {
	var list []protocol.LaneID
	first := group * protocol.DefaultLanes
	w.later("lanes_of", func(rows pgx.Rows) error {
		var err error
		list, err = pgx.CollectRows(rows, pgx.RowTo[protocol.LaneID])
		return err
	}, first, first+protocol.DefaultLanes, uuid(holder))
	return list, w.send(ctx)
}

// held claims from the lanes that the call names.
//
// Lease.tla, action Claim. Locks: the lanes FOR NO KEY UPDATE, ascending.
func (k *claiming) held() error {
	named, err := k.named()
	if err != nil || len(named) == 0 {
		return err
	}
	var lanes []*lane
	k.later("lock_lanes", scanLanes(&lanes), named, uuid(k.in.Holder))
	search := k.search(named)
	if err := k.send(k.ctx); err != nil {
		return err
	}
	if tooLate(latest(lanes), k.in.NotAfter) {
		return ErrTooLate
	}
	lanes = slices.DeleteFunc(lanes, func(l *lane) bool { return k.in.Number <= l.claim })
	for _, id := range named {
		if !slices.ContainsFunc(lanes, func(l *lane) bool { return l.id == id }) {
			k.reply.Gone = append(k.reply.Gone, id)
		}
	}
	for _, l := range lanes {
		l.renew = !slices.Contains(k.in.LetExpire, l.id)
		l.picksFrom = l.renew && !slices.Contains(k.in.Draining, l.id)
	}
	return k.grant(lanes, search)
}

// grant picks from locked lanes and queues their write.
func (k *claiming) grant(lanes []*lane, search *picks.Search) error {
	if err := k.pick(lanes, search); err != nil {
		return err
	}
	if err := k.retryStuck(lanes); err != nil {
		return err
	}
	k.write(lanes)
	return nil
}

// retryStuck tries the writes again that the server refused, in the order of
// ids: each is a statement of its own, and keeps its row.
func (k *claiming) retryStuck(lanes []*lane) error {
	if !k.in.RetryStuck {
		return nil
	}
	type stuck struct {
		id   protocol.DeliveryID
		lane *lane
	}
	var list []stuck
	for _, l := range lanes {
		for _, id := range l.stuck {
			list = append(list, stuck{id, l})
		}
	}
	slices.SortFunc(list, func(a, b stuck) int { return cmp.Compare(a.id, b.id) })
	for _, one := range list {
		err := k.behindSavepoint(k.ctx, func() { k.later("retry_stuck", nil, int64(one.id)) })
		if engine.IsDefinite(err) {
			continue
		}
		if err != nil {
			return err
		}
		one.lane.unstuck = append(one.lane.unstuck, one.id)
	}
	return nil
}

// behindSavepoint sends what queue queues; when the server refuses it for
// good, the transaction goes on as if it had not been sent.
func (w *work) behindSavepoint(ctx context.Context, queue func()) error {
	if err := w.send(ctx); err != nil {
		return err
	}
	w.queue.Queue("savepoint row")
	queue()
	w.queue.Queue("release savepoint row")
	err := w.send(ctx)
	if !engine.IsDefinite(err) {
		return err
	}
	w.queue.Queue("rollback to savepoint row")
	if again := w.send(ctx); again != nil {
		return again
	}
	return err
}

// write queues the write of lanes that the holder holds, and puts them into
// the reply.
func (k *claiming) write(lanes []*lane) {
	if len(lanes) == 0 {
		return
	}
	renews := make([]bool, len(lanes))
	var list, unstuck entries
	var picked []*picks.Candidate
	var seqs []int64
	for i, l := range lanes {
		renews[i] = l.renew
		for _, f := range l.keeping(k.running(l.id)) {
			list.add(l.id, f)
		}
		for _, c := range l.picked {
			list.add(l.id, protocol.InFlight{Delivery: c.ID, Claim: k.in.Number})
			seqs = append(seqs, c.Seq)
		}
		picked = append(picked, l.picked...)
		for _, id := range l.unstuck {
			unstuck.add(l.id, protocol.InFlight{Delivery: id})
		}
	}
	clock := latest(lanes)
	k.later("claim", k.readEvents(lanes, picked), ids(lanes), renews, list.lanes, list.ids, list.claims,
		k.in.Number, interval(k.in.TTL), clock.Std(), unstuck.ids, unstuck.lanes, seqs)
	k.answer(lanes, clock)
}

// keeping returns in_flight ∩ running. Only the store's record keeps a lease,
// so a claim can never add what the lane does not list.
func (l *lane) keeping(running []*engine.Running) []protocol.InFlight {
	l.kept = l.kept[:0]
	for _, r := range running {
		if slices.Contains(l.inFlight, r.InFlight) {
			l.kept = append(l.kept, r.InFlight)
		}
	}
	return l.kept
}

// running returns what the worker states for a lane.
func (k *claiming) running(id protocol.LaneID) []*engine.Running {
	if k.runs == nil {
		k.runs = map[protocol.LaneID][]*engine.Running{}
		for i := range k.in.Running {
			r := &k.in.Running[i]
			k.runs[r.Lane] = append(k.runs[r.Lane], r)
		}
	}
	return k.runs[id]
}

// answer puts lanes that are held now into the reply.
func (k *claiming) answer(lanes []*lane, clock protocol.Time) {
	r := &k.reply
	r.Now = max(r.Now, clock)
	for _, l := range lanes {
		expires := l.expires
		if l.renew {
			expires = min(max(expires, l.now.Add(k.in.TTL)), clock.Add(k.in.TTL))
		}
		r.Lanes = append(r.Lanes, engine.ClaimedLane{
			LaneEpoch: protocol.LaneEpoch{Lane: l.id, Epoch: l.epoch},
			ExpiresAt: expires, TakenOver: l.takenOver, Lacking: l.lacking,
		})
		r.Stuck += len(l.stuck) - len(l.unstuck)
		for _, run := range k.running(l.id) {
			if !slices.Contains(l.kept, run.InFlight) {
				r.LeaseLost = append(r.LeaseLost, *run)
			}
		}
	}
}

// readEvents reads the events of picked deliveries into the reply. One that is
// missing leaves its pick without an event.
func (k *claiming) readEvents(lanes []*lane, picked []*picks.Candidate) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		events := map[int64]*protocol.Event{}
		for rows.Next() {
			seq, e, err := scanEvent(rows)
			if err != nil {
				return err
			}
			events[seq] = e
		}
		if err := rows.Err(); err != nil {
			return err
		}
		at := map[protocol.LaneID]*lane{}
		for _, l := range lanes {
			at[l.id] = l
		}
		given := map[*protocol.Event]bool{}
		for _, c := range picked {
			e := events[c.Seq]
			if e != nil && given[e] { // two handlers of one event may change theirs
				e = copyOf(e)
			}
			given[e] = true
			k.reply.Picks = append(k.reply.Picks, k.picked(at[c.Lane], c, e))
		}
		return nil
	}
}

func copyOf(e *protocol.Event) *protocol.Event {
	own := *e
	own.Payload = slices.Clone(e.Payload)
	own.Headers = slices.Clone(e.Headers)
	return &own
}

func (k *claiming) picked(l *lane, c *picks.Candidate, e *protocol.Event) engine.Picked {
	d := c.Delivery
	if e != nil {
		d.Event = e.ID
	}
	return engine.Picked{
		Delivery: d, Event: e,
		Lease: protocol.Lease{
			Delivery: c.ID, After: c.After,
			Token: protocol.Token{Lane: l.id, Epoch: l.epoch, Holder: k.in.Holder, Claim: k.in.Number},
		},
	}
}

// takeOverSome takes free and expired lanes over, a few at a time, until there
// is enough to do.
func (k *claiming) takeOverSome() error {
	for few := 8; ; few *= 2 {
		want := min(few, k.in.MaxLanes-k.taken)
		if want <= 0 || k.picker.Full() {
			return nil
		}
		lanes, err := k.lockFree(want)
		if err != nil || len(lanes) == 0 {
			return err
		}
		if err := k.chargeAndPick(lanes); err != nil {
			return err
		}
		if len(lanes) < want {
			return nil
		}
	}
}

// lockFree makes free or expired lanes the holder's.
//
// Lease.tla, action TakeOver. Locks: the lanes FOR UPDATE SKIP LOCKED.
func (k *claiming) lockFree(want int) ([]*lane, error) {
	var lanes []*lane
	var avoid entries
	for _, l := range k.in.Avoid {
		avoid.add(l.Lane, protocol.InFlight{Claim: l.Epoch})
	}
	first := k.in.Group * protocol.DefaultLanes
	start := k.in.SearchFrom(protocol.DefaultLanes)
	k.pause(k.ctx, "find lanes")
	k.later("take_over", scanLanes(&lanes), first, first+protocol.DefaultLanes, start, uuid(k.in.Holder), k.in.Owner,
		k.in.Number, interval(k.in.TTL), want, k.picker.WithRoom(), k.in.SuspectRunning, k.in.RetryStuck,
		avoid.lanes, avoid.claims)
	if err := k.send(k.ctx); err != nil {
		return nil, err
	}
	k.reply.Now = max(k.reply.Now, latest(lanes))
	if tooLate(latest(lanes), k.in.NotAfter) {
		return nil, ErrTooLate
	}
	k.taken += len(lanes)
	for _, l := range lanes {
		l.takenOver = true
	}
	return lanes, nil
}

// chargeAndPick charges what the lanes had in flight and picks from them. A
// lane that gives nothing goes back.
func (k *claiming) chargeAndPick(lanes []*lane) error {
	if err := k.charge(lanes); err != nil {
		return err
	}
	for _, l := range lanes {
		l.inFlight = nil
	}
	search := k.search(laneIDs(lanes))
	if err := k.send(k.ctx); err != nil {
		return err
	}
	if err := k.pick(lanes, search); err != nil {
		return err
	}
	if err := k.retryStuck(lanes); err != nil {
		return err
	}
	var useful, back []*lane
	for _, l := range lanes {
		if len(l.picked) == 0 && len(l.unstuck) == 0 {
			back = append(back, l)
		} else {
			useful = append(useful, l)
		}
	}
	k.write(useful)
	k.giveBack(back)
	return nil
}

func laneIDs(lanes []*lane) []protocol.LaneID {
	list := make([]protocol.LaneID, len(lanes))
	for i, l := range lanes {
		list[i] = l.id
	}
	return list
}

// giveBack queues the action Relinquish of lanes taken over in this call.
func (k *claiming) giveBack(lanes []*lane) {
	if len(lanes) == 0 {
		return
	}
	k.later("relinquish", nil, ids(lanes), uuid(k.in.Holder), k.in.Number)
	for _, l := range lanes {
		k.reply.GivenBack = append(k.reply.GivenBack, protocol.LaneEpoch{Lane: l.id, Epoch: l.epoch})
	}
}

// charge charges what the lanes had in flight: all at once, and when the
// server refuses a row, one by one. Those go to stuck.
func (k *claiming) charge(lanes []*lane) error {
	var list entries
	for _, l := range lanes {
		for _, f := range l.inFlight {
			list.add(l.id, f)
		}
	}
	if len(list.ids) == 0 {
		return nil
	}
	list.sort()
	err := k.behindSavepoint(k.ctx, func() { k.later("charge", nil, list.ids, list.lanes, list.ids) })
	if engine.IsDefinite(err) {
		return k.chargeApart(lanes, &list)
	}
	return err
}

func (k *claiming) chargeApart(lanes []*lane, list *entries) error {
	var stuck entries
	for i := range list.ids {
		err := k.behindSavepoint(k.ctx, func() { k.later("charge", nil, list.ids, list.lanes, list.ids[i:i+1]) })
		if err == nil {
			continue
		}
		if !engine.IsDefinite(err) {
			return err
		}
		j := slices.IndexFunc(lanes, func(l *lane) bool { return int32(l.id) == list.lanes[i] })
		id := protocol.DeliveryID(list.ids[i])
		lanes[j].stuck = append(lanes[j].stuck, id)
		stuck.add(lanes[j].id, protocol.InFlight{Delivery: id})
	}
	if len(stuck.ids) > 0 {
		k.later("stick", nil, stuck.lanes, stuck.ids)
	}
	return nil
}

// sort puts the entries in the order of ids, in which rows are locked.
func (e *entries) sort() {
	order := make([]int, len(e.ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(e.ids[a], e.ids[b]) })
	sorted := entries{}
	for _, i := range order {
		sorted.lanes = append(sorted.lanes, e.lanes[i])
		sorted.ids = append(sorted.ids, e.ids[i])
		sorted.claims = append(sorted.claims, e.claims[i])
	}
	*e = sorted
}
