# Everything a newcomer needs: make demo, make test. Only Python 3.11 or later, git and make are presumed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_VENV := .venv-bench
BENCH_READY := $(BENCH_VENV)/.ready

.PHONY: help setup demo test check format bench bench-scale conformance chaos-approvals chaos-schedules schemathesis dev docs screenshots deploy-check lock clean

help:
	@echo "make demo         kill a worker in the middle of a job and watch the job finish"
	@echo "make test         lint, type-check and run every test, PostgreSQL included"
	@echo "make check        lint and type-check only"
	@echo "make format       put the code into our format"
	@echo "make bench        compare with PgQueuer, Procrastinate and Huey, and durable steps with DBOS and Restate"
	@echo "make bench-scale  drains, lists, pages with a million jobs; ticks with a million schedules; a hundred event streams"
	@echo "make conformance  kill Cortex Plane, DBOS and LangGraph at every write, and look at what holds"
	@echo "make chaos-approvals  64 decisions at once, through all doors, a thousand times on each store"
	@echo "make chaos-schedules  ten schedulers, some killed, a thousand schedules, an hour of turned time, on each store"
	@echo "make schemathesis try the API by its own description for a long time, on both stores"
	@echo "make dev          serve the dashboard, with a worker on examples/release.py"
	@echo "make docs         build the documentation into build/docs/site"
	@echo "make screenshots  photograph every page of the dashboard into docs/pictures"
	@echo "make deploy-check check the files in deploy/ against the published schemas"
	@echo "make lock         renew the locked versions"

setup: $(READY)

# A venv without pip is filled by the outer pip: some systems ship Python without ensurepip.
$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Cortex Plane needs Python 3.11 or later; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || $(PYTHON) -m venv --without-pip $(VENV)
	@test -x $(BIN)/pip && PIP="$(BIN)/python -m pip" || PIP="$(PYTHON) -m pip --python $(BIN)/python"; \
	  echo "Setting up $(VENV) …"; \
	  $$PIP install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock && \
	  $$PIP install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

demo: setup
	@$(BIN)/python examples/demo.py

test: check
	@$(BIN)/python -m docs.screenshots.chromium
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist worksteal

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --verbose 2>/dev/null | tail -n 5

format: setup
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format --quiet .

$(BENCH_READY): requirements-bench.lock
	@test -x $(BENCH_VENV)/bin/python || $(PYTHON) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	@touch $(BENCH_READY)

bench: setup $(BENCH_READY)
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.durable

bench-scale: setup
	@$(BIN)/python -m bench.scale
	@$(BIN)/python -m bench.ticks
	@$(BIN)/python -m bench.pages
	@$(BIN)/python -m bench.streams

conformance: setup $(BENCH_READY)
	@$(BIN)/python -m conformance

chaos-approvals: setup
	@APPROVAL_ROUNDS=1000 $(BIN)/python -m pytest -q -n 2 tests/doors/test_crowd.py

chaos-schedules: setup
	@CAMPAIGN_SCHEDULERS=10 CAMPAIGN_SCHEDULES=1000 CAMPAIGN_MINUTES=60 $(BIN)/python -m pytest -q -s -n 0 tests/end_to_end/test_schedule_campaign.py

schemathesis: setup
	@SCHEMATHESIS_EXAMPLES=100 $(BIN)/python -m pytest -n 2 tests/http/test_schemathesis.py

dev: setup
	@$(BIN)/cortex dev examples/release.py

docs: setup
	@$(BIN)/python -m docs.builder build/docs
	@$(BIN)/zensical build --strict --config-file build/docs/mkdocs.yml
	@echo "Open build/docs/site/index.html"

screenshots: setup
	@$(BIN)/python -m docs.screenshots.chromium
	@$(BIN)/python -m docs.screenshots

deploy-check: setup
	@$(BIN)/python -m pytest -n 0 tests/deploy

lock:
	@uv pip compile --quiet pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header -o requirements.lock
	@uv pip compile --quiet pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes --no-header -o requirements-dev.lock
	@uv pip compile --quiet --group build --universal --python-version 3.11 --generate-hashes --no-header -o requirements-build.lock
	@uv pip compile --quiet --group docs --universal --python-version 3.11 --generate-hashes --no-header -o requirements-docs.lock
	@uv pip compile --quiet --group bench --universal --python-version 3.11 --generate-hashes --no-header -o requirements-bench.lock

clean:
	@rm -rf build $(VENV) $(BENCH_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
