-- Lanes as they are after a row was seen to be gone.
-- Locks: none.
-- Safe alone: what a lane still lists was ended by an earlier try of the same
-- call, whenever this is read.
-- $1 lanes.
select lane, epoch, holder, in_flight, in_flight_claims from relaybus.lanes where lane = any($1::int[])
