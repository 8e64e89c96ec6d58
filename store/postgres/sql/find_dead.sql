-- Dead letters that a filter selects, by id, behind a cursor.
-- Locks: none.
-- Safe alone: requeue.sql repeats the condition on each row.
-- $1 cursor, $2 limit; filter: $3 handler, $4 key, $5 event type, $6 event id;
-- null selects everything; $7, $8 bounds of the time of death.
select d.id from relaybus.deliveries d join relaybus.events e on e.seq = d.event_seq
 where d.id > $1 and d.status = 1
   and ($3::text is null or d.handler = $3) and ($4::text is null or d.key = $4)
   and ($5::text is null or e.type = $5) and ($6::text is null or e.id = $6)
   and ($7::timestamptz is null or d.died_at >= $7) and ($8::timestamptz is null or d.died_at < $8)
 order by d.id limit $2
