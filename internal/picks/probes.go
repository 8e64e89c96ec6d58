package picks

import "github.com/relaybus-go/relaybus/internal/probe"

// What a claim picks.
var (
	// Deliveries that were in flight when a worker died run one at a time.
	suspectsGranted = probe.New("picks: a suspect was granted")
	// A second suspect waits, so that a poison delivery charges an innocent neighbour at most once.
	suspectsBarred = probe.New("picks: a suspect waited for another")
	// The next of a key does not start while one of it runs.
	keysHeld = probe.New("picks: a key waited for its running delivery")
	// A requeued delivery does not start while a later one of its key runs.
	requeuedHeld = probe.New("picks: a requeued delivery waited for a later one of its key")
	// A keyed head brought its followers.
	chainsGranted = probe.New("picks: a chain was granted")
	// A head that failed before brings no followers.
	chargedHeads = probe.New("picks: a charged head came alone")
	// A chain ends at a charged delivery; passing over it would break the order of its key.
	chainsCharged = probe.New("picks: a chain ended before a charged delivery")
	// A chain ends at a delivery that is not due yet.
	chainsEarly = probe.New("picks: a chain ended before a delivery that is not due")
	// A lane whose front is full of suspects shows what stands behind them.
	suspectsPassed = probe.NewRare("picks: a search passed over suspects")
	// A cursor goes on behind the heads that were read, so that the last keys of a lane get their turn.
	cursorsMoved = probe.New("picks: a search of keys goes on where the last one ended")
	// A hint must not hide work: what began in the middle and found nothing begins anew.
	searchesWrapped = probe.New("picks: a search began anew from the beginning of its lane")
)
