-- Action TakeOver, second half: what the former holder had in flight and is
-- still pending is charged, once for each (handler, key): followers of a chain
-- never started.
-- Locks: the deliveries FOR NO KEY UPDATE, ascending; dead ones too, so that
-- nobody requeues one before the takeover has committed.
-- Safe alone: the lanes are locked FOR UPDATE, so no end can be on its way.
-- $1 ids in flight, ascending, $2 their lanes; $3 which of them are charged.
with r as materialized (
  select d.id, d.lane, d.key, d.handler, d.status
    from unnest((select $1::bigint[]), (select $2::int[])) q(id, lane)
   cross join lateral (
     select * from relaybus.deliveries d where d.id = q.id and d.lane = q.lane for no key update) d)
update relaybus.deliveries d
   set takeovers = d.takeovers + 1,
       attempts = d.attempts + case when r.key is not null and exists (
         select from r e where e.status = 0 and e.lane = r.lane and e.key = r.key and e.handler = r.handler and e.id < r.id)
         then 0 else 1 end
  from r where d.id = r.id and r.status = 0 and r.id = any((select $3::bigint[])::bigint[])
