-- Lanes with what they list.
-- Locks: none.
-- $1 state: held, expired, stuck, or empty for all; $2 lanes per group.
select l.lane, coalesce(g.name, ''), l.holder, l.owner, l.epoch, l.claim, l.lease_expires_at,
       l.holder is not null and l.lease_expires_at < now(), l.in_flight, l.in_flight_claims, l.stuck
  from relaybus.lanes l left join relaybus.groups g on g.number = l.lane / $2::int
 where case $1::text when 'held' then l.holder is not null and l.lease_expires_at >= now()
                     when 'expired' then l.holder is not null and l.lease_expires_at < now()
                     when 'stuck' then cardinality(l.stuck) > 0
                     else true end
 order by l.lane
