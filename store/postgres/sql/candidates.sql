-- What may be picked from lanes whose rows are locked: unkeyed rows in the
-- order they are due, and the head of each key from a cursor on.
-- Locks: none.
-- Safe alone: a statement behind the one that locked the lanes sees every end
-- that was committed under the former lock.
-- Only one suspect may run, so suspects do not count: as many rows as stand in
-- front as suspects are read from behind it. Of them the first is returned,
-- whether it may run or not, so that no watermark passes it.
-- $1 lanes; $2, $3 watermarks: rows up to (due, id) are passed over; $4, $5
-- cursors over (key, handler); $6 handlers with room; $7 all handlers of the
-- worker; $8 deliveries that run; $9 group; $10 unkeyed rows,
-- and heads, per lane.
with lacked as materialized (
  select coalesce(array_agg(distinct handler), '{}') as names from relaybus.subscriptions
   where group_number = $9 and not removed and seen_at > now() - interval '3 minutes'
     and handler <> all((select $7::text[])::text[])),
wanted as materialized (select (select $6::text[]) || names as names from lacked),
q as materialized (
  select * from unnest((select $1::int[]), (select $2::timestamptz[]), (select $3::bigint[]),
                       (select $4::text[]), (select $5::text[])) q(lane, due_after, id_after, key_after, handler_after))
select q.lane, d.id, d.event_seq, d.handler, null::text as key, d.available_at, d.attempts, d.takeovers,
       coalesce(d.last_error, ''), true, d.handler = any((select names from lacked)::text[])
  from q join relaybus.lanes x using (lane) cross join lateral (
    with front as materialized (
      select * from relaybus.deliveries d
       where d.lane = q.lane and d.status = 0 and d.key is null and d.available_at <= now()
         and (d.available_at, d.id) > (q.due_after, q.id_after)
         and d.handler = any((select names from wanted)::text[])
         and d.id not in (select r.id from unnest((select $8::bigint[])) r(id)) and d.id <> all(x.stuck)
       order by d.available_at, d.id limit $10)
    (select * from front where takeovers = 0)
    union all
    (select * from front where takeovers > 0 order by available_at, id limit 1)
    union all
    (select * from relaybus.deliveries d
       where d.lane = q.lane and d.status = 0 and d.key is null and d.available_at <= now()
         and (d.available_at, d.id) > ((select f.available_at from front f order by f.available_at desc, f.id desc limit 1),
                                       (select f.id from front f order by f.available_at desc, f.id desc limit 1))
         and d.takeovers = 0
         and d.handler = any((select names from wanted)::text[])
         and d.id not in (select r.id from unnest((select $8::bigint[])) r(id)) and d.id <> all(x.stuck)
       order by d.available_at, d.id limit (select count(*) from front where takeovers > 0))) d
union all
select q.lane, h.id, h.event_seq, h.handler, h.key, h.available_at, h.attempts, h.takeovers, h.last_error,
       h.available_at <= now(), h.handler = any((select names from lacked)::text[])
  from q cross join lateral (
    with recursive heads as (
      (select d.id, d.event_seq, d.handler, d.key, d.available_at, d.attempts, d.takeovers,
              coalesce(d.last_error, '') as last_error
         from relaybus.deliveries d
        where d.lane = q.lane and d.status = 0 and d.key is not null
          and (d.key, d.handler) > (q.key_after, q.handler_after)
        order by d.key, d.handler, d.id limit 1)
      union all
      select n.* from heads cross join lateral (
        select d.id, d.event_seq, d.handler, d.key, d.available_at, d.attempts, d.takeovers,
               coalesce(d.last_error, '') as last_error
          from relaybus.deliveries d
         where d.lane = q.lane and d.status = 0 and d.key is not null
           and (d.key, d.handler) > (heads.key, heads.handler)
         order by d.key, d.handler, d.id limit 1) n)
    select * from heads limit $10) h
