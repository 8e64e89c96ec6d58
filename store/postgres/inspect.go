package postgres

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Lane is a lane as the store holds it.
type Lane struct {
	ID    engine.LaneID
	Group string
	// Holder is the 16 bytes of its holder in hex; empty: the lane is free.
	Holder string
	// Owner is the holder's name, or that of the last one.
	Owner     string
	Epoch     int64
	Claim     int64
	ExpiresAt engine.StoreTime // 0 when it was never held
	Expired   bool             // held, but its lease ran out
	InFlight  []protocol.InFlight
	Stuck     []engine.DeliveryID
}

// LaneState selects lanes.
type LaneState string

// The states of a lane that [Store.Lanes] selects by.
const (
	AnyLane     LaneState = ""
	HeldLane    LaneState = "held"    // a live lease
	ExpiredLane LaneState = "expired" // a lease that ran out, and nobody took over
	StuckLane   LaneState = "stuck"   // with deliveries that the server refuses to end
)

// LanesReply is the reply of [Store.Lanes], by id.
type LanesReply struct {
	Now   engine.StoreTime
	Lanes []Lane
}

// Lanes returns the lanes of all groups, 256 a group.
func (s *Store) Lanes(ctx context.Context, state LaneState) (LanesReply, error) {
	var reply LanesReply
	switch state {
	case AnyLane, HeldLane, ExpiredLane, StuckLane:
	default:
		return reply, fmt.Errorf("postgres: lanes: %w: state %q", engine.ErrInvalid, state)
	}
	err := s.look(ctx, "lanes", func(tx pgx.Tx, now protocol.Time) error {
		reply.Now = now
		return s.each(ctx, tx, "lanes", func(rows pgx.Rows) error {
			l, err := scanLane(rows)
			reply.Lanes = append(reply.Lanes, l)
			return err
		}, string(state), protocol.DefaultLanes)
	})
	return reply, err
}

func scanLane(rows pgx.Row) (Lane, error) {
	var l Lane
	var holder *[16]byte
	var ids []engine.DeliveryID
	var claims []int64
	err := rows.Scan(&l.ID, &l.Group, &holder, &l.Owner, &l.Epoch, &l.Claim, scanTime{&l.ExpiresAt}, &l.Expired, &ids, &claims, &l.Stuck)
	if holder != nil {
		l.Holder = hex.EncodeToString(holder[:])
	}
	for i, id := range ids[:min(len(ids), len(claims))] { // Verify reports lists that differ
		l.InFlight = append(l.InFlight, protocol.InFlight{Delivery: id, Claim: claims[i]})
	}
	return l, err
}

// Subscription is a handler of an event type, as the store knows it.
type Subscription struct {
	Event, Handler, Group string
	SeenAt                engine.StoreTime // when a bus with the handler last said so
	Removed               bool
}

// SubscriptionsReply is the reply of [Store.Subscriptions], by event and handler.
type SubscriptionsReply struct {
	Now           engine.StoreTime
	Subscriptions []Subscription
}

// Subscriptions returns all subscriptions, the removed ones too.
func (s *Store) Subscriptions(ctx context.Context) (SubscriptionsReply, error) {
	var reply SubscriptionsReply
	err := s.look(ctx, "subscriptions", func(tx pgx.Tx, now protocol.Time) error {
		reply.Now = now
		return s.each(ctx, tx, "subscriptions", func(rows pgx.Rows) error {
			var n Subscription
			err := rows.Scan(&n.Event, &n.Handler, &n.Group, scanTime{&n.SeenAt}, &n.Removed)
			reply.Subscriptions = append(reply.Subscriptions, n)
			return err
		})
	})
	return reply, err
}

// Shown is all that the store knows about one delivery.
type Shown struct {
	Now engine.StoreTime
	// Listed is the delivery with its event; nil when there is no such row.
	Listed *engine.Listed
	// Lane is the lane of the row; nil without one.
	Lane *Lane
	// InFlight: the lane lists it, under Claim; whether its lease lives, Lane
	// says.
	InFlight bool
	Claim    int64
	Stuck    bool
	// Completed is its row in the completion history, when there is no
	// delivery and a history was kept. Looking for it reads the whole history.
	Completed *Completion
}

// Completion is a row of the completion history.
type Completion struct {
	Delivery     engine.DeliveryID
	Handler, Key string
	EventID      string // empty when the event was purged
	Attempts     int    // that failed before
	CompletedAt  engine.StoreTime
}

// Show returns one delivery with its event and its lane, in one snapshot.
func (s *Store) Show(ctx context.Context, id engine.DeliveryID) (Shown, error) {
	var shown Shown
	err := s.look(ctx, "show", func(tx pgx.Tx, now protocol.Time) error {
		shown.Now = now
		err := s.each(ctx, tx, "list", func(rows pgx.Rows) error {
			l, err := scanListed(rows)
			if l.Delivery.ID == id {
				shown.Listed = &l
			}
			return err
		}, listArguments(engine.ListInput{After: id - 1, Limit: 1})...)
		if err != nil {
			return err
		}
		if shown.Listed == nil {
			return s.showCompleted(ctx, tx, id, &shown)
		}
		return s.showLane(ctx, tx, &shown)
	})
	return shown, err
}

func (s *Store) showLane(ctx context.Context, tx pgx.Tx, shown *Shown) error {
	d := &shown.Listed.Delivery
	err := s.each(ctx, tx, "show_lane", func(rows pgx.Rows) error {
		l, err := scanLane(rows)
		shown.Lane = &l
		return err
	}, d.Lane, protocol.DefaultLanes)
	if err != nil || shown.Lane == nil {
		return err
	}
	for _, f := range shown.Lane.InFlight {
		if f.Delivery == d.ID {
			shown.InFlight, shown.Claim = true, f.Claim
		}
	}
	for _, id := range shown.Lane.Stuck {
		shown.Stuck = shown.Stuck || id == d.ID
	}
	return nil
}

func (s *Store) showCompleted(ctx context.Context, tx pgx.Tx, id engine.DeliveryID, shown *Shown) error {
	return s.each(ctx, tx, "show_completed", func(rows pgx.Rows) error {
		c := Completion{Delivery: id}
		err := rows.Scan(&c.Handler, scanText{&c.Key}, scanText{&c.EventID}, &c.Attempts, scanTime{&c.CompletedAt})
		shown.Completed = &c
		return err
	}, id)
}
