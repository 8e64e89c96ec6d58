-- First half of settling: waits for a handler's transaction of the delivery
-- that may still be open; it holds the row that it deleted.
-- Locks: the delivery FOR KEY SHARE, and no lane.
-- Safe alone: it changes nothing.
-- $1 delivery.
select id from relaybus.deliveries where id = $1 for key share
