---- MODULE Neither ----
====
