package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

// record is what results.json keeps of a run.
type record struct {
	Module string `json:"module"`
	Config string `json:"config"`
	// Sha256 of the names and texts of the module and of every module of the
	// folder that it extends or instantiates.
	ModuleSHA256 string `json:"moduleSHA256"`
	ConfigSHA256 string `json:"configSHA256"`
	TLC          string `json:"tlc"`
	Generated    int64  `json:"generated"`
	Distinct     int64  `json:"distinct"`
	Depth        int64  `json:"depth"`
	Verdict      string `json:"verdict"`
	// Seconds that TLC took, Java's start included, and generated states per
	// second: what the machine of that day did.
	Seconds         float64 `json:"seconds"`
	StatesPerSecond int64   `json:"statesPerSecond"`
	Date            string  `json:"date"`
	Commit          string  `json:"commit"`
}

func (r *record) name() string { return r.Module + "/" + r.Config }

func resultsFile(dir string) string { return filepath.Join(dir, "results.json") }

// readResults reads results.json; a folder without one has no records.
func readResults(dir string) ([]record, error) {
	text, err := os.ReadFile(resultsFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var records []record
	if err := json.Unmarshal(text, &records); err != nil {
		return nil, fmt.Errorf("%s: %w", resultsFile(dir), err)
	}
	return records, nil
}

// writeResults puts new records in place of the old ones of their configs, in
// the order of the suite, one a line; what the suite no longer lists goes.
func writeResults(dir string, suite []entry, fresh []record) error {
	old, err := readResults(dir)
	if err != nil {
		return err
	}
	latest := map[string]record{}
	for _, r := range append(old, fresh...) {
		latest[r.name()] = r
	}
	var lines [][]byte
	for i := range suite {
		if r, ok := latest[suite[i].name()]; ok {
			line, err := json.Marshal(r)
			if err != nil {
				return err
			}
			lines = append(lines, line)
		}
	}
	text := "[\n" + string(bytes.Join(lines, []byte(",\n"))) + "\n]\n"
	return os.WriteFile(resultsFile(dir), []byte(text), 0o666)
}

// record is the record of a run that ended as expected.
func (r *result) record(commit string) record {
	o := r.outcome
	return record{
		Module: r.module, Config: r.config, ModuleSHA256: r.files.module, ConfigSHA256: r.files.config,
		TLC: o.Version, Generated: o.Generated, Distinct: o.Distinct, Depth: int64(o.Depth), Verdict: r.verdict,
		Seconds:         float64(o.Wall.Milliseconds()) / 1000,
		StatesPerSecond: int64(float64(o.Generated) / max(o.Wall.Seconds(), 0.001)),
		Date:            time.Now().UTC().Format(time.DateOnly),
		Commit:          commit,
	}
}

// sums are the sha256 of an entry's module, with all that it extends, and of
// its config.
type sums struct{ module, config string }

func sumsOf(dir string, e *entry) (s sums, err error) {
	files, err := tlc.Closure(dir, e.module)
	if err != nil {
		return s, err
	}
	if s.module, err = tlc.Sum(files); err != nil {
		return s, err
	}
	s.config, err = tlc.Sum([]string{filepath.Join(dir, e.config+".cfg")})
	return s, err
}

// stale says what is wrong with the records of a suite: a small config without
// one, one of files that have changed since, one that is not as the suite
// expects. A large config that was not run yet is no mistake: the table in
// CORRECTNESS.md counts it as not run.
func stale(dir string, suite []entry, records []record) []string {
	byName := map[string]record{}
	for _, r := range records {
		byName[r.name()] = r
	}
	var complaints []string
	for i := range suite {
		e := &suite[i]
		r, ok := byName[e.name()]
		delete(byName, e.name())
		if why := e.outdated(dir, r, ok); why != "" {
			complaints = append(complaints, fmt.Sprintf("%s: %s; run go run ./spec/tlc -write %s", e.name(), why, e.name()))
		}
	}
	for _, r := range records {
		if _, left := byName[r.name()]; left {
			complaints = append(complaints, r.name()+": has a record, but no line of suite.txt")
		}
	}
	return complaints
}

func (e *entry) outdated(dir string, r record, ok bool) string {
	switch {
	case !ok && e.large:
		return ""
	case !ok:
		return "has no record in results.json"
	}
	files, err := sumsOf(dir, e)
	switch {
	case err != nil:
		return err.Error()
	case r.ModuleSHA256 != files.module:
		return e.module + ".tla, or a module that it extends, has changed since its record was made"
	case r.ConfigSHA256 != files.config:
		return e.config + ".cfg has changed since its record was made"
	case r.Verdict != e.expect || e.distinct >= 0 && r.Distinct != e.distinct || e.depth >= 0 && r.Depth != e.depth:
		return fmt.Sprintf("the record has %s, %d distinct, depth %d, which is not what suite.txt expects", r.Verdict, r.Distinct, r.Depth)
	}
	return ""
}

// commitOf names the commit of a folder, with a + when what lies in the folder
// differs from it, or "" where there is no git.
func commitOf(dir string) string {
	head, err := exec.Command("git", "-C", dir, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return ""
	}
	commit := strings.TrimSpace(string(head))
	if exec.Command("git", "-C", dir, "diff", "--quiet", "HEAD", "--", ".", ":!results.json").Run() != nil {
		commit += "+"
	}
	return commit
}
