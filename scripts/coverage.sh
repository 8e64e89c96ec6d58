#!/usr/bin/env bash
# Prints the functions and blocks of the engine and of the in-memory store that
# N seeds with all faults do not reach: coverage.sh N.
set -euo pipefail
seeds=${1:-5000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/data"
# The command is covered too: without it nothing writes the data down.
go build -cover -coverpkg=./engine/...,./store/simstore,./cmd/relaysim -o "$work/relaysim" ./cmd/relaysim
GOCOVERDIR="$work/data" "$work/relaysim" -seeds "$seeds" -faults all >/dev/null
go tool covdata textfmt -i="$work/data" -pkg="$(go list ./engine/... ./store/simstore | paste -sd,)" -o="$work/profile"
echo "functions not reached as a whole:"
go tool cover -func="$work/profile" | awk '$NF == "0.0%" { print "  " $1, $2 }'
echo "blocks not reached in other functions, file:line.column,line.column statements:"
awk 'NR > 1 && $NF == 0 { print "  " $1, $2 }' "$work/profile" | sort -t: -k1,1 -k2,2n
