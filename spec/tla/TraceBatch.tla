---- MODULE TraceBatch ----
(* Traces of the simulator as constants, written by spec/trace: a line per  *)
(* action in the order of its trace's file, whose line number comes first.  *)
(* Sets that occur more than once have names. Hashes are the lane and the   *)
(* slot of each text. The batch in the tree is an example.                  *)
BatchSemantics == "locking"
BatchModulus == 1
OfLine(line, action, position, keep, args) ==
  [line |-> line, action |-> action, position |-> position, keep |-> keep,
   args |-> args]
OfLease(delivery, lane, epoch, holder, claim, after, fence) ==
  [delivery |-> delivery, lane |-> lane, epoch |-> epoch, holder |-> holder,
   claim |-> claim, after |-> after, fence |-> fence]
OfBury(lease, verdict, seen, rest, now, refused, charge) ==
  [lease |-> lease, verdict |-> verdict, seen |-> seen, rest |-> rest, now |-> now,
   refused |-> refused, charge |-> charge]
OfChargeLost(lane, refused, charged) ==
  [lane |-> lane, refused |-> refused, charged |-> charged]
OfRunning(delivery, claim, lane, handler, key) ==
  [delivery |-> delivery, claim |-> claim, lane |-> lane, handler |-> handler,
   key |-> key]
OfPick(delivery, after, fence) ==
  [delivery |-> delivery, after |-> after, fence |-> fence]
OfClaim(lane, holder, number, handlers, running, picks, suspectRunning, renew,
   ttl, now, clock, notAfter, unstuck, seen) ==
  [lane |-> lane, holder |-> holder, number |-> number, handlers |-> handlers,
   running |-> running, picks |-> picks, suspectRunning |-> suspectRunning,
   renew |-> renew, ttl |-> ttl, now |-> now, clock |-> clock, notAfter |-> notAfter,
   unstuck |-> unstuck, seen |-> seen]
OfComplete(lease, verdict, seen) ==
  [lease |-> lease, verdict |-> verdict, seen |-> seen]
OfCompleteMany(leases, verdicts, seen, refused, unlisted) ==
  [leases |-> leases, verdicts |-> verdicts, seen |-> seen, refused |-> refused,
   unlisted |-> unlisted]
OfExtendLease(lane, epoch, holder, ttl, now, clock, verdict) ==
  [lane |-> lane, epoch |-> epoch, holder |-> holder, ttl |-> ttl, now |-> now,
   clock |-> clock, verdict |-> verdict]
OfEvent(id, type, key, publishedAt) ==
  [id |-> id, type |-> type, key |-> key, publishedAt |-> publishedAt]
OfRow(id, event, handler, lane, key, sequence, status, availableAt, attempts,
   takeovers, fence, diedAt) ==
  [id |-> id, event |-> event, handler |-> handler, lane |-> lane, key |-> key,
   sequence |-> sequence, status |-> status, availableAt |-> availableAt,
   attempts |-> attempts, takeovers |-> takeovers, fence |-> fence, diedAt |-> diedAt]
OfPublished(event, subscribed, deliveries, result) ==
  [event |-> event, subscribed |-> subscribed, deliveries |-> deliveries,
   result |-> result]
OfPublish(now, events) ==
  [now |-> now, events |-> events]
OfPurge(dead, diedTo, events, eventsTo) ==
  [dead |-> dead, diedTo |-> diedTo, events |-> events, eventsTo |-> eventsTo]
OfRelease(leases, verdicts, seen) ==
  [leases |-> leases, verdicts |-> verdicts, seen |-> seen]
OfRelinquish(lane, holder, number, epoch, running, verdict) ==
  [lane |-> lane, holder |-> holder, number |-> number, epoch |-> epoch,
   running |-> running, verdict |-> verdict]
OfRequeue(ids, requeued, now) ==
  [ids |-> ids, requeued |-> requeued, now |-> now]
OfReschedule(lease, verdict, seen, rest, now, refused, delay) ==
  [lease |-> lease, verdict |-> verdict, seen |-> seen, rest |-> rest, now |-> now,
   refused |-> refused, delay |-> delay]
OfSnooze(lease, verdict, seen, rest, now, refused, delay) ==
  [lease |-> lease, verdict |-> verdict, seen |-> seen, rest |-> rest, now |-> now,
   refused |-> refused, delay |-> delay]
OfPair(event, handler) ==
  [event |-> event, handler |-> handler]
OfSubscribe(group, handlers, revive, lanes, now) ==
  [group |-> group, handlers |-> handlers, revive |-> revive, lanes |-> lanes,
   now |-> now]
OfTakeOver(lane, group, holder, number, ttl, now, clock, notAfter, refused,
   charged) ==
  [lane |-> lane, group |-> group, holder |-> holder, number |-> number,
   ttl |-> ttl, now |-> now, clock |-> clock, notAfter |-> notAfter, refused |-> refused,
   charged |-> charged]
OfUnsubscribe(event, handler, bury, swept, now) ==
  [event |-> event, handler |-> handler, bury |-> bury, swept |-> swept,
   now |-> now]
V0 == {OfPair("type0","handlera"),OfPair("type0","handlerb"),OfPair("type0",
  "handlerc"),OfPair("type1","handlera"),OfPair("type1","handlerb")}
V1 == {"handlera","handlerb"}
V2 == {"handlera","handlerb","handlerc"}
V3 == OfRunning(1,34,0,"handlera","k0")
V4 == OfRunning(3,38,0,"handlera","k0")
V5 == OfRunning(5,42,0,"handlerc","k0")
T1 == <<
OfLine(2,"Subscribe",1,FALSE,OfSubscribe("group0",V0,FALSE,{0},1)),
OfLine(3,"Subscribe",2,TRUE,OfSubscribe("group0",V0,FALSE,{},1)),
OfLine(4,"StoreCrash",2,FALSE,<<>>),
OfLine(5,"Subscribe",3,FALSE,OfSubscribe("group0",V0,FALSE,{},2)),
OfLine(6,"Publish",4,FALSE,OfPublish(3,<<OfPublished(OfEvent("e0","type1",
  "k0",3),V1,<<OfRow(1,"e0","handlera",0,"k0",1,"pending",3,0,0,0,0),OfRow(2,
  "e0","handlerb",0,"k0",2,"pending",3,0,0,0,0)>>,"Added")>>)),
OfLine(7,"Subscribe",5,FALSE,OfSubscribe("group0",V0,FALSE,{},4)),
OfLine(8,"TakeOver",6,FALSE,OfTakeOver(0,0,"~h0",33,{<<5,24>>,<<6,25>>},
  5,6,18,{},{})),
OfLine(9,"Claim",6,FALSE,OfClaim(0,"~h0",34,V2,{},<<OfPick(1,0,0)>>,FALSE,
  TRUE,{<<5,24>>,<<6,25>>},5,6,18,{},0)),
OfLine(10,"Claim",7,FALSE,OfClaim(0,"~h0",36,V2,{V3},<<OfPick(2,0,0)>>,FALSE,
  TRUE,{<<8,26>>,<<9,27>>},8,9,19,{},0)),
OfLine(11,"Publish",8,FALSE,OfPublish(7,<<OfPublished(OfEvent("e1","type0",
  "k0",7),V2,<<OfRow(3,"e1","handlera",0,"k0",3,"pending",7,0,0,0,0),OfRow(4,
  "e1","handlerb",0,"k0",4,"pending",7,0,0,0,0),OfRow(5,"e1","handlerc",
  0,"k0",5,"pending",7,0,0,0,0)>>,"Added")>>)),
OfLine(12,"CompleteMany",9,FALSE,OfCompleteMany(<<OfLease(1,0,1,"~h0",34,
  0,0)>>,<<"Applied">>,0,{},{})),
OfLine(13,"Complete",10,FALSE,OfComplete(OfLease(2,0,1,"~h0",36,0,0),"Applied",
  0)),
OfLine(14,"Claim",11,FALSE,OfClaim(0,"~h0",38,V2,{},<<OfPick(3,0,0)>>,FALSE,
  TRUE,{<<10,28>>,<<11,29>>},10,11,20,{},0)),
OfLine(15,"Claim",12,FALSE,OfClaim(0,"~h0",40,V2,{V4},<<OfPick(4,0,0)>>,
  FALSE,TRUE,{<<12,30>>,<<13,31>>},12,13,21,{},0)),
OfLine(16,"CompleteMany",13,FALSE,OfCompleteMany(<<OfLease(3,0,1,"~h0",38,
  0,0)>>,<<"Applied">>,0,{},{})),
OfLine(17,"Complete",14,FALSE,OfComplete(OfLease(4,0,1,"~h0",40,0,0),"Applied",
  0)),
OfLine(18,"Claim",15,FALSE,OfClaim(0,"~h0",42,V2,{},<<OfPick(5,0,0)>>,FALSE,
  TRUE,{<<14,32>>,<<15,33>>},14,15,22,{},0)),
OfLine(19,"Claim",16,FALSE,OfClaim(0,"~h0",44,V2,{V5},<<>>,FALSE,TRUE,{<<16,
  34>>,<<17,35>>},16,17,23,{},0)),
OfLine(20,"CompleteMany",17,FALSE,OfCompleteMany(<<OfLease(5,0,1,"~h0",42,
  0,0)>>,<<"Applied">>,0,{},{})),
OfLine(21,"Relinquish",18,FALSE,OfRelinquish(0,"~h0",45,0,{},"Applied"))>>
V6 == {OfPair("type0","handlerb"),OfPair("type1","handlerb")}
V7 == {"handlerb"}
V8 == {OfPair("type0","handlera"),OfPair("type1","handlera")}
V9 == OfRunning(1,4,0,"handlerb","")
V10 == {"handlera"}
V11 == OfRunning(3,6,1,"handlera","")
V12 == {V11}
T2 == <<
OfLine(2,"Subscribe",1,FALSE,OfSubscribe("group1",V6,FALSE,{0},1)),
OfLine(3,"Publish",2,FALSE,OfPublish(2,<<OfPublished(OfEvent("e0","type1",
  "",2),V7,<<OfRow(1,"e0","handlerb",0,"",1,"pending",2,0,0,0,0)>>,"Added"),
  OfPublished(OfEvent("e1","type0","k1",2),V7,<<OfRow(2,"e1","handlerb",
  0,"k1",2,"pending",2,0,0,0,0)>>,"Added")>>)),
OfLine(4,"Subscribe",3,FALSE,OfSubscribe("group0",V8,FALSE,{1},2)),
OfLine(5,"TakeOver",4,FALSE,OfTakeOver(0,0,"~h1",3,{<<3,22>>,<<4,23>>},3,
  4,13,{},{})),
OfLine(6,"Claim",4,FALSE,OfClaim(0,"~h1",4,V7,{},<<OfPick(1,0,0)>>,FALSE,
  TRUE,{<<3,22>>,<<4,23>>},3,4,13,{},0)),
OfLine(7,"Reschedule",5,FALSE,OfReschedule(OfLease(1,0,1,"~h1",4,0,0),"Applied",
  0,{},6,FALSE,{<<6,12>>})),
OfLine(8,"Claim",6,FALSE,OfClaim(0,"~h1",6,V7,{V9},<<>>,FALSE,TRUE,{<<5,
  24>>,<<7,25>>},5,7,14,{},0)),
OfLine(9,"Claim",7,FALSE,OfClaim(0,"~h1",8,V7,{},<<OfPick(2,0,0)>>,FALSE,
  TRUE,{<<8,27>>,<<9,28>>},8,9,15,{},0)),
OfLine(10,"Complete",8,FALSE,OfComplete(OfLease(2,0,1,"~h1",8,0,0),"Applied",
  0)),
OfLine(11,"Claim",9,FALSE,OfClaim(0,"~h1",10,V7,{},<<>>,FALSE,TRUE,{<<10,
  29>>,<<11,30>>},10,11,16,{},0)),
OfLine(12,"Publish",10,FALSE,OfPublish(17,<<OfPublished(OfEvent("e2","type1",
  "",17),V1,<<OfRow(3,"e2","handlera",1,"",3,"pending",17,0,0,0,0),OfRow(4,
  "e2","handlerb",0,"",4,"pending",17,0,0,0,0)>>,"Added")>>)),
OfLine(13,"TakeOver",11,FALSE,OfTakeOver(1,1,"~h0",9,{<<18,32>>,<<19,33>>},
  18,19,20,{},{})),
OfLine(14,"Claim",11,FALSE,OfClaim(1,"~h0",10,V10,{},<<OfPick(3,0,0)>>,FALSE,
  TRUE,{<<18,32>>,<<19,33>>},18,19,20,{},0)),
OfLine(15,"Claim",12,TRUE,OfClaim(1,"~h0",12,V10,{},<<OfPick(3,0,0)>>,FALSE,
  TRUE,{<<21,35>>,<<26,38>>},21,26,31,{},0)),
OfLine(16,"StoreCrash",12,FALSE,<<>>),
OfLine(17,"Subscribe",13,FALSE,OfSubscribe("group0",V8,FALSE,{},34)),
OfLine(18,"TakeOver",14,FALSE,OfTakeOver(1,1,"~h2",5,{<<36,58>>,<<37,59>>},
  36,37,48,{},{3})),
OfLine(19,"Claim",14,FALSE,OfClaim(1,"~h2",6,V10,{},<<OfPick(3,0,0)>>,FALSE,
  TRUE,{<<36,58>>,<<37,59>>},36,37,48,{},0)),
OfLine(20,"Bury",15,FALSE,OfBury(OfLease(3,1,2,"~h2",6,0,0),"Applied",0,
  {},40,FALSE,TRUE)),
OfLine(21,"Claim",16,FALSE,OfClaim(1,"~h2",8,V10,V12,<<>>,FALSE,TRUE,{<<39,
  61>>,<<41,63>>},39,41,49,{},0)),
OfLine(22,"Claim",17,FALSE,OfClaim(1,"~h2",10,V10,{},<<>>,FALSE,TRUE,{<<42,
  64>>,<<43,65>>},42,43,50,{},0)),
OfLine(23,"Claim",18,FALSE,OfClaim(1,"~h2",12,V10,{},<<>>,FALSE,TRUE,{<<44,
  66>>,<<45,67>>},44,45,51,{},0)),
OfLine(24,"Claim",19,FALSE,OfClaim(1,"~h2",14,V10,{},<<>>,FALSE,TRUE,{<<46,
  68>>,<<47,69>>},46,47,52,{},0)),
OfLine(25,"Relinquish",20,FALSE,OfRelinquish(1,"~h2",15,2,{},"Applied")),
  
OfLine(26,"Subscribe",21,FALSE,OfSubscribe("group1",V6,FALSE,{},53)),
OfLine(27,"TakeOver",22,FALSE,OfTakeOver(0,0,"~h3",1,{<<54,70>>,<<55,71>>},
  54,55,60,{},{})),
OfLine(28,"Claim",22,FALSE,OfClaim(0,"~h3",2,V7,{},<<OfPick(1,0,0)>>,FALSE,
  TRUE,{<<54,70>>,<<55,71>>},54,55,60,{},0)),
OfLine(29,"Complete",23,FALSE,OfComplete(OfLease(1,0,2,"~h3",2,0,0),"Applied",
  0)),
OfLine(30,"Claim",24,FALSE,OfClaim(0,"~h3",4,V7,{},<<OfPick(4,0,0)>>,FALSE,
  TRUE,{<<56,72>>,<<57,73>>},56,57,62,{},0)),
OfLine(31,"Complete",25,FALSE,OfComplete(OfLease(4,0,2,"~h3",4,0,0),"Applied",
  0)),
OfLine(32,"Relinquish",26,FALSE,OfRelinquish(0,"~h3",5,0,{},"Applied"))>>
Traces == <<T1,T2>>
Hashes == {<<"",0,40389>>,
  <<"Added",0,12677>>,
  <<"Applied",0,50794>>,
  <<"e0",0,52592>>,
  <<"e1",0,52995>>,
  <<"e2",0,53398>>,
  <<"group0",0,25076>>,
  <<"group1",0,25479>>,
  <<"handlera",0,42582>>,
  <<"handlerb",0,42179>>,
  <<"handlerc",0,41776>>,
  <<"k0",0,32558>>,
  <<"k1",0,32961>>,
  <<"pending",0,32572>>,
  <<"type0",0,10183>>,
  <<"type1",0,9780>>}
====
