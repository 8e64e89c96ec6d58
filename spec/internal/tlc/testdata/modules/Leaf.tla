---- MODULE Leaf ----
====
