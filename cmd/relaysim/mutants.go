package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/internal/mutant"
	"github.com/relaybus-go/relaybus/sim"
)

// hunt are the settings of the mutants subcommand.
type hunt struct {
	seeds  int
	enough int
	faults string
	only   string
	shrink bool
	direct bool
	calls  bool
	corpus string

	options sim.Options
	infos   []mutant.Info
}

func (h *hunt) parse(args []string, stderr io.Writer) (code int, ok bool) {
	f := flag.NewFlagSet("relaysim mutants", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.IntVar(&h.seeds, "seeds", 400, "how many `seeds` to run for each mutant; one that failed less than 5 times by then gets up to 10 times as many")
	f.IntVar(&h.enough, "enough", 40, "after how many failures a mutant is known well enough")
	f.StringVar(&h.faults, "faults", "all", "the fault `kinds`")
	f.StringVar(&h.only, "only", "", "run these mutants only: a `list` of names")
	f.BoolVar(&h.shrink, "shrink", false, "reduce the first failure of each mutant and print its length")
	f.BoolVar(&h.direct, "direct", false, "leave the lock-step model out: what do the direct checkers see alone?")
	f.BoolVar(&h.calls, "histories", false, "judge nothing but the history of calls, of every seed: what does it see alone?")
	f.StringVar(&h.corpus, "corpus", "", "write the reduced failure of each mutant as a schedule into this `folder`")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stderr, "usage: relaysim mutants [flags]\n\nruns the planted bugs one after another; every one must be caught")
			f.SetOutput(stderr)
			f.PrintDefaults()
			return exitClean, false
		}
		return fail(stderr, "mutants: %v; -h lists the flags", err), false
	}
	if f.NArg() > 0 {
		return fail(stderr, "mutants: unexpected argument %q", f.Arg(0)), false
	}
	if h.seeds < 1 || h.seeds > 1<<24 || h.enough < 1 || h.enough > 1<<30 {
		return fail(stderr, "mutants: -seeds is %d and -enough is %d: want numbers from 1", h.seeds, h.enough), false
	}
	set, err := faults.Parse(h.faults)
	if err != nil {
		return fail(stderr, "mutants: -faults: %v", err), false
	}
	h.options = sim.Options{Faults: set, Blind: h.direct, HistoryAlone: h.calls}
	h.shrink = h.shrink || h.corpus != ""
	if !mutant.Enabled {
		return exitClean, true // the build that knows them chooses
	}
	if err := h.choose(); err != nil {
		return fail(stderr, "mutants: -only: %v", err), false
	}
	return exitClean, true
}

// choose selects the mutants to run.
func (h *hunt) choose() error {
	all := mutant.All()
	if h.only == "" {
		h.infos = all
		return nil
	}
	for _, name := range strings.Split(h.only, ",") {
		i := slices.IndexFunc(all, func(m mutant.Info) bool { return string(m.Name) == strings.TrimSpace(name) })
		if i < 0 {
			return fmt.Errorf("unknown mutant %q", name)
		}
		h.infos = append(h.infos, all[i])
	}
	return nil
}

func runMutants(args []string, stdout, stderr io.Writer) int {
	h := &hunt{}
	if code, ok := h.parse(args, stderr); !ok {
		return code
	}
	if !mutant.Enabled {
		return rebuilt(append([]string{"mutants"}, args...), stdout, stderr)
	}
	began := time.Now()
	survivors := 0
	fmt.Fprintf(stdout, "%-44s %-8s %6s %6s %7s %6s %6s", "mutant", "", "seeds", "failed", "p", "median", "p95")
	if h.shrink {
		fmt.Fprintf(stdout, " %6s", "shrunk")
	}
	fmt.Fprintln(stdout, "  checkers")
	for _, info := range h.infos {
		c := h.chase(info)
		c.print(stdout, h)
		if c.err != nil {
			return fail(stderr, "mutants: -corpus: %v", c.err)
		}
		if c.failed == 0 {
			survivors++
			fmt.Fprintf(stdout, "  %s\n", info.Says)
		}
	}
	fmt.Fprintf(stdout, "%d mutants, %d survived, %d s\n", len(h.infos), survivors, time.Since(began)/time.Second)
	if survivors > 0 {
		return exitUnsafe
	}
	return exitClean
}

// chased is what became of one mutant.
type chased struct {
	name          mutant.Name
	seeds, failed int
	checkers      []fired
	first         sim.Report
	shrunk        int
	err           error
}

// fired counts the failures that one checker found.
type fired struct {
	name  string
	times int
}

// A mutant that fails rarely gets more seeds, until there are fewFailures to
// tell how rarely, but at most patience times as many.
const (
	fewFailures = 5
	patience    = 10
)

// chase runs seeds with the mutant planted, until it failed often enough to
// know how often it fails.
func (h *hunt) chase(info mutant.Info) chased {
	mutant.Select(info.Name)
	defer mutant.Select("")
	c := chased{name: info.Name}
	sim.Many(h.options, sim.Batch{First: 1, Seeds: patience * h.seeds}, func(rep sim.Report) bool {
		c.seeds++
		if rep.Violation != nil {
			if c.failed++; c.failed == 1 {
				c.first = rep
			}
			c.count(rep.Violation)
		}
		few := min(fewFailures, h.enough)
		return c.failed < h.enough && (c.seeds < h.seeds || c.failed < few)
	})
	if h.shrink && c.failed > 0 {
		o := h.options
		o.Seed = c.first.Seed
		c.shrunk = -1
		if small, ok := sim.Shrink(o, c.first); ok {
			c.shrunk = len(small.Schedule.Choices)
			c.err = h.keep(info, small.Schedule)
		}
	}
	return c
}

// keep writes a reduced failure into the corpus.
func (h *hunt) keep(info mutant.Info, s sim.Schedule) error {
	if h.corpus == "" {
		return nil
	}
	s.Mutant, s.Story = string(info.Name), info.Says
	if err := os.MkdirAll(h.corpus, 0o777); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(h.corpus, string(info.Name)+scheduleSuffix), []byte(s.String()), 0o666)
}

func (c *chased) count(v *sim.Violation) {
	name := v.Checker
	if v.Invariant != v.Checker {
		name += "/" + v.Invariant
	}
	for i := range c.checkers {
		if c.checkers[i].name == name {
			c.checkers[i].times++
			return
		}
	}
	c.checkers = append(c.checkers, fired{name, 1})
}

// print prints the mutant's line. With p the share of seeds that fail, the
// median number of seeds to the first failure is ln 2 / p, and 95 of 100 need
// at most ln 20 / p.
func (c *chased) print(w io.Writer, h *hunt) {
	if c.failed == 0 {
		fmt.Fprintf(w, "%-44s %-8s %6d %6d\n", c.name, "SURVIVED", c.seeds, 0)
		return
	}
	share := c.failed * 1000 / c.seeds
	fmt.Fprintf(w, "%-44s %-8s %6d %6d %4d.%d%% %6d %6d", c.name, "caught", c.seeds, c.failed,
		share/10, share%10, seedsFor(693, c), seedsFor(2996, c))
	if h.shrink {
		fmt.Fprintf(w, " %6d", c.shrunk)
	}
	sort.SliceStable(c.checkers, func(i, j int) bool { return c.checkers[i].times > c.checkers[j].times })
	for i, f := range c.checkers[:min(3, len(c.checkers))] {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, "  %s %d", f.name, f.times)
	}
	fmt.Fprintln(w)
}

// seedsFor returns thousandths / p, rounded up, at least 1.
func seedsFor(thousandths int, c *chased) int {
	return max(1, (thousandths*c.seeds+1000*c.failed-1)/(1000*c.failed))
}
