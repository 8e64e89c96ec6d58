-- Action Unsubscribe, second half: what is pending for the handler dies.
-- Locks: the deliveries FOR UPDATE, ascending.
-- Safe alone: a statement behind the one that marked the handler; the row is
-- judged again under its lock.
-- $1 event type, $2 handler, $3 cursor, $4 limit, $5 reason.
with r as materialized (
  select d.id from relaybus.deliveries d join relaybus.events e on e.seq = d.event_seq
   where d.id > $3 and d.handler = $2 and d.status = 0 and e.type = $1 order by d.id limit $4 for update of d)
update relaybus.deliveries d set status = 1, died_at = now(), last_error = $5 from r where d.id = r.id returning d.id
