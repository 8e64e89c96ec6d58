package sim

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
)

// scheduleFormat is the version of the text form of schedules.
const scheduleFormat = 1

// Schedule is a run as data: its knobs, and the choices that were not calm.
// It outlives changes of the simulator, because each choice is named by its
// meaning; choices that no longer apply are skipped and counted.
type Schedule struct {
	Seed    uint64
	Story   string // what a reader should know
	Checker string // who must fire when the mutant is on; "" for none
	Mutant  string // the planted bug that it shows; "" for none
	Knobs   Knobs
	Choices []Choice
	Unknown int // lines that name nothing known
}

// String returns the text form, which [ParseSchedule] reads.
func (s *Schedule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "format: %d\n", scheduleFormat)
	fmt.Fprintf(&b, "seed: %d\n", s.Seed)
	for _, h := range [...][2]string{{"story", s.Story}, {"checker", s.Checker}, {"mutant", s.Mutant}} {
		if h[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", h[0], strings.ReplaceAll(h[1], "\n", " "))
		}
	}
	fmt.Fprintf(&b, "knobs: %s\n", s.Knobs)
	fmt.Fprintf(&b, "faults: %s\n\n", s.Knobs.Faults)
	for _, c := range s.Choices {
		b.WriteString(c.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// String returns the choice as a line of a schedule.
func (c Choice) String() string {
	return c.Label.String() + " " + actorText(c.Label, int(c.Actor)) + fmt.Sprintf("n=%d value=%d", c.N, c.Value)
}

// actorText names the actor of a choice, with a blank behind it.
func actorText(l Label, actor int) string {
	switch labels[l].noun {
	case byWorker:
		return fmt.Sprintf("worker=%d ", actor)
	case byClient:
		return fmt.Sprintf("client=%d ", actor)
	case byCall:
		return fmt.Sprintf("client=%d call=%s ", actor>>callBits, callKind(actor&(1<<callBits-1)))
	case byBatch:
		return fmt.Sprintf("batch=%d ", actor)
	case byEvent:
		return fmt.Sprintf("event=%d ", actor)
	case byRun:
		return fmt.Sprintf("event=%d handler=%d ", actor>>handlerBits, actor&(1<<handlerBits-1))
	case byLane:
		return fmt.Sprintf("lane=%d ", actor)
	case byDelivery:
		return fmt.Sprintf("delivery=%d ", actor)
	default:
		return ""
	}
}

// ParseSchedule reads the text form. It refuses an unknown format and lines
// that are not of the form; names that it does not know are counted.
func ParseSchedule(r io.Reader) (*Schedule, error) {
	s := &Schedule{}
	lines := bufio.NewScanner(r)
	number, known := 0, false
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if name, value, ok := header(line); ok {
			if err := s.setHeader(name, value); err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
			known = known || name == "format"
			continue
		}
		if !known {
			return nil, fmt.Errorf("line %d: not a schedule: the first line must be format: %d", number, scheduleFormat)
		}
		if err := s.addChoice(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	if !known {
		return nil, fmt.Errorf("not a schedule: the line format: %d is missing", scheduleFormat)
	}
	if s.Knobs.Workers == 0 {
		return nil, fmt.Errorf("not a schedule: the line knobs: is missing")
	}
	return s, nil
}

// header splits "name: value".
func header(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, ":")
	if !ok || strings.ContainsAny(name, " =") {
		return "", "", false
	}
	return name, strings.TrimSpace(value), true
}

func (s *Schedule) setHeader(name, value string) (err error) {
	switch name {
	case "format":
		if value != strconv.Itoa(scheduleFormat) {
			return fmt.Errorf("format %q is not known to this version, which reads format %d", value, scheduleFormat)
		}
	case "seed":
		s.Seed, err = strconv.ParseUint(value, 10, 64)
	case "story":
		s.Story = value
	case "checker":
		s.Checker = value
	case "mutant":
		s.Mutant = value
	case "knobs":
		set := s.Knobs.Faults
		s.Knobs, err = parseKnobs(value)
		s.Knobs.Faults = set
	case "faults":
		s.Knobs.Faults, err = faults.Parse(value)
	default:
		return fmt.Errorf("unknown header %q", name)
	}
	return err
}

// addChoice reads "label noun=value … n=N value=V".
func (s *Schedule) addChoice(line string) error {
	words := strings.Fields(line)
	label, ok := labelNamed(words[0])
	if !ok {
		s.Unknown++
		return nil
	}
	c := Choice{Coordinate: Coordinate{Label: label}}
	for _, word := range words[1:] {
		noun, value, ok := strings.Cut(word, "=")
		if !ok {
			return fmt.Errorf("%q: want name=value", word)
		}
		if noun == "call" {
			call, ok := callNamed(value)
			if !ok {
				s.Unknown++
				return nil
			}
			c.Actor |= int32(call)
			continue
		}
		n, err := strconv.ParseUint(value, 10, 24)
		if err != nil {
			return fmt.Errorf("%q: want a whole number", word)
		}
		if !c.set(noun, int32(n)) {
			return fmt.Errorf("%q: %s has no such part", word, words[0])
		}
	}
	if c.N == 0 || c.Value == 0 {
		return fmt.Errorf("%q: n and value are missing or zero", line)
	}
	s.Choices = append(s.Choices, c)
	return nil
}

// set stores one part of a choice's line.
func (c *Choice) set(noun string, n int32) bool {
	kind := labels[c.Label].noun
	switch {
	case noun == "n":
		c.N = uint32(n)
	case noun == "value":
		c.Value = n
	case noun == "client" && kind == byCall:
		c.Actor |= n << callBits
	case noun == "event" && kind == byRun:
		c.Actor |= n << handlerBits
	case noun == "handler" && kind == byRun:
		c.Actor |= n & (1<<handlerBits - 1)
	case noun == "worker" && kind == byWorker, noun == "client" && kind == byClient,
		noun == "batch" && kind == byBatch, noun == "event" && kind == byEvent, noun == "lane" && kind == byLane, noun == "delivery" && kind == byDelivery:
		c.Actor = n
	default:
		return false
	}
	return true
}

func callNamed(name string) (callKind, bool) {
	for i, n := range callNames {
		if n == name {
			return callKind(i), true
		}
	}
	return 0, false
}

// knobField is one knob in the text form.
type knobField struct {
	name string
	get  func(*Knobs) string
	set  func(*Knobs, string) error
}

func intKnob(name string, field func(*Knobs) *int, low, high int) knobField {
	return knobField{
		name,
		func(k *Knobs) string { return strconv.Itoa(*field(k)) },
		func(k *Knobs, text string) error {
			n, err := strconv.Atoi(text)
			if err != nil || n < low || n > high {
				return fmt.Errorf("%s=%s: want a number from %d to %d", name, text, low, high)
			}
			*field(k) = n
			return nil
		},
	}
}

func boolKnob(name string, field func(*Knobs) *bool) knobField {
	return knobField{
		name,
		func(k *Knobs) string { return strconv.FormatBool(*field(k)) },
		func(k *Knobs, text string) (err error) {
			if *field(k), err = strconv.ParseBool(text); err != nil {
				return fmt.Errorf("%s=%s: want true or false", name, text)
			}
			return nil
		},
	}
}

func durationKnob(name string, field func(*Knobs) *time.Duration, low, high time.Duration) knobField {
	return knobField{
		name,
		func(k *Knobs) string { return field(k).String() },
		func(k *Knobs, text string) error {
			d, err := time.ParseDuration(text)
			if err != nil || d < low || d > high {
				return fmt.Errorf("%s=%s: want a duration from %v to %v", name, text, low, high)
			}
			*field(k) = d
			return nil
		},
	}
}

var knobFields = []knobField{
	{
		"store",
		func(k *Knobs) string { return storeName(k.Semantics) },
		func(k *Knobs, text string) error {
			semantics, ok := storeNamed(text)
			if !ok {
				return fmt.Errorf("store=%s: want pg or mongo", text)
			}
			k.Semantics = semantics
			return nil
		},
	},
	intKnob("lanes", func(k *Knobs) *int { return &k.Lanes }, 1, MaxLanes),
	intKnob("batch", func(k *Knobs) *int { return &k.Batch }, 1, 1000),
	durationKnob("lease", func(k *Knobs) *time.Duration { return &k.Lease }, time.Second, time.Hour),
	durationKnob("window", func(k *Knobs) *time.Duration { return &k.Window }, 1, time.Second),
	intKnob("workers", func(k *Knobs) *int { return &k.Workers }, 1, MaxWorkers),
	intKnob("keys", func(k *Knobs) *int { return &k.Keys }, 0, MaxKeys),
	intKnob("events", func(k *Knobs) *int { return &k.Events }, 0, MaxEvents),
	intKnob("types", func(k *Knobs) *int { return &k.Types }, 1, maxHandlers),
	intKnob("handlers", func(k *Knobs) *int { return &k.Handlers }, 1, maxHandlers),
	intKnob("groups", func(k *Knobs) *int { return &k.Groups }, 1, maxHandlers),
	intKnob("attempts", func(k *Knobs) *int { return &k.MaxAttempts }, 1, 1000),
	intKnob("concurrency", func(k *Knobs) *int { return &k.Concurrency }, 1, 1000),
	intKnob("timeout", func(k *Knobs) *int { return &k.Timeout }, 1, 100),
	intKnob("pool", func(k *Knobs) *int { return &k.Pool }, 0, 1000),
	intKnob("stubborn", func(k *Knobs) *int { return &k.Stubborn }, 0, 1<<maxHandlers-1),
	intKnob("limits", func(k *Knobs) *int { return &k.Limits }, 0, 1<<16-1),
	boolKnob("async", func(k *Knobs) *bool { return &k.AsyncClaims }),
	boolKnob("history", func(k *Knobs) *bool { return &k.History }),
	boolKnob("steady", func(k *Knobs) *bool { return &k.Steady }),
	boolKnob("split", func(k *Knobs) *bool { return &k.Split }),
	boolKnob("samename", func(k *Knobs) *bool { return &k.SameName }),
	boolKnob("uneven", func(k *Knobs) *bool { return &k.Uneven }),
	boolKnob("delays", func(k *Knobs) *bool { return &k.Delays }),
	boolKnob("backlog", func(k *Knobs) *bool { return &k.Backlog }),
	intKnob("lanesperclaim", func(k *Knobs) *int { return &k.LanesPerClaim }, 0, MaxLanes),
	intKnob("gather", func(k *Knobs) *int { return &k.Gather }, 0, 1000),
	intKnob("retention", func(k *Knobs) *int { return &k.Retention }, 0, retentions),
	boolKnob("hints", func(k *Knobs) *bool { return &k.Hints }),
	intKnob("steps", func(k *Knobs) *int { return &k.Steps }, 1, MaxSteps),
}

// String returns the knobs as name=value, without the faults.
func (k Knobs) String() string {
	var b strings.Builder
	for i, f := range knobFields {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(f.name + "=" + f.get(&k))
	}
	return b.String()
}

func parseKnobs(text string) (Knobs, error) {
	k := Knobs{
		Lanes: 1, Batch: 1, Lease: 30 * time.Second, Window: 2 * time.Millisecond, Workers: 1, Events: 1,
		Types: 1, Handlers: 1, Groups: 1, MaxAttempts: 3, Concurrency: 1, Timeout: 4, Steps: 2000,
	}
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		found := false
		for _, f := range knobFields {
			if f.name != name {
				continue
			}
			if err := f.set(&k, value); err != nil {
				return k, err
			}
			found = true
		}
		if !found {
			return k, fmt.Errorf("unknown knob %q", name)
		}
	}
	return k, nil
}

// storeName returns "pg" or "mongo", as the flag -store names them.
func storeName(s protocol.Semantics) string {
	if s == protocol.Snapshot {
		return "mongo"
	}
	return "pg"
}

func storeNamed(name string) (protocol.Semantics, bool) {
	switch name {
	case "pg":
		return protocol.Locking, true
	case "mongo":
		return protocol.Snapshot, true
	}
	return 0, false
}
