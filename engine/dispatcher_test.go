package engine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// TestDispatcher walks the stories of testdata/dispatcher. Each input line is
// something that happened to a worker; what is printed is what the Dispatcher
// asks for. The clock only moves with "at".
//
//	new lease=30s concurrency=10 handlers=(mail ledger/tx) purge=10m   start over
//	at 1s                                        move the clock, feed a Tick
//	start | wake | stop grace=5s                 feed that input
//	subscribed                                   Subscribe's reply
//	granted lanes=(7:1) picks=(1/mail@7:1 2/mail@7:1>1)
//	                                             Claim's reply; picks are
//	                                             delivery/handler@lane:epoch,
//	                                             >n follows n in its chain,
//	                                             ?attempts=n ?takeovers=n ?key=k
//	renewed lost=(7)                             ExtendLease's reply
//	ended CompleteMany verdicts=(Applied LeaseLost)
//	                                             the reply to an ending call
//	givenback                                    Relinquish's reply
//	purged                                       Purge's reply
//	failed Claim retryable|definite|unsent|unknown  an error
//	ran run=1 outcome=Succeeded err=… delay=…    a run returned
//	retired run=1 done=true
func TestDispatcher(t *testing.T) {
	datadriven.Walk(t, "testdata/dispatcher", func(t *testing.T, path string) {
		w := &dispatcherStory{t: t}
		datadriven.RunTest(t, path, w.run)
	})
}

type dispatcherStory struct {
	t    *testing.T
	d    *Dispatcher
	mono time.Duration
	sent []Call // outstanding, oldest first
}

func (w *dispatcherStory) run(t *testing.T, data *datadriven.TestData) string {
	w.t = t
	switch data.Cmd {
	case "new":
		return w.create(data)
	case "at":
		w.mono = w.duration(data.CmdArgs[0].Key)
		return w.step(Tick{})
	case "describe":
		return w.d.describe(Instant{Wall: int64(w.mono), Mono: w.mono}) + "\n"
	case "start":
		return w.step(Start{})
	case "wake":
		return w.step(Wake{})
	case "stop":
		return w.step(Stop{Grace: w.durationArg(data, "grace", 0)})
	case "ran":
		return w.step(RunReturned{ID: RunID(w.intArg(data, "run")), Result: w.result(data)})
	case "retired":
		return w.step(RunRetired{ID: RunID(w.intArg(data, "run")), Done: data.HasArg("done")})
	case "failed":
		return w.step(CallReturned{ID: w.answer(data).ID, Err: failures[data.CmdArgs[1].Key]})
	default:
		c := w.answer(data)
		return w.step(CallReturned{ID: c.ID, Reply: w.reply(data, c.Input)})
	}
}

var failures = map[string]error{
	"retryable": fmt.Errorf("conflict: %w", ErrRetryable),
	"definite":  Definite(errors.New("check constraint")),
	"unsent":    fmt.Errorf("pool used up: %w", ErrNotSent),
	"unknown":   errors.New("connection reset"),
}

func (w *dispatcherStory) create(data *datadriven.TestData) string {
	cfg := dispatcherConfig{
		Holder: Holder{1}, Owner: "pod", Group: "default",
		Lease: w.durationArg(data, "lease", 30*time.Second), Poll: time.Second,
		Window: w.durationArg(data, "window", 0), CallTimeout: 10 * time.Second,
		Concurrency: 10, ClaimLimit: 20, LanesPerClaim: 2, CompletionBatch: 4,
		Jitter: func(n int64) int64 { return n - 1 },
	}
	if data.HasArg("purge") {
		cfg.Retention = Retention{DeadAfter: time.Hour, Every: w.durationArg(data, "purge", 0)}
	}
	if data.HasArg("concurrency") {
		cfg.Concurrency = w.intArg(data, "concurrency")
	}
	if data.HasArg("limit") {
		cfg.ClaimLimit = w.intArg(data, "limit")
	}
	for _, name := range w.list(data, "handlers") {
		name, tx := strings.CutSuffix(name, "/tx")
		name, limit, limited := strings.Cut(name, "*")
		concurrency := cfg.Concurrency
		if limited {
			concurrency = w.atoi(limit)
		}
		cfg.Handlers = append(cfg.Handlers, dispatchHandler{
			Name: name, Concurrency: concurrency, MaxAttempts: 3, Transactional: tx,
			Timeout: time.Minute, Grace: 5 * time.Second, Retry: secondPerAttempt{},
		})
		cfg.Subscriptions = append(cfg.Subscriptions, EventHandler{Event: "e", Handler: name})
	}
	slices.SortFunc(cfg.Handlers, func(a, b dispatchHandler) int { return strings.Compare(a.Name, b.Name) })
	w.d, w.mono, w.sent = newDispatcher(cfg), 0, nil
	return ""
}

// secondPerAttempt makes delays that a reader can check in the head.
type secondPerAttempt struct{}

func (secondPerAttempt) Delay(attempt int, _ func(int64) int64) time.Duration {
	return time.Duration(attempt) * time.Second
}

func (w *dispatcherStory) step(in Input) string {
	at := Instant{Wall: int64(w.mono), Mono: w.mono}
	var out strings.Builder
	for _, e := range w.d.Step(at, in) {
		if c, ok := e.(Call); ok {
			w.sent = append(w.sent, c)
		}
		fmt.Fprintln(&out, describeEffect(e))
	}
	return out.String()
}

func (w *dispatcherStory) reply(data *datadriven.TestData, input any) any {
	now := protocol.Time(w.mono)
	switch data.Cmd {
	case "subscribed":
		return &SubscribeReply{Now: now, Group: 1, Lanes: 256}
	case "granted":
		return w.claimReply(data, input.(ClaimInput), now)
	case "renewed":
		return w.extendReply(data, input.(ExtendLeaseInput), now)
	case "givenback":
		return &RelinquishReply{Now: now}
	case "purged":
		return &PurgeReply{}
	case "ended":
		return w.endReply(data, input, now)
	}
	w.t.Fatalf("%s: unknown verb %q", data.Pos, data.Cmd)
	return nil
}

func (w *dispatcherStory) endReply(data *datadriven.TestData, input any, now protocol.Time) any {
	var verdicts []Verdict
	var ended []Ended
	for _, word := range w.list(data, "verdicts") {
		v := LeaseLost
		if word == "Applied" {
			v = Applied
		}
		verdicts = append(verdicts, v)
		e := Ended{Verdict: v}
		if word == "Refused" {
			e.Err = failures["definite"]
		}
		ended = append(ended, e)
	}
	switch input.(type) {
	case CompleteManyInput:
		return &CompleteManyReply{Now: now, Ended: ended}
	case ReleaseInput:
		return &ReleaseReply{Now: now, Verdicts: verdicts}
	default:
		return &EndReply{Now: now, Verdict: verdicts[0]}
	}
}

func (w *dispatcherStory) extendReply(data *datadriven.TestData, in ExtendLeaseInput, now protocol.Time) any {
	reply := &ExtendLeaseReply{Now: now}
	lost := w.list(data, "lost")
	for _, l := range in.Lanes {
		v := Applied
		if slices.Contains(lost, strconv.Itoa(int(l.Lane))) {
			v = LeaseLost
		}
		reply.Verdicts = append(reply.Verdicts, v)
	}
	return reply
}

func (w *dispatcherStory) claimReply(data *datadriven.TestData, in ClaimInput, now protocol.Time) any {
	reply := &ClaimReply{Now: now}
	for _, l := range w.list(data, "lanes") {
		id, lacking := strings.CutSuffix(l, "!")
		reply.Lanes = append(reply.Lanes, ClaimedLane{LaneEpoch: w.laneEpoch(id), Lacking: lacking, ExpiresAt: now.Add(in.TTL)})
	}
	for _, l := range w.list(data, "gone") {
		reply.Gone = append(reply.Gone, LaneID(w.atoi(l)))
	}
	for _, id := range w.list(data, "leaselost") {
		i := slices.IndexFunc(in.Running, func(r Running) bool { return r.Delivery == DeliveryID(w.atoi(id)) })
		reply.LeaseLost = append(reply.LeaseLost, in.Running[i])
	}
	for _, p := range w.list(data, "picks") {
		reply.Picks = append(reply.Picks, w.pick(p, in))
	}
	return reply
}

// pick reads "1/mail@7:1>2?attempts=1".
func (w *dispatcherStory) pick(text string, in ClaimInput) Picked {
	text, facts, _ := strings.Cut(text, "?")
	text, after, _ := strings.Cut(text, ">")
	text, lane, _ := strings.Cut(text, "@")
	id, handler, _ := strings.Cut(text, "/")
	at := w.laneEpoch(lane)
	p := Picked{Event: &protocol.Event{ID: "e" + id, Type: "e"}}
	p.Lease = Lease{Delivery: DeliveryID(w.atoi(id)), Token: Token{Lane: at.Lane, Epoch: at.Epoch, Holder: in.Holder, Claim: in.Number}}
	p.Delivery = Delivery{ID: p.Lease.Delivery, Handler: handler, Lane: at.Lane}
	if after != "" {
		p.Lease.After = DeliveryID(w.atoi(after))
	}
	switch name, n, _ := strings.Cut(facts, "="); name {
	case "attempts":
		p.Delivery.Attempts = int32(w.atoi(n))
	case "takeovers":
		p.Delivery.Takeovers = int32(w.atoi(n))
	case "key":
		p.Delivery.Key = n
	case "noevent":
		p.Event = nil
	}
	return p
}

func (w *dispatcherStory) laneEpoch(text string) LaneEpoch {
	lane, epoch, _ := strings.Cut(text, ":")
	return LaneEpoch{Lane: LaneID(w.atoi(lane)), Epoch: int64(w.atoi(epoch))}
}

func (w *dispatcherStory) result(data *datadriven.TestData) RunResult {
	var word, text string
	data.ScanArgs(w.t, "outcome", &word)
	r := RunResult{Delay: w.durationArg(data, "delay", -1)}
	if data.HasArg("err") {
		data.ScanArgs(w.t, "err", &text)
		r.Err = errors.New(text)
	}
	for o := Succeeded; o <= NotBegun; o++ {
		if o.String() == word {
			r.Outcome = o
			return r
		}
	}
	w.t.Fatalf("%s: unknown outcome %q", data.Pos, word)
	return r
}

// answer takes the oldest outstanding call that the line can speak of.
func (w *dispatcherStory) answer(data *datadriven.TestData) Call {
	method, ok := map[string]string{
		"subscribed": "Subscribe", "granted": "Claim", "renewed": "ExtendLease", "givenback": "Relinquish", "purged": "Purge",
	}[data.Cmd]
	if !ok {
		method = data.CmdArgs[0].Key
	}
	i := slices.IndexFunc(w.sent, func(c Call) bool { return fmt.Sprintf("%T", c.Input) == "engine."+method+"Input" })
	if i < 0 {
		w.t.Fatalf("%s: no %s is outstanding", data.Pos, method)
	}
	c := w.sent[i]
	w.sent = slices.Delete(w.sent, i, i+1)
	return c
}

func (w *dispatcherStory) intArg(data *datadriven.TestData, key string) int {
	var n int
	data.ScanArgs(w.t, key, &n)
	return n
}

func (w *dispatcherStory) durationArg(data *datadriven.TestData, key string, otherwise time.Duration) time.Duration {
	if !data.HasArg(key) {
		return otherwise
	}
	var s string
	data.ScanArgs(w.t, key, &s)
	return w.duration(s)
}

func (w *dispatcherStory) duration(s string) time.Duration {
	v, err := time.ParseDuration(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *dispatcherStory) list(data *datadriven.TestData, key string) []string {
	for _, arg := range data.CmdArgs {
		if arg.Key == key {
			var words []string
			for _, v := range arg.Vals {
				words = append(words, strings.Fields(v)...)
			}
			return words
		}
	}
	return nil
}

func (w *dispatcherStory) atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		w.t.Fatalf("%q is not a number", s)
	}
	return n
}

func describeEffect(e Effect) string {
	switch e := e.(type) {
	case Call:
		return describeCall(e.Input)
	case *Run:
		return fmt.Sprintf("run %d: %s of #%d, limit %d", e.ID, e.Handler, e.Picked.Lease.Delivery, e.MaxAttempts)
	case CancelRun:
		return fmt.Sprintf("cancel run %d: %v", e.ID, e.Cause)
	case Retire:
		return fmt.Sprintf("retire run %d", e.ID)
	case WakeAt:
		return fmt.Sprintf("wake in %v", e.After)
	case Observed:
		return "observed: " + e.Event + describeSubject(e)
	case Stopped:
		return "stopped"
	}
	return fmt.Sprintf("%T", e)
}

func describeSubject(e Observed) string {
	switch {
	case e.Run != nil:
		return fmt.Sprintf(" #%d", e.Run.Picked.Lease.Delivery)
	case e.Lane != 0:
		return fmt.Sprintf(" lane %d", e.Lane)
	}
	return ""
}

func describeCall(input any) string {
	switch in := input.(type) {
	case SubscribeInput:
		return "Subscribe " + fmt.Sprint(in.Handlers)
	case ClaimInput:
		return describeClaim(in)
	case ExtendLeaseInput:
		return "ExtendLease " + describeLanes(in.Lanes)
	case CompleteManyInput:
		return "CompleteMany " + describeLeases(in.Leases)
	case RescheduleInput:
		return fmt.Sprintf("Reschedule #%d in %v%s %q", in.Lease.Delivery, in.Delay, describeRest(in.Rest, in.Settle), in.Error)
	case SnoozeInput:
		return fmt.Sprintf("Snooze #%d for %v%s", in.Lease.Delivery, in.Delay, describeRest(in.Rest, in.Settle))
	case BuryInput:
		return fmt.Sprintf("Bury #%d charge=%t%s %q", in.Lease.Delivery, in.Charge, describeRest(in.Rest, false), in.Error)
	case ReleaseInput:
		return "Release " + describeLeases(in.Leases)
	case PurgeInput:
		return fmt.Sprintf("Purge dead after %v", in.DeadAfter)
	case RelinquishInput:
		return fmt.Sprintf("Relinquish n=%d %s running=%d keep=%v", in.Number, describeLanes(in.Lanes), len(in.Running), in.Keep)
	}
	return fmt.Sprintf("%T", input)
}

func describeClaim(in ClaimInput) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Claim n=%d held=%s", in.Number, describeLanes(in.Held))
	if in.AllMine {
		b.WriteString(" all-mine")
	}
	fmt.Fprintf(&b, " new=%d room=%d limit=%d running=(", in.MaxLanes, in.Room, in.Limit)
	for i, r := range in.Running {
		fmt.Fprintf(&b, "%.*s#%d:%d", min(i, 1), " ", r.Delivery, r.Claim)
	}
	b.WriteString(")")
	if in.SuspectRunning {
		b.WriteString(" suspect-running")
	}
	if len(in.LetExpire) > 0 {
		fmt.Fprintf(&b, " let-expire=%v", in.LetExpire)
	}
	if len(in.Draining) > 0 {
		fmt.Fprintf(&b, " draining=%v", in.Draining)
	}
	if len(in.Avoid) > 0 {
		fmt.Fprintf(&b, " avoid=%s", describeLanes(in.Avoid))
	}
	return b.String()
}

func describeLanes(lanes []LaneEpoch) string {
	words := make([]string, len(lanes))
	for i, l := range lanes {
		words[i] = fmt.Sprintf("%d:%d", l.Lane, l.Epoch)
	}
	return "(" + strings.Join(words, " ") + ")"
}

func describeLeases(leases []Lease) string {
	words := make([]string, len(leases))
	for i, l := range leases {
		words[i] = fmt.Sprintf("#%d", l.Delivery)
	}
	return "(" + strings.Join(words, " ") + ")"
}

func describeRest(rest []Lease, settle bool) string {
	text := ""
	if len(rest) > 0 {
		text = " rest=" + describeLeases(rest)
	}
	if settle {
		text += " settle"
	}
	return text
}
