# The gate: `make check` runs what the continuous build runs.
PYTHON ?= python

.PHONY: check format lint types test package help

help:            ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:\t/'

check: lint types test  ## everything below but package

format:          ## rewrite the layout and apply safe fixes
	$(PYTHON) -m ruff check --fix --quiet .
	$(PYTHON) -m ruff format .

lint:            ## layout and lint
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .

types:           ## mypy, strict, over the tree as it is shipped
	$(PYTHON) tools/typecheck.py

test:            ## the test suite
	$(PYTHON) -m pytest -n 2

package:         ## sdist, wheel, and a trial of the wheel in a fresh environment
	rm -rf build dist
	$(PYTHON) -m build
	$(PYTHON) tools/smoke_wheel.py dist/*.whl
