package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/internal/bench"
	"github.com/relaybus-go/relaybus/internal/testdb"
)

// BenchmarkGoals measures what docs/performance.md promises, on the server that
// RELAYBUS_DATABASE_URL names or else one of its own, and prints goal, figure, and whether it is met. A goal that is
// missed does not fail it: figures of a busy machine are no verdict. A run
// that is not valid does.
func BenchmarkGoals(b *testing.B) {
	url := os.Getenv("RELAYBUS_DATABASE_URL")
	if url == "" {
		url = testdb.Durable(b).URL
	}
	g := &goals{b: b, url: url, table: tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)}
	g.buildWorker()
	g.ask()
	fmt.Fprintln(g.table, "what\tgoal\tfigure\tmet\t")
	g.dispatch()
	g.costs()
	g.publish()
	g.waits()
	g.hardCases()
	g.growth()
	if err := g.table.Flush(); err != nil {
		b.Fatal(err)
	}
}

type goals struct {
	b       *testing.B
	url     string
	durable bool // fsync and full_page_writes are on
	worker  []string
	table   *tabwriter.Writer
}

// buildWorker builds the command that worker processes are.
func (g *goals) buildWorker() {
	bin := filepath.Join(g.b.TempDir(), "relaybus")
	build := exec.Command("go", "build", "-o", bin, "./cmd/relaybus")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		g.b.Fatalf("building cmd/relaybus: %v\n%s", err, out)
	}
	g.worker = []string{bin, "bench", "-worker"}
}

// ask tells whether the server writes as one does that people rely on. Test
// servers leave out what only a crash would miss.
func (g *goals) ask() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, g.url)
	if err != nil {
		g.b.Fatal(err)
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, "select current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on'").Scan(&g.durable)
	if err != nil {
		g.b.Fatal(err)
	}
}

func (g *goals) skip(what string) {
	fmt.Fprintf(g.table, "%s\t\t\tnot measured: fsync or full_page_writes is off\t\n", what)
}

// run measures one scenario.
func (g *goals) run(o bench.Options) bench.Result {
	g.b.Helper()
	o.URL, o.Worker = g.url, g.worker
	r, err := bench.Run(context.Background(), o)
	if err != nil {
		g.b.Fatal(err)
	}
	if !r.Valid {
		g.b.Fatalf("%s: INVALID: %s", o.Scenario, strings.Join(r.Faults, "; "))
	}
	return r
}

func (g *goals) of(r bench.Result, name string) float64 {
	g.b.Helper()
	v, ok := r.Figure(name)
	if !ok {
		g.b.Fatalf("%s: no figure %q", r.Scenario, name)
	}
	return v
}

func (g *goals) atLeast(what string, goal, figure float64, unit string) {
	g.row(what, "≥ ", goal, figure, unit, figure >= goal)
}

func (g *goals) atMost(what string, goal, figure float64, unit string) {
	g.row(what, "≤ ", goal, figure, unit, figure <= goal)
}

func (g *goals) row(what, sign string, goal, figure float64, unit string, met bool) {
	answer := "met"
	if !met {
		answer = "NOT MET"
	}
	fmt.Fprintf(g.table, "%s\t%s%s %s\t%s %s\t%s\t\n", what, sign, bench.Format(goal), unit, bench.Format(figure), unit, answer)
	fmt.Fprintf(progress, "%-60s %10s %s\n", what, bench.Format(figure), unit)
}

// progress tells where a long run is.
var progress io.Writer = os.Stderr

func (g *goals) dispatch() {
	for _, c := range []struct {
		tuned bool
		name  string
		goal  float64
	}{{true, "dispatch, tuned, against River tuned", 3}, {false, "dispatch, defaults, against River's defaults", 1.5}} {
		n := 5_000
		if c.tuned {
			n = 50_000
		}
		two, err := compare(context.Background(), g.url, c.tuned, n, 3)
		if err != nil {
			g.b.Fatal(err)
		}
		g.atLeast(c.name, c.goal, two.ours/two.theirs, "×")
		fmt.Fprintf(progress, "  relaybus %s/s, River %s/s; WAL %s B, %s B\n", bench.Format(two.ours), bench.Format(two.theirs),
			bench.Format(two.walOurs), bench.Format(two.walTheirs))
	}
	r := g.run(bench.Options{Scenario: "dispatch", Tuned: true, Raw: true, Events: 50_000})
	g.atLeast("dispatch, tuned, against the raw loop", 0.8, g.of(r, "ratio"), "×")
}

func (g *goals) costs() {
	for _, c := range []struct {
		name                   string
		tuned                  bool
		images, bare, perEvent float64
	}{{"tuned", true, 200, 100, 0.02}, {"defaults", false, 300, 150, 0.1}} {
		r := g.run(bench.Options{Scenario: "dispatch", Tuned: c.tuned, Rounds: 1, Events: 100_000})
		if what := "WAL per delivery, " + c.name + ", with full-page images"; g.durable {
			g.atMost(what, c.images, g.of(r, "WAL per delivery"), "B")
		} else {
			g.skip(what)
		}
		if _, ok := r.Figure("WAL per delivery without full-page images"); ok {
			g.atMost("WAL per delivery, "+c.name+", without", c.bare, g.of(r, "WAL per delivery without full-page images"), "B")
		}
		g.atMost("statements per delivery, "+c.name, c.perEvent, g.of(r, "statements per delivery"), "")
		g.atMost("updates of delivery rows, "+c.name, 0, g.of(r, "updates of delivery rows"), "")
		g.atLeast("lane updates that are HOT, "+c.name, 99, g.of(r, "lane updates that are HOT"), "%")
	}
}

func (g *goals) publish() {
	r := g.run(bench.Options{Scenario: "publish"})
	for _, c := range []struct {
		name string
		goal float64
	}{
		{"1 against two inserts", 1.5}, {"1 against one statement", 0.9},
		{"100 without keys", 0.8}, {"100 with keys", 0.75}, {"10,000 without keys", 0.95}, {"10,000 with keys", 0.9},
	} {
		g.atLeast("publish, "+c.name, c.goal, g.of(r, c.name+": ratio"), "×")
	}
}

func (g *goals) waits() {
	r := g.run(bench.Options{Scenario: "latency", Window: 5 * time.Second})
	g.atMost("commit to handler start, p50", 5, g.of(r, "p50"), "ms")
	g.atMost("commit to handler start, p99", 25, g.of(r, "p99"), "ms")
	fmt.Fprintf(progress, "  published %s/s\n", bench.Format(g.of(r, "published")))
	r = g.run(bench.Options{Scenario: "idle"})
	g.atMost("idle worker", 2, g.of(r, "statements per second"), "statements/s")
}

func (g *goals) hardCases() {
	r := g.run(bench.Options{Scenario: "hotkey", Tuned: true, Rounds: 1})
	g.atLeast("one hot key 100,000 deep", 10_000, g.of(r, "one key"), "/s")
	r = g.run(bench.Options{Scenario: "blockedkey", Tuned: true, Rounds: 2})
	g.atLeast("beside a blocked key 100,000 deep", 0.5, g.of(r, "ratio"), "×")
	r = g.run(bench.Options{Scenario: "backlog", Tuned: true, Rounds: 1})
	g.atLeast("1,000,000 pending against 10,000", 0.67, g.of(r, "ratio"), "×")
	r = g.run(bench.Options{Scenario: "heldsnapshot", Tuned: true, Events: 50_000, Rounds: 2})
	g.atLeast("beside a held snapshot", 0.85, g.of(r, "ratio"), "×")
	const slow = "asynchronous against synchronous claims, slow flush"
	if !g.durable {
		g.skip(slow)
		return
	}
	r = g.run(bench.Options{Scenario: "slowflush", Rounds: 2})
	g.atLeast(slow, 1.5, g.of(r, "ratio"), "×")
}

func (g *goals) growth() {
	best := 0.0
	for _, n := range []int{1, 2, 4, 8} {
		r := g.run(bench.Options{Scenario: "dispatch", Tuned: true, Processes: n, Rounds: 1, Events: 50_000})
		rate := g.of(r, "relaybus")
		if n > 1 {
			g.atLeast(fmt.Sprintf("%d processes against the best smaller number", n), 0.85, rate/best, "×")
		}
		best = max(best, rate)
	}
}
