-- Action Subscribe: a group, its lanes and its subscriptions come to be.
-- Locks: groups FOR UPDATE, whose table was taken before, then the subscriptions
-- FOR NO KEY UPDATE, in order: that of their columns, not of the database; then
-- subscriptions_version FOR NO KEY UPDATE, by a trigger.
-- Safe alone: under that lock no group gets two numbers, no handler two groups.
-- $1 group, $2 event types, $3 handlers, $4 revive; $5 lanes per group.
with g as materialized (
  insert into relaybus.groups as v (name, number)
  values ($1, (select coalesce(max(number) + 1, 0) from relaybus.groups))
  on conflict (name) do update set number = v.number returning number),
lanes as (
  insert into relaybus.lanes (lane)
  select g.number * $5 + n from g cross join generate_series(0, $5 - 1) n on conflict do nothing)
insert into relaybus.subscriptions as s (event_type, handler, group_number)
select q.event_type, q.handler, g.number from g cross join unnest($2::text[], $3::text[]) q(event_type, handler)
 order by q.event_type collate "C", q.handler collate "C"
on conflict (event_type, handler) do update
   set seen_at = case when s.removed and not $4 then s.seen_at else greatest(s.seen_at, now()) end,
       removed = s.removed and not $4
