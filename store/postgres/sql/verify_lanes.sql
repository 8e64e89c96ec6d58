-- Lanes, to be compared with what the last look saw of them.
-- Locks: none.
select lane, epoch, claim, holder from relaybus.lanes
