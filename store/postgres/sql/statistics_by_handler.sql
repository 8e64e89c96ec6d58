-- What the store holds for each handler, in the same snapshot.
-- Locks: none.
with flying as materialized (select f.id from relaybus.lanes l cross join lateral unnest(l.in_flight) f(id)),
d as (
  select handler,
         count(*) filter (where status = 0) as pending,
         count(*) filter (where status = 0 and available_at <= now()
                            and not exists (select from flying f where f.id = d.id)) as due,
         min(available_at) filter (where status = 0 and available_at <= now()
                            and not exists (select from flying f where f.id = d.id)) as oldest,
         count(*) filter (where status = 1) as dead
    from relaybus.deliveries d group by handler),
s as (
  select handler, max(seen_at) as seen_at, bool_or(not removed) as subscribed, bool_or(removed) as removed
    from relaybus.subscriptions group by handler)
select handler, coalesce(d.pending, 0), coalesce(d.due, 0), d.oldest, coalesce(d.dead, 0),
       s.seen_at, coalesce(s.subscribed, false), coalesce(s.removed, false)
  from d full join s using (handler) order by handler
