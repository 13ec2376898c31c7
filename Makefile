# Every target sets up what it needs; `make help` lists them.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two processes on two cores; contract tests share one control plane per process.
PYTEST := $(BIN)/pytest -n 2 --dist loadgroup

.PHONY: help setup demo check format lint types layers generated test long torch real certain bench generate golden lock \
	system-packages real-slice control-plane control-plane-path clients node engines engine-manifests e2e clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from the lock file, with bireme, Open MPI and mpi4py in it

$(READY): requirements.lock pyproject.toml hack/setup
	@hack/setup $(PYTHON) $(VENV)

demo: $(READY) ## run an MPI job on this machine
	@$(BIN)/bireme demo

check: format lint types layers generated ## formatting, lint, types, layers, generated files

format: $(READY)
	@$(BIN)/ruff format --quiet --check --diff

lint: $(READY)
	@$(BIN)/ruff check --quiet

types: $(READY)
	@$(BIN)/mypy --no-error-summary

layers: $(READY)
	@$(BIN)/lint-imports --no-logo > $(VENV)/layers.log 2>&1 || { cat $(VENV)/layers.log; exit 1; }

generated: $(READY)
	@$(BIN)/python hack/generate.py --check

test: check system-packages real-slice control-plane clients node engine-manifests ## what CI runs: check, every test but the heavy tiers, a slice of e2e and real
	@$(PYTEST) -m "not long and not torch and not e2e and not engines and not real"
	@$(BIN)/pytest -m real_slice tests/real
	@BIREME_TEST_CONTROLLER=process hack/node/e2e $(BIN) -m smoke

long: $(READY) control-plane clients engine-manifests ## the heavy tier: many more examples of every property
	@BIREME_LONG=1 $(PYTEST) -m "not torch and not e2e and not engines and not real"

torch: $(READY) ## ColossalAIJobs with the real torchrun; installs PyTorch, several GB, into the cache
	@hack/torch
	@$(BIN)/pytest tests/torch/test_torchrun.py
	@hack/node/e2e $(BIN) -m torch tests/torch/test_containers.py

real: $(READY) ## programs that nobody here wrote, bare and under Bireme; BIREME_REAL=update writes their table into the docs
	@hack/system-packages real
	@PYTHON=$(CURDIR)/$(BIN)/python hack/real/install
	@$(BIN)/pytest tests/real

certain: $(READY) ## healthy programs of all sorts; every fault on MPI jobs twenty times, here and on a node made here as root
	@$(PYTEST) tests/embedded/test_healthy_programs.py
	@BIREME_ROUNDS=20 $(PYTEST) tests/embedded/test_certain_ends.py
	@BIREME_ROUNDS=20 hack/node/e2e $(BIN) -k test_certain_ends

engines: $(READY) control-plane ## jobs under Kueue, coscheduling and the API server's own gangs; builds the first two
	@hack/engines/build
	@$(BIN)/pytest tests/engines

bench: $(READY) control-plane ## measure, and compare with the limits that the docs state
	@$(BIN)/python -m bench

generate: $(READY) ## write deploy/ and docs/reference anew from src/bireme/api
	@$(BIN)/python hack/generate.py

golden: $(READY) ## write the expected output of the golden cases anew; read the diff before committing
	@BIREME_GOLDEN=update $(BIN)/pytest -q tests/golden tests/embedded/test_caller.py

lock: $(READY) ## resolve the dependencies of pyproject.toml anew
	@$(BIN)/pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --upgrade --all-extras --group dev --universal --generate-hashes \
		--no-annotate --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml
	@for name in openmpi4 openmpi5; do $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate \
		--custom-compile-command "make lock" --output-file hack/real/$$name.lock hack/real/$$name.in; done

system-packages:
	@hack/system-packages

real-slice: $(READY)
	@PYTHON=$(CURDIR)/$(BIN)/python hack/real/install slice

control-plane: ## build the real Kubernetes control plane that tests run against
	@hack/control-plane/build

control-plane-path: ## print the folder of the control plane's binaries
	@hack/control-plane/build path

clients: ## build the older kubectl and the client-go program that tests try on API servers
	@hack/clients/build

node: ## build kubelet, kube-proxy, CoreDNS, helm and KWOK
	@hack/node/build

engine-manifests:
	@hack/engines/build manifests

e2e: $(READY) ## jobs in real containers, on a node made here as root; or on BIREME_TEST_KUBECONFIG's cluster
	@hack/node/e2e $(BIN)

clean: ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
