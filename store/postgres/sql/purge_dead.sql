-- Action Purge: old dead letters go.
-- Locks: the deliveries FOR UPDATE SKIP LOCKED.
-- Safe alone: the condition is judged on each row under its lock, so a letter
-- that was requeued meanwhile stays.
-- $1 age, $2 limit.
delete from relaybus.deliveries d
 where d.id = any(array(
   select id from relaybus.deliveries where status = 1 and died_at < now() - $1::interval
    order by died_at, id limit $2 for update skip locked))
