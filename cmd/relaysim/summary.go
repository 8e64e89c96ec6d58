package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/internal/probe"
	"github.com/relaybus-go/relaybus/linearize"
	"github.com/relaybus-go/relaybus/sim"
)

// summary adds up the reports of a batch.
type summary struct {
	seeds, steps, deliveries, completed, dead int
	histories, calls, unknown                 int // recorded, with how many calls; not found out
	virtual, wall                             time.Duration
	fired, worked                             [64]int
}

func (t *summary) add(rep *sim.Report) {
	t.seeds++
	t.steps += rep.Steps
	t.deliveries += rep.Deliveries
	t.completed += rep.Completed
	t.dead += rep.Dead
	t.virtual += rep.Virtual
	t.wall += rep.Wall
	if h := rep.History; h != nil {
		t.histories++
		t.calls += h.Calls
		if h.Status() == linearize.Unknown {
			t.unknown++
		}
	}
	for _, f := range rep.Faults {
		i := faults.Index(f.Kind)
		t.fired[i] += f.Fired
		t.worked[i] += f.Worked
	}
}

// print prints the totals.
func (t *summary) print(w io.Writer, real time.Duration) {
	fmt.Fprintf(w, "%d seeds clean: %d steps, %d deliveries (%d completed, %d dead)\n", t.seeds, t.steps, t.deliveries, t.completed, t.dead)
	micros := max(real.Microseconds(), 1)
	fmt.Fprintf(w, "%d seeds/s, %d steps a seed, %d virtual seconds per second and core\n",
		int64(t.seeds)*1_000_000/micros, t.steps/max(t.seeds, 1), int64(t.virtual)/max(int64(t.wall), 1))
	fmt.Fprintf(w, "%d histories judged: %d calls, %d unknown\n", t.histories, t.calls, t.unknown)
	var struck []string
	for i, k := range faults.All() {
		if t.fired[i] > 0 || t.worked[i] > 0 {
			struck = append(struck, fmt.Sprintf("%s %d/%d", k.Name, t.worked[i], t.fired[i]))
		}
	}
	fmt.Fprintf(w, "faults that changed something / fired: %s\n", strings.Join(struck, ", "))
	printReached(w, probe.Counts())
}
