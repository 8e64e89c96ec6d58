//go:build relaybus_mutants

package sim

import "github.com/relaybus-go/relaybus/internal/mutant"

func init() {
	mutant.Declare([]mutant.Info{
		{Name: "lease-calls-without-reserve", Says: "calls about leases wait for the connections of handlers"},
		{Name: "retired-run-keeps-connection", Says: "a transaction keeps its connection for as long as its handler hangs"},
		{Name: "connection-kept-after-rollback", Says: "a transaction that is rolled back keeps its connection"},
	}...)
}
