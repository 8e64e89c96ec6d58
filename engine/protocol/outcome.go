package protocol

import "fmt"

// Outcome is what an action's guards decided. Guard, Have and Want are set
// only when one failed: its name, what the State has, and what the action
// needed.
type Outcome struct {
	Verdict Verdict
	Guard   string
	Have    string
	Want    string
}

// OK reports whether every guard held.
func (o Outcome) OK() bool { return o.Verdict == Applied }

// String returns the verdict, and why when a guard failed.
func (o Outcome) String() string {
	if o.OK() {
		return o.Verdict.String()
	}
	return fmt.Sprintf("%s (%s: have %s, want %s)", o.Verdict, o.Guard, o.Have, o.Want)
}

var applied = Outcome{Verdict: Applied}

// failed names the guard that decided. The strings are built here, on the
// failing path, and nowhere else.
func failed(guard string, have, want any) Outcome {
	return Outcome{Guard: guard, Have: fmt.Sprint(have), Want: fmt.Sprint(want)}
}

// shortHolder keeps a holder legible in an Outcome: nobody is "none".
func shortHolder(h Holder) string {
	if h.IsZero() {
		return "none"
	}
	return h.Short()
}
