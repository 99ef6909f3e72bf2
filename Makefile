# Everything a developer does, each as one command. `make` alone lists them.
# A recipe runs from the repository's root and uses only the virtual environment it made itself.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
BIN := .venv/bin
GENERATED := src/listing_publication
# The environment is as new as the pins, the project file and its own place (scripts in it hold that path).
INSTALLED := .venv/installed-$(shell { cat requirements.txt requirements-dev.txt pyproject.toml; pwd; } | sha256sum | cut -c1-16)

# The bench has peers and tools that the service does not need, so it has an environment of its own.
BENCH_INSTALLED := .venv-bench/installed-$(shell { cat bench/requirements.txt pyproject.toml; pwd; } | sha256sum | cut -c1-16)

# $(call generate,FOLDER): Python modules, gRPC stubs and their types for every proto file.
generate = PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -Iproto --python_out=$(1) \
	--grpc_python_out=$(1) --mypy_out=quiet:$(1) --mypy_grpc_out=quiet:$(1) proto/listing_publication/v1/*.proto

PIP_COMPILE = CUSTOM_COMPILE_COMMAND="make requirements" $(BIN)/pip-compile --quiet --generate-hashes --strip-extras \
	--allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links

.PHONY: help setup run test check fix proto verify breaking requirements bench faults faults-long faults-mutants

help:  ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED)  ## Make .venv with the pinned packages and this project; does nothing when it is up to date

$(INSTALLED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.txt -r requirements-dev.txt
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f .venv/installed-*
	@touch $@

run: setup  ## Start everything on this machine: database, sandbox marketplace, core server, gateway, worker
	$(BIN)/listings serve

test: setup  ## Run every test but the fault campaigns (two processes, under six minutes)
	$(BIN)/python -m pytest -n 3 -m "not faults and not bench" $(TESTS)

check: setup verify breaking  ## Lint, format, types, import rules, proto rules, generated code, architecture tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/buf lint
	$(BIN)/python -m pytest -q tests/architecture

fix: setup  ## Mend what ruff can mend by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: setup  ## Generate src/listing_publication/v1 from proto/
	$(call generate,src)

verify: setup  ## Fail when the generated code is not what proto/ gives
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && $(call generate,"$$fresh") && \
	diff -r --exclude=__pycache__ "$$fresh/listing_publication" $(GENERATED) || \
	{ echo "$(GENERATED) is stale: run make proto" >&2; exit 1; }

breaking: setup  ## Fail when proto/ breaks clients of the last release (the newest tag)
	@tag=$$(git describe --tags --abbrev=0 2>/dev/null || true); \
	if [ -n "$$tag" ]; then $(BIN)/buf breaking --against ".git#tag=$$tag"; \
	else echo "breaking: no release yet to compare with"; fi

requirements: setup  ## Pin again what pyproject.toml asks for (ARGS=--upgrade for newer versions)
	$(PIP_COMPILE) $(ARGS) -o requirements.txt pyproject.toml
	$(PIP_COMPILE) $(ARGS) --extra otel -c requirements.txt -o requirements-otel.txt pyproject.toml
	$(PIP_COMPILE) $(ARGS) --extra dev --extra otel -c requirements.txt -c requirements-otel.txt -o requirements-dev.txt pyproject.toml
	$(PIP_COMPILE) $(ARGS) -o bench/requirements.txt bench/requirements.in

bench: $(BENCH_INSTALLED)  ## Measure the service side by side with its floors and peers (ARGS=--quick: six minutes)
	.venv-bench/bin/python -m bench $(ARGS)

$(BENCH_INSTALLED):
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r bench/requirements.txt
	.venv-bench/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f .venv-bench/installed-*
	@touch $@

faults: setup  ## Break everything on purpose, tier 1 (up to twenty minutes), and check that nothing is lost or doubled
	$(BIN)/python -m tests.faults.run --tier 1 $(ARGS)

faults-long: setup  ## The same at tier 2 (hours; ARGS="--only NAME …" for some)
	$(BIN)/python -m tests.faults.run --tier 2 $(ARGS)

faults-mutants: setup  ## Seed known defects one by one and show that each turns a check red
	$(BIN)/python -m tests.faults.mutants $(ARGS)
