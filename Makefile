# Everything a person does with this repository. `make` alone prints this list.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
CACHE := $(CURDIR)/.cache
EXAMPLE := deploy/agent.example.yaml
# Further words for pytest, such as: make test-fast ARGS="-k burn -x"
ARGS ?=
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export SLO_AGENT_VLLM_DIR ?= $(CACHE)/vllm
export SLO_AGENT_NEIGHBOURS_DIR ?= $(CACHE)/neighbours

.PHONY: help demo test test-fast test-real lint format bench conformance image rules dashboards docs lock clean real-parts test-live-all neighbours

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/runtime.stamp  ## the agent on the embedded simulator; prints the address of its page (Ctrl-C ends it)
	@exec $(BIN)/slo-agent demo $(ARGS)

test: test-fast test-real  ## all tests; installs what they need (Prometheus, Alertmanager, Chromium, a real vLLM)

test-fast: $(VENV)/dev.stamp  ## the tests that need nothing but Python, in parallel
	$(PY) -m pytest -m "not real" -n auto $(ARGS)

test-real: $(VENV)/dev.stamp real-parts  ## the tests against real Prometheus, Alertmanager, Chromium, vLLM, buildah
	$(PY) -m pytest -m "real and not neighbours" $(ARGS)

test-live-all: $(VENV)/dev.stamp real-parts neighbours  ## all real tests, with Mooncake, Dynamo and vllm-router (not in CI)
	$(PY) -m pytest -m real $(ARGS)

neighbours: $(VENV)/dev.stamp  ## install Mooncake, Dynamo and vllm-router for test-live-all (1.3 GB)
	bash tests/live/real_neighbours.sh install "$(SLO_AGENT_NEIGHBOURS_DIR)"

real-parts: $(VENV)/dev.stamp  ## install what the real tests need; name what is not to be had
	@bash tests/live/install_real_parts.sh

lint: $(VENV)/dev.stamp  ## ruff, mypy --strict, the import contracts, shellcheck
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports
	@if command -v shellcheck > /dev/null; then shellcheck .ci/run deploy/*.sh tests/live/*.sh; \
	else echo "lint: shellcheck is not installed: SKIPPED"; [[ "$${CI:-}" != true ]]; fi

format: $(VENV)/dev.stamp  ## lay the Python code out
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/dev.stamp  ## what a tick, a page and a window cost
	$(PY) -m pytest tests/benchmarks -s $(ARGS)

conformance: $(VENV)/dev.stamp  ## the suite of docs/conformance.md: what is wanted, what the agent does, what others do
	$(PY) tests/agent/slo/conformance.py

image:  ## the container image: with docker, or with buildah where no registry is reachable
	bash deploy/build-image.sh

rules: $(VENV)/dev.stamp  ## render rules/prometheus/ from the example config
	$(PY) -m agent.render rules --config $(EXAMPLE) --out rules/prometheus

dashboards: $(VENV)/dev.stamp  ## render dashboards/
	$(PY) -m agent.render dashboards --out dashboards

docs: $(VENV)/dev.stamp  ## render the generated pages of docs/
	$(PY) -m agent.outputs.metrics_doc > docs/metrics.md
	$(PY) -m agent.config_doc > docs/config.md
	$(PY) -m probes.names.document > docs/signals.md
	$(PY) tests/probes/canary/canary_doc.py > docs/canaries.md

# One lock for what runs, one for what builds, one for who develops; the three agree with each other.
PIP_COMPILE = $(BIN)/pip-compile -q --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
	--no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host $(ARGS)
lock: $(VENV)/dev.stamp  ## pin the dependencies of pyproject.toml anew (ARGS=--upgrade for the newest)
	$(PIP_COMPILE) -o requirements.lock pyproject.toml
	$(PIP_COMPILE) --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml
	echo 'setuptools>=77' | $(PIP_COMPILE) -c requirements-dev.lock -o requirements-build.lock -

clean:  ## remove what make has built and fetched
	rm -rf $(VENV) .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# The environment comes from the locks alone, hashes checked; the second part is only for developers.
$(VENV)/runtime.stamp: requirements.lock requirements-build.lock pyproject.toml
	@bash tests/live/make_venv.sh $(PYTHON) $(VENV)
	$(PY) -m pip install -q --require-hashes -r requirements.lock -r requirements-build.lock
	$(PY) -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/runtime.stamp requirements-dev.lock
	$(PY) -m pip install -q --require-hashes -r requirements-dev.lock
	@touch $@
