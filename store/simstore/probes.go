package simstore

import "github.com/relaybus-go/relaybus/internal/probe"

// What happened inside the store. Probes are counted where the situation is
// certain and never influence what happens next.
var (
	timedOut          = probe.NewRare("simstore: a transaction was ended by its timeout")
	deadlocks         = probe.NewRare("simstore: a deadlock was found")
	lockTimeouts      = probe.NewRare("simstore: a lock was not granted in time")
	serializations    = probe.NewRare("simstore: a one-snapshot transaction met a changed row")
	writeConflicts    = probe.New("simstore: a snapshot transaction lost to the first updater")
	loneWaits         = probe.NewRare("simstore: a write outside a transaction waited for one")
	slotWaits         = probe.NewRare("simstore: publish waited for a slot")
	sameID            = probe.NewRare("simstore: the same id was published at once")
	claimWaits        = probe.New("simstore: a claim waited for its lane")
	lateClaims        = probe.NewRare("simstore: a claim older than the last one was refused")
	lateCalls         = probe.New("simstore: a call came after its not-after")
	takeovers         = probe.New("simstore: an expired lane was taken over")
	takeoverSkips     = probe.NewRare("simstore: a takeover passed over a locked lane")
	completionWaits   = probe.NewRare("simstore: a completion waited for a takeover")
	completionsFenced = probe.NewRare("simstore: a completion was fenced by a takeover after its snapshot")
	settleWaits       = probe.NewRare("simstore: a settle waited for an open handler transaction")
	badRows           = probe.NewRare("simstore: a row that the store refuses stopped nothing else")
)
