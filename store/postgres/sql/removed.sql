-- Handlers that are removed and for which something is pending.
-- Locks: none.
-- Safe alone: the sweep judges again.
select s.event_type, s.handler from relaybus.subscriptions s
 where s.removed and exists (
   select from relaybus.deliveries d join relaybus.events e on e.seq = d.event_seq
    where d.handler = s.handler and d.status = 0 and e.type = s.event_type)
 order by 1, 2
