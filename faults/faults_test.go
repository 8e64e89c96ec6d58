package faults

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// calmWorld is a world to which nothing can be done.
type calmWorld struct{}

func (calmWorld) Lease() time.Duration                    { return 30 * time.Second }
func (calmWorld) Crash(int, time.Duration) bool           { return false }
func (calmWorld) CrashAll(time.Duration) bool             { return false }
func (calmWorld) Orphan(int, time.Duration, bool) bool    { return false }
func (calmWorld) Pause(int, time.Duration, bool) bool     { return false }
func (calmWorld) Skew(int, time.Duration, int) bool       { return false }
func (calmWorld) Shutdown(_ int, _, _ time.Duration) bool { return false }
func (calmWorld) Deploy(int, int) bool                    { return false }
func (calmWorld) Leap(int, time.Duration) bool            { return false }
func (calmWorld) LeapAll()                                {}
func (calmWorld) LeapDuring(bool)                         {}
func (calmWorld) Land(Edge, time.Duration)                {}
func (calmWorld) Hint()                                   {}
func (calmWorld) CrashStore(int, time.Duration) bool      { return false }
func (calmWorld) FailOver(int, Moment) bool               { return false }
func (calmWorld) Outage(time.Duration, bool) bool         { return false }
func (calmWorld) Partition(int, time.Duration, bool) bool { return false }
func (calmWorld) Reset(int) bool                          { return false }
func (calmWorld) Exhaust(int, time.Duration) bool         { return false }
func (calmWorld) Requeue(int) bool                        { return false }
func (calmWorld) Purge(int) bool                          { return false }
func (calmWorld) Unsubscribe(int, bool) bool              { return false }

// Each kind is complete: what it says, the one hook that its target calls, and
// an effect for every variant. A variant out of range would panic here.
func TestKindsAreComplete(t *testing.T) {
	for _, k := range All() {
		t.Run(k.Name, func(t *testing.T) {
			if k.Says == "" || k.Variants < 1 || k.Rate < 1 || k.Rate > 10_000 {
				t.Errorf("incomplete: %+v", k)
			}
			hooks := 0
			for _, set := range []bool{k.Strike != nil, k.Message != nil, k.Statement != nil, k.Run != nil, k.Batch != nil} {
				if set {
					hooks++
				}
			}
			if hooks != 1 {
				t.Errorf("%d hooks are set, want one", hooks)
			}
			for v := 1; v <= k.Variants; v++ {
				changes(t, k, v)
			}
		})
	}
}

// changes calls the hook of a variant and wants it to do something.
func changes(t *testing.T, k *Kind, variant int) {
	t.Helper()
	w := calmWorld{}
	ok := true
	switch k.Target {
	case OnWorld, OnWorker, OnLane:
		k.Strike(w, 1, variant)
	case OnMessage, OnCommit:
		var f Fate
		k.Message(w, variant, &f)
		ok = f != Fate{}
	case OnStatement, OnRow:
		ok = k.Statement(Statement{Call: "Claim", Step: "pick"}, variant) != nil
	case OnRun, OnDelivery:
		var b Behaviour
		k.Run(w, variant, &b)
		ok = b != Behaviour{}
	case OnBatch:
		var p Plan
		k.Batch(variant, &p)
		ok = p != Plan{}
	}
	if !ok {
		t.Errorf("variant %d changes nothing", variant)
	}
}

func TestNamesAreSorted(t *testing.T) {
	if names := Names(); !slices.IsSorted(names) || len(slices.Compact(names)) != len(All()) {
		t.Errorf("names are not sorted and distinct: %v", names)
	}
}

func TestParse(t *testing.T) {
	for _, list := range []string{"all", "none", "crash", "conflict,crash,expire"} {
		set, err := Parse(list)
		if err != nil || set.String() != list {
			t.Errorf("%q reads back as %q, %v", list, set, err)
		}
	}
	if set, err := Parse(" expire , crash "); err != nil || set.String() != "crash,expire" {
		t.Errorf("blanks and order: %q, %v", set, err)
	}
	if set, err := Parse(strings.Join(Names(), ",")); err != nil || set != Every() {
		t.Errorf("all names are %q, %v", set, err)
	}
	for _, list := range []string{"", "crash,", "meteor", "crash;expire", "ALL"} {
		_, err := Parse(list)
		if err == nil || !strings.Contains(err.Error(), "unknown fault") || !strings.Contains(err.Error(), "unknowncommit") {
			t.Errorf("%q: %v", list, err)
		}
	}
}
