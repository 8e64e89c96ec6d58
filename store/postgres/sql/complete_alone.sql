-- Action CompleteMany of runs that stand alone: none follows another of the call
-- or waits for one before it.
-- Locks: the lanes FOR KEY SHARE, in the order given (ascending), then the
-- deliveries FOR UPDATE, ascending.
-- Safe alone: as complete_many.sql, which it is without the chains; those cost a
-- third of its time.
-- $1 lanes, $2 epochs, $3 holders; per lease: $4 which of those, counted from
-- 1, $5 lane, $6 delivery, $7 claim, $8 whether an earlier statement saw the row
-- gone; $9 keep a history.
-- Returns the clock, and per lease that was not Applied whether it may be,
-- whether it was, and whether its row is gone.
with l as materialized (
  select q.fence, x.lane, x.in_flight || '{}' as in_flight, x.in_flight_claims || '{}' as in_flight_claims
    from unnest((select $1::int[]), (select $2::bigint[]), (select $3::uuid[])) with ordinality q(lane, epoch, holder, fence)
   cross join lateral (
     select * from relaybus.lanes x
      where x.lane = q.lane and x.epoch = q.epoch and x.holder = q.holder for key share) x),
f as materialized (
  select w.n, w.id, w.gone, d.row_id, d.row_version,
         coalesce(l.in_flight_claims[array_position(l.in_flight, w.id)] = w.claim, false)
           and (d.id is null or d.lane = w.lane and d.status = 0) as ok
    from unnest((select $4::int[]), (select $5::int[]), (select $6::bigint[]), (select $7::bigint[]), (select $8::boolean[]))
         with ordinality w(fence, lane, id, claim, gone, n)
    left join l on l.fence = w.fence
    left join lateral (
      select d.id, d.ctid as row_id, d.xmin as row_version, d.lane, d.status
        from relaybus.deliveries d where d.id = w.id offset 0) d on true),
del as (
  delete from relaybus.deliveries d
   using (select * from f where f.ok and f.row_id is not null order by f.id offset 0) f
   where d.ctid = f.row_id and d.xmin = f.row_version
  returning d.id, d.event_seq, d.handler, d.key, d.attempts),
kept as (
  insert into relaybus.completions (id, event_seq, handler, key, attempts)
  select id, event_seq, handler, key, attempts from del where $9)
select f.n, f.ok, f.whole, f.row_id is null, now
  from (select clock_timestamp() as now) c
  left join (
    select f.*, case when f.row_id is null then f.gone else f.id in (select id from del) end as whole from f) f
    on (f.ok and f.whole) is not true
