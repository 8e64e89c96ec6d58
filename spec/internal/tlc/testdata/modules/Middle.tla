---- MODULE Middle ----
EXTENDS Sequences
L(n) == INSTANCE Deep WITH x <- n
====
