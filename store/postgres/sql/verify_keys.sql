-- Keyed rows with their lane; the caller computes where they belong.
-- Locks: none.
select d.id, d.lane, d.key from relaybus.deliveries d where d.key is not null
