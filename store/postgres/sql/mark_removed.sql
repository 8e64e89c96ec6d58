-- Action Unsubscribe, first half: the subscription is marked as removed.
-- Locks: the subscription FOR NO KEY UPDATE; then subscriptions_version FOR NO
-- KEY UPDATE, by a trigger.
-- Safe alone: what a publisher adds meanwhile, Purge sweeps.
-- $1 event type, $2 handler, $3 only one that is removed already.
update relaybus.subscriptions set removed = true where event_type = $1 and handler = $2 and (removed or not $3)
