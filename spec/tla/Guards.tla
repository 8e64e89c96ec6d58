------------------------------- MODULE Guards -------------------------------
(* A rule that can be taken away by its name.                              *)
(*                                                                         *)
(* Every guard that matters is written Guard("its name", condition). A     *)
(* config that passes says Without = {}. A config Broken... names one rule *)
(* in Without and TLC must then find the behaviour which that rule forbids:*)
(* that is how we know that the rule is needed, and that the invariants    *)
(* can fail at all. Where a rule is an effect and not a condition, the     *)
(* action asks Rule("its name"). State.tla has the same two operators for  *)
(* the modules that stand on the whole store.                              *)

CONSTANT Without

Rule(name) == name \notin Without

Guard(name, holds) == name \in Without \/ holds
=============================================================================
