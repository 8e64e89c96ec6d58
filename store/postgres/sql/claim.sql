-- Action Claim, second half: writes the lanes and returns the picked events.
-- Locks: none beyond those of lock_lanes.sql or take_over.sql, which it needs.
-- Safe alone: under those locks nobody else writes the lanes.
-- $1 lanes, $2 whether each is renewed; $3 lane, $4 delivery, $5 claim of each
-- entry that the lanes list from now on; $6 claim number; $7 lease length;
-- $8 clock above the lock; $9 ids, $10 lanes of entries that leave stuck;
-- $11 events that were picked.
with e as materialized (
  select lane, array_agg(id order by n) as ids, array_agg(claim order by n) as claims
    from unnest((select $3::int[]), (select $4::bigint[]), (select $5::bigint[]))
         with ordinality e(lane, id, claim, n) group by lane),
u as (
  update relaybus.lanes x
     set claim = $6, in_flight = coalesce(q.ids, '{}'), in_flight_claims = coalesce(q.claims, '{}'),
         stuck = case when x.stuck = '{}' then x.stuck else
           array(select s from unnest(x.stuck) s
                  where (s, x.lane) not in (select * from unnest((select $9::bigint[]), (select $10::int[])))) end,
         lease_expires_at = case when q.renew
           then least(greatest(x.lease_expires_at, now() + $7::interval), $8::timestamptz + $7::interval)
           else x.lease_expires_at end
    from (select * from unnest((select $1::int[]), (select $2::boolean[])) q(lane, renew)
           left join e using (lane)) q
   where x.lane = q.lane)
select q.seq, e.id, e.type, e.key, e.payload, e.headers, e.published_at, e.handlers
  from unnest((select $11::bigint[])) q(seq)
 cross join lateral (select * from relaybus.events e where e.seq = q.seq offset 0) e
