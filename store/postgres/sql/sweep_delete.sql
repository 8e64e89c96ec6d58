-- Action Unsubscribe, second half: what is pending for the handler is deleted.
-- Locks: the lanes FOR KEY SHARE, ascending, then the deliveries FOR UPDATE,
-- ascending.
-- Safe alone: as sweep_bury.sql.
-- $1 event type, $2 handler, $3 cursor, $4 limit.
with r as materialized (
  select d.id, d.lane from relaybus.deliveries d join relaybus.events e on e.seq = d.event_seq
   where d.id > $3 and d.handler = $2 and d.status = 0 and e.type = $1 order by d.id limit $4),
l as materialized (
  select x.lane from (select distinct r.lane from r order by r.lane) q
   cross join lateral (select * from relaybus.lanes x where x.lane = q.lane for key share) x),
k as materialized (
  select d.id from (select r.id from r where (select count(*) from l) >= 0 order by r.id) r
   cross join lateral (select * from relaybus.deliveries d where d.id = r.id and d.status = 0 for update) d),
s as (
  delete from relaybus.deliveries d using k where d.id = k.id returning d.id)
select r.id, r.id in (select id from s) from r
