-- What publishers remember of the subscriptions, with the name of that set.
-- Locks: none.
-- Safe alone: it is one snapshot, and a publisher uses it only where the name
-- is that of its own statement's snapshot.
select v.version, s.event_type, s.handler, s.group_number
  from relaybus.subscriptions_version v left join relaybus.subscriptions s on not s.removed
 order by s.event_type, s.handler
