-- Groups that handlers belong to.
-- Locks: none beyond that of the groups table, taken before by whoever decides
-- by it.
-- $1 handlers, $2 group.
select s.handler, g.name from relaybus.subscriptions s join relaybus.groups g on g.number = s.group_number
 where s.handler = any($1::text[]) and g.name <> $2 order by s.handler limit 1
