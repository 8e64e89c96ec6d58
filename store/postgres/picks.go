package postgres

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/picks"
)

// search queues a look for candidates in lanes.
func (k *claiming) search(lanes []protocol.LaneID) *picks.Search {
	s := k.picker.Search(lanes, func(id protocol.LaneID) picks.Hint { return k.s.hintFor(k.in.Holder, id) })
	if s.PerLane > 0 {
		k.look(s, lanes)
	}
	return s
}

// look queues the statement of a search.
func (k *claiming) look(s *picks.Search, lanes []protocol.LaneID) {
	due := make([]time.Time, len(lanes))
	id := make([]int64, len(lanes))
	key, handler := make([]string, len(lanes)), make([]string, len(lanes))
	for i, l := range lanes {
		h := s.From(l)
		due[i], id[i], key[i], handler[i] = h.Due.Std(), int64(h.ID), h.Key, h.Handler
	}
	k.later("candidates", readCandidates(s), lanes, due, id, key, handler, k.picker.WithRoom(), k.picker.Handlers(),
		k.picker.RunningIDs(), k.in.Group, s.PerLane)
}

func readCandidates(s *picks.Search) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var unkeyed []*picks.Candidate
		for rows.Next() {
			c := &picks.Candidate{}
			var isDue bool
			if err := rows.Scan(&c.Lane, &c.ID, &c.Seq, &c.Handler, scanText{&c.Key}, scanTime{&c.AvailableAt}, &c.Attempts,
				&c.Takeovers, &c.LastError, &isDue, &c.Lacked); err != nil {
				return err
			}
			c.Sequence, c.Early = int64(c.ID), !isDue
			if c.Key == "" {
				unkeyed = append(unkeyed, c)
			} else {
				s.TakeHead(c)
			}
		}
		slices.SortFunc(unkeyed, picks.ByDue) // the parts of the statement come in any order
		for _, c := range unkeyed {
			s.Take(c)
		}
		return rows.Err()
	}
}

// pick chooses among the candidates of locked lanes.
func (k *claiming) pick(lanes []*lane, s *picks.Search) error {
	shared := make([]*picks.Lane, len(lanes))
	for i, l := range lanes {
		shared[i] = &picks.Lane{ID: l.id, Epoch: l.epoch, Clock: l.clock, Stuck: l.stuck, Picks: l.picksFrom}
	}
	if again := s.Again(shared); len(again) > 0 {
		k.look(s, again)
		if err := k.send(k.ctx); err != nil {
			return err
		}
	}
	tails := k.picker.Tails(shared, k.picker.Choose(shared, s))
	if tails.Most > 0 {
		if err := k.readFollowers(tails); err != nil {
			return err
		}
	}
	tails.Grant()
	for i, l := range lanes {
		l.picked, l.lacking = shared[i].Picked, shared[i].Lacking
		k.s.note(k.in.Holder, shared[i], s)
	}
	return nil
}

// readFollowers reads what the chosen heads of keys may bring.
func (k *claiming) readFollowers(t *picks.Tails) error {
	var lanes []int32
	var keys, names []string
	var ids []int64
	for _, h := range t.Heads {
		lanes, keys = append(lanes, int32(h.Lane)), append(keys, h.Key)
		names, ids = append(names, h.Handler), append(ids, int64(h.ID))
	}
	k.later("followers", func(rows pgx.Rows) error {
		for rows.Next() {
			c := &picks.Candidate{}
			var n int
			var isDue bool
			if err := rows.Scan(&n, &c.ID, &c.Seq, scanTime{&c.AvailableAt}, &c.Attempts, &c.Takeovers, &c.LastError, &isDue); err != nil {
				return err
			}
			h := t.Heads[n-1]
			c.Lane, c.Key, c.Handler = h.Lane, h.Key, h.Handler
			c.Sequence, c.Early = int64(c.ID), !isDue
			t.Offer(n-1, c)
		}
		return rows.Err()
	}, lanes, keys, names, ids, t.Most)
	return k.send(k.ctx)
}
