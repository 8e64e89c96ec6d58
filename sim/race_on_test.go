//go:build race

package sim

// raceEnabled: coroutines switch ten times slower under the race detector, so
// tests run few seeds.
const raceEnabled = true
