-- Action Publish: events, and a delivery for each handler that has none yet.
-- Locks: events FOR NO KEY UPDATE, in id order, then slots FOR NO KEY UPDATE,
-- in slot order.
-- Safe alone: the handlers to add are computed from the locked event row, and
-- returned by its own update; ids are drawn after their slot was locked, so
-- that sequence order is commit order per key.
-- $1 ids, $2 types, $3 keys (null: none), $4 payloads, $5 headers, $6 delays,
-- $7 due times, $8 lanes within a group, $9 slots; $10 lanes per group; $11 how
-- long the transaction may stay idle once it holds a slot, in milliseconds; 0
-- leaves it alone.
with e as materialized (
  select * from unnest((select $1::text[]), (select $2::text[]), (select $3::text[]), (select $4::bytea[]),
                       (select $5::text[]), (select $6::interval[]), (select $7::timestamptz[]),
                       (select $8::int[]), (select $9::int[]))
         with ordinality e(id, type, key, payload, headers, delay, due_at, lane, slot, n)),
s as materialized (
  select event_type, handler, group_number from relaybus.subscriptions
   where not removed and event_type in (select type from e)),
wanted as materialized (
  select event_type, array_agg(handler order by handler) as handlers from s group by event_type),
ins as materialized (
  insert into relaybus.events as v (id, type, key, payload, headers, handlers)
  select e.id, e.type, e.key, e.payload, e.headers::jsonb, coalesce(w.handlers, '{}')
    from e left join wanted w on w.event_type = e.type order by e.id
  on conflict (id) do update
     set known = cardinality(v.handlers),
         handlers = case when v.type = excluded.type and v.key is not distinct from excluded.key
           then v.handlers || array(select h from unnest(excluded.handlers) h where h <> all(v.handlers))
           else v.handlers end
  returning v.seq, v.id, v.type, v.key, v.handlers, v.known),
added as materialized (
  select e.n, e.slot, e.key, e.lane, e.delay, e.due_at, ins.seq, h.handler, h.nth, s.group_number
    from e join ins using (id)
   cross join lateral unnest(ins.handlers[greatest(ins.known, 0) + 1:]) with ordinality h(handler, nth)
    join s on s.event_type = e.type and s.handler = h.handler),
slot as materialized (
  select q.slot, case when $11::bigint > 0
           and (current_setting('idle_in_transaction_session_timeout')::interval = interval '0'
             or current_setting('idle_in_transaction_session_timeout')::interval > $11::bigint * interval '1 millisecond')
         then set_config('idle_in_transaction_session_timeout', $11::bigint::text, true) end
    from (select distinct slot from added where key is not null order by slot) q
   cross join lateral (select slot from relaybus.slots k where k.slot = q.slot for no key update) k),
drawn as (
  select nextval('relaybus.delivery_ids') as id, a.* from (
    select a.* from added a left join slot k on k.slot = a.slot and a.key is not null
     where a.key is null or k.slot is not null order by a.n, a.nth) a),
put as (
  insert into relaybus.deliveries (id, event_seq, handler, lane, key, available_at)
  select id, seq, handler, group_number * $10::int + lane, key,
         greatest(now(), coalesce(due_at, now() + greatest(delay, interval '0')))
    from drawn)
select e.n, ins.known, cardinality(ins.handlers), ins.type = e.type and ins.key is not distinct from e.key
  from e join ins using (id)
