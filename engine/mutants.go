//go:build relaybus_mutants

package engine

import "github.com/relaybus-go/relaybus/internal/mutant"

func init() {
	mutant.Declare([]mutant.Info{
		{Name: "abandoned-claim-forgotten", Says: "after a lost reply a claim does not ask for all lanes of its holder"},
		{Name: "late-claim-forgotten", Says: "one claim that succeeds ends the doubt about an abandoned one that may still be applied"},
		{Name: "clock-not-asked-anew", Says: "a call refused as too late does not make the worker ask for the store's clock"},
		{Name: "suspects-not-counted", Says: "a worker that runs a suspect asks for another"},
		{Name: "unknown-lanes-wait-for-handlers", Says: "a stop asks for the lanes of an abandoned claim only when the last handler returned"},
		{Name: "lost-runs-take-no-slot", Says: "a run whose lease was lost does not count against Concurrency while it goes on"},
		{Name: "slots-not-shared", Says: "one handler may take every slot, and the others wait for it"},
		{Name: "freed-room-wakes-nobody", Says: "a handler's limit held work back, and a run that ends does not ask for it"},
		{Name: "suspects-end-wakes-nobody", Says: "one suspect held others back, and its end does not ask for them"},
		{Name: "held-key-wakes-nobody", Says: "a run held its key back from a claim, and its end does not ask for it"},
		{Name: "round-ends-early", Says: "a claim that gives nothing ends the round, although held lanes were not asked"},
		{Name: "wake-lost-during-claim", Says: "a hint that comes while a claim is under way is forgotten"},
		{Name: "lane-cursor-stands-still", Says: "each claim asks the same held lanes"},
		{Name: "lanes-avoided-for-ever", Says: "a lane that was given back for its foreign work is never a candidate again"},
		{Name: "due-time-forgotten", Says: "a delivery that this worker put off waits for a poll when it is due"},
		{Name: "window-re-armed", Says: "each success begins the completion window anew"},
		{Name: "window-never-closes", Says: "completions wait until nothing runs or a batch is full"},
		{Name: "renewal-skipped-while-busy", Says: "lanes are not renewed while every slot is taken"},
		{Name: "fencing-from-the-reply", Says: "a lease is measured from its reply instead of from the request"},
		{Name: "timeout-doubled", Says: "a handler is cancelled after twice its timeout"},
		{Name: "idle-lanes-never-given-back", Says: "lanes without work are kept and renewed for ever"},
		{Name: "expiring-lane-renewed", Says: "a lane whose end stays unknown is renewed"},
		{Name: "worker-clock-decides-expiry", Says: "not-after is reckoned from the worker's clock"},
		{Name: "restarted-worker-adopts-lanes", Says: "a new instance takes its predecessor's identity, and with it its lanes"},
		{Name: "begin-failure-charged", Says: "a delivery whose transaction did not begin is charged a failed attempt"},
		{Name: "unsent-end-unknown", Says: "an end that was not sent counts as one of unknown outcome"},
		{Name: "unsent-claim-doubted", Says: "a claim that was not sent is doubted for ever"},
		{Name: "limit-ignored", Says: "a delivery without attempts left runs again"},
		{Name: "backoff-never-due", Says: "a failed delivery is due in a hundred years"},
		{Name: "cancelled-run-charged", Says: "a run that the worker itself cancelled is charged"},
		{Name: "chain-completed-out-of-order", Says: "a call completes the last member of a chain first"},
		{Name: "rest-kept-after-end", Says: "what an end released with its own write is released again later"},
		{Name: "retired-run-sends-end", Says: "a run that was retired still completes"},
		{Name: "settled-by-completing", Says: "a COMMIT of unknown outcome is settled by CompleteMany"},
		{Name: "settle-lost-taken-for-commit", Says: "LeaseLost of a settle counts as a completion, and the chain runs on"},
		{Name: "unknown-commit-reruns-body", Says: "the handler runs again under the same lease after COMMIT was sent"},
		{Name: "unknown-commit-taken-as-failure", Says: "a COMMIT of unknown outcome is charged as a failed attempt"},
		{Name: "unknown-commit-taken-as-success", Says: "a COMMIT of unknown outcome counts as a completion"},
		{Name: "lost-complete-committed", Says: "a transaction commits although Complete answered LeaseLost"},
		{Name: "window-lost-at-shutdown", Says: "a stop does not wait for the completions in the window"},
	}...)
}
