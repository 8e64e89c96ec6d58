-- What the store holds, in one snapshot.
-- Locks: none.
with flying as materialized (
  select f.id, l.holder is not null and l.lease_expires_at >= now() as live
    from relaybus.lanes l cross join lateral unnest(l.in_flight) f(id)),
running as materialized (
  select d.id, d.key is null or row_number() over (partition by d.key, d.handler order by d.id) = 1 as head
    from flying f join relaybus.deliveries d on d.id = f.id where f.live and d.status = 0)
select now(),
       (select count(*) from relaybus.events),
       (select count(*) from relaybus.completions),
       (select count(*) from running where head),
       (select count(*) from running where not head),
       (select coalesce(sum(cardinality(stuck)), 0) from relaybus.lanes),
       (select count(*) from relaybus.lanes where holder is not null and lease_expires_at >= now()),
       (select count(*) from relaybus.lanes where holder is not null and lease_expires_at < now())
