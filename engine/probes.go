package engine

import "github.com/relaybus-go/relaybus/internal/probe"

// What execute meets.
var (
	// A retryable error before COMMIT was sent: the body ran again under the same lease, uncharged.
	probeRerun = probe.New("execute: a conflict reran the body of a transaction")
	// No connection was free, or none could be made: the handler was not called and nothing is charged.
	probeNotBegun = probe.New("execute: a transaction did not begin")
	// After three reruns a conflict is a failed attempt.
	probeReruns = probe.New("execute: conflicts used up the reruns of an attempt")
	// COMMIT was sent and no answer came: it may have committed, and may still.
	probeUnknown = probe.New("execute: the outcome of COMMIT is unknown")
	// The handler's writes are rolled back with the completion that was refused.
	probeFenced = probe.New("execute: Complete lost the lease inside the transaction")
	// A panic is a failed attempt and stops nothing else.
	probePanic = probe.New("execute: a handler panicked")
	// The run was given up before Complete: nothing of it may commit.
	probeTooLate = probe.New("execute: a transaction was not completed because its run was cancelled")
	// A rolling deploy: another release serves this type of event.
	probeNoRoute = probe.NewRare("execute: the handler is not registered for this event type")
	// RetryAfter, Snooze or Cancel.
	probeAsked = probe.New("execute: a handler said how its run ends")
)

// What the Dispatcher does about claims.
var (
	// The call may have been applied, and may still be.
	probeAbandoned = probe.New("dispatcher: the outcome of a claim is unknown")
	// After an abandoned claim all lanes of the holder are asked for.
	probeAllMine = probe.New("dispatcher: a claim asked for all lanes after an abandoned one")
	// One success proves nothing while the abandoned call may still be applied.
	probeStillDoubt = probe.New("dispatcher: a claim succeeded while an abandoned one may still be applied")
	// The store was heard to say a time past the not-after of every abandoned call.
	probeTrusted = probe.New("dispatcher: the doubt about an abandoned claim ended")
	// Held lanes that the store does not list are forgotten.
	probeUnlisted = probe.New("dispatcher: a lane was missing from the answer to a claim for all lanes")
	// A call came after its not-after: the worker asks for the store's clock.
	probeClockDoubted = probe.New("dispatcher: a call came too late and the clock was asked anew")
	// The reply took a lease: what it grants is given back unstarted.
	probeLateGrant = probe.New("dispatcher: a claim was answered after a whole lease")
	// A delivery without attempts left is buried without a run and without a charge.
	probeNoAttempts = probe.New("dispatcher: a granted delivery had no attempt left")
	// Three store calls failed in a row.
	probeAway = probe.New("dispatcher: the store went away")
	// And it answers again.
	probeBack = probe.New("dispatcher: the store came back")
	// Claims work, and ends, which are away, do not say so yet.
	probeInPart = probe.New("dispatcher: the store was away for ends alone")
)

// What it does about lanes.
var (
	// Its own clock says that a lease ran out: it starts nothing and cancels what runs.
	probeFencedSelf = probe.New("dispatcher: a lease ran out by the worker's own clock")
	// An end stayed unknown for a lease: the lane is let go, so that somebody else finds out.
	probeLetExpire = probe.New("dispatcher: a lane was not renewed because an end stayed unknown")
	// The store said that the lane is not ours.
	probeLaneLost = probe.New("dispatcher: a lane was lost")
	// Lanes without work are left to others.
	probeIdle = probe.New("dispatcher: idle lanes were given back")
	// A lane with rows for handlers that this worker lacks takes no new picks and goes back.
	probeDraining = probe.New("dispatcher: a lane drains for handlers that this worker lacks")
	// Followers of a draining lane that were not started go back.
	probeDrained = probe.New("dispatcher: a follower of a draining lane was released")
)

// How runs end.
var (
	// A plain handler's next may start before the completion of the one before is acknowledged.
	probeEarlyNext = probe.New("dispatcher: a plain follower started before the completion before it was acknowledged")
	// The worker cancelled the run itself: it is given back and not charged.
	probeCancelled = probe.New("dispatcher: a run that this worker cancelled was given back")
	// A member before it ended badly while it ran.
	probeBrokenChain = probe.NewRare("dispatcher: a run succeeded whose chain was broken")
	// The store does not list the run any more, and its handler came back.
	probeZombie = probe.New("dispatcher: a run returned that its lane no longer lists")
	// It did not return within the grace: the worker ends the attempt, and the run never will.
	probeRetired = probe.New("dispatcher: a run was retired")
	// Once Complete or an end was sent the grace applies no longer.
	probeSpared = probe.NewRare("dispatcher: a run was not retired because it is committing")
	// The settle of a COMMIT that had not committed.
	probeSettledOpen = probe.New("dispatcher: a settle was applied: the commit had not happened")
	// The settle says that the run is over: it committed, or an earlier settle took effect, or the lane changed hands.
	probeSettledOver = probe.New("dispatcher: a settle found the run over")
	// A commit that crashes the server must end among the dead letters.
	probeThirdUnknown = probe.NewRare("dispatcher: the outcome of COMMIT was unknown three times in a row")
	// No connection was had for the end: nothing was applied, and it is sent again.
	probeUnsent = probe.New("dispatcher: an end was not sent")
	// The end may have taken effect; it counts as running until that is known.
	probeUnsure = probe.New("dispatcher: the outcome of an end is unknown")
	// After a definite error the failure itself is recorded.
	probeRefused = probe.New("dispatcher: the store refused a completion and the failure was recorded instead")
	// That failed too: the id is among the lane's stuck ones.
	probeStuck = probe.New("dispatcher: the store refused an end for good")
	// It may have been refused for its predecessor alone, and its lane lists it still.
	probeFollowerLost = probe.New("dispatcher: a follower's completion was refused and it is released")
)

// Stopping.
var (
	// What was granted and not started goes back.
	probeStopReleases = probe.New("dispatcher: a stop released what waited")
	// Lanes without anything left to end went back while a handler still ran.
	probeStopLanesFirst = probe.New("dispatcher: a stop gave lanes back while a run went on")
	// Lanes that only an abandoned call knows of went back before the handlers returned.
	probeStopUnknown = probe.New("dispatcher: a stop asked for lanes it never heard of while a run went on")
	// Handlers that overstay the grace are cancelled.
	probeStopCancels = probe.New("dispatcher: a stop cancelled a run")
	// The store did not answer for a whole lease after the grace.
	probeStopGivesUp = probe.New("dispatcher: a stop gave up on the store")
)
