package sim

import (
	"testing"

	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/linearize"
)

// What is recorded runs as it does unrecorded.
func TestRecordingChangesNothing(t *testing.T) {
	for seed := range uint64(fewer(100)) {
		plain := One(Options{Seed: seed, Faults: faults.Every(), unjudged: true})
		recorded := One(Options{Seed: seed, Faults: faults.Every(), Histories: true})
		if plain.Hash != recorded.Hash {
			t.Errorf("seed %d: %016x, recorded %016x", seed, plain.Hash, recorded.Hash)
		}
		if plain.History != nil || recorded.History == nil || recorded.History.Calls == 0 {
			t.Errorf("seed %d: recorded %v, unrecorded %v", seed, recorded.History, plain.History)
		}
	}
}

// Every 20th seed is judged.
func TestWhichSeedsAreJudged(t *testing.T) {
	Many(Options{}, Batch{First: 35, Seeds: 30}, func(rep Report) bool {
		if judged := rep.History != nil; judged != (rep.Seed == 40 || rep.Seed == 60) {
			t.Errorf("seed %d: judged %v", rep.Seed, judged)
		}
		return true
	})
}

// The history of a correct store is explained, under every kind of fault and on
// both families, and hardly ever too hard to judge.
func TestHistoriesAreLegal(t *testing.T) {
	judged, unknown := 0, 0
	Many(Options{Faults: faults.Every(), Histories: true}, Batch{First: 1, Seeds: fewer(300)}, func(rep Report) bool {
		wantClean(t, &rep)
		judged++
		if rep.History.Status() == linearize.Unknown {
			unknown++
		}
		return !t.Failed()
	})
	if unknown > judged/100 {
		t.Errorf("%d of %d histories are unknown", unknown, judged)
	}
}

// Commits that the store lost are struck out. Were they taken for done, the
// history would be refused.
func TestLostCommitsAreStruckOut(t *testing.T) {
	set, err := faults.Parse("losecommit,failover,crash,restart,expire")
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{}
	defer r.close()
	lost, refused := 0, 0
	for seed := range uint64(fewer(40)) {
		o := Options{Seed: seed, Faults: set, Store: "pg"}
		knobs, source := knobsOf(&o)
		w := newWorld(knobs, newSeeded(seed, knobs.odds(source)), &r.pool)
		w.history = &history{w: w, most: mostCalls}
		w.play(nil)
		if h := w.history.judge(); h.Status() != linearize.OK {
			t.Errorf("seed %d: %v\n%s", seed, h, &h.Report)
		} else {
			lost += h.Lost
		}
		for _, c := range w.history.calls {
			if _, isTx := c.Input.(linearize.Transaction); c.Outcome == linearize.Lost && (c.Output != nil || isTx) {
				c.Outcome = linearize.Returned
			}
		}
		if h := w.history.judge(); h.Status() == linearize.Illegal {
			refused++
		}
	}
	if lost == 0 || refused == 0 {
		t.Errorf("%d calls were lost; %d histories are refused with them", lost, refused)
	}
}

// A history with too many calls is given up, and says so.
func TestTooManyCalls(t *testing.T) {
	r := &runner{}
	defer r.close()
	o := Options{Seed: 1}
	knobs, source := knobsOf(&o)
	w := newWorld(knobs, newSeeded(o.Seed, knobs.odds(source)), &r.pool)
	w.history = &history{w: w, most: 50}
	w.play(nil)
	if h := w.judgeHistory(); !h.TooLong || h.Status() != linearize.Unknown || h.String() != "unknown: more than 50 calls" {
		t.Errorf("it is %v", h)
	}
	if w.checks.violation != nil {
		t.Error(w.checks.violation)
	}
}
