#!/usr/bin/env bash
# A seed must give the same hash in another process, with another number of
# threads, another garbage collector setting and another word size, for both
# kinds of store.
#
# usage: scripts/determinism.sh [seed]
set -euo pipefail
cd "$(dirname "$0")/.."

seed=${1:-7}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

go build -o "$dir/native" ./cmd/relaysim
CGO_ENABLED=0 GOARCH=386 go build -o "$dir/word32" ./cmd/relaysim
status=0
"$dir/word32" -h >/dev/null 2>&1 || status=$?
if [ "$status" -ge 126 ]; then # the shell's codes for "cannot execute"
	echo "determinism: this machine cannot run 32-bit x86 programs, so GOARCH=386 was not compared; run it on linux/amd64" >&2
	exit 1
fi

# hash_of runs one seed and prints its hash.
hash_of() {
	local line hash
	if ! line=$("$@" -seed "$seed" -faults all); then
		echo "determinism: $* -seed $seed failed:" >&2
		echo "$line" >&2
		return 1
	fi
	hash=$(grep -oE '\b[0-9a-f]{16}\b' <<<"$line" | head -n 1)
	if [ -z "$hash" ]; then
		echo "determinism: no hash in the output of $*:" >&2
		echo "$line" >&2
		return 1
	fi
	echo "$hash"
}

differ=0
for store in pg mongo; do
	want=$(hash_of "$dir/native" -store "$store")
	compare() {
		local name=$1 got
		shift
		got=$(hash_of "$@" -store "$store")
		printf 'seed %s  %-5s  %s  %s\n' "$seed" "$store" "$got" "$name"
		if [ "$got" != "$want" ]; then differ=1; fi
	}
	printf 'seed %s  %-5s  %s  %s\n' "$seed" "$store" "$want" "the first run"
	compare "another process" "$dir/native"
	compare "GOMAXPROCS=1" env GOMAXPROCS=1 "$dir/native"
	compare "GOGC=10" env GOGC=10 "$dir/native"
	compare "GOARCH=386" "$dir/word32"
done
if [ "$differ" -ne 0 ]; then
	echo "determinism: seed $seed does not give one hash: something reads a clock, a map's order, an address or a word's size" >&2
	exit 1
fi
echo "determinism: seed $seed gives one hash for each store"
