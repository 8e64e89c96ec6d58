-- Action Release, second half: entries leave the lanes' lists.
-- Locks: none beyond those of lock_lanes.sql, which it needs.
-- Safe alone: guards were checked on the locked rows.
-- $1 lanes; $2 lane, $3 delivery, $4 claim of each entry that stays.
with e as materialized (
  select * from unnest((select $2::int[]), (select $3::bigint[]), (select $4::bigint[]))
         with ordinality e(lane, id, claim, n))
update relaybus.lanes x
   set in_flight = coalesce((select array_agg(e.id order by e.n) from e where e.lane = x.lane), '{}'),
       in_flight_claims = coalesce((select array_agg(e.claim order by e.n) from e where e.lane = x.lane), '{}')
 where x.lane = any($1::int[])
