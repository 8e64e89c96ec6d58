-- Rows that no interleaving excuses: one finding each.
-- Locks: none.
-- $1 reason that a swept delivery died of.
select 'impossible status' as "check", d.id, d.lane, format('status %s', d.status) from relaybus.deliveries d where d.status not in (0, 1)
union all
select 'duplicate delivery', d.id, d.lane, format('%s of event %s has another row', d.handler, d.event_seq)
  from relaybus.deliveries d
 where exists (select from relaybus.deliveries o where o.event_seq = d.event_seq and o.handler = d.handler and o.id < d.id)
union all
select case when e.seq is null then 'event missing' else 'handler without subscription' end, d.id, d.lane,
       case when e.seq is null then format('no event %s', d.event_seq) else format('%L never subscribed to %L', d.handler, e.type) end
  from relaybus.deliveries d left join relaybus.events e on e.seq = d.event_seq
 where e.seq is null
    or (e.type, d.handler) not in (select s.event_type, s.handler from relaybus.subscriptions s)
union all
select 'dead in flight', d.id, l.lane, format('dead, but in flight by claim %s', f.claim)
  from relaybus.lanes l cross join lateral unnest(l.in_flight, l.in_flight_claims) f(id, claim)
  join relaybus.deliveries d on d.id = f.id where d.status = 1 and d.last_error is distinct from $1
union all
select 'stuck', s.id, l.lane, 'the server refused to write its end or its charge'
  from relaybus.lanes l cross join lateral unnest(l.stuck) s(id)
union all
select 'lane missing', 0, g.number * 256 + n, format('group %L has no row of lane %s', g.name, g.number * 256 + n)
  from relaybus.groups g cross join generate_series(0, 255) n
 where not exists (select from relaybus.lanes l where l.lane = g.number * 256 + n)
union all
select 'lists differ', 0, l.lane, format('%s entries in flight, %s claim numbers', cardinality(l.in_flight), cardinality(l.in_flight_claims))
  from relaybus.lanes l where cardinality(l.in_flight) <> cardinality(l.in_flight_claims)
 order by 1, 2, 3
