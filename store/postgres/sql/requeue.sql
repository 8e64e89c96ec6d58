-- Action Requeue: dead letters are pending again, due now, nothing charged.
-- Locks: the lanes FOR KEY SHARE, ascending, then the deliveries FOR NO KEY
-- UPDATE, in the order given (ascending).
-- Safe alone: the condition is judged on the locked row. The lanes are there
-- for the order alone: a takeover, which charges the rows of some lanes before
-- it comes to others, passes over these, and so waits for no row of theirs.
-- $1 ids; $2, $3 bounds of the time of death or null; $4 at most.
with l as materialized (
  select x.lane from (
    select distinct d.lane from unnest((select $1::bigint[])) q(id)
     cross join lateral (select d.lane from relaybus.deliveries d where d.id = q.id offset 0) d order by d.lane) q
   cross join lateral (select * from relaybus.lanes x where x.lane = q.lane for key share) x),
r as materialized (
  select d.id from unnest((select $1::bigint[] where (select count(*) from l) >= 0)) q(id)
   cross join lateral (
     select * from relaybus.deliveries d
      where d.id = q.id and d.status = 1
        and ($2::timestamptz is null or d.died_at >= $2) and ($3::timestamptz is null or d.died_at < $3)
        for no key update) d
   limit $4)
update relaybus.deliveries d
   set status = 0, attempts = 0, takeovers = 0, available_at = now(), died_at = null
  from r where d.id = r.id
