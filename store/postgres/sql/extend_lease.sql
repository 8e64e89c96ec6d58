-- Action ExtendLease, second half.
-- Locks: none beyond those of lock_lanes.sql, which it needs.
-- Safe alone: guards were checked on the locked rows.
-- $1 lanes, $2 lease length, $3 clock above the locks.
update relaybus.lanes x
   set lease_expires_at = least(greatest(x.lease_expires_at, now() + $2::interval), $3::timestamptz + $2::interval)
 where x.lane = any($1::int[])
