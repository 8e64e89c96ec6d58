package engine

import (
	"context"
	"log/slog"
	"time"
)

// levels says how loud each observed event is; the others are Info. What ends
// well for one delivery is Debug: there are thousands of them a second.
var levels = map[string]slog.Level{
	ObservedCompleted:    slog.LevelDebug,
	ObservedSnoozed:      slog.LevelDebug,
	ObservedReleased:     slog.LevelDebug,
	ObservedBuried:       slog.LevelWarn,
	ObservedLeaseLost:    slog.LevelWarn,
	ObservedLeaseExpired: slog.LevelWarn,
	ObservedLaneLost:     slog.LevelWarn,
	ObservedRetired:      slog.LevelWarn,
	ObservedUnsubscribed: slog.LevelWarn,
	ObservedNotBegun:     slog.LevelWarn,
	ObservedPurgeFailed:  slog.LevelWarn,
	ObservedStuck:        slog.LevelError,
	ObservedStoreAway:    slog.LevelWarn,
}

func (r *runner) observe(o Observed) {
	if r.watcher != nil {
		r.watcher.watchEffect(r.now, o)
	}
	ctx := context.Background()
	level := levels[o.Event] // Info is zero
	if !r.log.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	if o.Handler != "" {
		attrs = append(attrs, slog.String("handler", o.Handler))
	}
	if o.Run != nil {
		attrs = append(attrs, runAttrs(o.Run)...)
	}
	if o.Lane != 0 || o.Run != nil {
		attrs = append(attrs, slog.Int64("lane", int64(o.Lane)))
	}
	if o.Err != nil && o.Event != ObservedRescheduled { // "handler failed" said why
		attrs = append(attrs, slog.Any("err", o.Err))
	}
	r.log.LogAttrs(ctx, level, "relaybus: "+o.Event, attrs...)
}

func runAttrs(run *Run) []slog.Attr {
	lease := &run.Picked.Lease
	return []slog.Attr{
		slog.Int64("delivery", int64(lease.Delivery)),
		slog.String("event", run.Picked.Delivery.Event),
		slog.Int("attempt", run.attempt()),
		slog.String("token", lease.Token.String()),
	}
}

// logFailure says why an attempt failed; the end that follows names only what
// became of the delivery.
func (r *runner) logFailure(run *Run, result RunResult) {
	if result.Outcome != Failed && result.Outcome != Cancelled && result.Outcome != CommitUnknown {
		return
	}
	r.log.LogAttrs(context.Background(), slog.LevelWarn, "relaybus: handler failed",
		slog.String("handler", run.Handler),
		slog.Int64("delivery", int64(run.Picked.Lease.Delivery)),
		slog.String("event", run.Picked.Delivery.Event),
		slog.Int("attempt", run.attempt()),
		slog.Int("max_attempts", run.MaxAttempts),
		slog.Any("err", result.Err))
}

// logDeaf reports an interruption loudly once, its repetitions quietly.
func (r *runner) logDeaf(err error, pause time.Duration) {
	level := slog.LevelDebug
	if pause == firstListenPause {
		level = slog.LevelWarn
	}
	r.log.LogAttrs(context.Background(), level, "relaybus: no wake-ups from the store, polling alone",
		slog.Duration("again_in", pause), slog.Any("err", err))
}
