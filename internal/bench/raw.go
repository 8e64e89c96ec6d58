package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// The statements of the bare loop: what the protocol has to do in PostgreSQL,
// with nothing around it. No handler, no retry, no chains, no other worker.
const (
	rawTake = `update %[1]s.lanes set epoch = epoch + 1, holder = $1, claim = 1, lease_expires_at = now() + interval '1 hour'`

	// One statement: lock, keep what runs, pick, write, return the events.
	rawClaim = `with l as materialized (
  select x.* from unnest((select $1::int[])) q(lane)
   cross join lateral (select * from %[1]s.lanes x where x.lane = q.lane and x.holder = $2 and x.claim < $3 for no key update) x),
p as materialized (
  select l.lane, d.id, d.event_seq from l cross join lateral (
    select * from %[1]s.deliveries d
     where d.lane = l.lane and d.status = 0 and d.key is null and d.available_at <= now()
       and d.handler = any((select $4::text[])::text[]) and d.id <> all((select $5::bigint[])::bigint[])
     order by d.available_at, d.id limit 25) d),
u as (
  update %[1]s.lanes x
     set claim = $3, lease_expires_at = now() + interval '1 hour',
         in_flight = array(select id from unnest(l.in_flight) id where id = any((select $5::bigint[])::bigint[]))
                     || array(select p.id from p where p.lane = x.lane),
         in_flight_claims = array(select c from unnest(l.in_flight, l.in_flight_claims) k(id, c) where id = any((select $5::bigint[])::bigint[]))
                     || array(select $3::bigint from p where p.lane = x.lane)
    from l where x.lane = l.lane)
select p.lane, p.id, e.id, e.type, e.payload from p
  left join lateral (select * from %[1]s.events e where e.seq = p.event_seq offset 0) e on true`

	rawComplete = `with l as materialized (
  select x.* from unnest((select $1::int[])) q(lane)
   cross join lateral (select * from %[1]s.lanes x where x.lane = q.lane and x.holder = $2 for key share) x),
t as materialized (
  select w.id from unnest((select $3::int[]), (select $4::bigint[]), (select $5::bigint[])) w(lane, id, claim) join l using (lane)
   where l.in_flight_claims[array_position(l.in_flight, w.id)] = w.claim),
del as (delete from %[1]s.deliveries d where d.id = any(array(select id from t)))
select count(*) from t`

	rawSettings = `select set_config('synchronous_commit', $1, true), set_config('plan_cache_mode', 'force_generic_plan', true),
  set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`
)

// rawLoop is one worker of the bare loop, with the completion of a batch
// overlapped with the next claim.
type rawLoop struct {
	schema                string
	holder                protocol.Holder
	claims, completes     *pgxpool.Conn
	claim                 int64
	next                  int32
	runs                  []sighting
	claimText, finishText string
}

// grab is what one claim got.
type grab struct {
	claim int64
	lanes []int32
	ids   []int64
}

// raw measures the bare loop on n preloaded events.
func (r *run) raw(ctx context.Context, n int) (result float64, err error) {
	err = r.in(ctx, func(p *place) error {
		if err := p.preload(ctx, 0, n, noKey); err != nil {
			return err
		}
		l, err := newRawLoop(ctx, r.admin, p)
		if err != nil {
			return err
		}
		defer l.close()
		if err := l.work(ctx, n); err != nil {
			return fmt.Errorf("bench: raw loop: %w", err)
		}
		result = r.judge([]report{{Runs: l.runs}}, 0, n, noKey)
		return nil
	})
	return result, err
}

func newRawLoop(ctx context.Context, pool *pgxpool.Pool, p *place) (*rawLoop, error) {
	l := &rawLoop{schema: pgx.Identifier{p.schema}.Sanitize(), holder: protocol.Holder{1}, claim: 1}
	l.claimText, l.finishText = fmt.Sprintf(rawClaim, l.schema), fmt.Sprintf(rawComplete, l.schema)
	if _, err := pool.Exec(ctx, fmt.Sprintf(rawTake, l.schema), [16]byte(l.holder)); err != nil {
		return nil, fmt.Errorf("bench: raw loop: %w", err)
	}
	var err error
	if l.claims, err = pool.Acquire(ctx); err != nil {
		return nil, fmt.Errorf("bench: raw loop: %w", err)
	}
	if l.completes, err = pool.Acquire(ctx); err != nil {
		l.claims.Release()
		return nil, fmt.Errorf("bench: raw loop: %w", err)
	}
	return l, nil
}

func (l *rawLoop) close() {
	l.claims.Release()
	l.completes.Release()
}

// work goes on until n deliveries were completed.
func (l *rawLoop) work(ctx context.Context, n int) error {
	acknowledged := make(chan error, 1)
	acknowledged <- nil
	var finishing grab
	for len(l.runs) < n {
		got, err := l.grab(ctx, finishing.ids)
		if err != nil {
			return err
		}
		if err := <-acknowledged; err != nil {
			return err
		}
		finishing = got
		go func() { acknowledged <- l.finish(ctx, got) }()
	}
	return <-acknowledged
}

// grab claims from the next eight lanes.
func (l *rawLoop) grab(ctx context.Context, running []int64) (grab, error) {
	const lanes = 8
	l.claim++
	got := grab{claim: l.claim}
	named := make([]int32, lanes)
	for i := range named {
		named[i] = (l.next + int32(i)) % protocol.DefaultLanes
	}
	l.next = (l.next + lanes) % protocol.DefaultLanes
	if running == nil {
		running = []int64{}
	}
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed")
	b.Queue(rawSettings, "off")
	b.Queue(l.claimText, named, [16]byte(l.holder), l.claim, []string{handlerName}, running).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var lane int32
			var id int64
			var event, typ string
			var payload []byte
			if err := rows.Scan(&lane, &id, &event, &typ, &payload); err != nil {
				return err
			}
			i, err := strconv.Atoi(string(payload))
			if err != nil {
				return err
			}
			got.lanes, got.ids = append(got.lanes, lane), append(got.ids, id)
			l.runs = append(l.runs, sighting{i, time.Now().UnixNano()})
		}
		return rows.Err()
	})
	b.Queue("commit")
	return got, l.claims.SendBatch(ctx, b).Close()
}

func (l *rawLoop) finish(ctx context.Context, got grab) error {
	if len(got.ids) == 0 {
		return nil
	}
	var lanes []int32 // each once; the picks stand lane by lane
	claims := make([]int64, len(got.ids))
	for i, lane := range got.lanes {
		if i == 0 || lane != got.lanes[i-1] {
			lanes = append(lanes, lane)
		}
		claims[i] = got.claim
	}
	done := 0
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed")
	b.Queue(rawSettings, "on")
	b.Queue(l.finishText, lanes, [16]byte(l.holder), got.lanes, got.ids, claims).QueryRow(func(row pgx.Row) error { return row.Scan(&done) })
	b.Queue("commit")
	if err := l.completes.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if done != len(got.ids) {
		return fmt.Errorf("%d of %d completions were accepted", done, len(got.ids))
	}
	return nil
}
