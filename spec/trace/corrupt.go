package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"text/tabwriter"

	"github.com/relaybus-go/relaybus/spec/internal/command"
)

// change is one field of one event that was given another value.
type change struct {
	event    *event
	field    string
	from, to string
	guard    string // that must refuse it; "" for any
}

// corruptSome changes a field in some of the traces, which a seed draws.
func corruptSome(traces []*trace, n int, seed uint64) (map[*trace]change, error) {
	if n > len(traces) {
		return nil, fmt.Errorf("-corrupt %d of %d traces: there are not so many", n, len(traces))
	}
	r := rand.New(rand.NewPCG(seed, 0))
	changes := map[*trace]change{}
	for _, i := range r.Perm(len(traces))[:n] {
		c, ok := corrupt(traces[i], r)
		if !ok {
			return nil, fmt.Errorf("%s holds no field whose change must be refused: leave it out", traces[i])
		}
		changes[traces[i]] = c
	}
	return changes, nil
}

// corrupt draws a corruption and an event that offers it, and performs it.
func corrupt(t *trace, r *rand.Rand) (change, bool) {
	for _, i := range r.Perm(len(corruptions)) {
		var offers []*edit
		var at []*event
		for _, e := range t.events {
			if offer := corruptions[i].offer(t, e); offer != nil {
				offers, at = append(offers, offer), append(at, e)
			}
		}
		if len(offers) > 0 {
			chosen := r.IntN(len(offers))
			return offers[chosen].perform(at[chosen], corruptions[i].guard), true
		}
	}
	return change{}, false
}

// edit is a field of an event and what it would be set to.
type edit struct {
	of    map[string]any
	field string
	to    any
	guard string // in place of the corruption's
}

func (e *edit) perform(at *event, guard string) change {
	if e.guard != "" {
		guard = e.guard
	}
	c := change{event: at, field: e.field, from: short(e.of[e.field]), to: short(e.to), guard: guard}
	e.of[e.field] = e.to
	return c
}

func short(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was read as JSON
	}
	if len(text) > 30 {
		return string(text[:27]) + "..."
	}
	return string(text)
}

// A corruption is a change that no rule allows, whatever the store held. It is
// offered only where that is certain: some changes are legal in some states.
type corruption struct {
	guard string // that refuses it
	offer func(t *trace, e *event) *edit
}

// Values that no run has.
const (
	nobody    = "ffffffffffffffffffffffffffffffff"
	noNumber  = json.Number("999999")
	tooSmall  = json.Number("0")
	longAgo   = json.Number("1")
	nowhere   = "elsewhere"
	notExists = "no-such-event"
)

var corruptions = []corruption{
	// A verdict follows from the store, unless it was given on an earlier one.
	{"verdict", func(t *trace, e *event) *edit { return flip(t, e, "Applied", "LeaseLost") }},
	{"", func(t *trace, e *event) *edit { return flip(t, e, "LeaseLost", "Applied") }},
	// The lease of an accepted end is the one that its lane granted.
	{"epoch", func(t *trace, e *event) *edit { return leaseOf(t, e, "Epoch", noNumber) }},
	{"holder", func(t *trace, e *event) *edit { return leaseOf(t, e, "Holder", nobody) }},
	{"in flight", func(t *trace, e *event) *edit { return leaseOf(t, e, "Claim", noNumber) }},
	{"in flight", func(t *trace, e *event) *edit { return leaseOf(t, e, "Delivery", noNumber) }},
	// A follower's predecessor is done: its own row, while it has one, is not.
	{"after", func(t *trace, e *event) *edit {
		if e.action == "CompleteMany" || e.action == "Release" || e.args["Refused"] == true {
			return nil
		}
		offer := leaseOf(t, e, "After", nil)
		if offer != nil {
			offer.to = offer.of["Delivery"]
		}
		return offer
	}},
	{"fence", func(t *trace, e *event) *edit {
		if e.action == "Complete" && t.Semantics == "snapshot" && e.args["Verdict"] == "Applied" {
			return &edit{of: e.args["Lease"].(map[string]any), field: "Fence", to: noNumber}
		}
		return nil
	}},
	// A claim and a takeover are made in time, by the holder, with a new number.
	{"holder", on("Claim", "Holder", nobody, nil)},
	{"number", on("Claim", "Number", tooSmall, nil)},
	{"lane", on("Claim", "Lane", noNumber, nil)},
	{"lane", on("TakeOver", "Lane", noNumber, nil)},
	{"group", on("TakeOver", "Group", noNumber, nil)},
	{"number", on("Relinquish", "Number", tooSmall, applied)},
	{"holder", on("Relinquish", "Holder", nobody, applied)},
	{"holder", on("ExtendLease", "Holder", nobody, applied)},
	{"epoch", on("Relinquish", "Epoch", noNumber, applied)},
	{"epoch", on("ExtendLease", "Epoch", noNumber, applied)},
	{"not-after", on("Claim", "NotAfter", longAgo, nil)},
	{"not-after", on("TakeOver", "NotAfter", longAgo, nil)},
	{"charged", add("TakeOver", "Charged", noNumber)},
	{"charged", add("ChargeLost", "Charged", noNumber)},
	{"refused", add("TakeOver", "Refused", noNumber)},
	{"unstuck", add("Claim", "Unstuck", noNumber)},
	// A pick is a row that is due, of a handler with room, that does not run.
	{"handler", on("Claim", "Handlers", []any{}, picks)},
	{"renew", on("Claim", "Renew", false, picks)},
	{"row", pickOf("Delivery", noNumber)},
	{"after", pickOf("After", noNumber)},
	{"fence", func(t *trace, e *event) *edit {
		if t.Semantics != "snapshot" {
			return nil
		}
		return pickOf("Fence", noNumber)(t, e)
	}},
	{"twice", func(t *trace, e *event) *edit {
		if e.action != "Claim" || !picks(e) {
			return nil
		}
		all := e.args["Picks"].([]any)
		return &edit{of: e.args, field: "Picks", to: append(all[:1:1], all...)}
	}},
	{"running", func(_ *trace, e *event) *edit {
		if e.action != "Claim" || !picks(e) {
			return nil
		}
		run := map[string]any{
			"Delivery": elements(e, "Picks")[0]["Delivery"], "Claim": tooSmall, "Lane": e.args["Lane"],
			"Handler": "", "Key": "",
		}
		return &edit{of: e.args, field: "Running", to: append(slices.Clone(e.args["Running"].([]any)), run)}
	}},
	// What is published is new, pending, never run, and where its key belongs.
	{"result", func(_ *trace, e *event) *edit { return resultOf(e) }},
	{"row", rowOf("Status", "dead")},
	{"row", rowOf("Attempts", json.Number("1"))},
	{"delivery", rowOf("ID", tooSmall)},
	{"lane", rowOf("Lane", noNumber)},
	{"handlers", rowOf("Handler", nowhere)},
	{"sequence", func(t *trace, e *event) *edit {
		if t.Semantics == "snapshot" && e.action == "Publish" {
			return nil // without a key there is no sequence
		}
		return rowOf("Sequence", tooSmall)(t, e)
	}},
	// Operators change what there is.
	{"asked", add("Requeue", "Requeued", noNumber)},
	{"dead", add("Purge", "Dead", noNumber)},
	{"event", add("Purge", "Events", notExists)},
	{"row", add("Unsubscribe", "Swept", noNumber)},
	{"lanes", add("Subscribe", "Lanes", noNumber)},
	{"group", moved},
}

// on offers a field of an action, where a condition holds.
func on(action, field string, to any, where func(*event) bool) func(*trace, *event) *edit {
	return func(_ *trace, e *event) *edit {
		if e.action != action || where != nil && !where(e) {
			return nil
		}
		return &edit{of: e.args, field: field, to: to}
	}
}

// add offers a list of an action with one more element.
func add(action, field string, element any) func(*trace, *event) *edit {
	return func(_ *trace, e *event) *edit {
		if e.action != action {
			return nil
		}
		return &edit{of: e.args, field: field, to: append(slices.Clone(e.args[field].([]any)), element)}
	}
}

// moved offers another group for handlers that have one.
func moved(t *trace, e *event) *edit {
	if e.action != "Subscribe" || len(elements(e, "Handlers")) == 0 {
		return nil
	}
	for _, before := range t.events {
		if before == e || before.action == storeCrash {
			return nil
		}
		if before.action == "Subscribe" && reflect.DeepEqual(before.args["Handlers"], e.args["Handlers"]) {
			break
		}
	}
	return &edit{of: e.args, field: "Group", to: nowhere}
}

func applied(e *event) bool { return e.args["Verdict"] == "Applied" }

// now reports whether an action was decided on the store as it was committed.
func now(e *event) bool { return e.args["Seen"] == nil || e.args["Seen"] == tooSmall }

func picks(e *event) bool { return now(e) && len(e.args["Picks"].([]any)) > 0 }

// pickOf offers a field of a claim's first pick.
func pickOf(field string, to any) func(*trace, *event) *edit {
	return func(_ *trace, e *event) *edit {
		if e.action != "Claim" || !picks(e) {
			return nil
		}
		return &edit{of: elements(e, "Picks")[0], field: field, to: to}
	}
}

// elements are the records of a list.
func elements(e *event, field string) []map[string]any {
	list, _ := e.args[field].([]any)
	var records []map[string]any
	for _, element := range list {
		records = append(records, element.(map[string]any))
	}
	return records
}

// flip turns a verdict round. A snapshot store's Complete may be right either
// way while its takeover is not charged; a refused row has no verdict.
func flip(t *trace, e *event, from, to string) *edit {
	switch e.action {
	case "ExtendLease", "Relinquish":
	case "Complete":
		if t.Semantics == "snapshot" {
			return nil
		}
	case "Reschedule", "Snooze", "Bury":
		if e.args["Refused"] == true {
			return nil
		}
	case "CompleteMany", "Release":
		return flipOne(e, from, to)
	default:
		return nil
	}
	if !now(e) || e.args["Verdict"] != from {
		return nil
	}
	return &edit{of: e.args, field: "Verdict", to: to}
}

func flipOne(e *event, from, to string) *edit {
	verdicts := e.args["Verdicts"].([]any)
	refused, _ := e.args["Refused"].([]any)
	if !now(e) || len(refused) > 0 {
		return nil
	}
	i := slices.Index(verdicts, any(from))
	if i < 0 {
		return nil
	}
	changed := slices.Clone(verdicts)
	changed[i] = to
	return &edit{of: e.args, field: "Verdicts", to: changed}
}

// leaseOf offers a field of the first lease that was accepted on what its lane
// holds. A snapshot store's CompleteMany looks at the row alone, and its
// Complete may stand although the lane has changed hands.
func leaseOf(t *trace, e *event, field string, to any) *edit {
	if !now(e) {
		return nil
	}
	switch e.action {
	case "Complete":
		if t.Semantics == "snapshot" {
			return nil
		}
	case "Reschedule", "Snooze", "Bury":
	case "CompleteMany", "Release":
		refused, _ := e.args["Refused"].([]any)
		i := slices.Index(e.args["Verdicts"].([]any), any("Applied"))
		if i < 0 || len(refused) > 0 || e.action == "CompleteMany" && t.Semantics == "snapshot" {
			return nil
		}
		return &edit{of: elements(e, "Leases")[i], field: field, to: to}
	default:
		return nil
	}
	if !applied(e) && e.args["Refused"] != true {
		return nil
	}
	return &edit{of: e.args["Lease"].(map[string]any), field: field, to: to}
}

// resultOf offers another result for the first event of a Publish.
func resultOf(e *event) *edit {
	if e.action != "Publish" || len(elements(e, "Events")) == 0 {
		return nil
	}
	event := elements(e, "Events")[0]
	other := map[any]string{"Added": "Known", "Known": "Mismatch", "Mismatch": "Added"}[event["Result"]]
	return &edit{of: event, field: "Result", to: other}
}

// rowOf offers a field of the first row that a Publish inserted.
func rowOf(field string, to any) func(*trace, *event) *edit {
	return func(_ *trace, e *event) *edit {
		if e.action != "Publish" {
			return nil
		}
		for _, event := range elements(e, "Events") {
			if rows := event["Deliveries"].([]any); len(rows) > 0 {
				return &edit{of: rows[0].(map[string]any), field: field, to: to}
			}
		}
		return nil
	}
}

// reportCorrupted prints what was changed and what became of it, and fails
// unless exactly the changed traces were refused, each at its changed event.
func (s *settings) reportCorrupted(traces []*trace, changes map[*trace]change, verdicts map[*trace]verdict) int {
	table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "trace\taction\tfield\tfrom\tto\tmust be refused by\tverdict\t")
	caught, wrong := 0, 0
	for _, t := range traces {
		c, changed := changes[t]
		v := verdicts[t]
		switch {
		case !changed && !v.accepted:
			wrong++
			fmt.Fprintf(table, "%s:%d\t%s\tunchanged\t\t\t\trefused: %s\t<-\n", filepath.Base(t.file), v.line, v.action, v.why())
		case changed:
			said, mark := "refused by "+v.guard, ""
			if v.accepted {
				said = "accepted"
			}
			if why := c.missed(v); why != "" {
				wrong++
				mark = "<- " + why
			} else {
				caught++
			}
			fmt.Fprintf(table, "%s:%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", filepath.Base(t.file), c.event.line, c.event.action, c.field, c.from, c.to, orAny(c.guard), said, mark)
		}
	}
	table.Flush()
	fmt.Fprintf(s.stdout, "%d of %d changed traces refused where they were changed; %d unchanged ones\n", caught, len(changes), len(traces)-len(changes))
	if wrong > 0 {
		fmt.Fprintf(s.stdout, "%d traces are not as they should be\n", wrong)
		return command.Unexpected
	}
	return command.Expected
}

func orAny(guard string) string {
	if guard == "" {
		return "any"
	}
	return guard
}

// missed says what is wrong with a verdict on a changed trace, "" for nothing.
func (c *change) missed(v verdict) string {
	switch {
	case v.accepted:
		return "accepted"
	case v.line != c.event.line:
		return fmt.Sprintf("refused at line %d", v.line)
	case c.guard != "" && v.guard != c.guard:
		return "refused by another guard"
	}
	return ""
}
