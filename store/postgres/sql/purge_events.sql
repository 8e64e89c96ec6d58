-- Action Purge, second half: events without a delivery go.
-- Locks: none beyond those of lock_events.sql, which it needs.
-- Safe alone: a later statement than the lock, for what a condition reads
-- beside a locked row is not read again.
-- $1 events that were locked.
delete from relaybus.events e
 where e.seq = any($1::bigint[]) and not exists (select from relaybus.deliveries d where d.event_seq = e.seq)
