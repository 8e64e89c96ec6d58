package sim

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/relaybus-go/relaybus/faults"
)

func seededTape(seed uint64, odds uint32) *tape {
	all := make([]uint32, len(labels))
	for i := range all {
		all[i] = odds
	}
	var print fingerprint
	return newTape(newSeeded(seed, all), &print)
}

// A replay of what a tape recorded answers every question as the tape did.
func TestReplayAnswersAsRecorded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tape := seededTape(rapid.Uint64().Draw(t, "seed"), rapid.Uint32Range(0, always).Draw(t, "odds"))
		type question struct{ n, label, actor int }
		questions := rapid.SliceOf(rapid.Custom(func(t *rapid.T) question {
			return question{rapid.IntRange(1, 20).Draw(t, "n"), rapid.IntRange(0, len(labels)-1).Draw(t, "label"), rapid.IntRange(0, 40).Draw(t, "actor")}
		})).Draw(t, "questions")
		var answers []int
		for _, q := range questions {
			answers = append(answers, tape.Choose(q.n, Label(q.label), q.actor))
		}
		replay := newReplayed(tape.choices)
		var print fingerprint
		again := newTape(replay, &print)
		for i, q := range questions {
			if got := again.Choose(q.n, Label(q.label), q.actor); got != answers[i] {
				t.Fatalf("question %d: %d, recorded %d", i, got, answers[i])
			}
		}
		if print != *tape.print {
			t.Fatal("the fingerprints differ")
		}
		if n := replay.skipped(); n != 0 {
			t.Fatalf("%d choices were skipped", n)
		}
	})
}

// A new draw in one concern must not shift the others: seeds would lose their
// meaning with every new question.
func TestConcernsDoNotShiftEachOther(t *testing.T) {
	plain, busy := seededTape(7, always), seededTape(7, always)
	for i := range 100 {
		busy.Choose(5, LabelRequest, 1)
		if a, b := plain.Choose(1000, LabelKey, i), busy.Choose(1000, LabelKey, i); a != b {
			t.Fatalf("draw %d of the workload: %d, and %d beside draws of the network", i, a, b)
		}
	}
}

func TestOddsZeroIsCalm(t *testing.T) {
	tape := seededTape(1, 0)
	for range 1000 {
		if v := tape.Choose(8, LabelStatement, 0); v != 0 {
			t.Fatalf("value %d with odds 0", v)
		}
	}
	if len(tape.choices) != 0 {
		t.Fatal("calm choices were recorded")
	}
}

// Choices that no longer apply are skipped and counted, not an error: a
// schedule outlives changes of the simulator.
func TestReplayCountsWhatItSkips(t *testing.T) {
	replay := newReplayed([]Choice{
		{Coordinate{LabelKey, 1, 1}, 2},
		{Coordinate{LabelKey, 1, 2}, 9}, // out of range below
		{Coordinate{LabelKey, 5, 1}, 1}, // never asked for
	})
	var print fingerprint
	tape := newTape(replay, &print)
	if v := tape.Choose(5, LabelKey, 1); v != 2 {
		t.Fatalf("first choice is %d, want 2", v)
	}
	if v := tape.Choose(5, LabelKey, 1); v != 0 {
		t.Fatalf("a value out of range gave %d, want the calm one", v)
	}
	if n := replay.skipped(); n != 2 {
		t.Fatalf("%d skipped, want 2", n)
	}
}

func TestLabelsAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for i, l := range labels {
		if l.name == "" || l.says == "" || seen[l.name] {
			t.Errorf("label %d: name %q, says %q", i, l.name, l.says)
		}
		seen[l.name] = true
	}
	for i, k := range faults.All() {
		if got := faultLabel(i).String(); got != "fault."+k.Name {
			t.Errorf("label of %s is %s", k.Name, got)
		}
	}
}

func TestHeapOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h eventHeap
		for i, at := range rapid.SliceOf(rapid.IntRange(0, 9)).Draw(t, "times") {
			h.push(event{at: epoch.Add(0) + protocolTime(at), seq: uint64(i)})
		}
		var last event
		for n := len(h); n > 0; n-- {
			e := h.pop()
			if e.before(last) {
				t.Fatalf("%v after %v", e, last)
			}
			last = e
		}
	})
}
