-- Action Bury: a run ends for good; the delivery becomes a dead letter.
-- Locks: the lane FOR NO KEY UPDATE, then the delivery FOR NO KEY
-- UPDATE.
-- Safe alone: the lane is read under its lock, and the row is judged again by
-- the update itself; the rest of the chain leaves in the same write.
-- $1 lane, $2 epoch, $3 holder, $4 delivery, $5 claim, $6 the delivery before
-- it in its chain or 0; $7, $8 deliveries and claims of the rest of the chain;
-- $9 whether it is charged, $10 error text.
with l as materialized (
  select x.lane from relaybus.lanes x
   where x.lane = $1 and x.epoch = $2 and x.holder = $3
     and x.in_flight_claims[array_position(x.in_flight, $4::bigint)] = $5::bigint for no key update),
d as (
  update relaybus.deliveries d
     set attempts = d.attempts + case when $9::boolean then 1 else 0 end, status = 1, died_at = clock_timestamp(), last_error = $10::text
    from l
   where d.id = $4 and d.lane = l.lane and d.status = 0
     and ($6 = 0 or not exists (select from relaybus.deliveries p where p.id = $6 and p.status = 0))
  returning d.id),
u as (
  update relaybus.lanes x set (in_flight, in_flight_claims) = (
    select coalesce(array_agg(f.id order by f.n), '{}'), coalesce(array_agg(f.claim order by f.n), '{}')
      from unnest(x.in_flight, x.in_flight_claims) with ordinality f(id, claim, n)
     where (f.id, f.claim) <> ($4::bigint, $5::bigint)
       and (f.id, f.claim) not in (select * from unnest((select $7::bigint[]), (select $8::bigint[])) r(id, claim)))
    from l, d where x.lane = l.lane)
select count(*), clock_timestamp() from d
