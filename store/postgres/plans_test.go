package postgres_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/sim"
	"github.com/relaybus-go/relaybus/store/postgres"
)

var plans = flag.Int("plans", 200, "simulator plans that TestPlans replays on the server; a tenth with -short")

// TestPlans replays what the simulator's engine did to its in-memory store, on
// the server: every transaction in the order of the commits, with the same
// calls, claim numbers and leases. Verdicts, grants and epochs must be the
// same, and in the end every row.
//
// Time is not replayed: a lease is made to run out when its lane is taken over,
// and what a claim granted is made due before it. Left out are faults that lose
// commits or damage rows, and the operator's deletions: storetest has those.
func TestPlans(t *testing.T) {
	kinds, err := faults.Parse("all")
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range faults.All() {
		if slices.Contains([]string{"storecrash", "failover", "losecommit", "badrow", "unsubscribe"}, k.Name) {
			kinds = kinds.Without(i)
		}
	}
	n := *plans
	if testing.Short() {
		n /= 10
	}
	for seed := range n {
		t.Run(fmt.Sprint("seed_", seed+1), func(t *testing.T) {
			t.Parallel()
			replayPlan(t, sim.Options{
				Seed: uint64(seed + 1), Faults: kinds, Store: "pg", Lanes: protocol.DefaultLanes, Events: 24, Keys: 2, Steps: 1500,
			})
		})
	}
}

func replayPlan(t *testing.T, o sim.Options) {
	var trace bytes.Buffer
	o.Watch(nil, &sim.Trace{Out: &trace})
	if r := sim.One(o); r.Verdict != sim.Clean {
		t.Fatalf("the plan itself is %v", r.Verdict)
	}
	r := &replay{
		opened: open(t, postgres.Options{}), t: t, state: protocol.NewState(protocol.Locking, protocol.DefaultLanes),
		ledger: protocol.NewLedger(), ids: map[protocol.DeliveryID]protocol.DeliveryID{},
	}
	for _, actions := range readTrace(t, trace.Bytes()) {
		r.transaction(actions)
		for _, a := range actions {
			r.step(a)
		}
		if writesRows(actions) {
			r.compareRows()
		}
		r.calls++
	}
	r.compareRows()
	r.compareLanes()
}

// writesRows reports whether a transaction may charge or change deliveries that
// stay. In the end all have completed: what was charged must be looked at
// before.
func writesRows(actions []protocol.Action) bool {
	switch actions[0].(type) {
	case protocol.TakeOver, protocol.Reschedule, protocol.Snooze, protocol.Bury, protocol.Requeue, protocol.Purge:
		return true
	}
	return false
}

// replay is one plan on the server.
type replay struct {
	*opened
	t      testing.TB
	state  *protocol.State // by the plan's ids
	ledger *protocol.Ledger
	ids    map[protocol.DeliveryID]protocol.DeliveryID // the plan's to the server's
	calls  int
}

func (r *replay) fail(a any, format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("transaction %d: %s\n%+v", r.calls, fmt.Sprintf(format, args...), a)
}

// step keeps the State beside. An end that was judged on an earlier position
// changed nothing.
func (r *replay) step(a protocol.Action) {
	if stale(a) {
		return
	}
	if refusal, _ := protocol.Step(r.state, r.ledger, a); refusal != nil {
		r.fail(a, "the trace was not understood: %v", refusal)
	}
}

// stale reports whether an end was LeaseLost by what its store had read before:
// replayed at its place it may find something else, so it is left out.
func stale(a protocol.Action) bool {
	switch a := a.(type) {
	case protocol.Complete:
		return a.Verdict == protocol.LeaseLost && a.Seen != 0
	case protocol.Reschedule:
		return a.Verdict == protocol.LeaseLost && a.Seen != 0
	case protocol.Snooze:
		return a.Verdict == protocol.LeaseLost && a.Seen != 0
	case protocol.Bury:
		return a.Verdict == protocol.LeaseLost && a.Seen != 0
	}
	return false
}

// transaction makes the call that committed these actions.
func (r *replay) transaction(actions []protocol.Action) {
	ctx := context.Background()
	first := actions[0]
	if stale(first) {
		return
	}
	switch a := first.(type) {
	case protocol.Subscribe:
		_, err := r.store.Subscribe(ctx, engine.SubscribeInput{Group: a.Group, Handlers: a.Handlers, Revive: a.Revive})
		r.ok(a, err)
	case protocol.Publish, protocol.Complete:
		r.inTx(actions)
	case protocol.Claim, protocol.TakeOver:
		r.claim(actions)
	case protocol.Relinquish:
		r.relinquish(actions)
	case protocol.ExtendLease:
		r.extend(actions)
	case protocol.CompleteMany:
		reply, err := r.store.CompleteMany(ctx, engine.CompleteManyInput{Leases: r.leases(a.Leases)})
		r.ok(a, err)
		for i, e := range reply.Ended {
			if slices.Contains(a.Unlisted, a.Leases[i].Delivery) && e.Verdict == protocol.LeaseLost {
				// The plan's statement began before a claim dropped the run.
				r.ok(a, r.exec(ctx, "delete from %s.deliveries where id = $1", int64(r.ids[a.Leases[i].Delivery])))
			} else if e.Verdict != a.Verdicts[i] || e.Err != nil {
				r.fail(a, "lease %d: %v, %v, want %v", i, e.Verdict, e.Err, a.Verdicts[i])
			}
		}
	case protocol.Reschedule:
		reply, err := r.store.Reschedule(ctx, engine.RescheduleInput{Lease: r.lease(a.Lease), Rest: r.leases(a.Rest), Delay: a.Delay, Error: a.Error})
		r.verdict(a, reply.Verdict, a.Verdict, err)
	case protocol.Snooze:
		reply, err := r.store.Snooze(ctx, engine.SnoozeInput{Lease: r.lease(a.Lease), Rest: r.leases(a.Rest), Delay: a.Delay})
		r.verdict(a, reply.Verdict, a.Verdict, err)
	case protocol.Bury:
		reply, err := r.store.Bury(ctx, engine.BuryInput{Lease: r.lease(a.Lease), Rest: r.leases(a.Rest), Error: a.Error, Charge: a.Charge})
		r.verdict(a, reply.Verdict, a.Verdict, err)
	case protocol.Release:
		reply, err := r.store.Release(ctx, engine.ReleaseInput{Leases: r.leases(a.Leases)})
		r.ok(a, err)
		if a.Seen == 0 && !slices.Equal(reply.Verdicts, a.Verdicts) {
			r.fail(a, "%v", reply.Verdicts)
		}
	case protocol.Requeue:
		if len(a.Requeued) == 0 {
			break
		}
		// A filter may leave some of the ids out, so only those that it brought back.
		reply, err := r.store.Requeue(ctx, engine.RequeueInput{IDs: r.mapped(a.Requeued)})
		r.ok(a, err)
		if reply.Requeued != len(a.Requeued) {
			r.fail(a, "%d requeued", reply.Requeued)
		}
	case protocol.Purge:
		r.purge(a)
	default:
		r.fail(a, "no call is known for %s", first.Name())
	}
}

// purge makes old what the plan deleted, and nothing else.
func (r *replay) purge(a protocol.Purge) {
	ctx := context.Background()
	dead := []int64{}
	for _, id := range r.mapped(a.Dead) {
		dead = append(dead, int64(id))
	}
	r.ok(a, r.exec(ctx, "update %s.deliveries set died_at = '2000-01-01' where id = any($1)", dead))
	r.ok(a, r.exec(ctx, "update %s.events set published_at = '2000-01-01' where id = any($1::text[])", a.Events))
	reply, err := r.store.Purge(ctx, engine.PurgeInput{DeadAfter: time.Hour, EventsAfter: time.Hour})
	r.ok(a, err)
	if reply.Dead != len(a.Dead) || reply.Events != len(a.Events) || reply.Swept != 0 {
		r.fail(a, "%+v", reply)
	}
}

func (r *replay) ok(a any, err error) {
	r.t.Helper()
	if err != nil {
		r.fail(a, "%v", err)
	}
}

func (r *replay) verdict(a any, got, want protocol.Verdict, err error) {
	r.t.Helper()
	if err != nil || got != want {
		r.fail(a, "%v, %v, want %v", got, err, want)
	}
}

func (r *replay) mapped(list []protocol.DeliveryID) []protocol.DeliveryID {
	var ids []protocol.DeliveryID
	for _, id := range list {
		ids = append(ids, r.ids[id])
	}
	return ids
}

// lease is a lease of the plan with the server's ids.
func (r *replay) lease(l protocol.Lease) protocol.Lease {
	l.Delivery, l.After = r.ids[l.Delivery], r.ids[l.After]
	return l
}

func (r *replay) leases(list []protocol.Lease) []protocol.Lease {
	var leases []protocol.Lease
	for _, l := range list {
		leases = append(leases, r.lease(l))
	}
	return leases
}

func (r *replay) running(list []protocol.Running) []protocol.Running {
	var running []protocol.Running
	for _, run := range list {
		run.Delivery = r.ids[run.Delivery]
		running = append(running, run)
	}
	slices.SortFunc(running, func(a, b protocol.Running) int { return int(a.Delivery - b.Delivery) })
	return running
}

// inTx replays a caller's transaction: it publishes, or completes, or both.
func (r *replay) inTx(actions []protocol.Action) {
	err := r.store.InTx(context.Background(), func(ctx context.Context, tx pgx.Tx) error {
		for _, a := range actions {
			switch a := a.(type) {
			case protocol.Publish:
				r.publish(ctx, tx, a)
			case protocol.Complete:
				verdict, err := r.store.Complete(ctx, tx, engine.CompleteInput{Lease: r.lease(a.Lease), TTL: time.Hour})
				r.verdict(a, verdict, a.Verdict, err)
				if verdict == protocol.LeaseLost {
					return errLost
				}
			}
		}
		return nil
	})
	if !errors.Is(err, errLost) {
		r.ok(actions, err)
	}
}

// publish publishes and notes which row is which.
func (r *replay) publish(ctx context.Context, tx pgx.Tx, a protocol.Publish) {
	var events []protocol.Event
	for _, e := range a.Events {
		events = append(events, protocol.Event{ID: e.Event.ID, Type: e.Event.Type, Key: e.Event.Key})
	}
	hidden := r.hide(ctx, tx, a)
	results, err := r.store.Publish(ctx, tx, events)
	r.ok(a, err)
	for _, sub := range hidden {
		_, err := tx.Exec(ctx, "update "+r.schema+".subscriptions set removed = false where event_type = $1 and handler = $2", sub.Event, sub.Handler)
		r.ok(a, err)
	}
	for i, e := range a.Events {
		if results[i] != e.Result {
			r.fail(a, "event %q: %v", e.Event.ID, results[i])
		}
		for _, d := range e.Deliveries {
			var id protocol.DeliveryID
			err := tx.QueryRow(ctx, "select d.id from "+r.schema+".deliveries d join "+r.schema+".events e on e.seq = d.event_seq where e.id = $1 and d.handler = $2",
				d.Event, d.Handler).Scan(&id)
			r.ok(a, err)
			r.ids[d.ID] = id
		}
	}
}

// hide hides subscriptions that committed before a Publish which did not see
// them: the plan's statement began before.
func (r *replay) hide(ctx context.Context, tx pgx.Tx, a protocol.Publish) (hidden []protocol.Subscription) {
	for _, e := range a.Events {
		for sub := range r.state.Subscriptions() {
			if sub.Event != e.Event.Type || slices.Contains(e.Subscribed, sub.Handler) {
				continue
			}
			hidden = append(hidden, sub)
			_, err := tx.Exec(ctx, "update "+r.schema+".subscriptions set removed = true where event_type = $1 and handler = $2", sub.Event, sub.Handler)
			r.ok(a, err)
		}
	}
	return hidden
}

// claim replays a Claim call: its takeovers, its claims, what it gave back.
func (r *replay) claim(actions []protocol.Action) {
	ctx := context.Background()
	in := engine.ClaimInput{TTL: time.Hour, Room: 500, Limit: 500}
	taken, given := map[protocol.LaneID]bool{}, map[protocol.LaneID]int64{}
	want := map[protocol.DeliveryID]protocol.Lease{} // what it granted, by the plan
	var lanes []engine.LaneEpoch
	var handlers []string
	earlier := false // the plan's picks were read before others committed
	for _, a := range actions {
		if g, ok := a.(protocol.Relinquish); ok {
			given[g.Lane] = g.Number
		}
	}
	for _, a := range actions {
		switch a := a.(type) {
		case protocol.TakeOver:
			in.Holder, in.Owner, in.Number, in.Group = a.Holder, a.Owner, a.Number+1, a.Group
			lane, _ := r.state.Lane(a.Lane)
			if number, back := given[a.Lane]; back && lane.Holder.IsZero() {
				// Free, and with nothing there was room for: nobody but the clock of the
				// plan knows why it was taken at all.
				r.ok(a, r.exec(ctx, "update %s.lanes set epoch = epoch + 1, last_holder = $2, claim = $3 where lane = $1", a.Lane, uuidOf(a.Holder), number))
				delete(given, a.Lane)
				continue
			}
			taken[a.Lane] = true
			in.MaxLanes++
			r.ok(a, r.expire(ctx, a.Lane))
		case protocol.Claim:
			in.Holder, in.Number, in.Group = a.Holder, a.Number, int32(a.Lane)/protocol.DefaultLanes
			in.Running, in.SuspectRunning, handlers = r.running(a.Running), a.SuspectRunning, a.Handlers
			lane, _ := r.state.Lane(a.Lane)
			epoch := lane.Epoch
			switch {
			case taken[a.Lane]:
				epoch++
			case a.Renew:
				in.Held = append(in.Held, engine.LaneEpoch{Lane: a.Lane})
			default:
				in.LetExpire = append(in.LetExpire, a.Lane)
			}
			earlier = earlier || a.Seen != 0
			lanes = append(lanes, engine.LaneEpoch{Lane: a.Lane, Epoch: epoch})
			for _, p := range a.Picks {
				want[r.ids[p.Delivery]] = protocol.Lease{Delivery: r.ids[p.Delivery], After: r.ids[p.After], Token: protocol.Token{
					Lane: a.Lane, Epoch: epoch, Holder: a.Holder, Claim: a.Number}}
			}
		}
	}
	if handlers == nil {
		handlers = []string{"none"}
	}
	for _, h := range handlers {
		in.Handlers = append(in.Handlers, engine.HandlerRoom{Name: h, Room: 500})
	}
	if in.MaxLanes == 0 && len(lanes) == 0 {
		return // all of it was written above
	}
	r.due(want)
	requeued := []int64{}
	if earlier {
		requeued = r.requeuedSince(want)
	}
	reply, err := r.store.Claim(ctx, in)
	r.ok(actions, err)
	r.ok(actions, r.exec(ctx, "update %s.deliveries set status = 0 where id = any($1)", requeued))
	r.compareClaim(actions, &reply, lanes, given, want)
}

// due makes exactly these deliveries due.
func (r *replay) due(wanted map[protocol.DeliveryID]protocol.Lease) {
	ids := []int64{}
	for id := range wanted {
		ids = append(ids, int64(id))
	}
	r.ok(nil, r.exec(context.Background(), `update %s.deliveries set available_at = case when id = any($1)
		then timestamptz '2000-01-01 UTC' + $2::int * interval '1 s' else timestamptz '2100-01-01 UTC' end`, ids, r.calls))
}

// requeuedSince hides rows that stand before a granted one of their key: the
// plan's claim read its picks before they were requeued.
func (r *replay) requeuedSince(granted map[protocol.DeliveryID]protocol.Lease) []int64 {
	ids := []int64{}
	for id := range granted {
		ids = append(ids, int64(id))
	}
	rows, err := r.pool.Query(context.Background(), "update "+r.schema+".deliveries d set status = 1 where status = 0 and id <> all($1) and exists ("+
		"select from "+r.schema+".deliveries g where g.id = any($1) and g.id > d.id and g.key = d.key and g.handler = d.handler) returning id", ids)
	r.ok(nil, err)
	hidden, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	r.ok(nil, err)
	return append([]int64{}, hidden...)
}

func (r *replay) compareClaim(a any, reply *engine.ClaimReply, lanes []engine.LaneEpoch, given map[protocol.LaneID]int64, want map[protocol.DeliveryID]protocol.Lease) {
	var held []engine.LaneEpoch
	for _, l := range reply.Lanes {
		held = append(held, l.LaneEpoch)
	}
	byLane := func(x, y engine.LaneEpoch) int { return int(x.Lane - y.Lane) }
	slices.SortFunc(held, byLane)
	slices.SortFunc(lanes, byLane)
	if !slices.Equal(held, lanes) {
		r.fail(a, "lanes %v, want %v", held, lanes)
	}
	if len(reply.GivenBack) != len(given) {
		r.fail(a, "gave back %v, want %v", reply.GivenBack, given)
	}
	if len(reply.Picks) != len(want) {
		r.fail(a, "%d granted, want %d: %+v", len(reply.Picks), len(want), reply.Picks)
	}
	for _, p := range reply.Picks {
		if p.Lease != want[p.Delivery.ID] {
			r.fail(a, "granted %v, want %v", p.Lease, want[p.Delivery.ID])
		}
	}
}

func (r *replay) relinquish(actions []protocol.Action) {
	var in engine.RelinquishInput
	applied := 0
	for _, a := range actions {
		g := a.(protocol.Relinquish)
		in.Holder, in.Number, in.Group, in.Running = g.Holder, g.Number, int32(g.Lane)/protocol.DefaultLanes, r.running(g.Running)
		in.Lanes = append(in.Lanes, engine.LaneEpoch{Lane: g.Lane, Epoch: g.Epoch})
		if g.Verdict == protocol.Applied {
			applied++
		}
	}
	reply, err := r.store.Relinquish(context.Background(), in)
	r.ok(actions, err)
	if len(reply.Lanes) != applied {
		r.fail(actions, "gave back %v, want %d", reply.Lanes, applied)
	}
}

func (r *replay) extend(actions []protocol.Action) {
	in := engine.ExtendLeaseInput{TTL: time.Hour}
	for _, a := range actions {
		e := a.(protocol.ExtendLease)
		in.Holder, in.Lanes = e.Holder, append(in.Lanes, engine.LaneEpoch{Lane: e.Lane, Epoch: e.Epoch})
	}
	reply, err := r.store.ExtendLease(context.Background(), in)
	r.ok(actions, err)
	for i, a := range actions {
		r.verdict(a, reply.Verdicts[i], a.(protocol.ExtendLease).Verdict, nil)
	}
}

// compareRows compares every delivery with the plan's.
func (r *replay) compareRows() {
	r.t.Helper()
	ctx := context.Background()
	type row struct {
		status              protocol.Status
		attempts, takeovers int32
		lastError           string
	}
	want, got := map[protocol.DeliveryID]row{}, map[protocol.DeliveryID]row{}
	for d := range r.state.Deliveries() {
		want[r.ids[d.ID]] = row{d.Status, d.Attempts, d.Takeovers, d.LastError}
	}
	list, err := r.store.List(ctx, engine.ListInput{Limit: engine.MaxList})
	r.ok(nil, err)
	for _, l := range list.Deliveries {
		d := l.Delivery
		got[d.ID] = row{d.Status, d.Attempts, d.Takeovers, d.LastError}
	}
	if !reflect.DeepEqual(got, want) {
		r.fail(nil, "the rows are %v, want %v", got, want)
	}
}

// compareLanes compares every lane with the plan's.
func (r *replay) compareLanes() {
	r.t.Helper()
	ctx := context.Background()
	for l := range r.state.AllLanes() {
		var epoch, claim int64
		var holder, last *[16]byte
		var ids, claims []int64
		err := r.pool.QueryRow(ctx, "select epoch, claim, holder, last_holder, in_flight, in_flight_claims from "+r.schema+".lanes where lane = $1", l.ID).
			Scan(&epoch, &claim, &holder, &last, &ids, &claims)
		r.ok(l, err)
		var wantIDs, wantClaims []int64
		for _, f := range l.InFlight {
			wantIDs, wantClaims = append(wantIDs, int64(r.ids[f.Delivery])), append(wantClaims, f.Claim)
		}
		same := func(got *[16]byte, want protocol.Holder) bool {
			return got == nil && want.IsZero() || got != nil && *got == want
		}
		if epoch != l.Epoch || claim != l.Claim || !same(holder, l.Holder) || !same(last, l.LastHolder) || len(ids) != len(wantIDs) {
			r.fail(l, "epoch %d, claim %d, holder %v, last %v, in flight %v", epoch, claim, holder, last, ids)
		}
		for i, id := range wantIDs {
			if at := slices.Index(ids, id); at < 0 || claims[at] != wantClaims[i] {
				r.fail(l, "in flight %v %v, want %v %v", ids, claims, wantIDs, wantClaims)
			}
		}
	}
	found, err := r.store.Verify(ctx)
	r.ok(nil, err)
	if len(found.Findings) > 0 {
		r.fail(nil, "verify: %+v", found.Findings)
	}
}

// traced are the actions of a trace, by name.
var traced = map[string]reflect.Type{}

func init() {
	for _, a := range []protocol.Action{
		protocol.Publish{}, protocol.Claim{}, protocol.TakeOver{}, protocol.ExtendLease{}, protocol.CompleteMany{}, protocol.Complete{},
		protocol.Reschedule{}, protocol.Snooze{}, protocol.Bury{}, protocol.Release{}, protocol.Relinquish{}, protocol.Requeue{}, protocol.Subscribe{},
		protocol.Purge{},
	} {
		traced[a.Name()] = reflect.TypeOf(a)
	}
}

// readTrace reads a trace as transactions. What changed nothing has no position
// and stands alone.
func readTrace(t testing.TB, text []byte) [][]protocol.Action {
	var all [][]protocol.Action
	last := int64(0)
	for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var head struct {
			Action   string
			Position int64
			Args     any
		}
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		if err := decoder.Decode(&head); err != nil {
			t.Fatal(err)
		}
		if head.Action == "" && len(all) == 0 {
			continue // the header
		}
		kind, ok := traced[head.Action]
		if !ok {
			t.Fatalf("unknown action %q", head.Action)
		}
		v := reflect.New(kind).Elem()
		if err := fill(v, head.Args); err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		a := v.Interface().(protocol.Action)
		if head.Position == 0 || head.Position != last {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], a)
		last = head.Position
	}
	return all
}

// fill sets a value from the JSON that sim.Trace writes: the fields of embedded
// structs stand among those of the outer one, names stand for verdicts.
func fill(v reflect.Value, from any) error {
	switch v.Addr().Interface().(type) {
	case *protocol.Holder:
		b, err := hex.DecodeString(from.(string))
		reflect.Copy(v, reflect.ValueOf(b))
		return err
	case *protocol.Verdict, *protocol.PublishResult, *protocol.Status:
		for n := range uint64(3) {
			v.SetUint(n)
			if n < 2 || v.Type() == reflect.TypeFor[protocol.PublishResult]() {
				if fmt.Sprint(v.Interface()) == from.(string) {
					return nil
				}
			}
		}
		return fmt.Errorf("no %s is called %v", v.Type(), from)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			next := from
			if !f.Anonymous {
				next = from.(map[string]any)[f.Name]
			}
			if err := fill(v.Field(i), next); err != nil {
				return err
			}
		}
	case reflect.Slice:
		return fillSlice(v, from)
	case reflect.String:
		v.SetString(from.(string))
	case reflect.Bool:
		v.SetBool(from.(bool))
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, err := from.(json.Number).Int64()
		v.SetInt(n)
		return err
	default:
		return fmt.Errorf("no value of a %s is known", v.Type())
	}
	return nil
}

func fillSlice(v reflect.Value, from any) error {
	switch from := from.(type) {
	case string: // bytes
		b, err := base64.StdEncoding.DecodeString(from)
		for _, n := range b {
			e := reflect.New(v.Type().Elem()).Elem()
			e.SetUint(uint64(n))
			v.Set(reflect.Append(v, e))
		}
		return err
	case []any:
		for _, one := range from {
			e := reflect.New(v.Type().Elem()).Elem()
			if err := fill(e, one); err != nil {
				return err
			}
			v.Set(reflect.Append(v, e))
		}
	}
	return nil
}
