// Package sim runs the real engine against simstore in virtual time and checks
// every promise of the protocol. A seed at a commit reproduces bit for bit, on
// any machine; that is what makes a failing seed a bug report.
//
// # How it runs
//
// One goroutine, one heap of events, one virtual clock. Whatever would block
// (a worker's store call, the store's execution of a request, a run of a
// handler, a publisher) is a task: a coroutine that gives control back at every
// wait. A store call is a message: its client waits for a reply, and the store
// serves the request as a task of its own, also when the client has given up.
// Workers run the engine's Dispatcher and execute, the code of production.
//
// # Choices
//
// All choice goes through one tape, and value 0 of every choice is the calm
// one: no fault, the base latency, the first option. A choice is named by what
// it decides (label, actor, occurrence) and not by its place in a random
// stream, so that a schedule, the short list of choices that were not calm,
// outlives changes of the code around it. Shrinking sets choices to zero.
//
// # What is checked
//
// The protocol's pure State and Ledger are stepped with every committed
// operation. Beside them stand direct checkers over what handlers and the
// store really did (check_*.go, each opening with what it does and does not
// verify), and, once the faults stop, a liveness phase in which a random part
// of the workers must drain everything.
//
// Of every 20th seed the history of calls, what clients asked the store and
// were told, is recorded and judged by package linearize after the run. The
// verdict is the same on every machine: the search is bounded by work, not by
// time.
//
// What it does not do: it does not run the engine's run.go (goroutines, timers,
// contexts), and it is only as true to PostgreSQL and MongoDB as simstore is.
package sim
