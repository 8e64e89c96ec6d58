//go:build relaybus_mutants

package engine

import "github.com/relaybus-go/relaybus/internal/mutant"

func init() {
	mutant.Declare([]mutant.Info{
		{Name: "abandoned-claim-forgotten", Says: "after a lost reply a claim does not ask for all lanes of its holder"},
		{Name: "late-claim-forgotten", Says: "one claim that succeeds ends the doubt about an abandoned one that may still be applied"},
		{Name: "clock-not-asked-anew", Says: "a call refused as too late does not make the worker ask for the store's clock"},
		{Name: "suspects-not-counted", Says: "a worker that runs a suspect asks for another"},
		{Name: "idle-lanes-never-given-back", Says: "lanes without work are kept and renewed for ever"},
		{Name: "expiring-lane-renewed", Says: "a lane whose end stays unknown is renewed"},
		{Name: "worker-clock-decides-expiry", Says: "not-after is reckoned from the worker's clock"},
		{Name: "restarted-worker-adopts-lanes", Says: "a new instance takes its predecessor's identity, and with it its lanes"},
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
