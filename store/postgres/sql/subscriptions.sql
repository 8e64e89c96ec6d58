-- Subscriptions with their group.
-- Locks: none.
select s.event_type, s.handler, g.name, s.seen_at, s.removed
  from relaybus.subscriptions s join relaybus.groups g on g.number = s.group_number
 order by s.event_type, s.handler
