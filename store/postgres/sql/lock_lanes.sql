-- First half of the actions Claim, ExtendLease, Release and Relinquish.
-- Locks: the lanes FOR NO KEY UPDATE, in the order given (ascending).
-- Safe alone: it changes nothing; the clock is read above each lock.
-- $1 lanes, $2 holder.
select x.lane, x.epoch, x.claim, x.lease_expires_at, x.in_flight, x.in_flight_claims, x.stuck,
       now(), clock_timestamp()
  from unnest((select $1::int[])) q(lane)
 cross join lateral (
   select * from relaybus.lanes x where x.lane = q.lane and x.holder = $2 for no key update) x
