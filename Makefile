# Everything a newcomer needs: make demo, make test. Only Python 3.11 or later, git and make are presumed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_VENV := .venv-bench
BENCH_READY := $(BENCH_VENV)/.ready

.PHONY: help setup demo test test-stock test-lowest test-newest test-core coverage check format hooks bench bench-scale conformance chaos chaos-approvals chaos-schedules security schemathesis dev docs screenshots deploy-check house release lock clean

help:
	@echo "make demo         kill a worker in the middle of a job and watch the job finish"
	@echo "make test         lint, type-check and run every test, PostgreSQL included"
	@echo "make test-stock   the contract of the stores and the plans of queries on the PostgreSQL of this system"
	@echo "make coverage     run every test, measure lines and branches, and fail under the threshold in pyproject.toml"
	@echo "make test-lowest  a part of the tests with the lowest versions of every dependency; make test-newest with the newest"
	@echo "make test-core    install the core alone into an empty environment, and try it there"
	@echo "make check        lint and type-check only"
	@echo "make format       put the code into our format"
	@echo "make hooks        check each commit before it is made (needs pre-commit)"
	@echo "make bench        compare with PgQueuer, Procrastinate and Huey, and durable steps with DBOS and Restate"
	@echo "make bench-scale  drains, lists, pages with a million jobs; ticks with a million schedules; a hundred event streams"
	@echo "make conformance  kill Cortex Plane, DBOS and LangGraph at every write, and look at what holds"
	@echo "make chaos        every fault that workers must survive, with jobs lost and doubled, and the seconds to recover"
	@echo "make chaos-approvals  64 decisions at once, through all doors, a thousand times on each store; then failing services and dying workers"
	@echo "make chaos-schedules  ten schedulers, some killed, a thousand schedules, an hour of turned time, on each store; then outages, edits and locks"
	@echo "make security     all routes x roles x tenants, every pattern on hostile text, abuse of every limit, with counts"
	@echo "make schemathesis try the API by its own description for a long time, on both stores"
	@echo "make dev          serve the dashboard, with a worker on examples/release.py"
	@echo "make docs         build the documentation into build/docs/site"
	@echo "make screenshots  photograph every page of the dashboard into docs/pictures"
	@echo "make deploy-check check the files in deploy/ against the published schemas"
	@echo "make house        measure the source tree, beside an earlier revision and our goals: make house REVISION=main"
	@echo "make release      build sdist and wheel, check them, and try the wheel in an empty environment"
	@echo "make lock         renew the locked versions"

setup: $(READY)

# A venv without pip is filled by the outer pip: some systems ship Python without ensurepip.
$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Cortex Plane needs Python 3.11 or later; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || $(PYTHON) -m venv --without-pip $(VENV)
	@test -x $(BIN)/pip && PIP="$(BIN)/python -m pip" || PIP="$(PYTHON) -m pip --python $(BIN)/python"; \
	  echo "Setting up $(VENV) …"; \
	  $$PIP install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.lock && \
	  $$PIP install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

demo: setup
	@$(BIN)/python examples/demo.py

test: check
	@$(BIN)/python -m docs.screenshots.chromium
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist worksteal

test-stock: setup
	@$(BIN)/python -m tests.stock
	@CORTEX_TEST_STOCK=1 $(BIN)/python -m pytest -n 2 --dist worksteal -k "not sqlite" tests/contract tests/storage/test_postgres_plans.py tests/storage/test_audit_plans.py tests/storage/test_retention_plans.py tests/storage/test_stock_server.py

# For a part: make coverage COVERED=tests/contract. The threshold is meant for all tests, and a part will miss it.
COVERED ?= tests

coverage: setup
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(BIN)/coverage run -m pytest -n 3 --dist worksteal --timeout 240 $(COVERED)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage html --quiet --skip-covered --fail-under 0
	@$(BIN)/coverage report

test-lowest test-newest test-core: test-%: setup
	@$(BIN)/python -m tests.versions $*

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --verbose 2>/dev/null | tail -n 5

format: setup
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format --quiet .

hooks: setup
	@pre-commit install

$(BENCH_READY): requirements-bench.lock
	@test -x $(BENCH_VENV)/bin/python || $(PYTHON) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-bench.lock
	@touch $(BENCH_READY)

bench: setup $(BENCH_READY)
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.durable
	@$(BIN)/python -m bench.held_snapshot

bench-scale: setup
	@$(BIN)/python -m bench.scale
	@$(BIN)/python -m bench.growth
	@$(BIN)/python -m bench.steered
	@$(BIN)/python -m bench.steered --store sqlite
	@$(BIN)/python -m bench.upkeep
	@$(BIN)/python -m bench.guards
	@$(BIN)/python -m bench.ticks
	@$(BIN)/python -m bench.pages
	@$(BIN)/python -m bench.streams

conformance: setup $(BENCH_READY)
	@$(BIN)/python -m conformance

chaos: setup
	@$(BIN)/python -m tests.end_to_end.chaos

chaos-approvals: setup
	@APPROVAL_ROUNDS=1000 $(BIN)/python -m pytest -q -n 2 tests/doors/test_crowd.py
	@CAMPAIGN_WORKERS=6 CAMPAIGN_REQUESTS=120 CAMPAIGN_MINUTES=15 CAMPAIGN_TTL=240 $(BIN)/python -m pytest -q -s -n 0 tests/end_to_end/test_approval_campaign.py

chaos-schedules: setup
	@CAMPAIGN_SCHEDULERS=10 CAMPAIGN_SCHEDULES=1000 CAMPAIGN_MINUTES=60 $(BIN)/python -m pytest -q -s -n 0 tests/end_to_end/test_schedule_campaign.py

security: setup
	@$(BIN)/python -m tests.security

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

house: setup
	@$(BIN)/python -m tools.house $(REVISION)

release: setup
	@$(BIN)/python -m tools.release

lock:
	@uv pip compile --quiet pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header -o requirements-core.lock
	@uv pip compile --quiet pyproject.toml --extra server --extra email --extra otel --universal --python-version 3.11 --generate-hashes --no-header -o requirements.lock
	@uv pip compile --quiet pyproject.toml --all-extras --group dev --universal --python-version 3.11 --generate-hashes --no-header -o requirements-dev.lock
	@uv pip compile --quiet --group build --universal --python-version 3.11 --generate-hashes --no-header -o requirements-build.lock
	@uv pip compile --quiet --group docs --universal --python-version 3.11 --generate-hashes --no-header -o requirements-docs.lock
	@uv pip compile --quiet --group bench --universal --python-version 3.11 --generate-hashes --no-header -o requirements-bench.lock

clean:
	@rm -rf build dist $(VENV) $(BENCH_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
