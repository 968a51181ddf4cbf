# What a person and the continuous integration do with this project. `make help` lists it.
# Words for the program behind a target go in ARGS: make test ARGS="-k seal"

SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

ARGS :=
BIN := .venv/bin
PY := $(BIN)/python
STAMP := .venv/.stamp
SQL := app/engine migrations/versions

# Left over in somebody's shell, these would change what is installed, checked or run. The address of
# a package index, a certificate or a proxy is not among them: it belongs to the machine.
unexport PYTHONHOME PYTHONPATH PYTHONSTARTUP PYTHONOPTIMIZE PYTHONSAFEPATH PYTHONWARNINGS
unexport PYTHONUSERBASE PYTHONPLATLIBDIR PYTHONEXECUTABLE PYTHONINSPECT PYTHONASYNCIODEBUG
unexport __PYVENV_LAUNCHER__ VIRTUAL_ENV CONDA_PREFIX
unexport PIP_REQUIRE_VIRTUALENV PIP_USER PIP_TARGET PIP_PREFIX PIP_ROOT PIP_PYTHON PIP_DRY_RUN
unexport PIP_NO_DEPS PIP_NO_BINARY PIP_CONSTRAINT PIP_REQUIREMENT PIP_EDITABLE PIP_IGNORE_INSTALLED
unexport UV_PYTHON UV_PROJECT UV_PROJECT_ENVIRONMENT UV_SYSTEM_PYTHON UV_TARGET UV_PREFIX UV_NO_BINARY
unexport UV_CONSTRAINT UV_BUILD_CONSTRAINT UV_OVERRIDE UV_EXCLUDE_NEWER UV_RESOLUTION UV_WORKING_DIR
unexport PYTEST_ADDOPTS PYTEST_PLUGINS PYTEST_DISABLE_PLUGIN_AUTOLOAD MYPYPATH MYPY_CONFIG_FILE_DIR

# Scripts in an environment hold its path: one that was moved, or whose Python is gone, is made anew.
ifneq ($(strip $(shell $(PY) -I -c 'print(open("$(STAMP)").read())' 2>/dev/null)),$(CURDIR))
MOVED := moved
endif

.PHONY: help run demo test torture bench peers check fix lock schema clean moved

help: ## This list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile

run: $(STAMP) ## The whole service with a Postgres of its own (DATABASE_URL: with that one)
	@exec $(BIN)/sinksweep dev $(ARGS)

demo: $(STAMP) ## The story: an agent is killed, and its user hears everything once
	@exec $(BIN)/sinksweep demo $(ARGS)

# Tests start what they need; a server or a setting of this shell must not leak into them.
test: $(STAMP) ## Everything that proves it
	@unset DATABASE_URL http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY \
	  $$(env | sed -n 's/^\(SINKSWEEP_[A-Z0-9_]*\)=.*/\1/p; s/^\(PG[A-Z]*\)=.*/\1/p'); \
	  exec $(PY) -m pytest --numprocesses 2 --dist loadfile $(ARGS)

# Half an hour: make torture ARGS="--minutes 30 --seed 7"
torture: $(STAMP) ## Break everything for two minutes, or as long as ARGS says, then judge
	@unset DATABASE_URL http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY; \
	  exec $(PY) -m tests.torture $(ARGS)

# On a machine that does nothing else: make bench ARGS="--quick"
bench: $(STAMP) ## The figures, beside what Postgres itself can do: under twelve minutes
	@unset DATABASE_URL http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY; \
	  exec $(PY) -m tests.bench $(ARGS)

# The peers' environments are made first, outside this folder: make peers ARGS="--only pg-boss --json peers.json"
peers: $(STAMP) ## The figures beside those of the libraries one could take instead: under 25 minutes
	@unset DATABASE_URL; exec $(PY) -m tests.bench.peers $(ARGS)

# Every stage runs, whatever the others found.
check: $(STAMP) ## Format, lint, types, architecture, SQL, migrations
	@failed=; \
	stage() { name=$$1; shift; echo "== $$name"; "$$@" || failed="$$failed $$name"; }; \
	portable() { $(portable); }; \
	stage format       $(BIN)/ruff format --check .; \
	stage lint         $(BIN)/ruff check --quiet .; \
	stage types        $(BIN)/mypy; \
	stage architecture $(BIN)/lint-imports --no-logo; \
	stage SQL          $(BIN)/sqlfluff lint --disable-progress-bar $(SQL); \
	stage migrations   $(BIN)/squawk --config .squawk.toml migrations/versions/*.sql; \
	stage portability  portable; \
	if [ -n "$$failed" ]; then echo "Failed:$$failed" >&2; exit 1; fi; echo 'Everything is in order.'

# No file may name the index it was installed from, or a folder of the machine it was written on.
hosts := pypi[.]org|pythonhosted[.]org|npmjs[.](com|org)|(deb|security)[.]debian[.]org
folders := (^|[^[:alnum:]_.])/(home|root|work|Users)/[[:alnum:]]
portable = git grep --untracked -nIE '$(hosts)|$(folders)' -- . ; case $$? in \
	  0) echo 'These lines name a package index or a folder of one machine.'; return 1;; \
	  1) ;; *) echo 'not a git checkout: skipped';; esac

fix: $(STAMP) ## What the tools can put right by themselves
	$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .
	$(BIN)/sqlfluff fix --quiet --disable-progress-bar app/engine

# Two locks from one resolution: everything, and what a server needs. ARGS=--upgrade for the newest.
compile := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
lock: $(STAMP) ## Pin what pyproject.toml asks for, with hashes
	$(BIN)/$(compile) $(ARGS) --extra dev -o requirements.lock pyproject.toml
	$(BIN)/$(compile) --no-annotate -c requirements.lock -o requirements-runtime.lock pyproject.toml

schema: $(STAMP) ## Write anew what is generated: schema.sql, lifecycle.md, openapi.json, sources.md, channels.md
	$(PY) -m tests.dump_schema
	$(PY) -m tests.lifecycle_page
	$(PY) -m tests.dump_openapi
	$(PY) -m tests.sources_page
	$(PY) -m tests.channels_page

clean: ## Remove what was built; the data of `make run` stays
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find app migrations tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment. The mark `.building` outlives an interruption, and half an environment is thrown away.
$(STAMP): requirements.lock pyproject.toml $(MOVED)
	@set -eu; umask 022; \
	if [ -e .venv/.building ] || { [ -e $(STAMP) ] && [ "$$(cat $(STAMP))" != '$(CURDIR)' ]; } \
	  || ! $(PY) -I -c 'import pip; $(suitable)' 2>/dev/null; then \
	  python=; for name in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	    if "$$name" -I -c '$(suitable)' 2>/dev/null; then python=$$name; break; fi; done; \
	  if [ -z "$$python" ]; then \
	    echo 'Sinksweep needs Python 3.11 or newer with venv and pip on the PATH, and found none.' >&2; \
	    echo 'On Debian and Ubuntu: apt install python3 python3-venv' >&2; exit 1; fi; \
	  echo "Making .venv with $$("$$python" --version) from requirements.lock: this takes a minute ..."; \
	  rm -rf .venv; mkdir .venv; : > .venv/.building; "$$python" -m venv .venv; \
	else echo 'Bringing .venv up to requirements.lock ...'; : > .venv/.building; fi; \
	pip='$(PY) -m pip install --quiet --disable-pip-version-check'; \
	uv='$(BIN)/uv pip install --quiet --system-certs --python $(PY)'; \
	awk '/^[^ #]/ { wanted = /^uv==/ } wanted' requirements.lock > .venv/uv.lock; \
	$$pip --require-hashes -r .venv/uv.lock && $$uv --require-hashes -r requirements.lock \
	  || { echo 'uv cannot be used here; pip goes on, more slowly.' >&2; \
	       $$pip --require-hashes -r requirements.lock; }; \
	$$pip --no-index --no-deps --no-build-isolation --config-settings editable_mode=compat -e .; \
	rm .venv/.building; printf '%s' '$(CURDIR)' > $(STAMP)

suitable := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
