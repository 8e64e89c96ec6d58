-- Action TakeOver, first half: lanes that are free or expired change hands.
-- Locks: the lanes FOR UPDATE SKIP LOCKED.
-- Safe alone: UPDATE strength comes before the write, because FOR KEY SHARE of
-- a completion does not read a row again that a plain update changed, and
-- would let the old epoch in. What was in flight is charged, and what is to be
-- done picked, in later statements.
-- $1 first lane, $2 behind the last; $3 where to begin; $4 holder, $5 owner,
-- $6 claim number of the call; $7 lease length; $8 how many; $9 handlers with
-- room; $10 a suspect runs; $11 stuck rows are tried again; $12, $13 lane and
-- epoch of free lanes to avoid.
with c as materialized (
  select x.lane from (
    (select * from relaybus.lanes where lane >= $1::int + $3::int and lane < $2 order by lane)
    union all
    (select * from relaybus.lanes where lane >= $1::int and lane < $1::int + $3::int order by lane)) x
   where case when x.holder is not null then x.holder <> $4 and x.lease_expires_at < now()
         else (x.last_holder is distinct from $4 or $6 > x.claim)
          and ($11 and x.stuck <> '{}'
            or (x.lane, x.epoch) not in (select * from unnest((select $12::int[]), (select $13::bigint[])))
           and (exists (
                 select from relaybus.deliveries d
                  where d.lane = x.lane and d.status = 0 and d.key is null and d.available_at <= now()
                    and d.handler = any((select $9::text[])::text[])
                    and (d.takeovers = 0 or not $10) and d.id <> all(x.stuck))
             or (with recursive heads as (
                   (select d.id, d.key, d.handler, d.available_at, d.takeovers
                      from relaybus.deliveries d
                     where d.lane = x.lane and d.status = 0 and d.key is not null
                     order by d.key, d.handler, d.id limit 1)
                   union all
                   select n.* from heads cross join lateral (
                     select d.id, d.key, d.handler, d.available_at, d.takeovers
                       from relaybus.deliveries d
                      where d.lane = x.lane and d.status = 0 and d.key is not null
                        and (d.key, d.handler) > (heads.key, heads.handler)
                      order by d.key, d.handler, d.id limit 1) n)
                 select count(*) filter (where h.available_at <= now() and h.handler = any((select $9::text[])::text[])
                                           and (h.takeovers = 0 or not $10) and h.id <> all(x.stuck)) > 0
                        or count(*) = 200
                   from (select * from heads limit 200) h)))
         end
   limit 2 * $8),
l as materialized (
  select x.* from c cross join lateral (
    select * from relaybus.lanes x
     where x.lane = c.lane
       and case when x.holder is not null then x.holder <> $4 and x.lease_expires_at < now()
           else x.last_holder is distinct from $4 or $6 > x.claim end
       for update skip locked) x
   limit $8),
u as (
  update relaybus.lanes x
     set epoch = x.epoch + 1, holder = $4, last_holder = null, owner = $5, claim = $6 - 1,
         lease_expires_at = clock_timestamp() + $7::interval
    from l where x.lane = l.lane
  returning x.lane, x.epoch, x.lease_expires_at)
select u.lane, u.epoch, $6 - 1, u.lease_expires_at, l.in_flight, l.in_flight_claims, l.stuck,
       now(), u.lease_expires_at - $7::interval
  from l join u using (lane) order by u.lane
