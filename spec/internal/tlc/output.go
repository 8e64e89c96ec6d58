package tlc

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Pass is the verdict on a model in which TLC found no error.
const Pass = "pass"

// The other verdicts that are no names of properties.
const (
	Deadlock = "deadlock"
	// Temporal: TLC does not say which of the properties was violated.
	Temporal = "temporal property"
	Failed   = "error"
)

// Outcome is what TLC said about a model.
type Outcome struct {
	// Verdict is Pass, the name of the invariant or action property that was
	// violated, Deadlock, Temporal, or Failed (then Message says why).
	Verdict string
	Message string
	Version string // as "2.18"

	Generated int64 // states generated
	Distinct  int64 // distinct states among them
	// Depth is the depth of the complete search or, with a counterexample, its
	// number of states.
	Depth   int
	Trace   []State  // the counterexample
	Printed []string // what the model printed
	Wall    time.Duration

	ended bool
}

// State is one state of a counterexample.
type State struct {
	Action    string // "" for the initial one
	Variables []Variable
	// Note says what else TLC says of it: that the behaviour stutters from
	// here on, or goes back to an earlier state.
	Note string
}

// Variable is a variable with its value as TLC prints it.
type Variable struct{ Name, Value string }

// Codes of TLC's messages (tlc2.output.EC).
const (
	codeInitiallyViolated = 2107
	codeViolated          = 2110
	codeActionViolated    = 2112
	codeActionInitially   = 2113
	codeDeadlock          = 2114
	codeTemporal          = 2116
	codeBehavior          = 2121
	codeBackTo            = 2122
	codeEnded             = 2186
	codeSuccess           = 2193
	codeDepth             = 2194
	codeStats             = 2199
	codeProgress          = 2200
	codeState             = 2217
	codeStuttering        = 2218
	codeVersion           = 2262
	codeCounterexample    = 2264
)

var (
	messageStart = regexp.MustCompile(`^@!@!@STARTMSG (\d+)(?::(\d+))? @!@!@$`)
	messageEnd   = regexp.MustCompile(`^@!@!@ENDMSG \d+ @!@!@$`)
	versionText  = regexp.MustCompile(`Version (\S+)`)
	violatedText = regexp.MustCompile(`(?:Invariant|property|Property) (\S+) is violated`)
	statsText    = regexp.MustCompile(`^([\d,]+) states generated, ([\d,]+) distinct states found`)
	depthText    = regexp.MustCompile(`search is (\d+)`)
	headText     = regexp.MustCompile(`^\d+: (?:<(\w+)|(.*))`)
	backText     = regexp.MustCompile(`^(\d+): Back to state(?::? <(\w+))?`)
	variableText = regexp.MustCompile(`^(?:/\\ )?(\w+) = (.*)$`)
)

// Read reads the output of TLC's tool mode to its end.
func Read(from io.Reader, progress func(string)) (*Outcome, error) {
	o := &Outcome{}
	in := bufio.NewScanner(from)
	in.Buffer(nil, 64<<20)
	var message []string
	code, severe := 0, false
	for in.Scan() {
		line := strings.TrimRight(in.Text(), "\r")
		switch start := messageStart.FindStringSubmatch(line); {
		case start != nil:
			code, _ = strconv.Atoi(start[1])
			severe = start[2] == "1" || start[2] == "3"
			message = message[:0]
		case messageEnd.MatchString(line):
			o.message(code, severe, strings.TrimSpace(strings.Join(message, "\n")), progress)
			code = 0
		case code != 0:
			message = append(message, line)
		default:
			o.raw(line)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("reading TLC's output: %w", err)
	}
	return o, nil
}

// raw takes a line that is in no message: the parser's chatter and complaints,
// and what the model prints.
func (o *Outcome) raw(line string) {
	for _, chatter := range []string{"Parsing file ", "Semantic processing of module "} {
		if strings.HasPrefix(line, chatter) {
			return
		}
	}
	if strings.TrimSpace(line) != "" {
		o.Printed = append(o.Printed, line)
	}
}

func (o *Outcome) message(code int, severe bool, text string, progress func(string)) {
	switch code {
	case codeVersion:
		o.Version = group(versionText, text)
	case codeSuccess:
		o.Verdict = Pass
	case codeViolated, codeInitiallyViolated, codeActionViolated, codeActionInitially:
		o.Verdict = group(violatedText, text)
		if code == codeInitiallyViolated || code == codeActionInitially {
			o.initially(text)
		}
	case codeDeadlock:
		o.Verdict = Deadlock
	case codeTemporal:
		o.Verdict = Temporal
	case codeState:
		o.state(text)
	case codeStuttering:
		o.note("stutters from here on")
	case codeBackTo:
		o.back(text)
	case codeStats:
		o.stats(text)
	case codeDepth:
		if len(o.Trace) == 0 {
			o.Depth, _ = strconv.Atoi(group(depthText, text))
		}
	case codeProgress:
		if progress != nil {
			progress(text)
		}
	case codeEnded:
		o.end()
	case codeBehavior, codeCounterexample:
	default:
		if severe {
			o.fail(text)
		}
	}
}

func (o *Outcome) fail(text string) {
	if o.Verdict != "" && o.Verdict != Failed && o.Verdict != Pass {
		return // a detail of the violation
	}
	o.Verdict = Failed
	if o.Message != "" {
		text = "\n" + text
	}
	o.Message += text
}

// end is called for TLC's last message.
func (o *Outcome) end() {
	o.ended = true
	switch {
	case o.Verdict == "":
		o.Verdict = Failed
		o.Message = strings.Join(o.Printed, "\n")
	case o.Verdict == Failed && len(o.Printed) > 0:
		o.Message += "\n" + strings.Join(o.Printed, "\n")
	}
	if len(o.Trace) > 0 {
		o.Depth = len(o.Trace)
	}
}

// initially reads the state that TLC prints inside the message when an initial
// state is the violation.
func (o *Outcome) initially(text string) {
	if _, state, ok := strings.Cut(text, "\n"); ok {
		o.state("1: <Initial predicate>\n" + state)
	}
}

// state adds a state: a head, and lines of "/\ name = value" whose values may
// go on over several lines.
func (o *Outcome) state(text string) {
	head, body, _ := strings.Cut(text, "\n")
	s := State{Action: group(headText, head)}
	if s.Action == "Initial" {
		s.Action = ""
	}
	for line := range strings.Lines(body) {
		line = strings.TrimRight(line, "\n")
		last := len(s.Variables) - 1
		switch v := variableText.FindStringSubmatch(line); {
		case v != nil && (strings.HasPrefix(line, `/\`) || last < 0):
			s.Variables = append(s.Variables, Variable{v[1], v[2]})
		case last >= 0 && strings.TrimSpace(line) != "":
			s.Variables[last].Value += "\n" + line
		}
	}
	o.Trace = append(o.Trace, s)
}

func (o *Outcome) note(text string) {
	if n := len(o.Trace); n > 0 {
		o.Trace[n-1].Note = text
	}
}

func (o *Outcome) back(text string) {
	match := backText.FindStringSubmatch(text)
	if match == nil {
		o.note(text)
		return
	}
	note := "goes back to state " + match[1]
	if match[2] != "" {
		note += " by " + match[2]
	}
	o.note(note)
}

func (o *Outcome) stats(text string) {
	if m := statsText.FindStringSubmatch(text); m != nil {
		o.Generated, o.Distinct = number(m[1]), number(m[2])
	}
}

func group(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
	return n
}
