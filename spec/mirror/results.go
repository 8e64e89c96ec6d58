package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

// record is what a twin needs of a line of results.json, which holds TLC's own
// figures (go run ./spec/tlc -write).
type record struct {
	Module       string `json:"module"`
	Config       string `json:"config"`
	ModuleSHA256 string `json:"moduleSHA256"`
	ConfigSHA256 string `json:"configSHA256"`
	Distinct     int    `json:"distinct"`
	Depth        int    `json:"depth"`
}

// recorded puts TLC's recorded figures in place of those that somebody wrote
// into suite.txt. Without a results.json there are none; those of files that
// have changed since say nothing.
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
	byName := map[string]record{}
	for _, r := range records {
		byName[r.Module+"/"+r.Config] = r
	}
	for i := range entries {
		if r, ok := byName[entries[i].Name()]; ok {
			if err := entries[i].put(dir, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// put takes the figures of a record over, if it was made of the files as they
// are. Of a search that ended with a violation only the depth says something:
// how many states TLC had seen by then depends on its order.
func (e *Entry) put(dir string, r record) error {
	files, err := tlc.Closure(dir, e.Module)
	if err != nil {
		return err
	}
	module, err := tlc.Sum(files)
	if err != nil {
		return err
	}
	config, err := tlc.Sum([]string{filepath.Join(dir, e.Config+".cfg")})
	if err != nil || module != r.ModuleSHA256 || config != r.ConfigSHA256 {
		return err
	}
	e.Depth = r.Depth
	if e.Expect == Pass {
		e.Distinct = r.Distinct
	}
	return nil
}
