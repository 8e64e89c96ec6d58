package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// format is the version of traces that can be read.
const format = 1

// header is the first line of a trace.
type header struct {
	Format    int    `json:"format"`
	Semantics string `json:"semantics"` // "locking" or "snapshot"
	Lanes     int32  `json:"lanes"`     // of a group
	Seed      uint64 `json:"seed"`
}

// trace is what one run's store did.
type trace struct {
	header
	file   string
	events []*event
}

// event is a line of a trace: an action that the store committed, or evaluated
// and changed nothing by; or a crash or failover of the store.
type event struct {
	line     int
	action   string
	position int64 // of the commit; 0: evaluated; StoreCrash: the last one left
	args     map[string]any
	// keep: the store as this event leaves it is asked for later, by an action
	// that was decided on what it read here, or by a crash.
	keep bool
}

// storeCrash stands in a trace for a crash or failover of the store.
const storeCrash = "StoreCrash"

// files lists the traces of the arguments, which are files or folders.
func files(arguments []string) ([]string, error) {
	var found []string
	for _, argument := range arguments {
		info, err := os.Stat(argument)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s is neither a trace nor a folder of traces", argument)
		case !info.IsDir():
			found = append(found, argument)
			continue
		}
		inside, err := filepath.Glob(filepath.Join(argument, "*.ndjson"))
		if err != nil || len(inside) == 0 {
			return nil, fmt.Errorf("%s holds no traces (*.ndjson): write some with relaysim -seeds N -trace %s", argument, argument)
		}
		found = append(found, inside...)
	}
	return found, nil
}

// readTrace reads a trace, at most so many events of it; 0 means all. A prefix
// of a trace is one.
func readTrace(file string, most int) (*trace, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	t := &trace{file: file}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 64<<20)
	number := 0
	for lines.Scan() && (most == 0 || len(t.events) < most) {
		number++
		if err := t.add(number, lines.Bytes()); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(t.events) == 0 {
		return nil, fmt.Errorf("%s holds no events", file)
	}
	t.mark()
	return t, nil
}

func (t *trace) add(number int, line []byte) error {
	if number == 1 {
		return t.head(line)
	}
	var read struct {
		Action   string
		Position *int64
		Args     map[string]any
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&read); err != nil {
		return fmt.Errorf("is no JSON object: %w", err)
	}
	if read.Position == nil {
		return errors.New("has no position")
	}
	if _, known := shapes[read.Action]; !known {
		return fmt.Errorf("action %q is none of the protocol's", read.Action)
	}
	e := &event{line: number, action: read.Action, position: *read.Position, args: read.Args}
	t.events = append(t.events, e)
	return nil
}

func (t *trace) head(line []byte) error {
	if err := json.Unmarshal(line, &t.header); err != nil || t.Format == 0 {
		return errors.New("is no header of a trace: want format, semantics, lanes and seed")
	}
	switch {
	case t.Format != format:
		return fmt.Errorf("has format %d, and this program reads format %d", t.Format, format)
	case t.Semantics != "locking" && t.Semantics != "snapshot":
		return fmt.Errorf("semantics is %q: want locking or snapshot", t.Semantics)
	case t.Lanes < 1:
		return fmt.Errorf("lanes is %d: want 1 or more", t.Lanes)
	}
	return nil
}

// mark finds the stores that later events refer to by their commit position.
// Commits without an action of the protocol have a position and no event. A
// crash takes positions back, and they are then issued again.
func (t *trace) mark() {
	var last []*event // the last event of each position that has one
	upTo := func(position int64) int {
		n := len(last)
		for n > 0 && last[n-1].position > position {
			n--
		}
		return n
	}
	want := func(position int64) {
		if n := upTo(position); n > 0 {
			last[n-1].keep = true
		}
	}
	for _, e := range t.events {
		if seen, ok := e.args["Seen"].(json.Number); ok && seen != "0" {
			position, _ := seen.Int64()
			want(position)
			if e.action == "CompleteMany" { // judged in any store from there on
				for _, later := range last[upTo(position):] {
					later.keep = true
				}
			}
		}
		switch n := len(last); {
		case e.action == storeCrash:
			want(e.position)
			last = last[:upTo(e.position)]
		case e.position == 0:
		case n > 0 && last[n-1].position == e.position:
			last[n-1] = e
		default:
			last = append(last, e)
		}
	}
}

// String names a trace in reports.
func (t *trace) String() string { return t.file }

// group is what the traces of one run of TLC have in common: these are
// constants of the modules.
type group struct {
	semantics string
	lanes     int32
}

// batches sorts traces into groups and cuts each into pieces.
func batches(traces []*trace, size int) [][]*trace {
	byGroup := map[group][]*trace{}
	for _, t := range traces {
		g := group{t.Semantics, t.Lanes}
		byGroup[g] = append(byGroup[g], t)
	}
	groups := slices.SortedFunc(maps.Keys(byGroup), func(a, b group) int {
		if c := strings.Compare(a.semantics, b.semantics); c != 0 {
			return c
		}
		return int(a.lanes - b.lanes)
	})
	var all [][]*trace
	for _, g := range groups {
		all = slices.AppendSeq(all, slices.Chunk(byGroup[g], size))
	}
	return all
}
