// Package faults holds the kinds of faults that the simulator injects. A kind
// says what it strikes, how often, and what it does in terms of [World]; the
// simulator gives the World and draws the choices, so the package has no
// randomness of its own. Faults never make a promise of the protocol
// unreachable, so every violation and every stall under them is a bug.
//
// Each kind has a file of its own, named like the kind, and spec/tla/faults.txt
// maps it to an action of the specification.
package faults

import (
	"fmt"
	"strings"
	"time"
)

// Target is what a kind strikes, and so when the simulator asks about it.
type Target uint8

// The targets. The first three are asked about at every tick, a fixed fraction
// of a lease; the others whenever the thing happens.
const (
	OnWorld     Target = iota // the store, or everything
	OnWorker                  // each worker
	OnLane                    // each lane
	OnMessage                 // each request of a worker to the store
	OnCommit                  // each COMMIT of a handler's transaction
	OnStatement               // each statement of the store
	OnRow                     // each delivery's row, once for its life
	OnRun                     // each start of a handler
	OnDelivery                // each (event, handler), once for its life
	OnBatch                   // each transaction of a publisher
)

// Kind is one kind of fault. Exactly one of the hooks is set, as Target says.
type Kind struct {
	// Name is how the kind is written in -faults and in schedules.
	Name string
	// Says explains it in one line.
	Says   string
	Target Target
	// Variants is the number of ways it can strike; hooks are given one of
	// them, from 1.
	Variants int
	// Rate is how often it strikes in 10,000 questions, at weight 1.
	Rate int

	// Strike is the hook of OnWorld, OnWorker and OnLane. at is the index of
	// the worker or lane. It reports whether anything changed.
	Strike func(w World, at, variant int) bool
	// Message is the hook of OnMessage and OnCommit.
	Message func(w World, variant int, f *Fate)
	// Statement is the hook of OnStatement and OnRow: the error the statement
	// raises, or nil when this statement cannot fail that way.
	Statement func(s Statement, variant int) error
	// Run is the hook of OnRun and OnDelivery.
	Run func(w World, variant int, b *Behaviour)
	// Batch is the hook of OnBatch.
	Batch func(variant int, p *Plan)
}

// World is what a fault can do. Methods that return a bool report whether
// anything changed.
type World interface {
	// Lease is the lease that workers ask for: the unit of most durations.
	Lease() time.Duration
	// Crash ends a worker's process at once; a new one starts after down.
	Crash(worker int, down time.Duration) bool
	// CrashAll ends every worker's process at the same instant.
	CrashAll(down time.Duration) bool
	// Orphan ends a worker's host in the middle of its next transaction: the
	// store is not told and keeps the transaction open. late waits for a
	// transaction that has completed its delivery.
	Orphan(worker int, down time.Duration, late bool) bool
	// Pause stops a worker's process for d. asleep stops its monotonic clock
	// too, as when a machine is suspended.
	Pause(worker int, d time.Duration, asleep bool) bool
	// Skew moves a worker's wall clock by jump and lets it gain drift
	// thousandths from now on.
	Skew(worker int, jump time.Duration, drift int) bool
	// Shutdown stops a worker in good order within grace; a new process
	// starts after down.
	Shutdown(worker int, grace, down time.Duration) bool
	// Deploy replaces a worker by one with another set of handlers.
	Deploy(worker, variant int) bool
	// Leap moves the store's clock to past after the end of the lane's lease.
	Leap(lane int, past time.Duration) bool
	// LeapAll moves the store's clock to the end of every lease.
	LeapAll()
	// LeapDuring moves the store's clock past the lease of the lane of the next
	// run of a transactional handler: while its body is at work, or while its
	// COMMIT is on its way. Everybody is told that there may be work.
	LeapDuring(commit bool)
	// Land moves the store's clock to beside an edge, at the first statement
	// that compares the clock with it and for which it lies ahead.
	Land(edge Edge, beside time.Duration)
	// Hint tells every worker that there may be work.
	Hint()
	// CrashStore ends the store's process, which comes back after down. Of
	// the commits that it acknowledged before they were durable it loses
	// lost thousandths, the newest.
	CrashStore(lost int, down time.Duration) bool
	// FailOver makes a replica the store that lacks the newest commits,
	// durable or not, when the moment comes.
	FailOver(missing int, after Moment) bool
	// Outage cuts every worker from the store for d. silent lets requests
	// time out instead of failing at once.
	Outage(d time.Duration, silent bool) bool
	// Partition cuts one worker from the store for d, as Outage does all.
	Partition(worker int, d time.Duration, silent bool) bool
	// Reset breaks a worker's connections: what they carry fails, and the
	// store rolls their open transactions back.
	Reset(worker int) bool
	// Exhaust makes a worker's calls wait for a connection for d.
	Exhaust(worker int, d time.Duration) bool
	// Requeue brings back up to n dead letters.
	Requeue(n int) bool
	// Purge deletes what is older than so many quarters of a lease.
	Purge(quarters int) bool
	// Unsubscribe removes one of the handlers for good, and buries or deletes
	// what is pending for it, as soon as one of its runs is under way.
	Unsubscribe(handler int, bury bool) bool
}

// Edge is an instant at which the store's answer changes.
type Edge uint8

// The edges.
const (
	Expiry    Edge = iota // the end of a lease, for a claim of another worker
	Due                   // a delivery becomes available, for its lane's holder
	TooLate               // a claim's not-after
	OldEnough             // a dead letter reaches the age at which it is purged
	Edges                 // how many there are
)

// Moment is when a fault strikes that waits for the store to do something.
type Moment uint8

// The moments.
const (
	AtOnce          Moment = iota
	AfterCompletion        // a completion was committed and acknowledged
	AfterHead              // so was that of a chain's head, with followers in flight
	AfterFailure           // a run was rescheduled or buried
	AfterClaim             // deliveries were granted
	// AfterFirstClaim: deliveries were granted by the first claim of a
	// process. All other processes die with the old store, so that theirs will
	// be first claims too.
	AfterFirstClaim
)

// Fate is what becomes of one request and its reply.
type Fate struct {
	// Request and Reply are added to the time either travels.
	Request, Reply time.Duration
	// LoseRequest: the store never sees it. LoseReply: the store serves it
	// and the answer is lost.
	LoseRequest, LoseReply bool
	// Silent: the client learns of a loss by its own timeout only. Otherwise
	// it sees its connection fail.
	Silent bool
	// Mute: for so long, the ends of runs that the client sends are lost.
	Mute time.Duration
	// GiveUp: the client sees its connection fail after this time, whatever
	// the store does; 0: it waits.
	GiveUp time.Duration
}

// Statement is one statement of the store about to run.
type Statement struct {
	Call string // the store's method, or "Tx"
	Step string // the statement within it
	// Refused counts the writes of its row that failed so far ([OnRow]).
	Refused int
}

// Behaviour is what a run of a handler does.
type Behaviour struct {
	Work   time.Duration // how long it takes
	Err    error         // what it returns
	Panic  bool          // it panics instead
	Poison bool          // it kills its worker
	Hang   bool          // it never returns
}

// Plan is what a publisher does with one transaction.
type Plan struct {
	Rollback bool // it rolls back, and publishes again in another transaction
	Again    int  // how many more times it publishes the same events
	Race     bool // another transaction publishes the same events at once
}

// Names returns the names of all kinds, sorted.
func Names() []string {
	names := make([]string, 0, len(kinds))
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return names
}

// All returns all kinds, sorted by name. The slice must not be changed.
func All() []*Kind { return kinds }

// kinds are sorted by name. Package variables of other files are initialised
// first, because this one depends on them.
var kinds = []*Kind{
	badrow,
	boundary,
	conflict,
	crash,
	deploy,
	duplicate,
	expire,
	failover,
	handlererror,
	handlerhang,
	handlerpanic,
	late,
	losecommit,
	losereply,
	orphan,
	outage,
	partition,
	pause,
	poison,
	pool,
	purge,
	racepublish,
	requeue,
	reset,
	restart,
	rollback,
	shutdown,
	skew,
	slowhandler,
	storecrash,
	timeout,
	unknowncommit,
	unsubscribe,
}

// Set is a set of kinds, by index in [All].
type Set uint64

// Has reports whether the kind with the index is in the set.
func (s Set) Has(i int) bool { return s&(1<<i) != 0 }

// With returns the set with the kind added.
func (s Set) With(i int) Set { return s | 1<<i }

// Without returns the set with the kind removed.
func (s Set) Without(i int) Set { return s &^ (1 << i) }

// Every returns the set of all kinds.
func Every() Set { return 1<<len(kinds) - 1 }

// String returns the form [Parse] reads: "all", "none" or names.
func (s Set) String() string {
	switch s {
	case 0:
		return "none"
	case Every():
		return "all"
	}
	var names []string
	for i, k := range kinds {
		if s.Has(i) {
			names = append(names, k.Name)
		}
	}
	return strings.Join(names, ",")
}

// Parse reads "all", "none" or a list of kinds separated by commas.
func Parse(list string) (Set, error) {
	switch strings.TrimSpace(list) {
	case "all":
		return Every(), nil
	case "none":
		return 0, nil
	}
	var set Set
	for _, name := range strings.Split(list, ",") {
		i := Index(strings.TrimSpace(name))
		if i < 0 {
			return 0, fmt.Errorf("unknown fault %q; the kinds are all, none, or any of %s",
				strings.TrimSpace(name), strings.Join(Names(), ", "))
		}
		set = set.With(i)
	}
	return set, nil
}

// Index returns the index of the named kind in [All], or -1.
func Index(name string) int {
	for i, k := range kinds {
		if k.Name == name {
			return i
		}
	}
	return -1
}
