-- A window of events in the order they were published, and which of them are
-- old and have no delivery.
-- Locks: none.
-- Safe alone: lock_events.sql and purge_events.sql judge again.
-- $1 cursor, $2 window, $3 age.
select e.seq, e.published_at < now() - $3::interval as old,
       not exists (select from relaybus.deliveries d where d.event_seq = e.seq)
  from relaybus.events e where e.seq > $1 order by e.seq limit $2
