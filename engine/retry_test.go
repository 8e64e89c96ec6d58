package engine

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func most(n int64) int64  { return n - 1 }
func least(n int64) int64 { return 0 }

// The table of a well-known fault: a power that overflows before the cap is
// applied, and a delivery that is retried at once, without end.
func TestExponentialNeverOverflows(t *testing.T) {
	attempts := []int{1, 2, 31, 32, 62, 63, 64, 65, 305, 310, 1000, math.MaxInt32}
	for _, base := range []time.Duration{time.Millisecond, time.Second, time.Hour} {
		for _, factor := range []int{1, 2, 10} {
			for _, limit := range []time.Duration{0, time.Hour} {
				e := Exponential{Base: base, Cap: limit, Factor: factor}
				must(t, e.Validate())
				before := time.Duration(0)
				for _, attempt := range attempts {
					low, high := e.Delay(attempt, least), e.Delay(attempt, most)
					if low <= 0 || high > max(time.Hour, base) || high < before {
						t.Fatalf("%+v after attempt %d: between %v and %v, before %v", e, attempt, low, high, before)
					}
					before = high
				}
			}
		}
	}
}

func TestExponentialDefaults(t *testing.T) {
	for attempt, want := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second,
		12: 2048 * time.Second, 13: time.Hour, 20: time.Hour,
	} {
		if got := (Exponential{}).Delay(attempt, most); got != want {
			t.Errorf("ceiling after attempt %d: %v, want %v", attempt, got, want)
		}
	}
}

func TestExponentialProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Exponential{
			Base:   time.Duration(rapid.Int64Range(int64(MinDelay), int64(MaxDelay)).Draw(t, "base")),
			Factor: rapid.IntRange(0, maxFactor).Draw(t, "factor"),
		}
		if rapid.Bool().Draw(t, "capped") {
			e.Cap = time.Duration(rapid.Int64Range(int64(e.Base), int64(MaxDelay)).Draw(t, "cap"))
		}
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		attempt := rapid.IntRange(math.MinInt32, math.MaxInt32-1).Draw(t, "attempt")
		_, limit, _ := e.defaults()
		d := e.Delay(attempt, func(n int64) int64 { return rapid.Int64Range(0, n-1).Draw(t, "jitter") })
		if d <= 0 || d > limit {
			t.Fatalf("delay %v is not in (0, %v]", d, limit)
		}
		if e.ceiling(attempt) > e.ceiling(attempt+1) {
			t.Fatalf("the ceiling falls from attempt %d to the next", attempt)
		}
	})
}

func TestExponentialValidate(t *testing.T) {
	for says, e := range map[string]Exponential{
		"retry Base -1ns":        {Base: -1},
		"between 1ms and 8760h":  {Base: time.Microsecond},
		"retry Cap 9000h":        {Cap: 9000 * time.Hour},
		"Cap 1s is below Base":   {Base: time.Minute, Cap: time.Second},
		"retry Factor -2":        {Factor: -2},
		"between 1 and 1000":     {Factor: 1001},
		"retry Cap -1s must lie": {Cap: -time.Second},
	} {
		wantInvalid(t, e.Validate(), says)
	}
}

// Whatever a user's policy does, the delay is storable and does not spin.
func TestPolicyOfTheUserIsBounded(t *testing.T) {
	answer := func(d time.Duration) RetryPolicy {
		return RetryFunc(func(int, func(int64) int64) time.Duration { return d })
	}
	for name, c := range map[string]struct {
		policy RetryPolicy
		want   time.Duration
	}{
		"negative": {answer(math.MinInt64), MinDelay},
		"zero":     {answer(0), MinDelay},
		"sensible": {answer(time.Minute), time.Minute},
		"maximal":  {answer(math.MaxInt64), MaxDelay},
		"panics":   {RetryFunc(func(int, func(int64) int64) time.Duration { panic("oops") }), 4 * time.Second},
		"nil":      {RetryFunc(nil), 4 * time.Second},
	} {
		if got := (boundedRetry{c.policy}).Delay(3, most); got != c.want {
			t.Errorf("policy %s: %v, want %v", name, got, c.want)
		}
	}
	if far := StoreTime(time.Now().UnixNano()).Add(MaxDelay); far.Std().Year() > 2262 {
		t.Errorf("MaxDelay leads to %v, which a store may not hold", far.Std())
	}
}

func TestJitterOfTheUserIsBounded(t *testing.T) {
	for _, wrong := range []int64{-5, 10, math.MaxInt64} {
		j := boundedJitter(func(int64) int64 { return wrong })
		if got := j(10); got < 0 || got > 9 {
			t.Errorf("jitter(10) = %d", got)
		}
		if j(0) != 0 || j(1) != 0 {
			t.Error("an empty range must not reach the source")
		}
	}
	j := newJitter()
	seen := map[int64]bool{}
	for range 200 {
		seen[j(4)] = true
	}
	if len(seen) != 4 {
		t.Errorf("200 draws of 4 gave %d values", len(seen))
	}
}

type tableRetry struct{ delays []time.Duration }

func (p tableRetry) Delay(int, func(int64) int64) time.Duration { return p.delays[0] }

func TestSamePolicy(t *testing.T) {
	f := RetryFunc(func(int, func(int64) int64) time.Duration { return 1 })
	g := RetryFunc(func(int, func(int64) int64) time.Duration { return 2 })
	for _, c := range []struct {
		a, b RetryPolicy
		same bool
	}{
		{nil, nil, true},
		{nil, Exponential{}, false},
		{Exponential{}, Exponential{}, true},
		{Exponential{}, Exponential{Factor: 3}, false},
		{f, f, true},
		{f, g, false},
		{f, Exponential{}, false},
		{tableRetry{[]time.Duration{1}}, tableRetry{[]time.Duration{1}}, true},
		{tableRetry{[]time.Duration{1}}, tableRetry{[]time.Duration{2}}, false},
	} {
		if samePolicy(c.a, c.b) != c.same {
			t.Errorf("samePolicy(%v, %v) is not %v", c.a, c.b, c.same)
		}
	}
}
