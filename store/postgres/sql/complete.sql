-- Action Complete: deletes the delivery inside the handler's transaction.
-- Locks: the lane FOR KEY SHARE, then the delivery FOR UPDATE.
-- Safe alone: as complete_many.sql; a row that this statement did not delete
-- was completed by somebody else, and the caller rolls back.
-- $1 lane, $2 epoch, $3 holder, $4 delivery, $5 claim, $6 the delivery before
-- it in its chain or 0, $7 keep a history, $8 how long the transaction may stay
-- idle from now on, in milliseconds.
with l as materialized (
  select x.lane from relaybus.lanes x
   where x.lane = $1 and x.epoch = $2 and x.holder = $3
     and x.in_flight_claims[array_position(x.in_flight, $4::bigint)] = $5::bigint for key share),
s as materialized (
  select d.ctid as row_id, d.xmin as row_version from l cross join lateral (
    select d.ctid, d.xmin from relaybus.deliveries d
     where d.id = $4 and d.lane = l.lane and d.status = 0
       and ($6 = 0 or not exists (select from relaybus.deliveries p where p.id = $6 and p.status = 0)) offset 0) d),
del as (
  delete from relaybus.deliveries d using s where d.ctid = s.row_id and d.xmin = s.row_version
  returning d.id, d.event_seq, d.handler, d.key, d.attempts),
kept as (
  insert into relaybus.completions (id, event_seq, handler, key, attempts)
  select id, event_seq, handler, key, attempts from del where $7)
select count(*), (select case when current_setting('idle_in_transaction_session_timeout')::interval = interval '0'
                       or current_setting('idle_in_transaction_session_timeout')::interval > $8::bigint * interval '1 millisecond'
                  then set_config('idle_in_transaction_session_timeout', $8::bigint::text, true) end)
  from del
