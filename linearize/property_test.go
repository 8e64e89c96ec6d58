package linearize

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"pgregory.net/rapid"
)

func appendSorted(b []byte, s *reference, done uint64) []byte {
	b = fmt.Appendf(b, "%d %d %d %d %v %v %d|", done, s.clock, s.lane.epoch, s.lane.claim, s.lane.holder, s.lane.last, s.lane.expires)
	for _, id := range slices.Sorted(maps.Keys(s.lane.list)) {
		b = fmt.Appendf(b, "%d:%d ", id, s.lane.list[id])
	}
	for _, id := range slices.Sorted(maps.Keys(s.rows)) {
		b = fmt.Appendf(b, "%d %v ", id, s.rows[id])
	}
	for _, e := range slices.Sorted(maps.Keys(s.events)) {
		b = fmt.Appendf(b, "%s %s %v %d ", e, s.events[e], s.done[e], s.effects[e])
	}
	return b
}

// worker is a client of the reference with what it has been told.
type worker struct {
	holder engine.Holder
	number int64
	epoch  int64 // at which it believes to hold the lane; 0: it does not
	doubt  bool  // an answer about the lane did not come
	runs   []*workerRun
	free   int64 // when its last call returned
}

// workerRun is a run of a worker. Its end is sent again until it is known, and
// its kind never changes.
type workerRun struct {
	lease      engine.Lease
	event, key string
	suspect    bool
	end        any
}

// transactional: the events with an even number are completed in transactions.
func (r *workerRun) transactional() bool { return (r.event[len(r.event)-1]-'0')%2 == 0 }

// generator writes a history of a reference store.
type generator struct {
	*rapid.T
	store    *reference
	workers  []*worker
	ops      []Operation // ticks included
	late     []late      // calls that the store has not seen yet
	point    int64       // when the last operation took effect
	overlap  int
	batches  bool // calls over several deliveries
	events   int
	operator int64 // when its last call returned
	ticked   int64 // when time last passed and the rows were read: no call is under way then
}

// late is a call without an answer that is carried out later, or never.
type late struct{ in any }

func (g *generator) choose(n int) int { return rapid.IntRange(0, n-1).Draw(g.T, "choice") }

func generate(t *rapid.T, steps, overlap int, batches bool) []Operation {
	g := &generator{T: t, store: newReference(), overlap: overlap, batches: batches}
	for _, h := range []engine.Holder{alice, bob} {
		g.workers = append(g.workers, &worker{holder: h})
	}
	for range steps {
		g.step()
	}
	// The last answer tells what the clock was when the one before came.
	g.list()
	g.list()
	return g.ops
}

// list reads all rows while nothing else is under way.
func (g *generator) list() {
	g.quiet()
	out, _ := g.store.perform(engine.ListInput{}, nil, nil)
	g.ops = append(g.ops, Operation{Input: engine.ListInput{}, Call: g.point, Return: g.point, Output: out, Outcome: Returned})
	g.operator, g.ticked = g.point, g.point
}

// quiet waits until nothing is under way, as far as anybody is told.
func (g *generator) quiet() {
	for _, w := range g.workers {
		g.point = max(g.point, w.free)
	}
	g.point = max(g.point, g.operator) + 1
}

func (g *generator) step() {
	if len(g.late) > 0 && g.choose(4) == 0 {
		i := g.choose(len(g.late))
		g.point++
		g.store.perform(g.late[i].in, nil, g.choose)
		g.late = slices.Delete(g.late, i, i+1)
	}
	w := g.workers[g.choose(len(g.workers))]
	switch g.choose(12) {
	case 0, 1:
		g.publish()
	case 2, 3, 4:
		g.claim(w)
	case 5, 6, 7, 8:
		g.finish(w)
	case 9:
		g.other(w)
	case 10:
		g.operate()
	case 11:
		g.list() // before and after, so that everybody knows what the clock was
		g.quiet()
		g.store.perform(tick{}, nil, nil)
		g.ops = append(g.ops, Operation{Input: tick{}, Call: g.point, Return: g.point, Outcome: Returned})
		g.operator = g.point
		g.list()
	}
}

// do carries a call out, or loses it or its answer, and returns the answer if
// it comes.
func (g *generator) do(client int, free *int64, in any) (any, bool) {
	g.point = max(g.point, *free, g.ticked) + 1
	call := max(*free+1, g.ticked+1, g.point-int64(g.choose(g.overlap+1)))
	ret := g.point + int64(g.choose(g.overlap+1))
	*free = ret
	o := Operation{Client: client, Call: call, Return: ret, Input: in}
	if g.choose(6) == 0 {
		if tx, ok := in.(Transaction); ok {
			// What its statements answered is known; COMMIT is what is lost.
			applies := g.choose(2) == 0
			store := g.store
			if !applies {
				store = g.store.clone()
			}
			store.transaction(&tx, false, true)
			o.Input = tx
		} else if g.choose(2) == 0 {
			g.store.perform(in, nil, g.choose)
		} else {
			g.late = append(g.late, late{in})
		}
		g.ops = append(g.ops, o)
		return nil, false
	}
	if tx, ok := in.(Transaction); ok {
		g.store.transaction(&tx, false, true)
		o.Input = tx
		if len(tx.Completed) > 0 && tx.Completed[0].Verdict == leaseLost {
			return tx, true // rolled back: no part of the history
		}
	} else {
		o.Output, _ = g.store.perform(in, nil, g.choose)
	}
	o.Outcome = Returned
	g.ops = append(g.ops, o)
	if o.Output == nil {
		return o.Input, true
	}
	return o.Output, true
}

// batch is how many things one call is about.
func (g *generator) batch(most int) int {
	if g.batches {
		return 1 + g.choose(most)
	}
	return 1
}

func (g *generator) publish() {
	key := []string{"", "k"}[g.choose(2)]
	var list []Published
	for range g.batch(2) {
		event := fmt.Sprint("e", g.choose(g.events+1))
		if event == fmt.Sprint("e", g.events) {
			g.events++
		}
		again := slices.ContainsFunc(list, func(p Published) bool { return p.Event == event })
		if !again {
			list = append(list, Published{Event: event, Type: "t", Key: key, Handlers: []string{"h"}})
		}
	}
	g.do(0, &g.operator, Transaction{Published: list})
}

func (g *generator) claim(w *worker) {
	w.number += 2
	in := refClaim(w.holder, w.number)
	in.AllMine = w.doubt
	if w.epoch != 0 {
		in.Held = []engine.LaneEpoch{{Epoch: w.epoch}}
	}
	for _, r := range w.runs {
		state := stated(r.lease)[0]
		state.Handler, state.Key = "h", r.key
		in.Running = append(in.Running, state)
		in.SuspectRunning = in.SuspectRunning || r.suspect
	}
	out, ok := g.do(int(w.holder[0]), &w.free, in)
	if w.doubt = !ok; !ok {
		return
	}
	reply := out.(engine.ClaimReply)
	w.epoch = 0
	if len(reply.Lanes) > 0 {
		w.epoch = reply.Lanes[0].Epoch
	}
	w.runs = slices.DeleteFunc(w.runs, func(r *workerRun) bool {
		return slices.ContainsFunc(reply.LeaseLost, func(l engine.Running) bool { return l.Delivery == r.lease.Delivery && l.Claim == r.lease.Claim })
	})
	for _, p := range reply.Picks {
		w.runs = append(w.runs, &workerRun{lease: p.Lease, event: p.Delivery.Event, key: p.Delivery.Key, suspect: p.Delivery.Takeovers > 0})
	}
}

// finish ends a run, and after any end but a completion the rest of its chain.
func (g *generator) finish(w *worker) {
	if len(w.runs) == 0 {
		return
	}
	r := w.runs[g.choose(len(w.runs))]
	if r.end == nil {
		r.end = g.endOf(w, r)
	}
	out, ok := g.do(int(w.holder[0]), &w.free, r.end)
	if !ok {
		if tx, isTx := r.end.(Transaction); isTx {
			r.end = engine.SnoozeInput{Lease: tx.Completed[0].Lease, Rest: g.rest(w, r)} // an unknown COMMIT is settled
		}
		return
	}
	gone := []*workerRun{r}
	switch out := out.(type) {
	case engine.EndReply:
		gone = append(gone, g.followers(w, r)...)
	case Transaction:
		if out.Completed[0].Verdict == leaseLost {
			gone = append(gone, g.followers(w, r)...)
		}
	}
	w.runs = slices.DeleteFunc(w.runs, func(o *workerRun) bool { return slices.Contains(gone, o) })
}

func (g *generator) endOf(w *worker, r *workerRun) any {
	switch g.choose(6) {
	case 0:
		return engine.RescheduleInput{Lease: r.lease, Rest: g.rest(w, r)}
	case 1:
		return engine.BuryInput{Lease: r.lease, Rest: g.rest(w, r), Charge: true}
	case 2:
		return engine.ReleaseInput{Leases: []engine.Lease{r.lease}}
	}
	if r.transactional() {
		return Transaction{Completed: []Completed{{Lease: r.lease}}, Effects: []Name{{r.event, "h"}}}
	}
	leases := []engine.Lease{r.lease}
	for _, f := range g.followers(w, r) {
		if f.end != nil || f.transactional() || !g.batches {
			break
		}
		leases = append(leases, f.lease)
		f.end = engine.CompleteManyInput{Leases: []engine.Lease{f.lease}}
	}
	return engine.CompleteManyInput{Leases: leases}
}

// followers returns the runs behind r in its chain.
func (g *generator) followers(w *worker, r *workerRun) []*workerRun {
	var list []*workerRun
	last := r
	for _, o := range w.runs {
		if o.lease.Claim == last.lease.Claim && o.lease.After == last.lease.Delivery {
			list = append(list, o)
			last = o
		}
	}
	return list
}

func (g *generator) rest(w *worker, r *workerRun) []engine.Lease {
	var list []engine.Lease
	for _, o := range g.followers(w, r) {
		list = append(list, o.lease)
	}
	return list
}

func (g *generator) other(w *worker) {
	if w.epoch == 0 {
		return
	}
	lane := []engine.LaneEpoch{{Epoch: w.epoch}}
	if g.choose(2) == 0 {
		g.do(int(w.holder[0]), &w.free, engine.ExtendLeaseInput{Holder: w.holder, Lanes: lane, TTL: refTTL})
		return
	}
	w.number++
	in := engine.RelinquishInput{Holder: w.holder, Number: w.number, Lanes: lane}
	for _, r := range w.runs {
		in.Running = append(in.Running, stated(r.lease)...)
	}
	_, ok := g.do(int(w.holder[0]), &w.free, in)
	w.doubt, w.epoch = w.doubt || !ok, 0
}

func (g *generator) operate() {
	switch g.choose(3) {
	case 0:
		var dead []engine.DeliveryID
		for id, r := range g.store.rows {
			if r.dead {
				dead = append(dead, id)
			}
		}
		slices.Sort(dead)
		if len(dead) > 0 {
			g.do(1, &g.operator, engine.RequeueInput{IDs: dead[:1]})
		}
	case 1:
		g.do(1, &g.operator, engine.ListInput{})
	case 2:
		g.do(1, &g.operator, CountEffects{Name{"e0", "h"}})
	}
}

// recorded is the history of the operations.
func recordedHistory(ops []Operation) *History {
	h := NewHistory(Locking)
	for _, o := range ops {
		if _, isTick := o.Input.(tick); !isTick {
			h.Record(o)
		}
	}
	return h
}

// A correct store is never accused, however its calls overlap, get lost or
// come late.
func TestLegalHistoriesAreAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ops := generate(t, rapid.IntRange(1, 120).Draw(t, "steps"), 6, true)
		if r := Check(recordedHistory(ops), 0); !r.OK() {
			t.Fatalf("%s\n%s", words(ops), r)
		}
	})
}

func words(ops []Operation) string {
	s := ""
	for i, o := range ops {
		s += fmt.Sprintf("%d %s [%d %d] %T %+v -> %+v\n", i+1, o.Outcome, o.Call, o.Return, o.Input, o.Input, o.Output)
	}
	return s
}
