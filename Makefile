# Thin names for commands that autograders/guide/notebooks-and-questions.md spells out. `make run` and `make test` do all
# the set-up that they need.
PYTHON ?= python3
BIN := .venv/bin
DEMO := build/demo
# Where there is no GPU, uv takes the CPU build of PyTorch, which is much smaller, from download.pytorch.org. Where that
# address cannot be reached, it takes the build of the package index.
UV_TORCH_BACKEND ?= auto
export UV_TORCH_BACKEND
# In containers the user is often root, for whom Jupyter does not start unasked.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: setup run test test-fast test-full test-question learn lab text notebooks site bench lint

setup: .venv/.ready

.venv/.ready: pyproject.toml hatch_build.py
	$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 14) else "Python 3.11 to 3.13 is needed, this is " + sys.version.split()[0])'
	if command -v uv >/dev/null; then \
	  rm -rf .venv && \
	  uv venv --quiet --seed --python "$$(command -v $(PYTHON))" .venv && \
	  { uv pip install --python $(BIN)/python --editable ".[dev]" || { unset UV_TORCH_BACKEND; \
	    uv pip install --python $(BIN)/python --editable ".[dev]"; }; }; \
	else \
	  $(PYTHON) -m venv .venv && \
	  $(BIN)/python -m pip install --quiet --upgrade pip && \
	  $(BIN)/python -m pip install --progress-bar off --editable ".[dev]"; \
	fi
	@touch $@

run: setup
	rm -rf $(DEMO)
	$(BIN)/autograde release --course $(DEMO)
	$(BIN)/autograde simulate --course $(DEMO) --students 12
	$(BIN)/autograde grade --course $(DEMO)
	$(BIN)/autograde feedback --course $(DEMO)
	$(BIN)/autograde gradebook --course $(DEMO)
	@echo
	@echo "open next:"
	@echo "  $(DEMO)/bundle/README.md             what a student gets"
	@echo "  $(DEMO)/feedback/                    one page a student, for example:"
	@ls $(DEMO)/feedback/*/*/*.html | head -n 1 | sed 's/^/    /'
	@echo "  make lab                             the notebooks with solutions, in JupyterLab"

test: setup
	$(BIN)/python -m pytest tests --nbval notebooks --nbval-sanitize-with tests/nbval.cfg -n auto --dist loadfile

test-full: setup
	$(BIN)/python -m pytest tests --full --nbval notebooks --nbval-sanitize-with tests/nbval.cfg -n auto --dist loadfile

test-fast: setup
	$(BIN)/python -m pytest tests -m "not slow" -n auto --dist loadfile

test-question: setup
	$(if $(ID),,$(error name a question: make test-question ID=03a-clip))
	$(BIN)/autograde verify --question $(ID)
	$(BIN)/python -m pytest -q tests/lecture_lib/notebook/test_checks.py tests/autograders/questions -k "$(ID)"

learn: setup
	test -d grading/bundle || $(BIN)/autograde release --skip-verify
	JUPYTER_CONFIG_PATH="$(CURDIR)/autograders/lab_settings" $(BIN)/jupyter lab $(AS_ROOT) grading/bundle/notebooks

lab: setup
	$(BIN)/jupyter lab $(AS_ROOT) notebooks

notebooks: setup
	$(BIN)/autograde build

site: setup
	$(BIN)/autograde site

text: setup
	$(BIN)/autograde text

lint: setup
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	@for benchmark in $(filter-out tests/benchmarks/harness.py tests/benchmarks/test_%,$(wildcard tests/benchmarks/*.py)); do $(BIN)/python $$benchmark || exit 1; done
