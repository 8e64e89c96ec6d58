package engine

import (
	"reflect"
	"time"
)

// RetryPolicy says how long to wait before a failed delivery is tried again.
//
// attempt is the number of the attempt that failed, from 1. jitter(n) returns
// a uniformly random number in [0, n) for n > 0; a policy takes its randomness
// from there and from nowhere else, so that a simulation can repeat it. A
// policy must not block and must give its answer from its arguments alone.
// What it returns is moved into [MinDelay, MaxDelay]; if it panics, the
// default policy answers.
type RetryPolicy interface {
	Delay(attempt int, jitter func(n int64) int64) time.Duration
}

// RetryFunc is a function that is a [RetryPolicy].
type RetryFunc func(attempt int, jitter func(n int64) int64) time.Duration

// Delay implements [RetryPolicy].
func (f RetryFunc) Delay(attempt int, jitter func(n int64) int64) time.Duration {
	return f(attempt, jitter)
}

// Exponential is the default [RetryPolicy]: full jitter under a ceiling that
// grows by Factor from Base up to Cap. The delay after attempt a is uniform in
// (0, min(Cap, Base × Factor^(a−1))], which spreads deliveries that failed
// together (the "full jitter" of the AWS Architecture Blog's article on
// exponential backoff). The arithmetic is in integers and cannot overflow.
type Exponential struct {
	// Base is the ceiling after the first attempt; 0 means 1 s.
	Base time.Duration
	// Cap bounds the ceiling; 0 means 1 h, or Base if that is more.
	Cap time.Duration
	// Factor multiplies the ceiling with every attempt; 0 means 2, and 1
	// keeps it at Base.
	Factor int
}

const maxFactor = 1000

// Validate refuses settings no delay could follow from.
func (e Exponential) Validate() error {
	switch {
	case e.Base != 0 && (e.Base < MinDelay || e.Base > MaxDelay):
		return invalid("retry Base %v must lie between %v and %v", e.Base, MinDelay, MaxDelay)
	case e.Cap != 0 && (e.Cap < MinDelay || e.Cap > MaxDelay):
		return invalid("retry Cap %v must lie between %v and %v", e.Cap, MinDelay, MaxDelay)
	case e.Cap != 0 && e.Cap < e.Base:
		return invalid("retry Cap %v is below Base %v", e.Cap, e.Base)
	case e.Factor < 0 || e.Factor > maxFactor:
		return invalid("retry Factor %d must lie between 1 and %d", e.Factor, maxFactor)
	}
	return nil
}

// Delay implements [RetryPolicy].
func (e Exponential) Delay(attempt int, jitter func(n int64) int64) time.Duration {
	return 1 + time.Duration(jitter(int64(e.ceiling(attempt))))
}

// ceiling returns min(Cap, Base × Factor^(attempt−1)), at least 1. It compares
// before it multiplies: a product past the cap is never formed.
func (e Exponential) ceiling(attempt int) time.Duration {
	base, limit, factor := e.defaults()
	ceiling := min(base, limit)
	if factor == 1 {
		return ceiling
	}
	for n := 1; n < attempt && ceiling < limit; n++ {
		if ceiling > limit/factor {
			return limit
		}
		ceiling *= factor
	}
	return ceiling
}

func (e Exponential) defaults() (base, limit, factor time.Duration) {
	base, limit, factor = e.Base, e.Cap, time.Duration(e.Factor)
	if base <= 0 {
		base = time.Second
	}
	if limit <= 0 {
		limit = max(time.Hour, base)
	}
	if factor <= 0 {
		factor = 2
	}
	return base, limit, factor
}

// boundedRetry is a policy as the Dispatcher sees it: its answers lie within
// the documented bounds whatever a user's code does.
type boundedRetry struct{ policy RetryPolicy }

// Delay implements [RetryPolicy].
func (b boundedRetry) Delay(attempt int, jitter func(n int64) int64) (d time.Duration) {
	defer func() {
		if recover() != nil {
			d = clampDelay(Exponential{}.Delay(attempt, jitter))
		}
	}()
	return clampDelay(b.policy.Delay(attempt, jitter))
}

// boundedJitter keeps a random source inside [0, n), so that no policy has to
// distrust it.
func boundedJitter(source func(n int64) int64) func(n int64) int64 {
	return func(n int64) int64 {
		if n <= 1 {
			return 0
		}
		return min(max(source(n), 0), n-1)
	}
}

// samePolicy reports whether two policies are interchangeable. Functions
// cannot be compared in Go; those made at the same place in the source count
// as the same.
func samePolicy(a, b RetryPolicy) bool {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	if !va.IsValid() || !vb.IsValid() || va.Type() != vb.Type() {
		return !va.IsValid() && !vb.IsValid()
	}
	if va.Kind() == reflect.Func {
		return va.Pointer() == vb.Pointer()
	}
	return reflect.DeepEqual(a, b)
}
