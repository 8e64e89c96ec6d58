-- Action Publish: events, and a delivery for each handler that has none yet.
-- Locks: events FOR NO KEY UPDATE, in id order.
-- Safe alone: the handlers to add are computed from the locked event row, and
-- returned by its own update. The handlers given are those of the statement's
-- own snapshot, or nothing is written.
-- Per event: $1 ids, $2 types, $3 keys (null: none), $4 payloads, $5 headers,
-- $6 handlers as an array's text; $7 the set of subscriptions they are from; per
-- delivery, an event's keys in the order of sequences: $8 event id, $9 handler,
-- $10 lane, $11 due time, $12 else the delay. $3, $5, $11, $12 null: all are.
-- Returns whether the set is the one of now, and each event that was known.
with now_valid as materialized (select version = $7 as holds from relaybus.subscriptions_version),
ins as materialized (
  insert into relaybus.events as v (id, type, key, payload, headers, handlers)
  select e.id, e.type, e.key, e.payload, e.headers::jsonb, e.handlers::text[]
    from unnest((select $1::text[]), (select $2::text[]), (select $3::text[]), (select $4::bytea[]),
                (select $5::text[]), (select $6::text[])) e(id, type, key, payload, headers, handlers)
   where (select holds from now_valid) order by e.id
  on conflict (id) do update
     set known = cardinality(v.handlers),
         handlers = case when v.type = excluded.type and v.key is not distinct from excluded.key
           then v.handlers || array(select h from unnest(excluded.handlers) h where h <> all(v.handlers))
           else v.handlers end
  returning v.seq, v.id, v.type, v.key, v.handlers, v.known),
put as (
  insert into relaybus.deliveries (id, event_seq, handler, lane, key, available_at)
  select nextval('relaybus.delivery_ids'), d.seq, d.handler, d.lane, d.key,
         greatest(now(), coalesce(d.due_at, now() + d.delay)) from (
    select d.*, ins.seq, ins.key
      from unnest((select $8::text[]), (select $9::text[]), (select $10::int[]), (select $11::timestamptz[]),
                  (select $12::interval[])) with ordinality d(id, handler, lane, due_at, delay, nth) join ins using (id)
     where ins.known < 0 or d.handler = any(ins.handlers[ins.known + 1:])
     order by d.nth) d)
select holds, ins.id, ins.type, ins.key, ins.known, cardinality(ins.handlers)
  from (select coalesce((select holds from now_valid), false) as holds) v left join ins on ins.known >= 0
