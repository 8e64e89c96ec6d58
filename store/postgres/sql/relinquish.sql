-- Action Relinquish: lanes go back.
-- Locks: none beyond those of lock_lanes.sql or take_over.sql, which it needs.
-- Safe alone: guards were checked on the locked rows.
-- $1 lanes, $2 holder, $3 claim number.
update relaybus.lanes x
   set holder = null, last_holder = $2, owner = '', claim = $3, in_flight = '{}', in_flight_claims = '{}'
 where x.lane = any($1::int[])
