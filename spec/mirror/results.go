package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// record is what a twin needs of a line of results.json, which holds TLC's own
// figures (go run ./spec/tlc -write).
type record struct {
	Module   string `json:"module"`
	Config   string `json:"config"`
	Distinct int    `json:"distinct"`
	Depth    int    `json:"depth"`
}

// recorded puts TLC's recorded figures in place of those that somebody wrote
// into suite.txt. Without a results.json there are none.
func recorded(dir string, entries []Entry) error {
	text, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var records []record
	if err := json.Unmarshal(text, &records); err != nil {
		return fmt.Errorf("results.json: %w", err)
	}
	for i := range entries {
		for _, r := range records {
			if r.Module == entries[i].Module && r.Config == entries[i].Config {
				entries[i].put(r)
			}
		}
	}
	return nil
}

// put takes the figures over. Of a search that ended with a violation only the
// depth says something: how many states TLC had seen by then depends on its
// order.
func (e *Entry) put(r record) {
	e.Depth = r.Depth
	if e.Expect == Pass {
		e.Distinct = r.Distinct
	}
}
