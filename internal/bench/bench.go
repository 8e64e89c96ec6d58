// Package bench measures relaybus on PostgreSQL: the scenarios of `relaybus
// bench`, and the comparison in bench/river.
//
// A run works in a schema of its own, which it drops at the end. It checks
// what it measured: every event published was handled exactly once and, per
// key, in order; a run in which that does not hold is not [Result.Valid].
// Absolute figures of a shared machine say little. Ratios of pairs that were
// interleaved in one run, bytes and statements say more.
package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Options say what to measure.
type Options struct {
	// URL connects to the database. WAL figures are the whole server's: other
	// work on it makes them too high.
	URL string
	// Scenario is one of [Scenarios].
	Scenario string
	// Events is how many events a scenario publishes; 0: its own default.
	Events int
	// Window is how long the scenarios with a rate or a wait run; default 10 s.
	Window time.Duration
	// Processes is how many worker processes share the work; default 1. More
	// need Worker.
	Processes int
	// Worker is the command, with arguments, that runs [Serve].
	Worker []string
	// Tuned takes larger claims than the default configuration.
	Tuned bool
	// Raw interleaves the bare loop of the full protocol (dispatch only).
	Raw bool
	// Rounds is how often each side of a pair is measured; default 3.
	Rounds int
}

// Scenarios are the names that [Run] knows, each with what it measures.
var Scenarios = map[string]string{
	"dispatch":     "a backlog without keys, handlers that do nothing",
	"publish":      "publishing against bare inserts",
	"mixed":        "publishing and dispatch at once",
	"latency":      "from commit to the start of the handler at 1,000 events/s",
	"hotkey":       "a backlog of one key",
	"blockedkey":   "a key whose head backs off, beside others of its lane",
	"backlog":      "a deep backlog against one of 10,000",
	"heldsnapshot": "dispatch while another session holds an old snapshot",
	"slowflush":    "asynchronous against synchronous claims on a slow disk",
	"idle":         "a worker without work",
}

// Validate reports the first option that cannot work.
func (o Options) Validate() error {
	switch {
	case o.URL == "":
		return fmt.Errorf("bench: no database: give --database-url or set RELAYBUS_DATABASE_URL")
	case Scenarios[o.Scenario] == "":
		return fmt.Errorf("bench: no scenario %q: there are %s", o.Scenario, strings.Join(names(), ", "))
	case o.Events < 0 || o.Events > 10_000_000:
		return fmt.Errorf("bench: %d events: give 1 to 10,000,000", o.Events)
	case o.Processes < 0 || o.Processes > 64:
		return fmt.Errorf("bench: %d processes: give 1 to 64", o.Processes)
	case o.Processes > 1 && o.Scenario != "dispatch" && o.Scenario != "hotkey":
		return fmt.Errorf("bench: scenario %s runs in one process: leave --processes out", o.Scenario)
	case o.Raw && o.Scenario != "dispatch":
		return fmt.Errorf("bench: the raw loop stands against scenario dispatch alone")
	case o.Rounds < 0 || o.Rounds > 100:
		return fmt.Errorf("bench: %d rounds: give 1 to 100", o.Rounds)
	case o.Window < 0 || o.Window > time.Hour:
		return fmt.Errorf("bench: a window of %v: give up to 1h", o.Window)
	}
	return nil
}

func names() []string {
	list := make([]string, 0, len(Scenarios))
	for name := range Scenarios {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func (o Options) withDefaults() Options {
	if o.Window == 0 {
		o.Window = 10 * time.Second
	}
	o.Processes = max(o.Processes, 1)
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	return o
}

// events returns how many events to publish.
func (o Options) events(otherwise int) int {
	if o.Events > 0 {
		return o.Events
	}
	return otherwise
}

// Result is what a run found.
type Result struct {
	Scenario string   `json:"scenario"`
	Valid    bool     `json:"valid"`
	Faults   []string `json:"faults,omitempty"` // what makes it invalid
	Figures  []Figure `json:"figures"`
}

// Figure is one number with its unit.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

func (r *Result) add(name string, value float64, unit string) {
	r.Figures = append(r.Figures, Figure{name, value, unit})
}

func (r *Result) fault(format string, args ...any) {
	r.Valid = false
	r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
}

// Figure returns the value of a figure, and whether there is one.
func (r *Result) Figure(name string) (float64, bool) {
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return 0, false
	}
	return r.Figures[i].Value, true
}

// Run measures a scenario.
func Run(ctx context.Context, o Options) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	o = o.withDefaults()
	admin, err := pgxpool.New(ctx, o.URL)
	if err != nil {
		return Result{}, fmt.Errorf("bench: %w", err)
	}
	defer admin.Close()
	run := &run{o: o, admin: admin, result: Result{Scenario: o.Scenario, Valid: true}}
	err = run.scenario(ctx)
	return run.result, err
}

// Median returns the upper median, 0 of nothing.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// percentile returns the p-th percentile of durations, which it sorts.
func percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)-1, len(values)*p/100)]
}

// Format prints a value with three or more significant digits.
func Format(v float64) string {
	switch {
	case v == 0 || v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}
