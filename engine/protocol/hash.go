package protocol

// Hash returns FNV-1a-64 over everything the State holds, in the order of its
// keys: two States that hold the same have the same Hash, whatever their
// histories, on every machine.
func (s *State) Hash() uint64 {
	h := newHash()
	h.number(int64(s.semantics))
	h.number(int64(s.modulus))
	h.number(int64(len(s.events)))
	for _, e := range s.events {
		h.event(&e.Event)
	}
	h.number(int64(len(s.rows)))
	for _, r := range s.rows {
		h.delivery(&r.Delivery)
	}
	h.number(int64(len(s.lanes)))
	for _, lane := range s.lanes {
		h.lane(lane)
	}
	h.number(int64(len(s.slots)))
	for _, slot := range s.slots {
		h.number(int64(slot.number))
		h.number(slot.last)
	}
	h.number(int64(len(s.subscriptions)))
	for _, sub := range s.subscriptions {
		h.subscription(sub)
	}
	h.texts(s.groups)
	return uint64(*h)
}

// hash is FNV-1a with 64 bits (offset basis 14695981039346656037, prime
// 1099511628211). Numbers go in as eight bytes, lowest first; texts and lists
// behind their length, so that no two ways to cut a sequence agree.
type hash uint64

func newHash() *hash {
	h := hash(14695981039346656037)
	return &h
}

const prime64 = 1099511628211

func (h *hash) number(n int64) {
	x := *h
	for range 8 {
		x = (x ^ hash(n&0xff)) * prime64
		n >>= 8
	}
	*h = x
}

func (h *hash) bytes(b []byte) {
	h.number(int64(len(b)))
	x := *h
	for _, c := range b {
		x = (x ^ hash(c)) * prime64
	}
	*h = x
}

func (h *hash) text(s string) {
	h.number(int64(len(s)))
	x := *h
	for i := 0; i < len(s); i++ {
		x = (x ^ hash(s[i])) * prime64
	}
	*h = x
}

func (h *hash) texts(list []string) {
	h.number(int64(len(list)))
	for _, s := range list {
		h.text(s)
	}
}

func (h *hash) truth(b bool) {
	n := int64(0)
	if b {
		n = 1
	}
	h.number(n)
}

func (h *hash) event(e *Event) {
	h.text(e.ID)
	h.text(e.Type)
	h.text(e.Key)
	h.bytes(e.Payload)
	h.number(int64(len(e.Headers)))
	for _, header := range e.Headers {
		h.text(header.Name)
		h.text(header.Value)
	}
	h.number(int64(e.PublishedAt))
	h.texts(e.Handlers)
}

func (h *hash) delivery(d *Delivery) {
	h.number(int64(d.ID))
	h.text(d.Event)
	h.text(d.Handler)
	h.number(int64(d.Lane))
	h.text(d.Key)
	h.number(d.Sequence)
	h.number(int64(d.Status))
	h.number(int64(d.AvailableAt))
	h.number(int64(d.Attempts))
	h.number(int64(d.Takeovers))
	h.number(int64(d.Fence))
	h.text(d.LastError)
	h.number(int64(d.DiedAt))
}

func (h *hash) lane(l *Lane) {
	h.number(int64(l.ID))
	h.number(l.Epoch)
	h.holder(l.Holder)
	h.holder(l.LastHolder)
	h.text(l.Owner)
	h.number(l.Claim)
	h.number(int64(l.ExpiresAt))
	h.entries(l.InFlight)
	h.number(int64(len(l.Stuck)))
	for _, id := range l.Stuck {
		h.number(int64(id))
	}
	h.entries(l.Lost)
}

func (h *hash) holder(holder Holder) { h.bytes(holder[:]) }

func (h *hash) entries(list []InFlight) {
	h.number(int64(len(list)))
	for _, f := range list {
		h.number(int64(f.Delivery))
		h.number(f.Claim)
	}
}

func (h *hash) subscription(s *Subscription) {
	h.text(s.Event)
	h.text(s.Handler)
	h.text(s.Group)
	h.number(int64(s.SeenAt))
	h.truth(s.Removed)
}
