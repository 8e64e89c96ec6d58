---- MODULE Root ----
(* EXTENDS NotThis *)
EXTENDS Integers,
        Middle \* and this, Neither
LOCAL INSTANCE Leaf
====
