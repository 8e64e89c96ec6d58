package protocol

import "time"

// Due says when the deliveries of an event that is being published become due.
// The zero value means at once. It speaks of the deliveries that this Publish
// inserts, and is not kept with the event.
type Due struct {
	// Delay counts from the store's clock while it serves the Publish.
	Delay time.Duration
	// At is a reading of the store's clock; it counts when it is not zero.
	At Time
}

// From returns the available_at of a delivery inserted at now. A time that has
// passed means now: an earlier one would overtake what waits already.
func (d Due) From(now Time) Time {
	if d.At != 0 {
		return max(d.At, now)
	}
	return now.Add(max(d.Delay, 0))
}
