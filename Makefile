# Works with GNU make 3.81 and later; needs Go, git and a POSIX shell, nothing
# else. No target calls make again.

# giouring, which only uring imports, reaches into the runtime by linkname. Go
# links that only when told so; packages that do not import it are not changed
# by the flag. What the environment or "go env -w" has set is kept.
LINKFLAG := -checklinkname=0
override GOFLAGS := $(strip $(or $(GOFLAGS),$(shell go env GOFLAGS)))
ifeq (,$(findstring $(LINKFLAG),$(GOFLAGS)))
override GOFLAGS := $(strip $(GOFLAGS) -ldflags=$(LINKFLAG))
endif
export GOFLAGS
export CGO_ENABLED := 0

# Property tests draw the same cases each time, so that what has passed passes again.
# Others, to hunt: make test RAPID_SEED=0.
RAPID_SEED ?= 1
export RAPID_SEED

# What a target can be told on the command line.
FILE     ?=
CYCLES   ?= 300
IMAGES   ?= 100
SEEDS    ?= 1000
SEED     ?=
SUBSETS  ?= 128
FUZZTIME ?= 30s
ROUNDS   ?= 2000x
BENCH    ?=
APT      ?=
COMPARE  ?=

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# Directories of modules inside the module: they have tests that the root's
# go.mod must not pay for.
NESTED = find test -name go.mod -exec dirname {} \; 2>/dev/null | sort

# Packages of the root module below test/ start the binary or touch the machine;
# their results are not cached.
UNIT = go list ./... | grep -v '/mqd/test/'
RIGS = go list ./... | grep '/mqd/test/'

.PHONY: help build demo demo-file test race check fuzz fuzz-smoke sim images crash powercut interop compare-kafka bench budgets scrape clean
.DEFAULT_GOAL := help

help: ## print this text
	@echo 'make TARGET [VARIABLE=value ...]'
	@echo
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
		while IFS='|' read -r name text; do printf '  %-13s %s\n' "$$name" "$$text"; done

build: ## build bin/mqd, a static binary
	go build -trimpath -ldflags '$(LINKFLAG) -s -w -X main.version=$(VERSION)' -o bin/mqd ./cmd/mqd

# Whoever has mistyped a name shall not wait for the build.
demo-file:
	@[ -z "$(FILE)" ] || [ -r "$(FILE)" ] && [ ! -d "$(FILE)" ] || { echo 'FILE=$(FILE): no file that can be read' >&2; exit 1; }

build: | $(if $(filter demo,$(MAKECMDGOALS)),demo-file)

demo: demo-file build ## send a file through a real broker, kill it, check every byte; FILE= for your own
	./test/demo/run.sh "$(FILE)"

test: ## run all tests
	@set -e; pkgs=$$($(UNIT)); go test -timeout 20m $$pkgs
	@set -e; for dir in $$($(NESTED)); do \
		echo "# module in $$dir"; (cd "$$dir" && go test -count=1 -timeout 20m ./...); \
	done
	@set -e; pkgs=$$($(RIGS) || true); [ -z "$$pkgs" ] || go test -count=1 -timeout 20m $$pkgs
	@echo '# with the portable driver'; MQD_IO__DRIVER=portable go test -count=1 -timeout 20m ./test/integration ./test/crash

# The engine's model runs in one goroutine: the detector would find nothing in it and
# take minutes.
# The race detector is C code: this is the one target that needs a compiler. The
# tag adds the checks that walk data, which the other targets leave out.
race: ## run the packages' tests, in their short form, under the race detector
	@if command -v "$$(go env CC)" >/dev/null 2>&1; then \
		CGO_ENABLED=1 go test -race -short -skip '^TestModel$$' -tags invariants -timeout 20m $$($(UNIT)); \
	else \
		echo 'SKIPPED: no C compiler'; \
	fi

check: ## check format, vet, layers, tidiness, documents, that the client builds alone, and the build for macOS
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt -w $$unformatted"; exit 1; }
	go vet ./...
	@set -e; for dir in $$($(NESTED)); do echo "go vet ./... in $$dir"; (cd "$$dir" && go vet ./...); done
	go test -timeout 8m ./internal/...
	@if [ -d client ]; then echo 'go build ./client/..., without flags and for darwin'; \
		GOFLAGS= go build ./client/... && GOFLAGS= GOOS=darwin go build ./client/...; fi
	@set -e; for arch in arm64 amd64; do echo "go vet ./... and go build ./cmd/mqd for darwin/$$arch"; \
		GOOS=darwin GOARCH=$$arch go vet ./...; \
		GOFLAGS= GOOS=darwin GOARCH=$$arch go build -o /dev/null ./cmd/mqd; done

# Finds every fuzz target, in nested modules too, and runs one after another.
define run_fuzz
@set -e; grep -rl --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*([a-z_]* \*testing\.F)' . | sort | while read -r file; do \
	for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)([a-z_]* \*testing\.F).*/\1/p' "$$file"); do \
		echo "# $$name in $$file"; \
		(cd "$$(dirname "$$file")" && go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(1) -fuzzminimizetime 20x -timeout 60m . </dev/null || \
			{ git ls-files --others "testdata/fuzz/$$name" | while read -r input; do echo "$$input:"; head -c 4000 "$$input"; done; exit 1; }); \
	done; \
done
endef

fuzz: ## run every fuzz target for FUZZTIME (30s) each
	$(call run_fuzz,$(FUZZTIME))

fuzz-smoke: ## run every fuzz target for ROUNDS (2000x) inputs each
	$(call run_fuzz,$(ROUNDS))

sim: ## run nodes in simulated machines: SEEDS (1000) of them, or one SEED=
	go test -count=1 -run 'TestSim$$' -timeout 120m -v ./test/sim -sim.seeds=$(SEEDS) $(if $(SEED),-sim.seed=$(SEED))

images: ## make all that a crash can leave, or SUBSETS (128) images at each step of a workload, and start from each; SEED=
	go test -count=1 -run 'TestImages$$' -timeout 300m -v ./test/images -images.subsets=$(SUBSETS) -images.seed=$(or $(SEED),1)

crash: ## kill a broker under load and restart it, CYCLES (300) times; SEED=
	go test -count=1 -run TestCrash -timeout 60m ./test/crash/... -crash.cycles=$(CYCLES) $(if $(SEED),-crash.seed=$(SEED),-crash.any)

powercut: ## cut the power under a broker on ext4 and XFS, and start it on IMAGES (100) of what is left; SEED=
	go test -count=1 ./test/powercut/fusedisk
	go test -v -count=1 -timeout 60m ./test/powercut -powercut.images=$(IMAGES) $(if $(SEED),-powercut.seed=$(SEED),-powercut.any)

interop: ## install Kafka's clients (APT=--apt, as root: the system's too), and test each with a real broker
	./test/interop/install.sh --long $(APT)
	cd test/interop && go test -count=1 -timeout 40m -v . -interop.long

# Java and Maven are needed here and nowhere else.
compare-kafka: build ## run one file of cases against mqd's two doors and Apache Kafka, in turn (Java, Maven); COMPARE= for flags
	@for program in java mvn; do command -v $$program >/dev/null || { echo "compare-kafka needs Java and Maven: $$program is not installed" >&2; exit 1; }; done
	./test/interop/install.sh --broker
	cd test/kafkabench && go build -o ../../bin/kafkabench .
	bin/kafkabench compare -mqd bin/mqd $(COMPARE)

bench: build ## measure this machine's floors and the broker against them; BENCH= for flags
	bin/mqd bench all $(BENCH)

# Every budget of the design as a row, with its floors from the same run.
budgets: build ## hold the broker against every budget, with pass or fail; BENCH= for flags
	bin/mqd bench all $(BENCH)

scrape: build ## show that fetching the metrics every second does not move p99; BENCH= for flags
	rm -rf bin/scrape
	bin/mqd bench run --class memory --depth 1 --client poll --read after --duration 1500ms --scrape 1s,0s --samples 0s --repeat 36 --floors=false --out bin/scrape $(BENCH)
	bin/mqd bench compare bin/scrape --at-most 1.2

clean: ## remove what was built
	rm -rf bin demo-data coverage.out
