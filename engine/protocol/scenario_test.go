package protocol

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// The files in testdata tell stories. Each line is a call as a store performs
// it; below the dashes stands what came of it. A worker states what it was
// granted and has not ended, unless running=(…) says otherwise; a lease is
// named by its delivery, or delivery@claim for an older one. "lost-reply"
// means that the worker does not learn what the store did, "said=Applied" that
// a broken store answers so: then the refusal and what it would break are
// printed and the world stays as it was.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			story := &story{world: newWorld(Locking, 4)}
			datadriven.RunTest(t, file, story.run)
		})
	}
}

// story is a world that is told in lines.
type story struct {
	*world
	t testing.TB
	d *datadriven.TestData
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	s.t, s.d = t, d
	if d.HasArg("now") {
		s.now = s.time("now")
	}
	verb, ok := verbs[d.Cmd]
	if !ok {
		d.Fatalf(t, "no verb %s", d.Cmd)
	}
	out := verb(s)
	for _, wk := range s.workers {
		out = strings.ReplaceAll(out, wk.holder.String(), wk.name)
		out = strings.ReplaceAll(out, wk.holder.Short(), wk.name)
	}
	return strings.TrimSuffix(out, "\n") + "\n"
}

var verbs = map[string]func(*story) string{
	"store":         (*story).store,
	"subscribe":     (*story).subscribe,
	"publish":       (*story).publish,
	"claim":         (*story).claim,
	"take-over":     (*story).takeOver,
	"charge-lost":   (*story).chargeLost,
	"extend-lease":  (*story).extendLease,
	"complete-many": (*story).completeMany,
	"complete":      (*story).complete,
	"reschedule":    (*story).reschedule,
	"snooze":        (*story).snooze,
	"bury":          (*story).bury,
	"release":       (*story).release,
	"relinquish":    (*story).relinquish,
	"requeue":       (*story).requeue,
	"purge":         (*story).purge,
	"unsubscribe":   (*story).unsubscribe,
	"crash":         (*story).crashed,
	"killed":        (*story).killed,
	"show":          (*story).show,
}

// --- arguments

func (s *story) text(key, otherwise string) string {
	if !s.d.HasArg(key) {
		return otherwise
	}
	var v string
	s.d.ScanArgs(s.t, key, &v)
	return v
}

// list returns the values of key=(a, b); nil without the key.
func (s *story) list(key string) []string {
	for _, arg := range s.d.CmdArgs {
		if arg.Key == key {
			return slices.DeleteFunc(slices.Clone(arg.Vals), func(v string) bool { return v == "" })
		}
	}
	return nil
}

func (s *story) number(key string, otherwise int64) int64 {
	n, err := strconv.ParseInt(s.text(key, fmt.Sprint(otherwise)), 10, 64)
	s.must(err)
	return n
}

func (s *story) duration(key string) time.Duration {
	d, err := time.ParseDuration(s.text(key, "0s"))
	s.must(err)
	return d
}

func (s *story) time(key string) Time { return Time(s.duration(key)) }

func (s *story) must(err error) {
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
}

func (s *story) lane() LaneID { return LaneID(s.number("lane", 0)) }

func (s *story) by() *worker { return s.world.worker(s.text("worker", "w1")) }

// id returns the delivery of a name: the latest that had it.
func (s *story) id(name string) DeliveryID {
	for id := DeliveryID(1000); id > 0; id-- {
		if s.names[id] == name {
			return id
		}
	}
	s.d.Fatalf(s.t, "no delivery %s", name)
	return 0
}

func (s *story) ids(key string) []DeliveryID {
	var out []DeliveryID
	for _, name := range s.list(key) {
		out = append(out, s.id(name))
	}
	slices.Sort(out)
	return out
}

// lease returns a lease that the worker was once granted.
func (s *story) lease(spec string) Lease {
	name, claim, old := strings.Cut(spec, "@")
	wk := s.by()
	for i := len(wk.granted) - 1; i >= 0; i-- {
		g := wk.granted[i]
		if g.name == name && (!old || fmt.Sprint(g.Claim) == claim) {
			return g.Lease
		}
	}
	s.d.Fatalf(s.t, "%s was never granted %s", wk.name, spec)
	return Lease{}
}

func (s *story) leases(key string) []Lease {
	var out []Lease
	for _, spec := range s.list(key) {
		out = append(out, s.lease(spec))
	}
	return out
}

func (s *story) states(wk *worker) []Running {
	if !s.d.HasArg("running") {
		return wk.states()
	}
	other := &worker{}
	for _, l := range s.leases("running") {
		for _, g := range wk.granted {
			if g.Lease == l {
				other.running = append(other.running, g)
			}
		}
	}
	return other.states()
}

func (s *story) name(id DeliveryID) string {
	if name := s.names[id]; name != "" {
		return name
	}
	return fmt.Sprint("#", int64(id))
}

func (s *story) nameAll(ids []DeliveryID) string {
	var out []string
	for _, id := range ids {
		out = append(out, s.name(id))
	}
	return "(" + strings.Join(out, ", ") + ")"
}

func (s *story) entries(list []InFlight) string {
	var out []string
	for _, f := range list {
		out = append(out, fmt.Sprintf("%s@%d", s.name(f.Delivery), f.Claim))
	}
	return "(" + strings.Join(out, ", ") + ")"
}

func (s *story) span(t Time) string { return time.Duration(t).String() }

// --- verbs

func (s *story) store() string {
	semantics := Locking
	if s.d.HasArg("snapshot") {
		semantics = Snapshot
	}
	s.world = newWorld(semantics, int32(s.number("lanes", 4)))
	return s.s.Semantics().String()
}

// perform commits an action, or says why it is refused or what it breaks.
func (s *story) perform(a Action) (string, bool) {
	refusal, violation := s.commit(a)
	switch {
	case refusal != nil && violation != nil:
		return fmt.Sprintf("REFUSED %s: have %s, want %s\nBROKEN  %s: %s",
			refusal.Guard, refusal.Have, refusal.Want, violation.Invariant, violation.Detail), false
	case refusal != nil:
		return fmt.Sprintf("REFUSED %s: have %s, want %s", refusal.Guard, refusal.Have, refusal.Want), false
	case violation != nil:
		return fmt.Sprintf("BROKEN  %s: %s", violation.Invariant, violation.Detail), false
	}
	return "", true
}

// allowed commits an action unless a guard forbids it: a correct store would
// change nothing. A broken one commits it all the same.
func (s *story) allowed(a Action) (string, bool) {
	if o := s.attempt(a); !o.OK() && !s.d.HasArg("said") {
		return fmt.Sprintf("nothing: %s: have %s, want %s", o.Guard, o.Have, o.Want), false
	}
	return s.perform(a)
}

func (s *story) subscribe() string {
	a := Subscribe{Group: s.text("group", "default"), Revive: s.d.HasArg("revive"), Now: s.now}
	for _, handler := range s.list("handlers") {
		a.Handlers = append(a.Handlers, EventHandler{s.text("type", "order"), handler})
	}
	group, ok := s.s.Group(a.Group)
	if !ok {
		group = int32(len(s.s.groups))
	}
	for i := range s.s.modulus {
		a.Lanes = append(a.Lanes, LaneID(group*s.s.modulus+i))
	}
	if out, ok := s.allowed(a); !ok {
		return out
	}
	return fmt.Sprintf("group %d, lanes %d to %d", group, a.Lanes[0], a.Lanes[len(a.Lanes)-1])
}

func (s *story) publish() string {
	var events []Event
	var subscribed [][]string
	for _, id := range s.list("event") {
		e := Event{ID: id, Type: s.text("type", "order"), Key: s.text("key", ""), PublishedAt: s.now}
		events = append(events, e)
		handlers := s.subscribed(e.Type)
		if s.d.HasArg("read") {
			handlers = s.list("read")
		}
		subscribed = append(subscribed, handlers)
	}
	a := s.draft(events, subscribed)
	if out, ok := s.allowed(a); !ok {
		return out
	}
	s.published(a)
	var out strings.Builder
	for _, p := range a.Events {
		if len(p.Deliveries) == 0 {
			fmt.Fprintf(&out, "%s %v\n", p.Event.ID, p.Result)
		}
		for _, d := range p.Deliveries {
			fmt.Fprintf(&out, "#%d %s/%s lane=%d pending\n", d.ID, d.Event, d.Handler, d.Lane)
		}
	}
	return out.String()
}

func (s *story) claim() string {
	wk := s.by()
	a := Claim{
		Lane: s.lane(), Holder: wk.holder, Handlers: s.handlers(), Running: s.states(wk),
		SuspectRunning: wk.runsSuspect(),
		Renew:          !s.d.HasArg("let-expire"), TTL: testTTL, Now: s.now, Clock: s.now,
		NotAfter: s.time("not-after"), Unstuck: s.ids("unstuck"), Seen: s.number("seen", 0),
	}
	if s.d.HasArg("handlers") {
		a.Handlers = s.list("handlers")
	}
	if s.d.HasArg("n") {
		a.Number = s.number("n", 0)
	} else {
		a.Number = wk.claimNumber()
	}
	a.Picks = s.s.Candidates(a, int(s.number("limit", 10)), int(s.number("chain", 10)))
	if s.d.HasArg("picks") {
		a.Picks = s.picks(s.list("picks"))
	}
	before, _ := s.s.Lane(a.Lane)
	listed := slices.Clone(before.InFlight)
	if out, ok := s.allowed(a); !ok {
		return out
	}
	return s.claimed(wk, a, listed)
}

// picks reads "e1/mail" and, for a follower, "e1/mail>e2/mail".
func (s *story) picks(specs []string) []Picked {
	var out []Picked
	for _, spec := range specs {
		before, name, chained := strings.Cut(spec, ">")
		p := Picked{}
		if chained {
			p.After = s.id(before)
		} else {
			name = spec
		}
		p.Delivery = s.id(name)
		d, _ := s.s.Delivery(p.Delivery)
		p.Fence = d.Fence
		out = append(out, p)
	}
	return out
}

// claimed tells what a claim granted, what dropped out of the lane's list, and
// which runs the worker lost.
func (s *story) claimed(wk *worker, a Claim, listed []InFlight) string {
	var out strings.Builder
	for _, g := range s.learn(wk, a, !s.d.HasArg("lost-reply")) {
		fmt.Fprintf(&out, "%s lease=%d:%d:%d", g.name, g.Lane, g.Epoch, g.Claim)
		if g.After != 0 {
			fmt.Fprintf(&out, " after=%s", s.name(g.After))
		}
		fmt.Fprintln(&out)
	}
	for _, f := range listed {
		if !runs(a.Running, f) {
			fmt.Fprintf(&out, "%s@%d drops out\n", s.name(f.Delivery), f.Claim)
		}
	}
	for _, r := range a.Running {
		if r.Lane == a.Lane && !lists(listed, r.InFlight) {
			fmt.Fprintf(&out, "%s@%d LeaseLost\n", s.name(r.Delivery), r.Claim)
			s.forgetRun(wk, r)
		}
	}
	if out.Len() == 0 {
		return "as before"
	}
	return out.String()
}

func (s *story) forgetRun(wk *worker, r Running) {
	wk.running = slices.DeleteFunc(wk.running, func(g grant) bool { return g.Entry() == r.InFlight })
}

func (s *story) takeOver() string {
	wk := s.by()
	number := s.number("n", 0)
	if !s.d.HasArg("n") {
		number = wk.nextCall() - 1
	}
	wk.group = int32(s.number("group", int64(wk.group)))
	a := s.world.takeOver(wk, s.lane(), number)
	a.NotAfter = s.time("not-after")
	a.Refused = s.ids("refused")
	a = s.filled(a).(TakeOver)
	if s.d.HasArg("charged") {
		a.Charged = s.ids("charged")
	}
	if out, ok := s.allowed(a); !ok {
		return out
	}
	wk.inCall = !s.d.HasArg("n")
	lane, _ := s.s.Lane(a.Lane)
	out := fmt.Sprintf("lane=%d epoch=%d", lane.ID, lane.Epoch)
	if len(lane.Lost) > 0 {
		out += " lost=" + s.entries(lane.Lost)
	}
	return out + s.chargedAndStuck(a.Charged, lane)
}

func (s *story) chargedAndStuck(charged []DeliveryID, lane Lane) string {
	out := ""
	if len(charged) > 0 {
		out += " charged=" + s.nameAll(charged)
	}
	if len(lane.Stuck) > 0 {
		out += " stuck=" + s.nameAll(lane.Stuck)
	}
	return out
}

func (s *story) chargeLost() string {
	a := s.filled(ChargeLost{Lane: s.lane(), Refused: s.ids("refused")}).(ChargeLost)
	if s.d.HasArg("charged") {
		a.Charged = s.ids("charged")
	}
	if out, ok := s.allowed(a); !ok {
		return out
	}
	lane, _ := s.s.Lane(a.Lane)
	return fmt.Sprintf("lane=%d", a.Lane) + s.chargedAndStuck(a.Charged, lane)
}

func (s *story) extendLease() string {
	wk := s.by()
	lane, _ := s.s.Lane(s.lane())
	a := ExtendLease{
		Lane: lane.ID, Epoch: s.number("epoch", lane.Epoch), Holder: wk.holder,
		TTL: testTTL, Now: s.now, Clock: s.now,
	}
	return s.single(a, s.attempt(a), "lane "+fmt.Sprint(a.Lane))
}

// single performs an action with one verdict and words it.
func (s *story) single(a Action, o Outcome, subject string) string {
	a = s.filled(a)
	if s.d.HasArg("said") {
		a = said(a, s.text("said", ""))
	}
	if out, ok := s.perform(a); !ok {
		return out
	}
	return s.outcome(subject, o)
}

func (s *story) outcome(subject string, o Outcome) string {
	if o.OK() {
		return subject + " Applied\n"
	}
	return fmt.Sprintf("%s LeaseLost (%s: have %s, want %s)\n", subject, o.Guard, o.Have, o.Want)
}

// said replaces the verdict that a correct store would give.
func said(a Action, verdict string) Action {
	v := LeaseLost
	if verdict == "Applied" {
		v = Applied
	}
	switch a := a.(type) {
	case ExtendLease:
		a.Verdict = v
		return a
	case Complete:
		a.Verdict = v
		return a
	case Reschedule:
		a.Verdict = v
		return a
	case Snooze:
		a.Verdict = v
		return a
	case Bury:
		a.Verdict = v
		return a
	case Relinquish:
		a.Verdict = v
		return a
	case CompleteMany:
		a.Verdicts = slices.Repeat([]Verdict{v}, len(a.Leases))
		return a
	case Release:
		a.Verdicts = slices.Repeat([]Verdict{v}, len(a.Leases))
		return a
	}
	return a
}

// many performs an action with a verdict per lease and words them.
func (s *story) many(a Action, leases []Lease) string {
	outcomes := slices.Clone(s.s.Judge(a))
	a = s.filled(a)
	if s.d.HasArg("said") {
		a = said(a, s.text("said", ""))
	}
	if out, ok := s.perform(a); !ok {
		return out
	}
	var out strings.Builder
	for i, o := range outcomes {
		if o.Guard == "refused" {
			fmt.Fprintf(&out, "%s refused by the store\n", s.name(leases[i].Delivery))
			continue
		}
		out.WriteString(s.outcome(s.name(leases[i].Delivery), o))
		s.over(leases[i])
	}
	return out.String()
}

// over tells the worker that a run is over, unless the reply is lost.
func (s *story) over(leases ...Lease) {
	if s.d.HasArg("lost-reply") {
		return
	}
	for _, l := range leases {
		s.by().forget(l)
	}
}

func (s *story) completeMany() string {
	a := CompleteMany{Leases: s.leases("leases"), Refused: s.ids("refused")}
	return s.many(a, a.Leases)
}

func (s *story) release() string {
	a := Release{Leases: s.leases("leases")}
	return s.many(a, a.Leases)
}

func (s *story) complete() string {
	a := Complete{Lease: s.lease(s.text("lease", "")), Verdict: Applied}
	if s.text("said", "Applied") != "Applied" {
		a.Verdict = LeaseLost
	}
	out := s.single(a, s.s.Judge(a)[0], s.name(a.Lease.Delivery))
	if !s.d.HasArg("said") {
		s.over(a.Lease)
	}
	return out
}

func (s *story) reschedule() string {
	a := Reschedule{
		Lease: s.lease(s.text("lease", "")), Rest: s.leases("rest"), Delay: s.duration("delay"),
		Error: s.text("error", "failed"), Now: s.now, Refused: s.d.HasArg("refused"),
	}
	out := s.single(a, s.s.Judge(a)[0], s.name(a.Lease.Delivery))
	s.over(append(a.Rest, a.Lease)...)
	return out
}

func (s *story) snooze() string {
	a := Snooze{
		Lease: s.lease(s.text("lease", "")), Rest: s.leases("rest"), Delay: s.duration("delay"),
		Now: s.now, Refused: s.d.HasArg("refused"),
	}
	out := s.single(a, s.s.Judge(a)[0], s.name(a.Lease.Delivery))
	s.over(append(a.Rest, a.Lease)...)
	return out
}

func (s *story) bury() string {
	a := Bury{
		Lease: s.lease(s.text("lease", "")), Rest: s.leases("rest"), Error: s.text("error", "given up"),
		Charge: s.d.HasArg("charge"), Now: s.now, Refused: s.d.HasArg("refused"),
	}
	out := s.single(a, s.s.Judge(a)[0], s.name(a.Lease.Delivery))
	s.over(append(a.Rest, a.Lease)...)
	return out
}

func (s *story) relinquish() string {
	wk := s.by()
	number := s.number("n", wk.call+1)
	if !s.d.HasArg("n") {
		wk.call++
	}
	wk.inCall = false
	a := Relinquish{
		Lane: s.lane(), Holder: wk.holder, Number: number,
		Epoch: s.number("epoch", 0), Running: s.states(wk),
	}
	return s.single(a, s.attempt(a), fmt.Sprint("lane ", a.Lane))
}

func (s *story) requeue() string {
	a := Requeue{IDs: s.ids("ids"), Now: s.now}
	for _, id := range a.IDs {
		if d, ok := s.s.Delivery(id); ok && d.Status == Dead {
			a.Requeued = append(a.Requeued, id)
		}
	}
	if s.d.HasArg("requeued") {
		a.Requeued = s.ids("requeued")
	}
	if out, ok := s.allowed(a); !ok {
		return out
	}
	return "requeued " + s.nameAll(a.Requeued)
}

func (s *story) purge() string {
	a := Purge{Dead: s.ids("dead"), DiedTo: s.now, Events: s.list("events"), EventsTo: s.now}
	if out, ok := s.allowed(a); !ok {
		return out
	}
	return "purged"
}

func (s *story) unsubscribe() string {
	a := Unsubscribe{
		EventHandler: EventHandler{s.text("type", "order"), s.text("handler", "mail")},
		Bury:         s.d.HasArg("bury"), Swept: s.ids("swept"), Reason: "unsubscribed", Now: s.now,
	}
	if out, ok := s.allowed(a); !ok {
		return out
	}
	return "swept " + s.nameAll(a.Swept)
}

// crashed loses commits that were acknowledged but not durable.
func (s *story) crashed() string {
	n := int(s.number("lose", 0))
	var lost []string
	for _, a := range s.log[len(s.log)-n:] {
		lost = append(lost, a.Name())
	}
	s.crash(s.t, n)
	return "lost " + strings.Join(lost, ", ")
}

// killed says that a delivery killed its worker, for InnocentNeighbours.
func (s *story) killed() string {
	wk := s.by()
	s.l.Killed(wk.holder, s.id(s.text("by", "")))
	wk.running = nil
	return fmt.Sprintf("%s died of %s", wk.name, s.text("by", ""))
}

func (s *story) show() string {
	var out strings.Builder
	for d := range s.s.Deliveries() {
		fmt.Fprintf(&out, "%s %v", s.name(d.ID), d.Status)
		if d.Attempts > 0 || d.Takeovers > 0 {
			fmt.Fprintf(&out, " attempts=%d takeovers=%d", d.Attempts, d.Takeovers)
		}
		if d.AvailableAt > s.now {
			fmt.Fprintf(&out, " due=%s", s.span(d.AvailableAt))
		}
		if d.Fence > 0 {
			fmt.Fprintf(&out, " fence=%d", d.Fence)
		}
		fmt.Fprintln(&out)
	}
	for lane := range s.s.AllLanes() {
		if lane.Epoch > 0 {
			out.WriteString(s.showLane(lane))
		}
	}
	return out.String()
}

func (s *story) showLane(lane Lane) string {
	holder := "free"
	if !lane.Holder.IsZero() {
		holder = fmt.Sprintf("%s until=%s", lane.Holder.Short(), s.span(lane.ExpiresAt))
	}
	out := fmt.Sprintf("lane %d epoch=%d %s claim=%d in-flight=%s", lane.ID, lane.Epoch, holder, lane.Claim, s.entries(lane.InFlight))
	if len(lane.Lost) > 0 {
		out += " lost=" + s.entries(lane.Lost)
	}
	if len(lane.Stuck) > 0 {
		out += " stuck=" + s.nameAll(lane.Stuck)
	}
	return out + "\n"
}
