-- What the store holds for each handler, in the same snapshot.
-- Locks: none.
-- One pass over the deliveries, joined to the few that are in flight: a
-- subquery for each row would cost rows times entries.
with d as (
  select d.handler,
         count(*) filter (where d.status = 0) as pending,
         count(*) filter (where d.status = 0 and d.available_at <= now() and f.id is null) as due,
         min(d.available_at) filter (where d.status = 0 and d.available_at <= now() and f.id is null) as oldest,
         count(*) filter (where d.status = 1) as dead
    from relaybus.deliveries d
    left join (select distinct f.id from relaybus.lanes l cross join lateral unnest(l.in_flight) f(id)) f using (id)
   group by d.handler),
s as (
  select handler, max(seen_at) as seen_at, bool_or(not removed) as subscribed, bool_or(removed) as removed
    from relaybus.subscriptions group by handler)
select handler, coalesce(d.pending, 0), coalesce(d.due, 0), d.oldest, coalesce(d.dead, 0),
       s.seen_at, coalesce(s.subscribed, false), coalesce(s.removed, false)
  from d full join s using (handler) order by handler
