# make app    serve the app at http://localhost:5006, and open it in a browser where there is a desktop
# make lint   ruff alone
# make check  ruff, mypy (as one of the tests), and the tests that are not slow, with a few cases of each
# make test   ruff, mypy (as one of the tests), all tests and all notebooks
# make fuzz   odd inputs for MINUTES=10; what failed is in fuzz-failures/, and the next run begins with it
# make docs   these pages as a site, in docs/_build/html; notebooks are executed, warnings are errors
# make release   build wheel and sdist, try both in clean environments, say what remains to be done
# make sanitize   the kernels once under AddressSanitizer and UBSan, with gcc: a minute
#
# All make .venv first, when it is missing or older than pyproject.toml and constraints.txt.
#   make test ARGS="-k rbm -x"     options for pytest; with ARGS="-n 0" in one process, for a debugger
#   make app PORT=5007             another port (ARGS="…": options for panel serve)
#   make app PYTHON=python3.12     another Python, when .venv is made

PORT ?= 5006
MINUTES ?= 10
ARGS ?=
PYTHON ?= python3 python3.11 python3.12 python3.13 python3.14

VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed

# Each worker takes a file at a time: tests of a file may share a server or a training. Which files are taken first, and which
# belong together, stands in tests/conftest.py. A worker that dies ends the run, which would hang otherwise.
PYTEST := $(RUN) -m pytest --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# Hundreds of processes are started here: none should compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: app lint check test fuzz docs release sanitize venv clean
.DELETE_ON_ERROR:

app: $(STAMP)
	$(RUN) -m qtcore app --port $(PORT) -- $(ARGS)

lint: $(STAMP)
	$(RUN) -m ruff check .

check: lint
	$(PYTEST) -n 2 -p no:nbmake --ignore tests/ui --ignore notebooks -m "not slow" --hypothesis-profile check $(ARGS)

test: lint
	$(RUN) -m tests.ui.chromium
	$(RUN) -m tests.ui.axe
	$(PYTEST) -n 3 --nbmake $(ARGS)

fuzz: $(STAMP)
	$(RUN) -m tests.fuzz --minutes $(MINUTES) $(ARGS)

docs: $(STAMP)
	$(RUN) -m sphinx -b html -W --keep-going -c docs . docs/_build/html -d docs/_build/trees $(ARGS)
	$(RUN) docs/site/offline.py docs/_build/html

release: $(STAMP)
	$(RUN) -m tests.release $(ARGS)

sanitize: $(STAMP)
	$(RUN) -m tests.kernels.sanitize

venv: $(STAMP)

# The stamp holds the folder it was made in. Read by the venv's own Python it is empty when that Python is gone,
# and different when the clone was moved: in both cases everything is installed again.
ifneq ($(shell $(RUN) -c "print(open('$(STAMP)').read())" 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

# The stamp is removed first and written last, so that an interrupted installation is never taken for a whole one.
# A .venv that somebody made by hand, or that a broken-off installation left, is used if its Python and pip work.
$(STAMP): pyproject.toml constraints.txt
	@rm -f $(STAMP) $(VENV)/.no-chromium $(VENV)/.no-axe
	@if ! $(RUN) -m pip --version >/dev/null 2>&1 || ! $(RUN) -c '$(NEW_ENOUGH)' 2>/dev/null; then \
	    found=; \
	    for python in $(PYTHON); do \
	        if command -v "$$python" >/dev/null 2>&1 && "$$python" -c '$(NEW_ENOUGH)' 2>/dev/null; then found="$$python"; break; fi; \
	    done; \
	    if [ -z "$$found" ]; then \
	        echo "qtcore needs Python 3.11 or newer, and none of these is one: $(PYTHON). Try: make PYTHON=/path/to/python3" >&2; \
	        exit 1; \
	    fi; \
	    echo "Making $(VENV) with $$found"; \
	    "$$found" -m venv --clear $(VENV) || exit 1; \
	fi
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[app,bench,docs,dev]' -c constraints.txt
	@printf '%s' "$(CURDIR)" > $(STAMP)

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

clean:
	rm -rf $(VENV) build dist docs/_build docs/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find qtcore app tests -name __pycache__ -type d -prune -exec rm -rf {} +
