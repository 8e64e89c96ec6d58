-- One lane with what it lists.
-- Locks: none.
-- $1 lane; $2 lanes per group.
select l.lane, coalesce(g.name, ''), l.holder, l.owner, l.epoch, l.claim, l.lease_expires_at,
       l.holder is not null and l.lease_expires_at < now(), l.in_flight, l.in_flight_claims, l.stuck
  from relaybus.lanes l left join relaybus.groups g on g.number = l.lane / $2::int
 where l.lane = $1
