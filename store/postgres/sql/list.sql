-- Deliveries by id, a page at a time.
-- Locks: none.
-- $1 cursor, $2 limit; filter: $3 handler, $4 key, $5 event type, $6 event id,
-- $7 status; null selects everything; $8, $9 bounds of the time of death.
select d.id, d.handler, d.lane, d.key, d.status, d.available_at, d.attempts, d.takeovers, coalesce(d.last_error, ''),
       d.died_at, l.owner, e.seq, e.id, e.type, e.key, e.payload, e.headers, e.published_at, e.handlers
  from relaybus.deliveries d
  left join relaybus.events e on e.seq = d.event_seq
  left join relaybus.lanes l on l.lane = d.lane and l.holder is not null and l.lease_expires_at >= now()
                            and d.id = any(l.in_flight)
 where d.id > $1
   and ($3::text is null or d.handler = $3) and ($4::text is null or d.key = $4)
   and ($5::text is null or e.type = $5) and ($6::text is null or e.id = $6)
   and ($7::smallint is null or d.status = $7)
   and ($8::timestamptz is null or d.died_at >= $8) and ($9::timestamptz is null or d.died_at < $9)
 order by d.id limit $2
