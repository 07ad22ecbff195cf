# `make test` is the whole proof and needs only Go, Node with npm, make and, on
# Debian, the right to install packages. Every other target is a part of it or a
# help at work; each sets up what it needs. CONTRIBUTING.md says more.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
unexport GOWORK # the workspace is found by its file; the tools below leave it

BIN    := $(CURDIR)/.cache/bin
REPORT := $(CURDIR)/.cache/test
READY  := .cache/ready
WEB    := services/gateway/web
CLI    := tools/claude
E2E    := cmd/banksman/e2e
BROWSER := $(WEB)/e2e
BENCH  := cmd/banksman/bench
SOAK   := cmd/banksman/soak

# The modules of go.work. tools stands apart, so that its dependencies never
# reach the product.
MODULES := pkg services/agent services/gateway services/notifier cmd/banksman
# Examples that are modules of their own, as others would write them.
EXAMPLES := docs/examples/decider docs/examples/follow

PKG       ?= work
RUN       ?= .
FUZZTIME  ?= 30s
GO_FLAGS  ?= -race
E2E_FLAGS ?=

# What git would commit, generated and compared bytes apart.
GO_FILES = git ls-files -co --exclude-standard -- '*.go' ':!*/testdata/*' | \
	{ xargs -d '\n' -r grep -sL '^// Code generated .* DO NOT EDIT\.$$' || true; }
PACKAGES = go list -e $(1) | { grep -Ev '/$(E2E)(/|$$)' || true; }

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.* ## ' $(MAKEFILE_LIST) | awk -F':.* ## ' '{ printf "  %-14s %s\n", $$1, $$2 }'

# ---- setting up

.PHONY: setup
setup: ## install what is missing: Debian packages, npm packages, Go tools
	@tools/setup
	@touch $(READY)

$(READY): tools/setup tools/go.mod tools/go.sum $(wildcard tools/*/*.go $(WEB)/package-lock.json $(BROWSER)/package-lock.json $(CLI)/package-lock.json)
	@tools/setup
	@touch $@

# ---- the whole proof

.PHONY: test
test: ## everything: setup, lint, web, Go, end to end, browser, summary
	@rm -rf $(REPORT) && mkdir -p $(REPORT)
	@tools/stage --stop setup step $(MAKE) setup
	@tools/stage --stop lint step $(MAKE) lint
	@if [ -f $(WEB)/package.json ]; then \
		tools/stage web-types step $(MAKE) web-types; \
		tools/stage web vitest $(MAKE) web-unit; \
		tools/stage web-build step $(MAKE) web-build; \
	else tools/stage --absent web vitest; fi
	@tools/stage tools gotest $(MAKE) test-tools
	@tools/stage go gotest $(MAKE) unit
	@if [ -d $(E2E) ]; then tools/stage e2e gotest $(MAKE) e2e; \
	else tools/stage --absent e2e gotest; fi
	@if [ -d $(BROWSER) ]; then tools/stage browser playwright $(MAKE) browser; \
	else tools/stage --absent browser playwright; fi
	@if [ "$${CI:-}" = true ]; then tools/stage clean step $(MAKE) clean-check; fi
	@$(BIN)/summary -dir $(REPORT) -allow tools/allowed-skips.txt -strict=$(if $(filter true,$(CI)),true,false)

# ---- lint: all checks run, then the failed ones are named

LINTS := fmt-check vet staticcheck deadcode deps limits tidy-check generate-check

.PHONY: lint
lint: $(READY) ## format, vet, staticcheck, deadcode, deps, limits, tidy, generated files
	@failed=; for check in $(LINTS); do \
		echo "--> $$check"; $(MAKE) $$check || failed="$$failed $$check"; \
	done; \
	if [ -n "$$failed" ]; then echo "lint failed:$$failed" >&2; exit 1; fi

.PHONY: fmt
fmt: $(READY) ## format the Go code
	@$(GO_FILES) | xargs -d '\n' -r $(BIN)/gofumpt -w

.PHONY: fmt-check
fmt-check: $(READY) ## name the Go files that are not formatted
	@bad=$$($(GO_FILES) | xargs -d '\n' -r $(BIN)/gofumpt -l); \
	if [ -n "$$bad" ]; then printf 'not formatted, run make fmt:\n%s\n' "$$bad" >&2; exit 1; fi

.PHONY: vet
vet: ## go vet over all modules
	@go vet work
	@for m in $(EXAMPLES) tools; do (cd $$m && GOWORK=off go vet ./...); done

.PHONY: staticcheck
staticcheck: $(READY) ## staticcheck over all modules
	@$(BIN)/staticcheck work
	@for m in $(EXAMPLES) tools; do (cd $$m && GOWORK=off $(BIN)/staticcheck ./...); done

# Roots are every main and every test; an exported function of pkg is public and
# therefore has a test. An example without output is compiled and never called.
.PHONY: deadcode
deadcode: $(READY) ## functions that no command and no test reaches
	@dead=$$($(BIN)/deadcode -test -filter '^github\.com/banksman/banksman/' work | { grep -v 'unreachable func: Example' || true; }); \
	if [ -n "$$dead" ]; then printf 'unreachable:\n%s\n' "$$dead" >&2; exit 1; fi

.PHONY: deps
deps: $(READY) ## the direction of imports; each module builds alone; licences of what is shipped
	@$(BIN)/deps
	@$(BIN)/licenses -check

.PHONY: limits
limits: $(READY) ## sizes of files and packages
	@$(BIN)/limits

# go.work.sum grows by whatever command looks further than the last one; loading
# everything once makes it the same everywhere.
LOAD_ALL := go list -m all >/dev/null && go list -deps -test work >/dev/null

.PHONY: tidy-check
tidy-check: ## go.mod, go.sum and go.work.sum are what make tidy would write
	@failed=; for m in $(MODULES) $(EXAMPLES) tools; do \
		(cd $$m && GOWORK=off go mod tidy -diff | head -n 40) || failed="$$failed $$m"; \
	done; \
	tools/unchanged go.work.sum -- bash -c '$(LOAD_ALL)' || failed="$$failed go.work.sum"; \
	if [ -n "$$failed" ]; then echo "not tidy, run make tidy:$$failed" >&2; exit 1; fi

.PHONY: tidy
tidy: ## go mod tidy in every module
	@for m in $(MODULES) $(EXAMPLES) tools; do (cd $$m && GOWORK=off go mod tidy); done
	@$(LOAD_ALL)

.PHONY: generate
generate: $(READY) ## write the generated files anew
	@go generate work
	@$(BIN)/licenses
	@if [ -f $(WEB)/package.json ]; then cd $(WEB) && npm run --silent --if-present generate; fi

.PHONY: generate-check
generate-check: $(READY) ## generated files are up to date
	@tools/unchanged -- $(MAKE) generate

.PHONY: clean-check
clean-check: ## nothing above left a trace in the tree
	@dirty=$$(git status --porcelain); \
	if [ -n "$$dirty" ]; then printf 'the tree is not clean:\n%s\n' "$$dirty" >&2; git --no-pager diff --stat >&2; exit 1; fi

# ---- tests

# Real servers, processes and browsers on two shared cores: what fails is run
# again, at most twice and only where few fail. The first failure stays in the
# output, and DONE tells how many runs there were.
RERUN     ?= 2
GOTESTSUM = $(BIN)/gotestsum --format-hide-empty-pkg --jsonfile $(REPORT)/$(1).json \
	--rerun-fails=$(RERUN) --rerun-fails-max-failures=4

.PHONY: unit
unit: $(READY) ## Go tests with the race detector; PKG=./pkg/hitl/... RUN=TestName narrow them
	@mkdir -p $(REPORT)
	@$(call GOTESTSUM,go) --format pkgname --packages "$$($(call PACKAGES,$(PKG)) | tr '\n' ' ')" -- \
		$(GO_FLAGS) -count=1 -vet=off -timeout 15m -run '$(RUN)'

.PHONY: e2e
e2e: $(READY) ## the product as a whole, in processes, terminal and browser; RUN=TestName narrows it
	@mkdir -p $(REPORT)
	@$(call GOTESTSUM,e2e) --format testname --packages ./$(E2E)/... -- \
		$(E2E_FLAGS) -count=1 -vet=off -p 1 -timeout 30m -run '$(RUN)'

.PHONY: test-tools
test-tools: $(READY) ## tests of the tools of this file
	@mkdir -p $(REPORT)
	@cd tools && GOWORK=off $(call GOTESTSUM,tools) --format pkgname --packages ./... -- -count=1

.PHONY: interleave
interleave: ## the orders of a gateway's steps that take too long for every day
	go test -count=1 -timeout 4h -v -run AllInterleavings ./services/gateway/internal/engine -args -all

.PHONY: fuzz-seeds
fuzz-seeds: ## the seeds of all fuzz targets (part of unit as well)
	@go test -run '^Fuzz' work

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME; names those that failed
	@failed=; for p in $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(PKG)); do \
		for f in $$(go test -list '^Fuzz' $$p | { grep '^Fuzz' || true; }); do \
			echo "--> $$p $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p || failed="$$failed $$p:$$f"; \
		done; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

.PHONY: bench
bench: ## measure the product; see docs for the numbers
	@go run ./$(BENCH) $(ARGS)

.PHONY: bench-web
bench-web: ## measure the gateway's sockets beside raw TCP, up to 10,000, and the paint in a real browser
	@go run ./$(BENCH)/web $(ARGS)

.PHONY: bench-claude
bench-claude: $(READY) ## from a person's answer to the tool in the real Claude Code, beside the CLI alone
	@go run ./$(BENCH)/claude $(ARGS)

.PHONY: bench-lifecycle
bench-lifecycle: ## what a start costs with 100,000 open and 1,000,000 settled; takes a quarter of an hour and 10 GB
	@go run ./$(BENCH)/lifecycle $(ARGS)

.PHONY: bench-notify
bench-notify: ## the notifier: times beside a bare consumer, replicas that are killed, idle addresses, a flood
	@go run ./$(BENCH)/notify $(ARGS)

.PHONY: soak
soak: ## 20,000 interactions on a cluster whose parts are killed; ARGS="-seed 7 -n 2000"
	@go run -buildvcs=true ./$(SOAK) $(ARGS)

# ---- web app

.PHONY: web
web: web-types web-unit web-build ## types, tests and bundle of the web app

.PHONY: web-types
web-types: $(READY)
	@cd $(WEB) && npm run --silent typecheck && npx --no-install tsc -p e2e

.PHONY: web-unit
web-unit: $(READY)
	@mkdir -p $(REPORT)
	@cd $(WEB) && npx --no-install vitest run --reporter=default --reporter=json --outputFile.json=$(REPORT)/web.json

# Every state of every card, read in Debian's Chromium; pictures in .cache/browser.
.PHONY: browser
browser: $(READY) ## what people see, by Playwright and axe; RUN='part of a name' narrows it
	@mkdir -p $(REPORT)
	@cd $(BROWSER) && RERUN=$(RERUN) npx --no-install playwright test -g '$(RUN)'

# The bundle is committed, so that `go run` needs no Node; it has to be the one
# that the sources give.
.PHONY: web-build
web-build: $(READY)
	@tools/unchanged $(WEB)/dist -- npm --prefix $(WEB) run --silent build

.PHONY: web-dev
web-dev: $(READY) ## the web app with reload at every change
	@cd $(WEB) && npm run dev

# ---- programs

.PHONY: build
build: ## the programs, into bin/
	@mkdir -p bin
	@go build -trimpath -o bin/ $$(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' work | { grep -Ev '/($(BENCH)|$(E2E)|$(SOAK))(/|$$)' || true; })
	@ls bin

.PHONY: clean
clean: ## remove what the targets above made, node_modules apart
	@rm -rf bin .cache
