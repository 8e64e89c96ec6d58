-- Action Unsubscribe, second half: what is pending for the handler is deleted.
-- Locks: the deliveries FOR UPDATE, ascending.
-- Safe alone: as sweep_bury.sql.
-- $1 event type, $2 handler, $3 cursor, $4 limit.
with r as materialized (
  select d.id from relaybus.deliveries d join relaybus.events e on e.seq = d.event_seq
   where d.id > $3 and d.handler = $2 and d.status = 0 and e.type = $1 order by d.id limit $4 for update of d)
delete from relaybus.deliveries d using r where d.id = r.id returning d.id
