-- Action Purge, first half: locks events, so that no publisher adds a handler.
-- Locks: the events FOR UPDATE SKIP LOCKED.
-- Safe alone: it changes nothing.
-- $1 events.
select e.seq from unnest((select $1::bigint[])) q(seq)
 cross join lateral (select * from relaybus.events e where e.seq = q.seq for update skip locked) e
