package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// subscribers is a set of subscriptions that a snapshot showed. A publisher
// remembers it, so that publishing need not look each handler up; the name of
// the set, which changes with it, is compared by the statement that publishes,
// in its own snapshot.
type subscribers struct {
	version [16]byte
	of      map[string][]subscriber // by event type, handlers ascending
	text    map[string]string       // by event type: the handlers as an array's text
}

type subscriber struct {
	handler string
	lane    int32 // the first of its group
}

var errNoVersion = errors.New("table subscriptions_version is empty: relaybus migrate validate says how to mend it")

// subscribersFor returns the set remembered last, or else the one that the
// transaction sees.
func (s *Store) subscribersFor(ctx context.Context, tx pgx.Tx) (*subscribers, error) {
	if set := s.subscribers.Load(); set != nil {
		return set, nil
	}
	rows, err := tx.Query(ctx, s.sql.named("subscribers"))
	if err != nil {
		return nil, err
	}
	set, err := readSubscribers(rows)
	if err != nil {
		return nil, err
	}
	s.subscribers.Store(set)
	return set, nil
}

func readSubscribers(rows pgx.Rows) (*subscribers, error) {
	defer rows.Close()
	set := &subscribers{of: map[string][]subscriber{}, text: map[string]string{}}
	found := false
	for rows.Next() {
		var version pgtype.UUID
		var event, handler *string
		var group *int32
		if err := rows.Scan(&version, &event, &handler, &group); err != nil {
			return nil, err
		}
		found, set.version = true, version.Bytes
		if event != nil {
			set.of[*event] = append(set.of[*event], subscriber{*handler, *group * protocol.DefaultLanes})
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if !found {
		return nil, errNoVersion
	}
	for event, list := range set.of {
		set.text[event] = arrayText(list)
	}
	return set, nil
}

var arrayEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// arrayText writes the handlers as PostgreSQL reads an array.
func arrayText(list []subscriber) string {
	quoted := make([]string, len(list))
	for i, one := range list {
		quoted[i] = `"` + arrayEscapes.Replace(one.handler) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}

// deliveryList is a publication's deliveries, one slice per column.
type deliveryList struct {
	ids, handlers []string
	lanes         []int32
	dues          []*time.Time
	delays        []*pgtype.Interval
}

// deliveries returns what a publication becomes: per event its handlers, and
// the deliveries in the order of sequences.
func (set *subscribers) deliveries(p *publication) (handlers []string, list *deliveryList) {
	n := len(p.ids)
	handlers = make([]string, n)
	list = &deliveryList{
		ids: make([]string, 0, n), handlers: make([]string, 0, n), lanes: make([]int32, 0, n),
		dues: make([]*time.Time, 0, n), delays: make([]*pgtype.Interval, 0, n),
	}
	for i, id := range p.ids {
		handlers[i] = "{}"
		of := set.of[p.types[i]]
		if len(of) == 0 {
			continue
		}
		handlers[i] = set.text[p.types[i]]
		key := ""
		if p.keys[i] != nil {
			key = *p.keys[i]
		}
		lane := int32(protocol.LaneOf(0, protocol.DefaultLanes, key, id))
		for _, one := range of {
			list.add(id, one.handler, one.lane+lane, p.dues[i])
		}
	}
	return handlers, list
}

func (l *deliveryList) add(id, handler string, lane int32, due protocol.Due) {
	l.ids, l.handlers, l.lanes = append(l.ids, id), append(l.handlers, handler), append(l.lanes, lane)
	var at *time.Time
	if due.At != 0 {
		t := due.At.Std()
		at = &t
	}
	var delay *pgtype.Interval
	if due.Delay > 0 {
		d := interval(due.Delay)
		delay = &d
	}
	l.dues, l.delays = append(l.dues, at), append(l.delays, delay)
}
