# Everything on a fresh machine: `make run`, `make test`. The rest is for people who change the code.
# Needs Python 3.11 with pip; everything else, uv included, comes into .venv/.
SHELL  := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(VENV)/uv/bin/uv
PORT   ?= 8420
# A step of `make check`: its name and "ok", or all that it said and an error.
step = @printf '%-14s' '$(1)'; if said=$$($(2) 2>&1); then echo ok; else echo FAILED; echo "$$said"; exit 1; fi
.DEFAULT_GOAL := help
.PHONY: help run test check soak bench lock

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*##  *\(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

run: $(VENV)/.run  ## import this machine's agent histories (or the sample), then serve them on PORT and PORT+1
	@$(BIN)/polyc import --or-sample
	@exec $(BIN)/polyc up --port $(PORT)

test: check $(VENV)/.browser  ## every check and every test (soak tests left out)
	@$(BIN)/python -m pytest -q -p no:cacheprovider -n 2 --dist loadfile

check: $(VENV)/.dev  ## format, lint, types, import contracts, house rules, generated files
	$(call step,format,$(BIN)/ruff format --check .)
	$(call step,lint,$(BIN)/ruff check .)
	$(call step,types,$(BIN)/mypy .)
	$(call step,contracts,$(BIN)/lint-imports --no-cache)
	$(call step,house rules,$(BIN)/python tools/tidy.py)
	$(call step,protos,$(BIN)/python tools/proto.py --check)
	$(call step,tables page,$(BIN)/python tools/tables_doc.py --check)
	$(call step,commands page,$(BIN)/python tools/commands_doc.py --check)
	$(call step,transcripts,$(BIN)/python tools/transcripts.py --check)

soak: $(VENV)/.dev  ## the long tests: kill loops, fuzzing, the big corpus
	@$(BIN)/python -m pytest -q -p no:cacheprovider -m soak

bench: $(VENV)/.dev  ## measure against peers in the same run and rewrite the table of bench/README.md
	@$(BIN)/python -m bench.run --write

lock: $(VENV)/.dev  ## resolve the dependencies anew (with hashes, without addresses)
	@$(UV) pip compile -q --generate-hashes --no-emit-index-url --extra build pyproject.toml -o requirements.lock
	@$(UV) pip compile -q --generate-hashes --no-emit-index-url --extra build --extra dev --extra semantic --extra eip712 --extra multilingual pyproject.toml -o requirements-dev.lock

$(UV):
	@$(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m venv $(VENV)/uv
	@$(VENV)/uv/bin/pip install -q --disable-pip-version-check "uv>=0.9"

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(UV)
	@$(UV) pip sync -q -p $(BIN)/python --require-hashes requirements-dev.lock
	@$(UV) pip install -q -p $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $(VENV)/.dev $(VENV)/.run

$(VENV)/.run: requirements.lock pyproject.toml | $(UV)
	@test -e $(VENV)/.dev && exec $(MAKE) -s $(VENV)/.dev || $(UV) pip sync -q -p $(BIN)/python --require-hashes requirements.lock
	@test -e $(VENV)/.dev || $(UV) pip install -q -p $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $(VENV)/.run

# The pages are tested in a real browser: Debian's, because a test tool's own download is not to be had everywhere.
$(VENV)/.browser: | $(UV)
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
		|| { echo "make test needs Debian's chromium: apt-get install chromium"; exit 1; }
	@touch $(VENV)/.browser
