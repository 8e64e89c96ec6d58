# Each target is a line or two of the go command, so that people learn that.
.DEFAULT_GOAL := help
.PHONY: help build fmt-check vet staticcheck lint test race determinism seeds mutants coverage corpus tlc tlc-full twin twin-full traces fuzz-short bench bench-postgres chaos-postgres test-postgres-versions ci clean

# Seeds for `make seeds`, and seeds per mutant for `make mutants`.
N ?= 20000
# Traces for `make traces`.
TRACES ?= 200
# Releases of PostgreSQL for `make test-postgres-versions`, downloaded first.
VERSIONS ?= 12 13 14 15 16 17 18
# Time per fuzz target for `make fuzz-short`.
FUZZTIME ?= 10s

TOOL = go tool -modfile=tools/go.mod

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## compile everything, and the commands into bin/
	go build ./...
	go build -o bin/ ./cmd/...

fmt-check: ## fail if gofmt would change a file
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):"; echo "$$unformatted"; exit 1; fi

vet: ## go vet, with and without the planted bugs
	go vet ./...
	go vet -tags relaybus_mutants ./...
	go vet -C internal/localdb ./...

staticcheck: ## staticcheck, pinned in tools/go.mod
	$(TOOL) staticcheck ./...

lint: ## the rules of internal/lint over the whole tree
	go test -count=1 ./internal/lint

test: ## all that a change must pass
	go test ./...
	go test -C internal/localdb ./...
	go test -tags relaybus_mutants -count=1 -run '^TestMutants$$' ./internal/drive
	$(MAKE) lint staticcheck race corpus determinism tlc
	$(MAKE) seeds N=500
	go run ./cmd/relaysim mutants -seeds 3000 -enough 2

race: ## the tests under the race detector, with few seeds
	go test -race -short ./...

determinism: ## seed 7: one hash whatever the process, GOMAXPROCS, GOGC and architecture
	bash scripts/determinism.sh 7

seeds: ## N seeds with all faults (N=20000)
	go run ./cmd/relaysim -seeds $(N) -faults all

mutants: ## plant every bug and see it caught, within N seeds each (N=400)
	go run ./cmd/relaysim mutants -seeds $(N)

mutants: N = 400

coverage: ## what N seeds with all faults do not reach in the engine and the in-memory store
	bash scripts/coverage.sh $(N)

corpus: ## replay the minimised schedules of past failures
	go run ./cmd/relaysim -replay sim/testdata/corpus

tlc: ## check the specification with TLC: every small config (needs Java)
	go run ./spec/tlc

tlc-full: ## check it with the large configs too
	go run ./spec/tlc -full

twin: ## the Go twins of the specification: the same counts as TLC's, small configs
	go run ./spec/twin

twin-full: ## the twins of the large configs too
	go run ./spec/twin -full

traces: ## step TRACES traces of the simulator through the specification, and find a changed field in each
	rm -rf bin/traces
	go run ./cmd/relaysim -seeds $(TRACES) -trace bin/traces
	go run ./spec/trace bin/traces
	go run ./spec/trace -corrupt $(TRACES) bin/traces

fuzz-short: ## run each fuzz target for FUZZTIME (10s)
	bash scripts/fuzz.sh $(FUZZTIME)

test-postgres-versions: ## the tests of the PostgreSQL store on each of VERSIONS, two minutes each
	bash scripts/postgres-versions.sh $(VERSIONS)

chaos-postgres: ## the recorded logs through killed workers and a stopped server (RELAYBUS_TEST_DATA), five minutes
	go test -count=1 -timeout 20m -v -run '^TestChaos$$' ./store/postgres -chaos

bench: ## the benchmarks, in the form that benchstat reads
	go test -run '^$$' -bench . -benchmem -count 6 ./...

bench-postgres: ## the goals on PostgreSQL, against the raw loop and River (10 min)
	go test -C bench/river -run '^$$' -bench Goals -benchtime 1x -timeout 60m

ci: ## what continuous integration runs
	bash .ci/run

clean: ## remove what the targets leave behind
	rm -rf bin
