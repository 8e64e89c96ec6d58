package engine

import (
	"context"
	"time"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// DeliveryInfo is what a handler may know of the run it is in.
type DeliveryInfo struct {
	Delivery DeliveryID
	// Event, Type and Key are those of the event.
	Event, Type, Key string
	// Handler is the handler's name.
	Handler string
	Lane    LaneID
	// Sequence is the delivery's position in the commit order of its key.
	Sequence int64
	// PublishedAt is when the event was published, by the store's clock.
	PublishedAt time.Time
	// Headers travelled with the event. All its handlers share them: they
	// must not be changed.
	Headers []Header
	// Attempt counts the attempts charged before this run, plus one.
	Attempt int
	// MaxAttempts is the handler's limit; Attempt == MaxAttempts is the last.
	MaxAttempts int
	// Token is the lease, as logs and traces print it.
	Token string
}

// Middleware stands around a handler. It calls next at most once, with ctx or
// a context made from it, and returns next's error or another one in its
// place; returning nil without calling next completes the delivery unhandled.
type Middleware func(ctx context.Context, d DeliveryInfo, next func(context.Context) error) error

// DeliveryFrom returns the delivery that the handler with this context runs,
// and false outside of handlers.
func DeliveryFrom(ctx context.Context) (DeliveryInfo, bool) {
	run, ok := ctx.Value(deliveryKey{}).(*Run)
	if !ok {
		return DeliveryInfo{}, false
	}
	return run.describe(), true
}

// attempt returns the number of the attempt that the run is.
func (r *Run) attempt() int {
	switch {
	case mutant.On("attempt-off-by-one"):
		return int(r.Picked.Delivery.Attempts)
	case mutant.On("attempt-counts-takeovers"):
		return int(r.Picked.Delivery.Attempts+r.Picked.Delivery.Takeovers) + 1
	}
	return int(r.Picked.Delivery.Attempts) + 1
}

func (r *Run) describe() DeliveryInfo {
	lease, event := r.Picked.Lease, r.Picked.Event
	return DeliveryInfo{
		Delivery: lease.Delivery, Lane: lease.Lane, Token: lease.Token.String(),
		Event: event.ID, Type: event.Type, Key: event.Key,
		PublishedAt: event.PublishedAt.Std(), Headers: event.Headers,
		Handler: r.Handler, Sequence: r.Picked.Delivery.Sequence,
		Attempt: r.attempt(), MaxAttempts: r.MaxAttempts,
	}
}
