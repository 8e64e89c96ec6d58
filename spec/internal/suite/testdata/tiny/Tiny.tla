---- MODULE Tiny ----
EXTENDS Integers, TLC
CONSTANTS Max, Without
VARIABLES x, y
Init == x = 0 /\ y = "a"
Up == x < Max /\ x' = x + 1 /\ UNCHANGED y
Flip(n) == y' = "b" /\ x' = x + n /\ x < Max - 5
Next == Up \/ \E n \in {1,2} : Flip(n)
Spec == Init /\ [][Next]_<<x,y>> 
Fair == Spec /\ WF_<<x,y>>(Up)
Small == x <= 3 \/ "guard" \notin Without
NeverB == y # "b"
Ends == <>(x = Max)
NeverEnds == []<>(x = 0)
====
