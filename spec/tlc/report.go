package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

// status tells what is under way: on a terminal one line that changes, else a
// line per config that is done.
type status struct {
	terminal    bool
	total, made int
	running     []string
}

func (st *status) begin(s *settings, total int) {
	st.total, st.made = total, 0
	if file, ok := s.err.(*os.File); ok {
		info, err := file.Stat()
		st.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
}

func (st *status) started(s *settings, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.running = append(st.running, name)
	st.line(s)
}

func (st *status) done(s *settings, r *result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.made++
	st.running = slices.DeleteFunc(st.running, func(name string) bool { return name == r.Name() })
	if st.terminal {
		st.line(s)
		return
	}
	fmt.Fprintf(s.err, "%d/%d %s: %s in %s s\n", st.made, st.total, r.Name(), r.verdict, seconds(r.outcome.Wall))
}

const clearLine = "\r\x1b[K"

func (st *status) line(s *settings) {
	if st.terminal {
		fmt.Fprintf(s.err, "%s%d of %d done; running %s", clearLine, st.made, st.total, strings.Join(st.running, ", "))
	}
}

func (st *status) end(s *settings) {
	if st.terminal {
		fmt.Fprint(s.err, clearLine)
	}
}

// say prints a line of its own.
func (s *settings) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.terminal {
		fmt.Fprint(s.err, clearLine)
	}
	fmt.Fprintf(s.err, format+"\n", args...)
	s.status.line(s)
}

// report prints the table, what is not as expected, and a summary. It returns
// the number of configs that are not as expected.
func (s *settings) report(results []result) (bad int) {
	for i := range results {
		if r := &results[i]; r.wrong != "" {
			bad++
			fmt.Fprintf(s.out, "%s: %s\n", r.Name(), r.wrong)
			explain(s.out, r.outcome)
			fmt.Fprintln(s.out)
		}
	}
	if len(results) == 1 && bad == 0 && len(results[0].outcome.Trace) > 0 {
		explain(s.out, results[0].outcome)
		fmt.Fprintln(s.out)
	}
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "module\tconfig\texpected\tgot\tdistinct\tdepth\tseconds\t")
	for i := range results {
		r := &results[i]
		mark := ""
		if r.wrong != "" {
			mark = "<- " + r.wrong
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", r.Module, r.Config, r.Expect, r.verdict, r.outcome.Distinct, r.outcome.Depth, seconds(r.outcome.Wall), mark)
	}
	table.Flush()
	if bad > 0 {
		fmt.Fprintf(s.out, "%d of %d configs are not as expected\n", bad, len(results))
	} else {
		fmt.Fprintf(s.out, "all as expected: %d\n", len(results))
	}
	return bad
}

// explain prints TLC's complaint and the counterexample: a block per state with
// the action that led to it and what it changed.
func explain(w io.Writer, o *tlc.Outcome) {
	if o.Message != "" {
		fmt.Fprintln(w, indent(o.Message))
	}
	var before *tlc.State
	for i := range o.Trace {
		state := &o.Trace[i]
		action := state.Action
		if i == 0 {
			action = "initially"
		}
		fmt.Fprintf(w, "%3d. %s\n", i+1, action)
		for _, change := range tlc.Changes(before, state) {
			fmt.Fprintln(w, indent(change))
		}
		if state.Note != "" {
			fmt.Fprintf(w, "     (%s)\n", state.Note)
		}
		before = state
	}
}

func indent(text string) string { return "     " + strings.ReplaceAll(text, "\n", "\n     ") }
