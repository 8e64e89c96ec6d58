package main

// A shape says how a value of a trace becomes one of TLA+. What no shape names
// (payloads, texts of errors, owners' names) no rule looks at.
type shape struct {
	kind   kind
	of     *shape  // of the elements of a list or a set
	name   string  // of a record: that of the operator which makes one
	fields []field // of a record
	// repeats: the same record stands in many actions.
	repeats bool
}

type kind uint8

const (
	number kind = iota
	text
	truth
	holder // 32 hexadecimal digits; all zero is nobody
	moment // a reading of the store's clock, in nanoseconds: ranked
	length // a duration: the sums with it that the rules ask for
	list   // a sequence
	set
	record
)

type field struct {
	name string // of the Go type
	shape
}

func listOf(s shape) shape { return shape{kind: list, of: &s} }
func setOf(s shape) shape  { return shape{kind: set, of: &s} }

func is(k kind, names ...string) []field {
	var fields []field
	for _, name := range names {
		fields = append(fields, field{name, shape{kind: k}})
	}
	return fields
}

func join(parts ...[]field) []field {
	var all []field
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

func one(name string, s shape) []field { return []field{{name, s}} }

func recordOf(name string, parts ...[]field) shape {
	return shape{kind: record, name: name, fields: join(parts...)}
}

func repeating(s shape) shape {
	s.repeats = true
	return s
}

var (
	ids    = setOf(shape{kind: number})
	idList = listOf(shape{kind: number})
	names  = setOf(shape{kind: text})
	words  = listOf(shape{kind: text})

	lease   = recordOf("Lease", is(number, "Delivery", "Lane", "Epoch"), is(holder, "Holder"), is(number, "Claim", "After", "Fence"))
	running = repeating(recordOf("Running", is(number, "Delivery", "Claim", "Lane"), is(text, "Handler", "Key")))
	pick    = recordOf("Pick", is(number, "Delivery", "After", "Fence"))
	pair    = recordOf("Pair", is(text, "Event", "Handler"))

	row = recordOf("Row", is(number, "ID"), is(text, "Event", "Handler"), is(number, "Lane"), is(text, "Key"), is(number, "Sequence"),
		is(text, "Status"), is(moment, "AvailableAt"), is(number, "Attempts", "Takeovers", "Fence"), is(moment, "DiedAt"))
	published = recordOf("Published",
		one("Event", recordOf("Event", is(text, "ID", "Type", "Key"), is(moment, "PublishedAt"))),
		one("Subscribed", names), one("Deliveries", listOf(row)), is(text, "Result"))

	end = join(one("Lease", lease), is(text, "Verdict"), is(number, "Seen"))
	// keeping are the ends that keep the row.
	keeping = join(end, one("Rest", setOf(lease)), is(moment, "Now"), is(truth, "Refused"))
	many    = join(one("Leases", listOf(lease)), one("Verdicts", words), is(number, "Seen"))
)

// shapes are the fields of each action that Trace.tla looks at: those of the
// types of engine/protocol, whose operators in Publish, Lease, Finish and
// Operate take a record with the same fields.
var shapes = map[string]shape{
	"Publish": recordOf("Publish", is(moment, "Now"), one("Events", listOf(published))),
	"Claim": recordOf("Claim", is(number, "Lane"), is(holder, "Holder"), is(number, "Number"), one("Handlers", names),
		one("Running", setOf(running)), one("Picks", listOf(pick)), is(truth, "SuspectRunning", "Renew"),
		is(length, "TTL"), is(moment, "Now", "Clock", "NotAfter"), one("Unstuck", ids), is(number, "Seen")),
	"TakeOver": recordOf("TakeOver", is(number, "Lane", "Group"), is(holder, "Holder"), is(number, "Number"), is(length, "TTL"),
		is(moment, "Now", "Clock", "NotAfter"), one("Refused", ids), one("Charged", ids)),
	"ChargeLost": recordOf("ChargeLost", is(number, "Lane"), one("Refused", ids), one("Charged", ids)),
	"ExtendLease": recordOf("ExtendLease", is(number, "Lane", "Epoch"), is(holder, "Holder"), is(length, "TTL"),
		is(moment, "Now", "Clock"), is(text, "Verdict")),
	"CompleteMany": recordOf("CompleteMany", many, one("Refused", ids), one("Unlisted", ids)),
	"Complete":     recordOf("Complete", end),
	"Reschedule":   recordOf("Reschedule", keeping, is(length, "Delay")),
	"Snooze":       recordOf("Snooze", keeping, is(length, "Delay")),
	"Bury":         recordOf("Bury", keeping, is(truth, "Charge")),
	"Release":      recordOf("Release", many),
	"Relinquish": recordOf("Relinquish", is(number, "Lane"), is(holder, "Holder"), is(number, "Number", "Epoch"),
		one("Running", setOf(running)), is(text, "Verdict")),
	"Requeue":     recordOf("Requeue", one("IDs", ids), one("Requeued", idList), is(moment, "Now")),
	"Purge":       recordOf("Purge", one("Dead", idList), is(moment, "DiedTo"), one("Events", words), is(moment, "EventsTo")),
	"Subscribe":   recordOf("Subscribe", is(text, "Group"), one("Handlers", setOf(pair)), is(truth, "Revive"), one("Lanes", ids), is(moment, "Now")),
	"Unsubscribe": recordOf("Unsubscribe", is(text, "Event", "Handler"), is(truth, "Bury"), one("Swept", idList), is(moment, "Now")),
	storeCrash:    recordOf(""),
}
