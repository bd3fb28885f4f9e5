# Every task of the project. make run and make test need Go alone; what else a target needs, its line says. Tools are pinned in
# go.mod and tools/go.mod.

GO      ?= go
LISTEN  ?= 127.0.0.1:8741
PACKAGES ?= ./...
COUNT   ?=
N       ?= 20
FUZZ    ?= 30s
FUZZ_IN ?= .
FOR     ?= 10m
CHAOS   ?=
RACE    ?=
MUTATE  ?=
VULNDB  ?=
E2E     ?=
CONFORMANCE ?=
VERSION ?=
SNAPSHOT ?=

export CGO_ENABLED := 0

# Programs that people use are compiled with the profile cmd/perigee/default.pgo, which takes twice as long with an empty build
# cache; tests, and the programs that they start, are compiled once, without it.
PGO     ?= auto
export GOFLAGS := $(GOFLAGS) -pgo=off

PREFIX  ?= $(HOME)/.local

.PHONY: help run building build install test full steady lint staticcheck slow race unraced mutate cross bench bench-peers bench-mitm chaos soak conformance h2spec fuzz vuln e2e e2e-all extension extension-test opencode-plugin opencode-plugin-test generate generated update release packages reproduce module renamed clean

## help: list the targets
help:
	@echo "usage: make TARGET"
	@sed -n 's/^## \([a-z0-9-]*\): \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r target text; do \
		printf '  %-20s %s\n' "$$target" "$$text"; \
	done

## run: build perigee, serve from its simulator at LISTEN (127.0.0.1:8741), and print a curl line that works
run: PGO = off
run: building build
	@mkdir -p bin/run && echo 'data_dir: "$(CURDIR)/bin/run/data"' >bin/run/config.yaml
	@echo "as soon as perigee listens, in another terminal:"
	@echo "  curl -s http://$(LISTEN)/v1beta/models/gemini-3-flash:generateContent -d '{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"hello\"}]}]}'"
	@exec ./bin/perigee serve --simulate --config bin/run/config.yaml --listen $(LISTEN)

# A build says nothing for a minute or two if the build cache is empty.
building:
	@echo "building perigee"

## test: formatting, vet, and every test that needs no minutes; with RACE=-race and a C compiler, under the race detector
test: lint
	umask 022; LC_ALL=C $(if $(RACE),CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 )$(GO) test -short $(if $(RACE),$(RACED)) $(COUNT) $(QUICK) $(PACKAGES)
	cd tools/mutate && $(GO) test $(COUNT) .
	cd tools/release && $(GO) test $(COUNT) .

# Tests compare the modes of files that programs make, so the umask is the usual one. In the locale C, which is everywhere, bash
# does not warn.
#
# Eight packages at a time, because most of them wait for processes and connections; with the race detector they mostly compute.
# go vet has run in lint.
QUICK = -vet=off -p $(if $(RACE),4,8) -parallel $(if $(RACE),4,8) -timeout 10m

# The race detector checks everything but SQLite itself, which is C in the form of Go, and with which most of the time would be
# spent. Packages that instantiate generic code of the standard library cannot be left out: the linker keeps one instance for all.
# Programs do not sleep for a second at their end, as they do with the race detector otherwise: the tests start thousands of them.
# Tests use one processor (programs that they start use all of them), because Go 1.26 lets all goroutines of a bubble use one state
# of the detector when they read timers, and two that do so at the same moment crash it: https://go.dev/issue/78156.
RACED = -race -cpu=1 -gcflags='modernc.org/sqlite/lib=-race=false'

## full: test, and what needs minutes: slow tests, staticcheck, builds and vet for other systems
full: test staticcheck slow cross packages

## steady: run make test N (20) times, without cached results and with four busy loops beside it; each run must pass
steady:
	@./.ci/steady $(N) $(MAKE) --no-print-directory test COUNT=-count=1

## build: build the static binary bin/perigee
build:
	@$(GO) build -pgo=$(PGO) -ldflags "-s -w -X main.version=$(VERSION)" -o bin/perigee ./cmd/perigee

## install: copy the binary into PREFIX/bin (~/.local/bin)
install: build
	@mkdir -p "$(DESTDIR)$(PREFIX)/bin"
	@install -m 755 bin/perigee "$(DESTDIR)$(PREFIX)/bin/perigee"
	@echo "installed $(DESTDIR)$(PREFIX)/bin/perigee"
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "$(PREFIX)/bin is not on your PATH" ;; esac

lint:
	@unformatted=$$(find . -name '*.go' -not -path './gen/*' -not -path '*/node_modules/*' -not -path '*/.cache/*' -exec gofmt -l {} +) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...

staticcheck:
	$(GO) tool staticcheck $$($(GO) list ./... | grep -v /gen/)

# slow runs the tests that make test skips, and the others once more: go test cannot select tests by what they call.
slow:
	$(GO) test -vet=off -timeout 20m $(PACKAGES)

## race: run all tests, slow ones too, with the race detector, which needs a C compiler
race:
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(GO) test $(RACED) -vet=off -timeout 30m $(PACKAGES)

## unraced: run the packages with tests that the race detector skips
unraced:
	$(GO) test -short $(QUICK) $$(grep -rl --include='*_test.go' 'perigeetest\.Unraced(' *_test.go internal | xargs -n 1 dirname | sort -u | sed 's|^|./|')

## mutate: change the operators of PACKAGES one at a time and list the changes that no test notices; options in MUTATE
mutate:
	@cd tools/mutate && $(GO) build -o ../../bin/mutate .
	@./bin/mutate $(MUTATE) $(PACKAGES)

# cross builds for other platforms and vets all packages with their tests for macOS and Windows: seconds with a warm build
# cache, minutes without one.
cross:
	GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/perigee
	GOOS=windows GOARCH=amd64 $(GO) build -o /dev/null ./cmd/perigee
	GOOS=linux GOARCH=arm $(GO) build -o /dev/null ./cmd/perigee
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	GOOS=windows GOARCH=amd64 $(GO) vet ./...

## bench: measure perigee beside the provider and a plain reverse proxy, and write bench/README.md
bench:
	$(GO) run ./bench -write

## bench-peers: measure perigee beside other gateways, built from their Go modules, and write bench/README.md
bench-peers:
	$(GO) run ./bench -peers -write

## bench-mitm: measure the interception proxy beside others, and write bench/mitm/README.md
bench-mitm:
	$(GO) run ./bench/mitm -write

## chaos: run perigee for FOR (10m) while its provider, disk, database, network, configuration and process fail
chaos:
	$(GO) run ./bench/chaos -for $(FOR) $(CHAOS)

## soak: disturb process, configuration, store, network and accounts side by side for FOR (10m), and measure growth
soak:
	$(GO) run ./bench/chaos -soak -for $(FOR) $(CHAOS)

## fuzz: run each fuzz target below FUZZ_IN (.) for FUZZ (30s), two at a time, until one fails
fuzz:
	@targets=$$(grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' $(FUZZ_IN) | sed 's|/[^/]*_test.go:func | |' | sort); \
	for dir in $(FUZZ_IN); do grep -rq --include='*_test.go' '^func Fuzz' "$$dir" || { echo "no fuzz targets in $$dir"; exit 1; }; done; \
	echo "fuzz targets: $$(echo "$$targets" | wc -l), $(FUZZ) each"; \
	echo "$$targets" | GO="$(GO)" FUZZ="$(FUZZ)" xargs -P 2 -L 1 ./.ci/fuzz

## vuln: scan for known vulnerabilities in called code; VULNDB replaces the database vuln.go.dev
vuln:
	@out=$$($(GO) tool -modfile=tools/go.mod govulncheck $(if $(VULNDB),-db $(VULNDB)) ./... 2>&1); status=$$?; \
	if [ $$status -eq 1 ] && echo "$$out" | grep -q '^govulncheck: fetching vulnerabilities:'; then \
		echo "not scanned: database not reachable ($$(echo "$$out" | tail -n 1))"; \
	else echo "$$out"; exit $$status; fi

## e2e: run real client programs against a real daemon, one scenario of each and every recipe of the documents; needs npm
e2e:
	$(GO) run ./e2e $(E2E)

## e2e-all: run every scenario of every client program; needs npm
e2e-all:
	$(GO) run ./e2e -all $(E2E)

## extension-test: check the types of the VS Code extension and run its tests without an editor; needs npm
extension-test:
	@cd vscode && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm test

## extension: build the VS Code extension bin/perigee.vsix, which needs npm
extension:
	@cd vscode && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run --silent package

## opencode-plugin-test: check the types of the OpenCode plugin and run its unit tests, which needs npm
opencode-plugin-test:
	@cd opencode && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm test

## opencode-plugin: build the OpenCode plugin bin/perigee-opencode.js, which needs npm
opencode-plugin:
	@cd opencode && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run --silent package

## conformance: run the Connect conformance suite without and with internal/langserver/connectframe, and behind the interception proxy
conformance:
	@$(GO) run ./internal/testing/conformance $(CONFORMANCE)

## h2spec: check HTTP/2 of the interception proxy, and compare with net/http
h2spec:
	@$(GO) run ./internal/testing/h2spec

## generate: write gen/ from the files in proto/
generate:
	cd tools && $(GO) run ./generate -module "$$($(GO) -C .. list -m)/gen" ../proto ../gen

# generated compares gen/ with what make generate writes.
generated:
	@made=$$(mktemp -d) && trap 'rm -rf "$$made"' EXIT && \
	(cd tools && $(GO) run ./generate -module "$$($(GO) -C .. list -m)/gen" ../proto "$$made") && \
	{ diff -r gen "$$made" || { echo "gen/ differs from proto/: run make generate"; exit 1; }; }

## update: rewrite the expected parts of transcripts and golden files; review the diff like code
update:
	$(GO) test . ./internal/store/config ./internal/daemon ./cmd/perigee -update

# make exports variables that have been set on its command line or in its environment. The recipe names them to the shell, and
# does not contain their values, so that no value is run as a command.

## release: build the files of release VERSION for PLATFORMS (all) into OUT (bin/release), signed with KEY; docs/releasing.md has more
release:
	@cd tools/release && GOFLAGS= GOTOOLCHAIN="$$(cat toolchain.txt)" $(GO) run ./cmd -C ../.. -out "$${OUT:-bin/release}" \
		-version "$$VERSION" -platforms "$$PLATFORMS" -key "$$KEY" -base-url "$$BASE_URL" -notes "$$NOTES" \
		-index "$$INDEX" -maintainer "$$MAINTAINER"$(if $(SNAPSHOT), -snapshot)$(if $(filter off,$(PGO)), -unprofiled)

# packages tests what go test in tools/release does not, because nfpm has forty modules, which take a minute to compile.
packages:
	cd tools/release && $(GO) vet ./... && $(GO) test ./packages

## reproduce: build release VERSION for PLATFORMS twice, on what looks like two machines, and compare
reproduce:
	@./.ci/reproduce "$$VERSION" "$$PLATFORMS"

## module: rename the Go module to MODULE
module: renamed
	@$(MAKE) -s --no-print-directory generate

# The part of module that needs no other program: generated code contains paths of packages, too.
renamed:
	@test -n "$(MODULE)" || { echo "say which path: make module MODULE=example.com/you/perigee" >&2; exit 2; }
	@old=$$($(GO) list -m) && $(GO) mod edit -module "$(MODULE)" && \
	(cd tools/release && $(GO) mod edit -module "$(MODULE)/tools/release") && \
	find . -name '*.go' -not -path './e2e/*/*' -exec env OLD="$$old" NEW="$(MODULE)" perl -pi -e \
		's{^(\s*(?:import )?(?:[\w.]+ )?")\Q$$ENV{OLD}\E(/[^"]*)?("\s*(?://.*)?)$$}{$$1$$ENV{NEW}$$2$$3}; s{"\Q$$ENV{OLD}\E(/[^"]*)?"}{"$$ENV{NEW}$$1"}g if $$ARGV =~ m{/deps_test\.go$$}' {} +
	@OLD="$$(sed -n 's|.*go_package = "\(.*\)/gen/.*|\1|p' proto/gemini_coder/gemini_coder.proto)" && test -n "$$OLD" && \
	find proto -name '*.proto' -exec env OLD="$$OLD" NEW="$(MODULE)" perl -pi -e 's{go_package = "\Q$$ENV{OLD}\E/gen}{go_package = "$$ENV{NEW}/gen}' {} +
	@echo "the module is now $$($(GO) list -m)"

clean:
	rm -rf bin vscode/dist vscode/out opencode/out
