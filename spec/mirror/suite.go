package mirror

import (
	"fmt"
	"slices"
	"strings"

	"github.com/relaybus-go/relaybus/spec/internal/suite"
	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

// ReadSuite returns the lines of suite.txt in the folder that belong to modules
// with a twin and that the twin can explore. TLC's recorded figures stand in
// place of those that somebody wrote into suite.txt, unless their files have
// changed since.
func ReadSuite(dir string) ([]suite.Entry, error) {
	entries, err := suite.Read(dir)
	if err != nil {
		return nil, err
	}
	records, err := suite.ReadRecords(dir)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e suite.Entry) bool { return twins[e.Module] == nil || tlcOnly(&e) })
	for i := range entries {
		e := &entries[i]
		r, ok := records[e.Name()]
		if !ok {
			continue
		}
		sums, err := e.Sums(dir)
		if err != nil {
			return nil, err
		}
		if r.Sums == sums {
			put(e, &r)
		}
	}
	return entries, nil
}

// tlcOnly tells of configurations that the twin of their module cannot explore.
// A twin knows no future: Drains is a liveness property.
func tlcOnly(e *suite.Entry) bool {
	return strings.Contains(e.Config, "Drains")
}

// put takes the figures of a record over. Of a search that ended with a
// violation only the depth says something: how many states TLC had seen by then
// depends on its order.
func put(e *suite.Entry, r *suite.Record) {
	e.Depth = r.Depth
	if e.Expect == tlc.Pass {
		e.Distinct = r.Distinct
	}
}

// Run explores the twin with the entry's configuration from the folder, and
// keeps at most limit states.
func Run(dir string, e *suite.Entry, limit int) (Result, error) {
	twin, err := Of(e.Module)
	if err != nil {
		return Result{}, err
	}
	c, err := e.ReadConfig(dir)
	if err != nil {
		return Result{}, err
	}
	r, err := twin(c, limit)
	if err != nil {
		return r, fmt.Errorf("%s: %w", e.Name(), err)
	}
	return r, nil
}

// Verdict is what TLC would say: tlc.Pass, or the invariant that is violated.
func (r *Result) Verdict() string {
	if r.Violated == "" {
		return tlc.Pass
	}
	return r.Violated
}

// Differs says in what the twin's result is not what the entry says of TLC;
// empty when in nothing.
func (r *Result) Differs(e *suite.Entry) string {
	switch {
	case !r.Complete && r.Violated == "":
		return fmt.Sprintf("the twin stopped at %d states without an end", r.Distinct)
	case r.Verdict() != e.Expect:
		return fmt.Sprintf("the twin says %s, TLC %s", r.Verdict(), e.Expect)
	case e.Distinct >= 0 && int64(r.Distinct) != e.Distinct:
		return fmt.Sprintf("the twin has %d distinct states, TLC %d", r.Distinct, e.Distinct)
	case e.Depth >= 0 && r.Depth != e.Depth:
		return fmt.Sprintf("the twin's depth is %d, TLC's %d", r.Depth, e.Depth)
	}
	return ""
}
