# Everything below sets up .venv by itself; python3 >= 3.11 with venv is all that must be there.
PYTHON ?= python3
BIN := .venv/bin
OUT ?= runs/digits-$(shell date +%Y%m%d-%H%M%S)

.PHONY: run test check format clean

.venv/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one with make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[sim,plots,dev]'
	@touch $@

run: .venv/.installed  ## train on digits in Flower's simulation, then show the summary and where the picture is
	$(BIN)/zofedht-server run --engine simulation --set step-size=3 --out $(OUT)

test: .venv/.installed  ## run all tests
	$(BIN)/python -m pytest

check: .venv/.installed  ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/.installed  ## rewrite the code in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## forget the environment and the caches, keep the results in runs/
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache build *.egg-info
