-- Lanes of a group that a holder has, ascending.
-- Locks: none.
-- Safe alone: whoever acts on them locks and checks them.
-- $1 first lane, $2 behind the last lane, $3 holder.
select lane from relaybus.lanes where lane >= $1 and lane < $2 and holder = $3 order by lane
