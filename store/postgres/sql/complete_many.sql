-- Action CompleteMany: ends runs of handlers that own no transaction.
-- Locks: the lanes FOR KEY SHARE, in the order given (ascending), then the
-- deliveries FOR UPDATE, ascending: those of chains before any is deleted, and
-- with them whatever has a lower id, or the deletions would not go on upwards.
-- Safe alone: KEY SHARE stands against a takeover's FOR UPDATE and lets the
-- owner's own claims and renewals pass. It does not read the lane again, so a
-- row that was written since this statement's snapshot (xmin moved) stays, and
-- the lease, with what follows it in its chain, is for the next statement to
-- judge. So is one whose row is gone: only a statement that began later reads
-- whether the lane lists it still.
-- $1 lanes, $2 epochs, $3 holders; per lease: $4 which of those, counted from
-- 1, $5 lane, $6 delivery, $7 claim, $8 the delivery before it in its chain
-- when that is not in this call, else 0, $9 number of its chain in this call,
-- leases of a chain in order, $10 whether an earlier statement saw the row gone;
-- $11 keep a history.
-- Returns the clock, and per lease that was not Applied whether it may be,
-- whether it and all before it in its chain were, and whether its row is gone.
with l as materialized (
  select q.fence, x.lane, x.in_flight || '{}' as in_flight, x.in_flight_claims || '{}' as in_flight_claims
    from unnest((select $1::int[]), (select $2::bigint[]), (select $3::uuid[])) with ordinality q(lane, epoch, holder, fence)
   cross join lateral (
     select * from relaybus.lanes x
      where x.lane = q.lane and x.epoch = q.epoch and x.holder = q.holder for key share) x),
s as materialized (
  select w.n, w.id, d.row_id, d.row_version, w.chain, w.gone,
         coalesce(l.in_flight_claims[array_position(l.in_flight, w.id)] = w.claim, false)
           and (d.id is null or d.lane = w.lane and d.status = 0)
           and (w.after = 0 or not exists (
             select from relaybus.deliveries p where p.id = w.after and p.status = 0)) as fit
    from unnest((select $4::int[]), (select $5::int[]), (select $6::bigint[]), (select $7::bigint[]), (select $8::bigint[]),
                (select $9::int[]), (select $10::boolean[])) with ordinality w(fence, lane, id, claim, after, chain, gone, n)
    left join l on l.fence = w.fence
    left join lateral (
      select d.id, d.ctid as row_id, d.xmin as row_version, d.lane, d.status
        from relaybus.deliveries d where d.id = w.id offset 0) d on true),
f as materialized (
  select s.*, bool_and(s.fit) over (partition by s.chain order by s.n) as ok,
         count(*) over (partition by s.chain) = 1 as alone from s),
t as materialized (
  select d.* from (
    select * from f where f.ok and f.row_id is not null and f.id <= (select max(id) from f where not f.alone) order by f.id) f
   cross join lateral (
     select d.id from relaybus.deliveries d
      where d.ctid = f.row_id and d.xmin = f.row_version for update) d),
g as materialized (
  select f.n, f.id, f.ok, f.row_id, f.row_version, f.row_id is null as gone,
         bool_and(case when f.row_id is null then f.gone else f.alone or f.id in (select id from t) end)
           over (partition by f.chain order by f.n) as whole
    from f),
del as (
  delete from relaybus.deliveries d
   using (select * from g where g.ok and g.whole and not g.gone order by g.id offset 0) g
   where d.ctid = g.row_id and d.xmin = g.row_version
  returning d.id, d.event_seq, d.handler, d.key, d.attempts),
kept as (
  insert into relaybus.completions (id, event_seq, handler, key, attempts)
  select id, event_seq, handler, key, attempts from del where $11)
select g.n, g.ok, g.applied, g.gone, now
  from (select clock_timestamp() as now) c
  left join (select g.*, g.whole and (g.gone or g.id in (select id from del)) as applied from g) g
    on (g.ok and g.applied) is not true
