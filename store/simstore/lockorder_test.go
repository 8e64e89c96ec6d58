package simstore

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// lockModule has a table of what each statement of PostgreSQL's store locks,
// which TestLockOrder of store/postgres compares with the statements.
const lockModule = "../../spec/tla/LockOrder.tla"

// lockStep is the locking of rows of one table, as in the module: how is
// ascending, one, skip or held.
type lockStep struct{ table, mode, how string }

var (
	modelStatement = regexp.MustCompile(`(?s)(\w+)\s*\|->\s*<<(.*?)>>`)
	modelLock      = regexp.MustCompile(`Locks\("(\w+)", "([A-Z ]+)", "(\w+)"\)`)
)

// modelLocks reads the table Statement of the module. What the in-memory store
// has no table for is left out.
func modelLocks(t *testing.T) map[string][]lockStep {
	t.Helper()
	text, err := os.ReadFile(lockModule)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\nStatement == [")
	table, _, found := strings.Cut(table, "\n]")
	if !found {
		t.Fatalf("%s has no table Statement", lockModule)
	}
	locks := map[string][]lockStep{}
	for _, s := range modelStatement.FindAllStringSubmatch(table, -1) {
		for _, l := range modelLock.FindAllStringSubmatch(s[2], -1) {
			if l[1] != "subscriptions_version" {
				locks[s[1]] = append(locks[s[1]], lockStep{l[1], l[2], l[3]})
			}
		}
	}
	return locks
}

// tookLock is one lock that a call took.
type tookLock struct{ table, mode, key string }

// lockLog hears of the locks that calls take.
type lockLog struct {
	db   *database
	took []tookLock
}

var modeNames = map[strength]string{forKeyShare: "KEY SHARE", forNoKeyUpdate: "NO KEY UPDATE", forUpdate: "UPDATE"}

func (g *lockLog) hear(_ *Tx, l *rowLock, mode strength) {
	table, key, fresh := g.find(l)
	again := slices.ContainsFunc(g.took, func(o tookLock) bool { return o.table == table && o.key == key })
	if table == "" || fresh && (table != "events" || again) {
		return // a new row is nobody's to wait for, but for an event that others may insert too
	}
	g.took = append(g.took, tookLock{table, modeNames[mode], key})
}

// find returns the table and key of a row's lock, and whether the row is new.
func (g *lockLog) find(l *rowLock) (table, key string, fresh bool) {
	for k, r := range g.db.events.rows {
		if &r.rowLock == l {
			return "events", k, r.head == nil
		}
	}
	for k, r := range g.db.deliveries.rows {
		if &r.rowLock == l {
			return "deliveries", fmt.Sprintf("%09d", k), r.head == nil
		}
	}
	for k, r := range g.db.lanes.rows {
		if &r.rowLock == l {
			return "lanes", fmt.Sprintf("%09d", k), r.head == nil
		}
	}
	for k, r := range g.db.slots.rows {
		if &r.rowLock == l {
			return "slots", fmt.Sprintf("%09d", k), false
		}
	}
	for k, r := range g.db.subscriptions.rows {
		if &r.rowLock == l {
			return "subscriptions", k.Handler, r.head == nil
		}
	}
	return "", "", false
}

// lockDifference says in what the locks that a call took differ from those of
// the statements that it stands for; "" when in nothing.
func lockDifference(took []tookLock, model []lockStep) string {
	rest := took
	for _, m := range model {
		n := 0
		for n < len(rest) && rest[n].table == m.table && rest[n].mode == m.mode {
			n++
		}
		own := rest[:n]
		rest = rest[n:]
		switch {
		case m.how == "held" && n > 0:
			return fmt.Sprintf("it locks %v, which the module LockOrder says it has already", own)
		case m.how != "held" && n == 0:
			return fmt.Sprintf("%v of the module LockOrder is not where it should be in %v", m, took)
		case m.how == "one" && n > 1:
			return fmt.Sprintf("it locks %v, the module LockOrder one", own)
		case m.how == "ascending" && !slices.IsSortedFunc(own, func(a, b tookLock) int { return cmp.Compare(a.key, b.key) }):
			return fmt.Sprintf("%v are not ascending", own)
		}
	}
	if len(rest) > 0 {
		return fmt.Sprintf("it locks %v, of which the module LockOrder knows nothing", rest)
	}
	return ""
}

// lockCall is a call, and the statements of PostgreSQL's store that it is.
type lockCall struct {
	name       string
	statements string
	run        func(b *bench, w *worker)
}

// Each plays on a store where a worker runs #1 to #6 of several lanes.
var lockCalls = []lockCall{
	{"Publish", "lock_slots publish", func(b *bench, _ *worker) { b.publish("z/k9", "y/k1", "x", "w/k4") }},
	{"Publish again", "lock_slots publish", func(b *bench, _ *worker) { b.publish("b/k2", "a/k1") }},
	{"Claim", "lock_lanes claim", func(b *bench, w *worker) { w.claim(noRoom) }},
	{"Claim and grant", "lock_lanes claim", func(b *bench, w *worker) { w.claim(noLanes) }},
	{"TakeOver", "take_over charge claim", func(b *bench, _ *worker) { b.worker("two", "h").claim() }},
	{"ExtendLease", "lock_lanes extend_lease", func(b *bench, w *worker) {
		must(b.ExtendLease(ctx, engine.ExtendLeaseInput{Holder: w.holder, Lanes: backwards(w.held), TTL: ttl}))(b)
	}},
	{"Release", "lock_lanes release", func(b *bench, w *worker) {
		must(b.Release(ctx, engine.ReleaseInput{Leases: []engine.Lease{w.lease(6), w.lease(3), w.lease(1), w.lease(2)}}))(b)
	}},
	{"Relinquish", "lock_lanes relinquish", func(b *bench, w *worker) {
		must(b.Relinquish(ctx, engine.RelinquishInput{Holder: w.holder, Lanes: backwards(w.held), Number: w.number + 2}))(b)
	}},
	{"CompleteMany", "complete_many", func(b *bench, w *worker) { b.applied(w.complete(6, 2, 1, 3)) }},
	{"Complete", "complete", func(_ *bench, w *worker) { must(w.completeTx(1))(w) }},
	{"Reschedule", "reschedule", func(b *bench, w *worker) { b.expect(w.reschedule(1) == engine.Applied, "refused") }},
	{"Bury", "bury", func(b *bench, w *worker) { b.expect(w.bury(1) == engine.Applied, "refused") }},
}

func backwards[T any](list []T) []T {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

func noLanes(in *engine.ClaimInput) { in.MaxLanes = 0 }

// locksOf plays a call and returns the locks it took.
func locksOf(t *testing.T, c lockCall) []tookLock {
	b := newBench(t, protocol.Locking)
	w := b.start("a/k1", "b/k2", "c/k3", "d", "e", "f")
	if c.name == "TakeOver" {
		b.expire()
	}
	if c.name == "Claim and grant" {
		b.publish("g", "h/k5")
	}
	log := &lockLog{db: &b.db}
	b.db.locked = log.hear
	c.run(b, w)
	return log.took
}

func statementsOf(t *testing.T, c lockCall) []lockStep {
	model := modelLocks(t)
	var steps []lockStep
	for _, name := range strings.Fields(c.statements) {
		if model[name] == nil {
			t.Fatalf("%s has no %s", lockModule, name)
		}
		steps = append(steps, model[name]...)
	}
	return steps
}

// TestLockOrder: calls of the locking store lock the rows that the module
// LockOrder says, in its modes and its order, as PostgreSQL's store does.
func TestLockOrder(t *testing.T) {
	for _, c := range lockCalls {
		if why := lockDifference(locksOf(t, c), statementsOf(t, c)); why != "" {
			t.Errorf("%s: %s", c.name, why)
		}
	}
}

// TestLockOrderSeesADifference: of each call, rows in another order, a lock less,
// a lock more and a weaker mode are differences that TestLockOrder tells of.
func TestLockOrderSeesADifference(t *testing.T) {
	for _, c := range lockCalls {
		took, model := locksOf(t, c), statementsOf(t, c)
		wrong := map[string][]tookLock{
			"nothing":  nil,
			"one more": append(slices.Clone(took), tookLock{"groups", "UPDATE", "1"}),
		}
		for i := range took {
			weaker := slices.Clone(took)
			weaker[i].mode = "SHARE"
			wrong[fmt.Sprint("weaker at ", i)] = weaker
		}
		if back := backwards(took); len(took) > 1 && c.name != "TakeOver" {
			wrong["backwards"] = back
		}
		for name, locks := range wrong {
			if lockDifference(locks, model) == "" {
				t.Errorf("%s: %s passes", c.name, name)
			}
		}
	}
	slotsLast := []tookLock{{"events", "NO KEY UPDATE", "a"}, {"slots", "NO KEY UPDATE", "000000001"}}
	if lockDifference(slotsLast, statementsOf(t, lockCalls[0])) == "" {
		t.Error("events before slots pass")
	}
}
