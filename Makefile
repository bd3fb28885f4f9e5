# One target for everything; CI runs test, race and e2e. Tools are pinned in go.mod.

GO      ?= go
LISTEN  ?= 127.0.0.1:8741
FUZZ    ?= 30s
FOR     ?= 10m
CHAOS   ?=
VULNDB  ?=
VERSION ?=

export CGO_ENABLED ?= 0

PREFIX  ?= $(HOME)/.local

.PHONY: help run build install test lint unit race cross bench bench-peers chaos fuzz vuln e2e update module clean

## help: list the targets
help:
	@echo "usage: make TARGET"
	@sed -n 's/^## \([a-z0-9-]*\): \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r target text; do \
		printf '  %-12s %s\n' "$$target" "$$text"; \
	done

## run: build, serve (from the simulator, unless an upstream is configured), and print a curl line that works
run: build
	@echo "perigee answers here as soon as it listens; in another terminal:"
	@echo "  curl -s http://$(LISTEN)/v1beta/models/gemini-3-flash:generateContent -d '{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"hello\"}]}]}'"
	@exec ./bin/perigee serve --listen $(LISTEN)

## build: the one static binary, in bin/
build:
	@$(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/perigee ./cmd/perigee

## install: put the binary into PREFIX/bin (~/.local/bin)
install: build
	@mkdir -p "$(DESTDIR)$(PREFIX)/bin"
	@install -m 755 bin/perigee "$(DESTDIR)$(PREFIX)/bin/perigee"
	@echo "installed $(DESTDIR)$(PREFIX)/bin/perigee"
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "$(PREFIX)/bin is not on your PATH" ;; esac

## test: everything hermetic: formatting, vet, lint, all tests, builds for other platforms
test: lint unit cross

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go' | grep -v '^gen/')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

unit:
	$(GO) test -timeout 15m ./...

## race: all tests with the race detector, which needs cgo and a C compiler
race:
	CGO_ENABLED=1 $(GO) test -race -timeout 20m ./...

cross:
	GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/perigee
	GOOS=windows GOARCH=amd64 $(GO) build -o /dev/null ./cmd/perigee
	GOOS=linux GOARCH=arm $(GO) build -o /dev/null ./cmd/perigee

## bench: perigee beside the provider and a bare reverse proxy, into bench/README.md
bench:
	$(GO) run ./bench -write

## bench-peers: perigee beside other gateways, built from their Go modules, into bench/README.md
bench-peers:
	$(GO) run ./bench -peers -write

## chaos: perigee while its provider, disk, database, network, configuration and process break, for FOR (10m)
chaos:
	$(GO) run ./bench/chaos -for $(FOR) $(CHAOS)

## fuzz: every fuzz target for FUZZ (30s) each, two at a time; the first failure ends it and shows its input
fuzz:
	@targets=$$(grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's|/[^/]*_test.go:func | |' | sort); \
	echo "$$(echo "$$targets" | wc -l) fuzz targets, $(FUZZ) each"; \
	echo "$$targets" | xargs -P 2 -L 1 sh -c 'if out=$$($(GO) test -run "^$$" -fuzz "^$$1\$$" -fuzztime $(FUZZ) -fuzzminimizetime 1s -parallel 1 "$$0" 2>&1); \
		then echo "ok $$0 $$1"; \
		else echo "FAILED $$0 $$1"; echo "$$out"; \
			for input in $$(echo "$$out" | sed -n "s|.*Failing input written to ||p"); do cat "$$0/$$input"; done; exit 255; fi'

## vuln: known vulnerabilities in what perigee calls; VULNDB is another database than vuln.go.dev
vuln:
	@out=$$($(GO) tool -modfile=tools/go.mod govulncheck $(if $(VULNDB),-db $(VULNDB)) ./... 2>&1); status=$$?; \
	if [ $$status -eq 1 ] && echo "$$out" | grep -q '^govulncheck: fetching vulnerabilities:'; then \
		echo "not scanned: database not reachable ($$(echo "$$out" | tail -n 1))"; \
	else echo "$$out"; exit $$status; fi

## e2e: real client programs against a real daemon
e2e:
	$(GO) run ./e2e

## update: rewrite the expected parts of transcripts and golden files; review the diff like code
update:
	$(GO) test . ./internal/config ./internal/daemon ./cmd/perigee -update

## module: rename the module to MODULE, the path under which it is published
module:
	@test -n "$(MODULE)" || { echo "say which path: make module MODULE=example.com/you/perigee" >&2; exit 2; }
	@old=$$($(GO) list -m) && $(GO) mod edit -module "$(MODULE)" && \
	find . -name '*.go' -not -path './e2e/*/*' -exec env OLD="$$old" NEW="$(MODULE)" perl -pi -e \
		's{^(\s*(?:import )?(?:[\w.]+ )?")\Q$$ENV{OLD}\E(/[^"]*)?("\s*)$$}{$$1$$ENV{NEW}$$2$$3}; s{"\Q$$ENV{OLD}\E(/[^"]*)?"}{"$$ENV{NEW}$$1"}g if $$ARGV =~ m{/deps_test\.go$$}' {} +
	@echo "the module is now $$($(GO) list -m)"

clean:
	rm -rf bin
