-- A write of a row that the store refused before, tried again: charged an
-- attempt and a takeover, since the list does not say what the write was.
-- Locks: the delivery FOR NO KEY UPDATE.
-- Safe alone: the lane is locked.
-- $1 id.
update relaybus.deliveries set attempts = attempts + 1, takeovers = takeovers + 1 where id = $1 and status = 0
