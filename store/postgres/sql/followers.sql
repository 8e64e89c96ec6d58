-- The pending rows behind the heads of keys, in sequence.
-- Locks: none.
-- Safe alone: the lanes are locked, so that nobody else grants them.
-- $1 lanes, $2 keys, $3 handlers, $4 ids of the heads; $5 rows per head.
select q.n, d.id, d.event_seq, d.available_at, d.attempts, d.takeovers,
       coalesce(d.last_error, ''), d.available_at <= now()
  from unnest((select $1::int[]), (select $2::text[]), (select $3::text[]), (select $4::bigint[]))
       with ordinality q(lane, key, handler, id, n)
 cross join lateral (
   select * from relaybus.deliveries d
    where d.lane = q.lane and d.status = 0 and d.key = q.key and d.handler = q.handler and d.id > q.id
    order by d.id limit $5) d
