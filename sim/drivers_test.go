package sim

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/relaybus-go/relaybus/faults"
)

// playWith runs the knobs with a driver.
func playWith(k Knobs, d driver) Report {
	var pool coroutines
	defer pool.close()
	w := newWorld(k, d, &pool)
	w.play(nil)
	return w.report()
}

// smallKnobs are those of short runs with every kind of fault.
func smallKnobs(semantics string) Knobs {
	k, err := parseKnobs("store=" + semantics + " lanes=2 batch=3 lease=5s workers=2 keys=2 events=6 types=1 handlers=2 attempts=2 concurrency=3 async=true hints=true steps=600")
	if err != nil {
		panic(err)
	}
	k.Faults = faults.Every()
	return k
}

// rapidDriver lets rapid make every choice. Most are calm, or nothing would
// ever get done.
type rapidDriver struct{ t *rapid.T }

var rapidChance = rapid.IntRange(0, 15)

func (d rapidDriver) draw(n int, at Coordinate) int {
	if labels[at.Label].concern == striking && rapidChance.Draw(d.t, "strike") != 15 {
		return 0
	}
	return rapid.IntRange(0, n-1).Draw(d.t, at.Label.String())
}

// Whatever is chosen, every promise holds.
func TestRapidChooses(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("rapid draws each of some thousand choices; the seeds cover the race detector")
	}
	rapid.Check(t, func(t *rapid.T) {
		semantics := rapid.SampledFrom([]string{"pg", "mongo"}).Draw(t, "store")
		if rep := playWith(smallKnobs(semantics), rapidDriver{t}); rep.Violation != nil {
			t.Fatal(rep.Violation)
		}
	})
}

// byteDriver takes its choices from bytes, two for each; after the last all
// are calm.
type byteDriver struct{ rest []byte }

func (d *byteDriver) draw(n int, at Coordinate) int {
	if len(d.rest) < 2 {
		return 0
	}
	a, b := int(d.rest[0]), int(d.rest[1])
	d.rest = d.rest[2:]
	if labels[at.Label].concern == striking && a < 240 {
		return 0
	}
	return (a<<8 | b) % n
}

// FuzzChoices lets the fuzzer make every choice.
func FuzzChoices(f *testing.F) {
	f.Add(true, []byte{})
	f.Add(false, []byte("\xf0\x01\xf0\x02\xf0\x03\xf0\x04\xf0\x05\xf0\x06\xf0\x07\xf0\x08"))
	f.Fuzz(func(t *testing.T, snapshot bool, choices []byte) {
		semantics := "pg"
		if snapshot {
			semantics = "mongo"
		}
		if rep := playWith(smallKnobs(semantics), &byteDriver{choices}); rep.Violation != nil {
			t.Fatal(rep.Violation)
		}
	})
}
