# Everything below sets up .venv by itself; python3 >= 3.11 with venv is all that must be there.
PYTHON ?= python3
BIN := .venv/bin
OUT ?= runs/digits-$(shell date +%Y%m%d-%H%M%S)
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(4, 1 + (os.cpu_count() or 1)))')
STUDY ?= runs/study$(if $(QUICK),-quick)
MLP_ROUNDS = $(if $(QUICK),8,225)
FEWER = $(if $(QUICK),--repeats 1 --etas 1 $(1))
STUDY_RUN = $(BIN)/python -m zofedht.experiments study --jobs 2 $(if $(DATA),--data-dir $(DATA)) $(if $(CELLS),--cells $(CELLS))

.PHONY: run test test-all check docs lock sbom bench study format up down clean

.venv/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one with make PYTHON=python3.12"; exit 1; }
	@echo "installing zofedht and what it needs into .venv: once, 1 to 5 minutes and 1.2 GB, most of it Ray, LLVM and SciPy"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --editable '.[sim,plots,fast,dev]'
	@touch $@

run: .venv/.installed  ## train on digits in Flower's simulation, then show the summary and where the picture is
	$(BIN)/zofedht-server run --engine simulation --set step-size=3 --out $(OUT)

# One worker more than there are cores, since many tests wait; four at most; WORKERS=N.
test: .venv/.installed  ## run all tests but those that take minutes: SuperLink, Ray clusters, containers, the built package, long examples
	$(BIN)/python -m pytest -n $(WORKERS)

test-all: .venv/.installed  ## run all tests
	$(BIN)/python -m pytest -n $(WORKERS) --engines

check: .venv/.installed  ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --silent build/types
	$(BIN)/mypy

# The package as it is installed, laid out in links: mypy does not know that zofedht/__init__.py adds a folder.
.PHONY: build/types
build/types:
	@rm -rf $@ && mkdir -p $@/zofedht
	@ln -s ../../../zofedht/__init__.py ../../../zofedht/py.typed ../../../zofedht/flower.py ../../../zofedht/callbacks.py ../../../zofedht/onnx.py ../../../zofedht/torch.py ../../../common ../../../client ../../../server ../../../experiments $@/zofedht

docs: .venv/.installed  ## the documentation as a site, in build/site; it fails for a broken link
	@$(BIN)/python -c 'import mkdocs_jupyter' 2>/dev/null || $(BIN)/pip install --quiet --editable '.[docs]'
	$(MAKE) --silent build/types
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

LOCK = $(BIN)/python -m uv pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-header --no-annotate

lock: .venv/.installed  ## renew docker/*.lock: the versions in the image, with their hashes
	$(LOCK) --upgrade --extra plots --extra metrics --output-file docker/requirements.lock pyproject.toml
	echo "$$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")')" | $(LOCK) --upgrade --output-file docker/build.lock -

sbom: .venv/.installed  ## what the image is made from, as build/sbom.json (CycloneDX)
	@$(BIN)/python -c 'import cyclonedx_py' 2>/dev/null || $(BIN)/pip install --quiet 'cyclonedx-bom>=5'
	@mkdir -p build
	$(BIN)/python -m cyclonedx_py requirements docker/requirements.lock --pyproject pyproject.toml --output-file build/sbom.json

format: .venv/.installed  ## rewrite the code in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What the containers write belongs to whoever runs make; to user 1000 if that is root, as no container trains as root.
ifneq ($(shell id -u),0)
export ZOFEDHT_UID ?= $(shell id -u)
export ZOFEDHT_GID ?= $(shell id -g)
endif

bench: .venv/.installed  ## the local step, and a round of every engine (half an hour, most of it SuperLink)
	$(BIN)/python -m benchmarks.local_step
	$(BIN)/python -m benchmarks.rounds

study: .venv/.installed  ## the paper's studies and their report: hours; QUICK=--quick is a part in minutes; DATA=DIR holds the large sets; PAGE=FILE.md gets the report; CELLS=DIR holds cells as lines
	$(BIN)/python -m zofedht.experiments table1 --out $(STUDY)/page
	$(BIN)/python -m zofedht.experiments theory $(QUICK) --out $(STUDY)/page
	for preset in authors paper; do $(STUDY_RUN) --preset $$preset --model logistic svm $(QUICK) --out $(STUDY)/$$preset || exit; done
	$(STUDY_RUN) --preset authors --dataset mnist fashion-mnist --model svm-hinge --alphas .1 $(QUICK) $(call FEWER,.1) --out $(STUDY)/authors
	$(STUDY_RUN) --preset authors --dataset mnist fashion-mnist --model logistic svm svm-hinge --partition sorted --alphas .1 $(QUICK) $(call FEWER,.1) --out $(STUDY)/authors
	$(STUDY_RUN) --preset authors --dataset mnist fashion-mnist --model mlp --partition iid thirds sorted --etas 1 --alphas .5 $(QUICK) $(call FEWER) --rounds $(MLP_ROUNDS) --out $(STUDY)/authors-mlp
	$(BIN)/python -m zofedht.experiments report $(if $(CELLS),--cells $(CELLS),$(STUDY)/authors $(STUDY)/authors-mlp $(STUDY)/paper) --out $(STUDY)/page $(if $(PAGE),--page $(PAGE))

up:  ## train in containers, one server and five clients, into runs/compose; see docs/compose.md
	docker compose up --build
	@exit $$(docker inspect --format '{{.State.ExitCode}}' $$(docker compose ps --all --quiet server))

down:  ## remove the containers and the certificates, keep the results in runs/
	docker compose down --volumes --remove-orphans

clean:  ## forget the environment and the caches, keep the results in runs/
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache build *.egg-info
