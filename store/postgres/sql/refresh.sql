-- Action Subscribe of a bus that is known already.
-- Locks: its subscriptions FOR NO KEY UPDATE, in order; then
-- subscriptions_version FOR NO KEY UPDATE, by a trigger, when it revives one.
-- Safe alone: it moves seen_at forward and revives only when told to.
-- $1 group, $2 event types, $3 handlers, $4 revive; $5 lanes per group.
with g as materialized (select number from relaybus.groups where name = $1),
l as materialized (
  select s.event_type, s.handler from relaybus.subscriptions s
   where (s.event_type, s.handler) in (select * from unnest($2::text[], $3::text[]))
     and s.group_number = (select number from g)
   order by s.event_type, s.handler for no key update),
u as (
  update relaybus.subscriptions s
     set seen_at = case when s.removed and not $4 then s.seen_at else greatest(s.seen_at, now()) end,
         removed = s.removed and not $4
    from l where s.event_type = l.event_type and s.handler = l.handler
  returning s.event_type, s.handler, s.removed)
select coalesce((select number from g), -1),
       (select count(*) from relaybus.lanes x join g on x.lane >= g.number * $5 and x.lane < (g.number + 1) * $5),
       clock_timestamp(), u.event_type, u.handler, u.removed
  from (select 1) one left join u on true
