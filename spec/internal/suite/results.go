package suite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

// Record is what results.json keeps of a run of TLC that ended as expected.
type Record struct {
	Module string `json:"module"`
	Config string `json:"config"`
	Sums
	TLC       string `json:"tlc"`
	Generated int64  `json:"generated"`
	Distinct  int64  `json:"distinct"`
	Depth     int    `json:"depth"`
	Verdict   string `json:"verdict"`
	// Seconds that TLC took, Java's start included, and generated states per
	// second: what the machine of that day did.
	Seconds         float64 `json:"seconds"`
	StatesPerSecond int64   `json:"statesPerSecond"`
	Date            string  `json:"date"`
	Commit          string  `json:"commit"`
}

// Sums are the sha256 of the names and texts of an entry's module, with every
// module of the folder that it extends or instantiates, and of its
// configuration.
type Sums struct {
	ModuleSHA256 string `json:"moduleSHA256"`
	ConfigSHA256 string `json:"configSHA256"`
}

// Sums computes the sums of the entry's files in the folder.
func (e *Entry) Sums(dir string) (s Sums, err error) {
	files, err := tlc.Closure(dir, e.Module)
	if err != nil {
		return s, err
	}
	if s.ModuleSHA256, err = tlc.Sum(files); err != nil {
		return s, err
	}
	s.ConfigSHA256, err = tlc.Sum([]string{e.configFile(dir)})
	return s, err
}

// Records are the records of results.json by the names of their entries.
type Records map[string]Record

func resultsFile(dir string) string { return filepath.Join(dir, "results.json") }

// ReadRecords reads results.json; a folder without one has no records.
func ReadRecords(dir string) (Records, error) {
	text, err := os.ReadFile(resultsFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return Records{}, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Record
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", resultsFile(dir), err)
	}
	records := Records{}
	for _, r := range list {
		records.Add(r)
	}
	return records, nil
}

// Add puts a record in place of an older one of its entry.
func (rs Records) Add(r Record) { rs[r.Module+"/"+r.Config] = r }

// Write writes results.json in the order of the suite, one record a line; what
// the suite no longer lists goes.
func (rs Records) Write(dir string, entries []Entry) error {
	var lines [][]byte
	for i := range entries {
		if r, ok := rs[entries[i].Name()]; ok {
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

// Stale says what is wrong with the records of a suite: a small configuration
// without one, one of files that have changed since, one that is not as the
// suite expects. A large one that was not run yet is no mistake: the table in
// CORRECTNESS.md counts it as not run.
func (rs Records) Stale(dir string, entries []Entry) []string {
	listed := map[string]bool{}
	var complaints []string
	for i := range entries {
		e := &entries[i]
		listed[e.Name()] = true
		if why := rs.outdated(dir, e); why != "" {
			complaints = append(complaints, fmt.Sprintf("%s: %s; run go run ./spec/tlc -write %s", e.Name(), why, e.Name()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rs)) {
		if !listed[name] {
			complaints = append(complaints, name+": has a record, but no line of suite.txt")
		}
	}
	return complaints
}

func (rs Records) outdated(dir string, e *Entry) string {
	r, ok := rs[e.Name()]
	switch {
	case !ok && e.Large:
		return ""
	case !ok:
		return "has no record in results.json"
	}
	files, err := e.Sums(dir)
	switch {
	case err != nil:
		return err.Error()
	case r.ModuleSHA256 != files.ModuleSHA256:
		return e.Module + ".tla, or a module that it extends, has changed since its record was made"
	case r.ConfigSHA256 != files.ConfigSHA256:
		return e.Config + ".cfg has changed since its record was made"
	case r.Verdict != e.Expect || e.Distinct >= 0 && r.Distinct != e.Distinct || e.Depth >= 0 && r.Depth != e.Depth:
		return fmt.Sprintf("the record has %s, %d distinct, depth %d, which is not what suite.txt expects", r.Verdict, r.Distinct, r.Depth)
	}
	return ""
}
