#!/usr/bin/env bash
# The tests of store/postgres on each release of PostgreSQL that is named, those
# that start a server of their own included: what is first on the PATH is the
# machine's server to them. The newest and the pooler, which do not depend on
# it, are left out (-short).
set -uo pipefail
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then echo "name the releases: $0 12 13" >&2; exit 2; fi
failed=()
for version in "$@"; do
  bin=$(go run -C internal/localdb . binaries "$version") || exit 1
  echo "== $("$bin/postgres" --version)"
  env -u RELAYBUS_TEST_POSTGRES_URL PATH="$bin:$PATH" go test -count=1 -short ./store/postgres || failed+=("$version")
done
if [ ${#failed[@]} -gt 0 ]; then echo "failed on ${failed[*]}" >&2; exit 1; fi
