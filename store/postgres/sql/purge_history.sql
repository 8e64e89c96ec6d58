-- Old completions go. No action of the protocol: the history is the
-- operator's business.
-- Locks: the completions FOR UPDATE SKIP LOCKED.
-- $1 age, $2 limit.
delete from relaybus.completions c
 where c.ctid = any(array(
   select ctid from relaybus.completions where completed_at < now() - $1::interval limit $2 for update skip locked))
