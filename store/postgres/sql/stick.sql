-- Notes deliveries whose row the store refuses to write.
-- Locks: the lanes FOR NO KEY UPDATE; the caller has them already.
-- Safe alone: it adds to a list that only holders shorten.
-- $1 lanes, $2 ids.
update relaybus.lanes x
   set stuck = array(select distinct s from unnest(x.stuck || q.ids) s order by s)
  from (select lane, array_agg(id) as ids from unnest((select $1::int[]), (select $2::bigint[])) q(lane, id) group by lane) q
 where x.lane = q.lane
