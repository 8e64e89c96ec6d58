package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// CompleteMany ends runs of handlers that own no transaction: in one
// statement, and when the server refuses a row, again one by one. What that
// statement could not judge for good is judged by another one behind it.
//
// Finish.tla, action CompleteMany. Locks: the lanes FOR KEY SHARE, ascending,
// then the deliveries.
func (s *Store) CompleteMany(ctx context.Context, in engine.CompleteManyInput) (engine.CompleteManyReply, error) {
	b := &batch{s: s, leases: in.Leases, judged: make([]judgement, len(in.Leases)), place: make(map[protocol.DeliveryID]int, len(in.Leases))}
	for i := range slices.Backward(in.Leases) {
		b.place[in.Leases[i].Delivery] = i
	}
	open := b.open()
	for tries := 0; len(open) > 0; tries++ {
		if tries == mostLooks {
			return engine.CompleteManyReply{}, fmt.Errorf("postgres: complete: %d of %d rows changed each time they were looked at; outcome unknown", len(open), len(in.Leases))
		}
		if err := b.round(ctx, open); err != nil && tries == 0 {
			return engine.CompleteManyReply{}, err
		} else if err != nil {
			return engine.CompleteManyReply{}, inDoubt("complete", err)
		}
		open = b.open()
	}
	reply := engine.CompleteManyReply{Now: b.now, Ended: make([]engine.Ended, len(in.Leases))}
	for i := range b.judged {
		reply.Ended[i] = b.judged[i].Ended
	}
	return reply, s.withClock(ctx, &reply.Now, nil)
}

// mostLooks bounds the statements over one lease. The first may find that the
// row is gone, or changes under it; the second knows, unless somebody writes
// the row between all of them.
const mostLooks = 8

// batch is one call of CompleteMany.
type batch struct {
	s      *Store
	leases []engine.Lease
	judged []judgement
	place  map[protocol.DeliveryID]int // of a delivery's lease, the first one
	now    protocol.Time
}

// judgement is what is known of one lease so far.
type judgement struct {
	engine.Ended
	final bool
	// gone: a statement saw that the row is gone. A later one may then go by
	// what the lane lists: entries of an earlier try of this call are there
	// still, so that a retry of an unknown outcome is safe.
	gone bool
}

// open returns the leases that are not judged for good.
func (b *batch) open() []int {
	var list []int
	for i := range b.judged {
		if !b.judged[i].final {
			list = append(list, i)
		}
	}
	return list
}

// round judges leases in one transaction.
func (b *batch) round(ctx context.Context, which []int) error {
	err := b.s.transact(ctx, "complete", false, mostWait, func(w *work) error {
		w.pause(ctx, "complete")
		b.queue(w, which) // it is sent with COMMIT
		return nil
	})
	if !engine.IsDefinite(err) {
		return err
	}
	for _, i := range which {
		b.judged[i] = judgement{gone: b.judged[i].gone}
	}
	return b.s.transact(ctx, "complete", false, mostWait, func(w *work) error { return b.apart(ctx, w, which) })
}

// apart completes lease by lease behind savepoints, in the order of ids, in
// which all rows are locked. It is that of a chain, too, so a later member sees
// what became of an earlier one.
func (b *batch) apart(ctx context.Context, w *work, which []int) error {
	byID := func(i, j int) int { return cmp.Compare(b.leases[i].Delivery, b.leases[j].Delivery) }
	for _, i := range slices.SortedStableFunc(slices.Values(which), byID) {
		j := b.before(i)
		switch {
		case j >= 0 && !b.judged[j].final:
			continue
		case j >= 0 && (b.judged[j].Err != nil || b.judged[j].Verdict == protocol.LeaseLost):
			b.judged[i].final = true
			continue
		}
		err := w.behindSavepoint(ctx, func() { b.queue(w, []int{i}) })
		if engine.IsDefinite(err) {
			b.judged[i].Err, b.judged[i].final = err, true
		} else if err != nil {
			return err
		}
	}
	return nil
}

// before returns the index of lease i's predecessor in the call, −1 when it is
// not there.
func (b *batch) before(i int) int {
	if j, known := b.place[b.leases[i].After]; known && j < i {
		return j
	}
	return -1
}

// fenceOf is what the lease of a lane says of it.
type fenceOf struct {
	lane   protocol.LaneID
	epoch  int64
	holder protocol.Holder
}

// queue queues the completion of some leases. Where no run follows another, the
// statement that knows of chains would only be slower.
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
	fence, gone := make([]int32, len(which)), make([]bool, len(which))
	alone := true
	for n, i := range which {
		l := &b.leases[i]
		list.add(l.Lane, l.Entry())
		fence[n] = number[fenceOf{l.Lane, l.Epoch, l.Holder}]
		chain[n], gone[n] = int32(n), b.judged[i].gone
		alone = alone && l.After == 0
		after[n] = int64(l.After)
		if before := b.before(i); before >= 0 {
			if j, here := slices.BinarySearch(which, before); here {
				chain[n], after[n] = chain[j], 0
			}
		}
	}
	if alone {
		w.later("complete_alone", b.read(which), lanes, epochs, holders, fence, list.lanes, list.ids, list.claims, gone, w.s.options.History)
		return
	}
	w.later("complete_many", b.read(which), lanes, epochs, holders, fence, list.lanes, list.ids, list.claims, after, chain, gone,
		w.s.options.History)
}

// read takes what became of the leases: those that were Applied are not among
// the rows.
func (b *batch) read(which []int) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		left := map[int]bool{}
		answered := false
		for rows.Next() {
			answered = true
			var n *int
			var ok, applied, gone *bool
			var now time.Time
			if err := rows.Scan(&n, &ok, &applied, &gone, &now); err != nil {
				return err
			}
			b.now = stored(now)
			if n == nil {
				continue
			}
			i := which[*n-1]
			left[i] = true
			j := &b.judged[i]
			j.final, j.gone = !*ok, j.gone || *gone
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if !answered { // silence must not read as success
			return errors.New("the server returned no row, not even the clock's")
		}
		for _, i := range which {
			if !left[i] {
				b.judged[i].final, b.judged[i].Verdict = true, protocol.Applied
			}
		}
		return nil
	}
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
