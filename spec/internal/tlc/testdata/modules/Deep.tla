---- MODULE Deep ----
VARIABLE x
A == x
====
