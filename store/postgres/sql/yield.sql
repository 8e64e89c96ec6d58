-- Action Purge: whether this one may work, when it yields to others.
-- Locks: an advisory lock of the schema's purges, if it is free, until the
-- transaction ends.
-- Safe alone: it changes nothing; two purges at once do no harm, only work.
-- $1 schema.
select pg_try_advisory_xact_lock(hashtext('relaybus purge'), hashtext($1::text))
