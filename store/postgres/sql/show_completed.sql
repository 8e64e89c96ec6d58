-- A delivery's row in the completion history.
-- Locks: none.
-- $1 delivery.
select c.handler, c.key, e.id, c.attempts, c.completed_at
  from relaybus.completions c left join relaybus.events e on e.seq = c.event_seq where c.id = $1 limit 1
