package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// CompleteMany ends runs of handlers that own no transaction: in one
// statement, and when the server refuses a row, again one by one.
//
// Finish.tla, action CompleteMany. Locks: the lanes FOR KEY SHARE, ascending,
// then the deliveries.
func (s *Store) CompleteMany(ctx context.Context, in engine.CompleteManyInput) (engine.CompleteManyReply, error) {
	b := &batch{leases: in.Leases, ended: make([]engine.Ended, len(in.Leases))}
	var last *work
	err := s.transact(ctx, "complete", false, mostWait, func(w *work) error { last = w; return b.all(ctx, w) })
	if engine.IsDefinite(err) {
		b.ended = make([]engine.Ended, len(in.Leases))
		err = s.transact(ctx, "complete", false, mostWait, func(w *work) error { last = w; return b.apart(ctx, w) })
	}
	if err != nil {
		return engine.CompleteManyReply{}, err
	}
	if err := b.lookAgain(ctx, s); err != nil {
		return engine.CompleteManyReply{}, err
	}
	reply := engine.CompleteManyReply{Now: stored(last.began), Ended: b.ended}
	return reply, s.withClock(ctx, &reply.Now, nil)
}

// batch is one call of CompleteMany.
type batch struct {
	leases []engine.Lease
	ended  []engine.Ended
	gone   []int // leases whose row is gone, and that the lane listed
}

// all queues the completion of every lease; it is sent with COMMIT.
func (b *batch) all(ctx context.Context, w *work) error {
	w.pause(ctx, "complete")
	all := make([]int, len(b.leases))
	for i := range all {
		all[i] = i
	}
	b.queue(w, all)
	return nil
}

// apart completes lease by lease behind savepoints. The members of a chain
// stand in order, so a later one sees what became of an earlier one.
func (b *batch) apart(ctx context.Context, w *work) error {
	for i := range b.leases {
		if b.refusedBefore(i) {
			continue
		}
		err := w.behindSavepoint(ctx, func() { b.queue(w, []int{i}) })
		if engine.IsDefinite(err) {
			b.ended[i].Err = err
		} else if err != nil {
			return err
		}
	}
	return nil
}

// refusedBefore reports whether the predecessor of lease i stands before it in
// the call and was not Applied.
func (b *batch) refusedBefore(i int) bool {
	j := b.before(i)
	return j >= 0 && (b.ended[j].Err != nil || b.ended[j].Verdict == protocol.LeaseLost)
}

// before returns the index of lease i's predecessor in the call, −1 when it is
// not there.
func (b *batch) before(i int) int {
	after := b.leases[i].After
	if after == 0 {
		return -1
	}
	return slices.IndexFunc(b.leases[:i], func(l engine.Lease) bool { return l.Delivery == after })
}

// fenceOf is what the lease of a lane says of it.
type fenceOf struct {
	lane   protocol.LaneID
	epoch  int64
	holder protocol.Holder
}

// queue queues the completion of some leases.
func (b *batch) queue(w *work, which []int) {
	var fences []fenceOf
	number := map[fenceOf]int32{}
	for _, i := range which {
		f := fenceOf{b.leases[i].Lane, b.leases[i].Epoch, b.leases[i].Holder}
		if _, known := number[f]; !known {
			number[f] = 0
			fences = append(fences, f)
		}
	}
	slices.SortStableFunc(fences, func(x, y fenceOf) int { return int(x.lane) - int(y.lane) })
	lanes, epochs, holders := make([]int32, len(fences)), make([]int64, len(fences)), make([][16]byte, len(fences))
	for n, f := range fences {
		number[f] = int32(n + 1)
		lanes[n], epochs[n], holders[n] = int32(f.lane), f.epoch, f.holder
	}
	var list entries
	after, chain := make([]int64, len(which)), make([]int32, len(which))
	fence := make([]int32, len(which))
	for n, i := range which {
		l := &b.leases[i]
		list.add(l.Lane, l.Entry())
		fence[n] = number[fenceOf{l.Lane, l.Epoch, l.Holder}]
		chain[n] = int32(n)
		if j := slices.Index(which, b.before(i)); j >= 0 {
			chain[n] = chain[j]
		} else {
			after[n] = int64(l.After)
		}
	}
	w.later("complete_many", b.read(which), lanes, epochs, holders, fence, list.lanes, list.ids, list.claims, after, chain,
		w.s.options.History)
}

func (b *batch) read(which []int) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			var n int
			var ok, gone bool
			if err := rows.Scan(&n, &ok, &gone); err != nil {
				return err
			}
			i := which[n-1]
			b.ended[i] = engine.Ended{Verdict: protocol.LeaseLost}
			if ok {
				b.ended[i].Verdict = protocol.Applied
			}
			if ok && gone {
				b.gone = append(b.gone, i)
			}
		}
		return rows.Err()
	}
}

// lookAgain judges the leases whose row is gone by the lane as it is after the
// row was seen to be gone: what it lists still is Applied, so that a retry of
// an unknown outcome is safe.
func (b *batch) lookAgain(ctx context.Context, s *Store) error {
	if len(b.gone) == 0 {
		return nil
	}
	leases := make([]engine.Lease, len(b.gone))
	for n, i := range b.gone {
		leases[n] = b.leases[i]
	}
	now, err := s.lists(ctx, leases)
	if err != nil {
		return err
	}
	for n, i := range b.gone {
		if !now[n] {
			b.ended[i].Verdict = protocol.LeaseLost
		}
	}
	return nil
}

// lists reports which leases their lanes list.
func (s *Store) lists(ctx context.Context, leases []engine.Lease) ([]bool, error) {
	listed := make([]bool, len(leases))
	rows, err := s.pool.Query(ctx, s.sql.named("look_again"), lanesOfLeases(leases))
	if err != nil {
		return nil, classify("complete", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id protocol.LaneID
		var epoch int64
		var holder *[16]byte
		var ids, claims []int64
		if err := rows.Scan(&id, &epoch, &holder, &ids, &claims); err != nil {
			return nil, classify("complete", err)
		}
		for i := range leases {
			l := &leases[i]
			at := slices.Index(ids, int64(l.Delivery))
			listed[i] = listed[i] || l.Lane == id && l.Epoch == epoch && holder != nil && l.Holder == *holder &&
				at >= 0 && claims[at] == l.Claim
		}
	}
	if err := rows.Err(); err != nil {
		return nil, classify("complete", err)
	}
	return listed, nil
}

// Complete deletes the delivery inside the handler's transaction tx, as its
// last statement before COMMIT. On LeaseLost tx must be rolled back.
//
// Finish.tla, action Complete. Locks: the lane FOR KEY SHARE, then the
// delivery.
func (s *Store) Complete(ctx context.Context, tx pgx.Tx, in engine.CompleteInput) (engine.Verdict, error) {
	l := &in.Lease
	s.options.Hook(ctx, "complete in a transaction", "complete")
	b := &pgx.Batch{}
	b.Queue("select set_config('lock_timeout', $1::text, true)", millis(lockWait(in.TTL)))
	deleted := 0
	b.Queue(s.sql.named("complete"), l.Lane, l.Epoch, uuid(l.Holder), int64(l.Delivery), l.Claim, int64(l.After),
		s.options.History, in.TTL.Milliseconds()).QueryRow(func(row pgx.Row) error {
		return row.Scan(&deleted, nil)
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return protocol.LeaseLost, classify("complete", err)
	}
	if deleted == 0 {
		return protocol.LeaseLost, nil
	}
	return protocol.Applied, nil
}
