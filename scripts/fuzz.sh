#!/usr/bin/env bash
# Runs every fuzz target of the module for a while.
#
# usage: scripts/fuzz.sh [time per target]
set -euo pipefail
cd "$(dirname "$0")/.."

ran=0
while IFS=: read -r file target; do
	go test -run '^$' -fuzz "^$target\$" -fuzztime "${1:-10s}" "./$(dirname "$file")"
	ran=$((ran + 1))
done < <(git grep -oE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' | sed 's/:func /:/')
if [ "$ran" -eq 0 ]; then
	echo "fuzz: no fuzz target found" >&2
	exit 1
fi
