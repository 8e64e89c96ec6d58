package sim

import "time"

// stopwatch returns a function that says how much real time has passed. Real
// time is reported and decides nothing.
func stopwatch() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}
