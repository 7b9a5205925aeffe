# Needs Python 3.11 or newer, pip and make; everything else goes into .venv.
# Options for pip, such as another package index, go in PIP_FLAGS.
PYTHON ?= python3
PIP_FLAGS ?=
WORKERS ?= 2

BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt

# Corpora that cannot be distributed with the package; tests that want them are skipped where there are none.
DATA := $(abspath $(firstword $(wildcard data ../shared/data)))
ifneq ($(DATA),)
export QKV_DATA ?= $(DATA)
endif

.DEFAULT_GOAL := help
.PHONY: help demo serve test avx2 lint docs web browser clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "make %-6s %s\n", $$1, $$2}' Makefile

demo: .venv/installed ## train a small model on real data in a few minutes and show what it learnt
	$(BIN)/qkv demo

serve: .venv/installed ## serve the models that come with the package, with a page, at http://localhost:5000
	$(BIN)/qkv serve es-en cmudict

# One thread a process: pytest already runs one process for each core.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test: lint browser ## lint, run all the tests, and those of numbers once more as on an older processor
	$(PYTEST)
	$(MAKE) --no-print-directory avx2

# What depends on how a processor rounds: equations, kernels, fast engines and quantised exports.
UNIT := tests/unit/export/test_ctranslate2 tests/unit/export/test_int8 tests/unit/export/test_onnx \
  tests/unit/engines/test_agreement tests/unit/engines/test_ctranslate2_engine tests/unit/engines/test_onnx_engine
ROUNDING := tests/numerics $(UNIT:=.py) tests/integration/test_export.py \
  tests/unit/search/speculative/test_drafts.py::test_of_equal_tokens_the_lowest_id_wins

avx2: .venv/installed-dev ## run the tests of numbers with AVX2 only: no AVX-512, no VNNI, oneDNN in place of MKL
	ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 CT2_USE_MKL=0 CT2_FORCE_CPU_ISA=AVX2 \
	  $(PYTEST) -m 'not slow' $(ROUNDING)

lint: .venv/installed-dev ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The pages of `qkv see` and `qkv serve` are committed: only who changes web/ needs npm.
web: web/node_modules .venv/installed ## check the sources of the pages of qkv see and qkv serve and build them
	$(BIN)/python web/openapi.py > web/openapi.json
	$(BIN)/python web/example.py > qkv/serving/page/example.json
	cd web && npm run schema -- openapi.json -o src/live/schema.ts && npm run check && npm test && npm run build

# Not `npm ci`: it fails where a registry lacks the packages of other platforms.
web/node_modules: web/package-lock.json
	cd web && npm install --no-save --no-audit --no-fund
	@touch $@

# Tests of the page want npm's packages and a Chromium; where there are none, and none can be had, they are skipped.
browser:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web/node_modules \
	  || echo "npm has failed: the checks of web/ are skipped"; else echo "no npm: the checks of web/ are skipped"; fi
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	  (apt-get update && apt-get install -y chromium) >/dev/null 2>&1 \
	  || echo "no Chromium, and none could be installed: the tests in tests/browser are skipped"

docs: .venv/installed-docs ## build the documentation into site/
	$(BIN)/qkv config reference > docs/configuration.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove what was built and cached (the environment stays: `rm -r .venv` removes it)
	rm -rf build dist site web/node_modules *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv .venv

# The stamps are written last, so an interrupted installation is taken up again.
.venv/installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into .venv; the first time this takes a few minutes."
	$(INSTALL) -e '.[demo,docx,fast,serve,visual]'
	@touch $@

.venv/installed-dev: .venv/installed
	$(INSTALL) -e '.[client,demo,docx,examples,fast,hf,images,onnx,parquet,ray,serve,visual,dev]'
	@touch $@

.venv/installed-docs: .venv/installed
	$(INSTALL) -e '.[docs]'
	@touch $@
