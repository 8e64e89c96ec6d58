-- Action Publish, first half: the slots of the keys.
-- Locks: slots FOR NO KEY UPDATE, in the order given (ascending).
-- Safe alone: ids are drawn by the next statement, so that sequence order is
-- commit order per key.
-- $1 slots; $2 how long the transaction may stay idle once it holds them, in
-- milliseconds; 0 leaves that alone.
with l as materialized (
  select count(*) as locked from unnest((select $1::int[])) q(slot)
   cross join lateral (select from relaybus.slots k where k.slot = q.slot for no key update) k)
select locked, case when $2::bigint > 0
         and (current_setting('idle_in_transaction_session_timeout')::interval = interval '0'
           or current_setting('idle_in_transaction_session_timeout')::interval > $2::bigint * interval '1 millisecond')
       then set_config('idle_in_transaction_session_timeout', $2::bigint::text, true) end
  from l
