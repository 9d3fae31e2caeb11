# perigee. The two commands that matter are `make demo` and `make test`.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X perigee/internal/kit/version.Commit=$(VERSION)
# Found when a recipe runs, after .ci/deps has installed it.
NIXL    := $$(echo $(CURDIR)/.venv/lib/python3*/site-packages/.nixl_cu12.mesonpy.libs/libnixl_capi.so)
DEMO    := out/demo

.PHONY: help build demo check test bench lint fuzz dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Position-independent (-buildmode=pie), each process starts 2 ms later: 7.2 ms instead of 5.3. Full RELRO (-bindnow) would not start at
# all: the functions of NVIDIA's management library are bound when they are called, if there is a GPU.
build: ## build bin/perigee
	go build -ldflags "$(LDFLAGS)" -o bin/perigee .

# KV caches of Llama 3.1 405B between as many workers as there are CPUs, at least two for prefill and one for decode, at
# 1/100 of their size so that they fit a laptop. The prefill is so fast that the workers' transfers meet, and the summary
# says what that costs.
demo: build ## run a small KV-cache workload on as many local ranks as CPUs, at least 3; print its table and what contention costs
	ranks=$$(nproc); [ $$ranks -ge 3 ] || ranks=3; bin/perigee matgen generate --model llama-405b --num-user-requests 8 \
	  --num-prefill-nodes $$((ranks - ranks / 2)) --num-decode-nodes $$((ranks / 2)) --ppn 1 --prefill-tp 1 --decode-tp 1 \
	  --scale 0.01 --flops 20e18 --results-dir $(DEMO)/workload
	bin/perigee sequential-ct-perftest $(DEMO)/workload/metadata.yaml --engine shm --verify-buffers --iters 40 \
	  --json-output-path $(DEMO)/results.json --result $(DEMO)/result.json.zst
	bin/perigee report --text $(DEMO)/result.json.zst
	@echo "# next: bin/perigee report $(DEMO)/result.json.zst -o report.html"

# Four packages at a time: many tests wait. -short leaves out what repeats a suite in another setting.
check: build ## what a change is tried with before make test: vet, and all unit tests without the race detector
	go vet ./...
	NIXL_LIBRARY=$(NIXL) go test -short -p 4 $$(go list ./... | grep -v /e2e)

# libpmix-dev has the libpmix.so that Slurm's plugin for --mpi=pmix opens.
TEST_PACKAGES := slurm-wlm munge mpich libmpich-dev openmpi-bin libopenmpi-dev libpmix2 libpmix-dev iproute2 \
  fio chromium fonts-dejavu-core groff-base rpm curl etcd-server

test: ## install what the tests need, run them all, and sum up what failed
	.ci/deps $(TEST_PACKAGES)
	NIXL_LIBRARY=$(NIXL) .ci/test

bench: ## compare with C, fio, Open MPI and MPICH, in turns (SECTIONS="files barrier": only those)
	.ci/deps openmpi-bin libopenmpi-dev mpich libmpich-dev fio
	NIXL_LIBRARY=$(NIXL) go run -ldflags "$(LDFLAGS)" ./e2e/bench $(SECTIONS)

lint: ## check formatting, vet, staticcheck, known vulnerabilities and insecure code
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	.ci/security

fuzz: ## run every fuzz target for FUZZTIME each (default 20s)
	.ci/fuzz

dist: ## make out/dist: a tar.gz, a .deb, an .rpm, an SBOM, a Containerfile and their checksums
	.ci/deps
	packaging/dist out/dist

clean: ## remove what was built
	rm -rf bin out
