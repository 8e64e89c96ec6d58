# Each target is a line or two of the go command, so that people learn that.
.DEFAULT_GOAL := help
.PHONY: help build fmt-check vet staticcheck lint test race determinism seeds mutants corpus fuzz-short bench bench-postgres ci clean

# Seeds for `make seeds`, and seeds per mutant for `make mutants`.
N ?= 20000
# Time per fuzz target for `make fuzz-short`.
FUZZTIME ?= 10s

TOOL = go tool -modfile=tools/go.mod

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## compile everything, and the commands into bin/
	go build ./...
	go build -o bin/ ./cmd/...

fmt-check: ## fail if gofmt would change a file
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):"; echo "$$unformatted"; exit 1; fi

vet: ## go vet, with and without the planted bugs
	go vet ./...
	go vet -tags relaybus_mutants ./...

staticcheck: ## staticcheck, pinned in tools/go.mod
	$(TOOL) staticcheck ./...

lint: ## the rules of internal/lint over the whole tree
	go test -count=1 ./internal/lint

test: ## all that a change must pass
	go test ./...
	$(MAKE) lint staticcheck race corpus determinism
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

corpus: ## replay the minimised schedules of past failures
	go run ./cmd/relaysim -replay sim/testdata/corpus

fuzz-short: ## run each fuzz target for FUZZTIME (10s)
	bash scripts/fuzz.sh $(FUZZTIME)

bench: ## the benchmarks, in the form that benchstat reads
	go test -run '^$$' -bench . -benchmem -count 6 ./...

bench-postgres: ## the goals on PostgreSQL, against the raw loop and River (10 min)
	go test -C bench/river -run '^$$' -bench Goals -benchtime 1x -timeout 60m

ci: ## what continuous integration runs
	bash .ci/run

clean: ## remove what the targets leave behind
	rm -rf bin
