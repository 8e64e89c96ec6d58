package simstore

import "github.com/relaybus-go/relaybus/engine/protocol"

// Hash returns FNV-1a-64 over everything the store holds that a crash would
// spare, in the order of its keys: two stores that hold the same have the same
// Hash, whatever their histories, on every machine.
func (s *Store) Hash() uint64 {
	c := s.Snapshot()
	h := newHash()
	h.number(int64(s.options.Semantics))
	h.number(int64(s.options.Lanes))
	each(h, c.Events, (*hash).event)
	each(h, c.Deliveries, (*hash).delivery)
	each(h, c.Lanes, (*hash).lane)
	each(h, c.Subscriptions, (*hash).subscription)
	each(h, c.Groups, func(h *hash, name *string) { h.text(*name) })
	each(h, c.Completions, func(h *hash, done *Completion) {
		h.delivery(&done.Delivery)
		h.number(int64(done.At))
	})
	each(h, c.Rows, func(h *hash, r *Row) {
		h.text(r.Table)
		h.text(r.Key)
		h.text(string(r.Value))
	})
	return uint64(*h)
}

// hash is FNV-1a with 64 bits (offset basis 14695981039346656037, prime
// 1099511628211). Numbers go in as eight bytes, lists and texts behind their
// length.
type hash uint64

func newHash() *hash {
	h := hash(14695981039346656037)
	return &h
}

func (h *hash) byte(b byte) { *h = (*h ^ hash(b)) * 1099511628211 }

func (h *hash) number(n int64) {
	for range 8 {
		h.byte(byte(n))
		n >>= 8
	}
}

func (h *hash) text(s string) {
	h.number(int64(len(s)))
	for i := range len(s) {
		h.byte(s[i])
	}
}

func each[T any](h *hash, list []T, add func(*hash, *T)) {
	h.number(int64(len(list)))
	for i := range list {
		add(h, &list[i])
	}
}

func (h *hash) event(e *protocol.Event) {
	h.text(e.ID)
	h.text(e.Type)
	h.text(e.Key)
	h.text(string(e.Payload))
	each(h, e.Headers, func(h *hash, header *protocol.Header) {
		h.text(header.Name)
		h.text(header.Value)
	})
	h.number(int64(e.PublishedAt))
	each(h, e.Handlers, func(h *hash, handler *string) { h.text(*handler) })
}

func (h *hash) delivery(d *protocol.Delivery) {
	h.text(d.Event)
	h.text(d.Handler)
	h.text(d.Key)
	h.text(d.LastError)
	for _, n := range [...]int64{
		int64(d.ID), int64(d.Lane), d.Sequence, int64(d.Status), int64(d.AvailableAt),
		int64(d.Attempts), int64(d.Takeovers), int64(d.Fence), int64(d.DiedAt),
	} {
		h.number(n)
	}
}

func (h *hash) lane(l *protocol.Lane) {
	h.number(int64(l.ID))
	h.number(l.Epoch)
	h.text(string(l.Holder[:]))
	h.text(string(l.LastHolder[:]))
	h.text(l.Owner)
	h.number(l.Claim)
	h.number(int64(l.ExpiresAt))
	for _, list := range [][]protocol.InFlight{l.InFlight, l.Lost} {
		each(h, list, func(h *hash, f *protocol.InFlight) {
			h.number(int64(f.Delivery))
			h.number(f.Claim)
		})
	}
	each(h, l.Stuck, func(h *hash, id *protocol.DeliveryID) { h.number(int64(*id)) })
}

func (h *hash) subscription(s *protocol.Subscription) {
	h.text(s.Event)
	h.text(s.Handler)
	h.text(s.Group)
	h.number(int64(s.SeenAt))
	removed := int64(0)
	if s.Removed {
		removed = 1
	}
	h.number(removed)
}
