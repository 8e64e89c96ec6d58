package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/relaybus-go/relaybus/engine"
)

// Workload is a recorded workload: events in the order in which they were
// published.
type Workload struct {
	events []recordedEvent
	types  []string // sorted
}

// Len returns the number of events.
func (r *Workload) Len() int { return len(r.events) }

// recordedLine is one line of a workload file.
type recordedLine struct {
	At      *int64          `json:"at"` // Unix seconds
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Key     string          `json:"key"`
	Payload json.RawMessage `json:"payload"`
}

// longestPause is what a longer pause between two recorded events is cut to.
const longestPause = 10 * time.Second

// maxLine bounds a line: the largest payload, and room for the rest.
const maxLine = engine.MaxPayload + 64<<10

// ReadWorkload reads a workload: one JSON object a line, with at (Unix
// seconds), id, type, and optionally key and payload. An error names the line.
func ReadWorkload(r io.Reader) (*Workload, error) {
	loaded := &Workload{}
	seen := map[string]int{}
	types := map[string]bool{}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	number, last := 0, int64(0)
	for lines.Scan() {
		number++
		if len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		line, err := parseLine(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if first, ok := seen[line.ID]; ok {
			return nil, fmt.Errorf("line %d: id %q stands in line %d already", number, line.ID, first)
		}
		seen[line.ID] = number
		if !types[line.Type] {
			types[line.Type] = true
			loaded.types = append(loaded.types, line.Type)
		}
		if len(loaded.events) == 0 {
			last = *line.At
		}
		loaded.events = append(loaded.events, recordedEvent{
			pause:   pauseBetween(last, *line.At),
			message: engine.Message{ID: line.ID, Type: line.Type, Key: line.Key, Payload: []byte(line.Payload)},
		})
		last = *line.At
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, fmt.Errorf("line %d: longer than %d bytes", number+1, maxLine)
		}
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	if len(loaded.events) == 0 {
		return nil, errors.New("no events: want one JSON object a line, with at, id, type, and optionally key and payload")
	}
	sort.Strings(loaded.types)
	return loaded, nil
}

func parseLine(text []byte) (recordedLine, error) {
	var line recordedLine
	if err := json.Unmarshal(text, &line); err != nil {
		return line, fmt.Errorf("not a JSON object with at, id, type, key and payload: %w", err)
	}
	switch {
	case line.At == nil:
		return line, errors.New("at is missing: want Unix seconds, a whole number")
	case *line.At < 0 || *line.At > 1<<40:
		return line, fmt.Errorf("at is %d: want Unix seconds", *line.At)
	}
	for _, field := range []struct {
		name, text string
		limit      int
		needed     bool
	}{
		{"id", line.ID, engine.MaxID, true},
		{"type", line.Type, engine.MaxName, true},
		{"key", line.Key, engine.MaxKey, false},
	} {
		if err := checkField(field.name, field.text, field.limit, field.needed); err != nil {
			return line, err
		}
	}
	if len(line.Payload) > engine.MaxPayload {
		return line, fmt.Errorf("payload has %d bytes, at most %d are allowed", len(line.Payload), engine.MaxPayload)
	}
	return line, nil
}

func checkField(name, text string, limit int, needed bool) error {
	switch {
	case needed && text == "":
		return fmt.Errorf("%s is missing or empty", name)
	case len(text) > limit:
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", name, len(text), limit)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return fmt.Errorf("%s %q is not valid UTF-8 without NUL", name, text)
	}
	return nil
}

func pauseBetween(before, after int64) time.Duration {
	seconds := min(max(after-before, 0), int64(longestPause/time.Second))
	return time.Duration(seconds) * time.Second
}

// record prepares the world to publish a recorded workload, with two handlers
// for every type: a plain one and a transactional one.
func (w *world) record(recorded *Workload) {
	w.plan.recorded, w.plan.types = recorded.events, recorded.types
	w.plan.total = len(recorded.events)
	w.plan.index = make(map[string]int, len(recorded.events))
	for i := range recorded.events {
		w.plan.index[recorded.events[i].message.ID] = i
	}
	for i, name := range [...]string{"plain", "transactional"} {
		w.handlers = append(w.handlers, &handlerSpec{
			w: w, index: i, events: recorded.types, name: name,
			transactional: i == 1, maxAttempts: w.knobs.MaxAttempts,
		})
	}
	w.staff(1)
}
