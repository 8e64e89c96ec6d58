package sim

import (
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/faults"
)

// BenchmarkSeed runs seeds with all faults on one core. It reports steps per
// seed and virtual seconds per real one; seeds per second are its inverse.
func BenchmarkSeed(b *testing.B) {
	r := &runner{}
	defer r.close()
	b.ReportAllocs()
	steps, virtual := 0, time.Duration(0)
	for i := range b.N {
		rep := r.run(&Options{Seed: uint64(i), Faults: faults.Every()})
		if rep.Violation != nil {
			b.Fatalf("seed %d: %v", i, rep.Violation)
		}
		steps += rep.Steps
		virtual += rep.Virtual
	}
	b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(steps, 1)), "ns/step")
	b.ReportMetric(virtual.Seconds()/b.Elapsed().Seconds(), "virtual-s/s")
}

// BenchmarkSwitch is the price of one step that needs a switch of coroutines.
func BenchmarkSwitch(b *testing.B) {
	var pool coroutines
	defer pool.close()
	w := calmWorld(&pool)
	for range 2 {
		w.spawn(operatorRole, 0, func() {
			for range b.N {
				w.current.sleep(time.Second)
			}
		}).start()
	}
	b.ResetTimer()
	drainHeap(w)
}

// BenchmarkChoose is the price of one choice.
func BenchmarkChoose(b *testing.B) {
	tape := seededTape(1, always/2)
	for i := range b.N {
		tape.Choose(8, LabelStatement, i&7)
		tape.choices = tape.choices[:0]
	}
}
