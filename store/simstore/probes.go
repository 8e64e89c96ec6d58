package simstore

import "github.com/relaybus-go/relaybus/internal/probe"

// How transactions meet.
var (
	// An idle or overlong transaction was rolled back by the store, so that a client that vanished does not keep its locks.
	timedOut = probe.New("simstore: a transaction was ended by its timeout")
	// Two transactions waited for each other; one got a retryable error.
	deadlocks = probe.NewRare("simstore: a deadlock was found")
	// A statement gave up on a lock rather than wait for as long as a lease.
	lockTimeouts = probe.New("simstore: a lock was not granted in time")
	// A caller's REPEATABLE READ or SERIALIZABLE transaction got a retryable error.
	serializations = probe.NewRare("simstore: a one-snapshot transaction met a changed row")
	// The conflict that snapshot stores rest on: of two writers of a document the second fails.
	writeConflicts = probe.New("simstore: a snapshot transaction lost to the first updater")
	// A write of one document waits where a transaction would conflict; its clock is older than the wait.
	loneWaits = probe.New("simstore: a write outside a transaction waited for one")
	// One bad row must not stop a batch: its part was undone to a savepoint.
	badRows = probe.New("simstore: a row that the store refuses stopped nothing else")
)

// Publishing.
var (
	// The sequence of a key is drawn under its slot's lock, so that it is in commit order.
	slotWaits = probe.New("simstore: publish waited for a slot")
	// The event was inserted by somebody else after the statement's snapshot: the handlers to add come from the locked row.
	sameID = probe.New("simstore: the same id was published at once")
	// A repeated publish adds nothing for handlers that had a delivery once, even a completed one.
	knownEvents = probe.New("simstore: a known event was published again and nothing was added")
	// A handler that subscribed later gets a delivery of an event that was there before.
	handlersAdded = probe.New("simstore: a known event got a delivery for a handler it never had one for")
)

// Claims.
var (
	// A claim locks the lanes it names, and a commit may come in between.
	claimWaits = probe.New("simstore: a claim waited for its lane")
	// An abandoned claim is executed after a newer one of the same holder: its number refuses it.
	lateClaims = probe.New("simstore: a claim older than the last one was refused")
	// An abandoned claim finds a lane free that its holder has given back since.
	lateTakeovers = probe.New("simstore: a late claim found a lane that its holder had given back")
	// An abandoned call is executed after its client stopped waiting for it.
	lateCalls = probe.New("simstore: a call came after its not-after")
	// A claim for all lanes of its holder finds one that it does not name: as a rule because the reply that granted it was lost.
	unknownLanes = probe.New("simstore: a claim found a lane of its holder that it did not name")
	// What the lane lists and the worker no longer states drops out uncharged: its grant or its end got lost on the way.
	dropped = probe.New("simstore: a claim dropped what its worker no longer states")
	// A run that the worker states and the lane does not list comes back as lost.
	leasesLost = probe.New("simstore: a claim told its worker of a lost lease")
	// A lane with an end that stayed unknown for a lease is not renewed, so that somebody else finds out.
	unrenewed = probe.New("simstore: a claim left a lane unrenewed")
	// After an outage longer than the lease only the owner came back: it goes on, and nothing is charged.
	ownExpired = probe.New("simstore: a worker claimed from its own lane after the lease had run out")
	// A row whose charge or end the store refused takes a write again.
	unstuck = probe.New("simstore: a stuck row took a write")
	// The id of a row that was deleted or died leaves the stuck list.
	stuckGone = probe.New("simstore: a stuck row was not pending any more")
)

// What a claim reads.
var (
	// A dead letter does not block its key.
	chainsPastDead = probe.NewRare("simstore: a chain passed over a dead letter")
	// A lane has a row for a handler that others serve: it is left to them.
	lacking = probe.New("simstore: a lane has work for a handler that its worker lacks")
	// A handler whose subscription nobody refreshed for three minutes must not keep lanes draining.
	unserved = probe.New("simstore: a lane has work for a handler that nobody serves any more")
)

// Takeovers.
var (
	// A worker was taken for dead.
	takeovers = probe.New("simstore: an expired lane was taken over")
	// A completion under way keeps its lane from being taken over.
	takeoverSkips = probe.New("simstore: a takeover passed over a locked lane")
	// The followers of a chain that never started are not charged.
	followersSpared = probe.New("simstore: a takeover did not charge a follower")
	// A charge that the store refuses for good stops no takeover; the id is kept as stuck.
	chargesRefused = probe.New("simstore: a charge was refused for good")
	// An expired lane without work for this worker goes back in the same call.
	givenBack = probe.New("simstore: a lane taken over gave nothing and went back")
	// Snapshot stores: what a takeover found in flight waits to be charged, and another takeover adds to it.
	lostTwice = probe.New("simstore: a lane was taken over again before its losses were charged")
	// Snapshot stores: nothing of a lane is granted before its losses are charged.
	unchargedLanes = probe.New("simstore: a lane gave nothing because its losses were not charged")
	// Snapshot stores: ChargeLost met an open transaction and was left for the next claim.
	chargeConflicts = probe.New("simstore: ChargeLost met a conflict")
	// Snapshot stores: the losses of a lane that was given back are charged by whoever comes next.
	lostGivenBack = probe.New("simstore: a lane was given back with losses")
)

// Ends.
var (
	// KEY SHARE stands against FOR UPDATE: the completion looks again after the takeover.
	completionWaits = probe.New("simstore: a completion waited for a takeover")
	// The lane was taken over between the completion's snapshot and its lock.
	completionsFenced = probe.New("simstore: a completion was fenced by a takeover after its snapshot")
	// A settle answers only once the handler's transaction, which may still be open, has ended.
	settleWaits = probe.New("simstore: a settle waited for an open handler transaction")
	// The run's worker was taken for dead: another epoch or another holder.
	otherHands = probe.New("simstore: an end was refused because its lane changed hands")
	// The commit of a takeover was lost and its epoch issued again: the holder alone tells the two apart.
	epochReissued = probe.New("simstore: an end was refused by its holder alone, the epoch being the same")
	// The run was ended, released or dropped before: this is a repetition, or it came late.
	unlisted = probe.New("simstore: an end was refused because its lane does not list the delivery")
	// The delivery was granted to the same holder again: this is an end of the run before.
	otherClaim = probe.New("simstore: an end was refused because its lane lists another claim of the delivery")
	// The delivery before it in its chain is pending: completing this one would break the order of the key.
	behindPending = probe.New("simstore: a follower was refused because its predecessor is pending")
	// The verdict of the predecessor within the same call decides.
	behindRefused = probe.New("simstore: a follower was refused with its predecessor in one call")
	// The row was ended, charged or swept between the completion's snapshot and its lock.
	rowsChanged = probe.New("simstore: a completion met a row written since its snapshot")
	// An operator buried or deleted the row, or an earlier try of the end did.
	rowsDead = probe.New("simstore: an end met a dead row")
	// A retry of a completion whose outcome was unknown: the lane lists it still.
	goneApplied = probe.New("simstore: a completion of a row already gone was applied")
	// A transactional completion that did not delete the row itself must roll back.
	goneInTx = probe.New("simstore: a transaction found its row gone")
	// Snapshot stores: the row was written since it was granted, and its fence tells.
	fences = probe.New("simstore: a completion was refused by the fence of its row")
	// A newer claim of the same holder dropped the run meanwhile; KEY SHARE neither waits for it nor reads it.
	listReplaced = probe.NewRare("simstore: a completion was accepted by a list that a newer claim replaced")
	// A definite error made the whole batch start anew, row by row.
	oneByOne = probe.New("simstore: a batch of completions went row by row behind savepoints")
	// An end that the store refuses for good leaves the id with the lane as stuck.
	endsRefused = probe.New("simstore: an end was refused for good")
	// Released later, the rest could complete before its predecessor ran again.
	restReleased = probe.New("simstore: an end released the rest of its chain")
)

// Renewing and giving back.
var (
	// The lane is somebody else's now.
	renewalsRefused = probe.New("simstore: a renewal was refused")
	// Allowed as long as nobody took the lane over.
	renewedLate = probe.New("simstore: a lane was renewed after its lease had run out")
	// The run was ended or dropped before.
	releasesRefused = probe.New("simstore: a release was refused")
	// A late Relinquish meets a lane that was claimed again: its number or epoch refuses it.
	relinquishLate = probe.New("simstore: a late Relinquish was refused")
	// A lane with work in flight is not given back.
	relinquishBusy = probe.NewRare("simstore: a Relinquish was refused because its holder runs something of the lane")
)

// Operators.
var (
	// A dead letter came back.
	requeues = probe.New("simstore: a dead letter was requeued")
	// A dead letter may still be listed by the lane where it died: its end was refused, or an operator buried it.
	requeuedListed = probe.New("simstore: a delivery was requeued that its lane lists still")
	// The row no longer meets the condition under which it was found: it stays.
	purgesSpared = probe.New("simstore: a purge spared a dead letter that was requeued meanwhile")
	// A publisher added a delivery, or holds the event, since the purge looked.
	purgesLate = probe.NewRare("simstore: a purge spared an event that a publisher wrote meanwhile")
	// An event whose deliveries are all gone was deleted; its id is new again.
	eventsPurged = probe.New("simstore: a purge deleted an event")
	// What was pending for a removed handler was buried or deleted.
	swept = probe.New("simstore: pending deliveries of a removed handler were swept")
	// A publisher was open when the handler was removed.
	sweptAgain = probe.New("simstore: a purge swept what was published for a removed handler")
	// A start does not bring back a handler that an operator removed.
	staysRemoved = probe.New("simstore: a start found one of its handlers removed")
)
