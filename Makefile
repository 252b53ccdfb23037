# Sets up, runs and checks everything. `make help` lists the targets. Each target first installs what it needs, unless it is already installed.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# Distributions build Python with optimizations. Other installations often lack them, and the tests then take up to a quarter longer.
PYTHON ?= $(shell /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo /usr/bin/python3 || echo python3)
VENV := .venv
STAMPS := .cache/stamps
COLLECTION := $(shell awk '/^namespace:/ {n = $$2} /^name:/ {m = $$2} /^version:/ {v = $$2} END {print n "-" m "-" v}' galaxy.yml)

# EXAMPLE is the name of a job definition. The local cloud starts hosts with the Python environment that the definition specifies.
DEFINITION := $(EXAMPLE:%=examples/definitions/%.yml)
ifneq ($(DEFINITION),$(wildcard $(DEFINITION)))
$(error EXAMPLE=$(EXAMPLE): $(DEFINITION) does not exist. Use the name of a file in examples/definitions)
endif
ENVIRONMENT := $(if $(DEFINITION),$(shell sed -n 's/^python_environment_name: *\([^ ]*\).*/--environment=\1/p' $(DEFINITION)))

# The virtual environment for the newest ansible-core, and the Python interpreters to try for it, in this order.
NEWEST_VENV := .venv-newest
NEWEST_PYTHON ?= python3.12 $(wildcard $(HOME)/.pyenv/versions/3.12.*/bin/python3.12) python3.13 python3.14

LOCAL_CLOUD := local-cloud --home .local
WITH_LOCAL_CLOUD := $(LOCAL_CLOUD) start $(if $(ENVIRONMENT),$(ENVIRONMENT) --relaunch) && eval "$$($(LOCAL_CLOUD) env)" &&
# Which of the parts in tests/parts.yml `make test` runs. Other targets run all parts.
PART ?= $(if $(filter test-all,$(MAKECMDGOALS)),,$(shell cat tests/part.txt))
PYTEST := time $(if $(IN_PARTS),PYTHONPATH=tests) pytest -m "not exhaustive and not frameworks" $(if $(IN_PARTS),-p parts --part $(PART)) $(PYTEST_ARGS)
export TIMEFORMAT := %lR elapsed, %lU user + %lS system CPU time

# Recipes, and the programs that they start, use the tools of the virtual environment.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
# Without bytecode files, each of the many processes would compile the tests and the collection again.
unexport PYTHONDONTWRITEBYTECODE
# antsibull-docs asks git which files of each collection to copy. Git must not treat installed collections as part of this repository.
export GIT_CEILING_DIRECTORIES := $(CURDIR)/$(VENV)

##@ Use

.PHONY: train
train: run-setup ## Create a cluster in the local cloud and train a model on it; EXAMPLE=name uses examples/definitions/name.yml
	@rm -rf .cache/policies
	python tools/iam_policies.py --cluster demo --output .cache/policies
	$(WITH_LOCAL_CLOUD) operator=$$($(LOCAL_CLOUD) operator demo-train .cache/policies/train*.json) && eval "$$operator" && \
		ansible-playbook -i inventory/local playbooks/train.yml $(addprefix -e @,$(DEFINITION)) $(ARGS) && status=0 || status=$$?
	echo 'To run the commands above in the local cloud, first open a shell with `make shell`.'
	exit $$status

# The relative path names a configuration only in this folder. In the folder of another project, Ansible uses that project's ansible.cfg.
.PHONY: shell
shell: run-setup ## Open a shell in which Ansible and AWS tools use the local cloud with administrator permissions
	$(LOCAL_CLOUD) start $(ENVIRONMENT)
	sed -e 's|^inventory = .*|inventory = ../inventory/local|' -e 's|^collections_path = |&../|' ansible.cfg >.cache/shell.cfg
	ANSIBLE_CONFIG=.cache/shell.cfg exec $(LOCAL_CLOUD) shell

.PHONY: ssh
ssh: run-setup ## Make `ssh demo-master` work in all terminals, with a line in ~/.ssh/config; ARGS="-e ssh_state=absent" removes the line
	$(WITH_LOCAL_CLOUD) ansible-playbook -i inventory/local playbooks/ssh.yml $(ARGS)

.PHONY: clean
clean: ## Remove the local cloud (server, containers and networks) and nothing else
	if command -v local-cloud >/dev/null; then
		$(LOCAL_CLOUD) destroy
		if [ -d .local/molecule ]; then local-cloud --home .local/molecule destroy; fi
	fi

.PHONY: distclean
distclean: clean ## Also remove the virtual environments and all caches
	rm -rf $(VENV) $(NEWEST_VENV) .cache .mypy_cache .pytest_cache .ruff_cache .ansible $(COLLECTION).tar.gz

##@ Check

# Most of these targets wait for hosts and for the simulated AWS, so four targets in parallel keep two cores busy. The longest ones start
# first. Three of them use two processes, because they would still run when all others have ended. The unit tests use four, because they
# wait for two thirds of their time.
TESTS := hosts integration security end-to-end local-cloud-changed rotation chaos-short units sanity lint
IN_TWO := -n 2 --dist loadfile
LONGER := pythons exhaustive mutation newest frameworks chaos molecule galaxy docs

.PHONY: test tests
test: tests ## Run, in parallel, all checks that must pass before a change is merged; of the longer tests, the next part (PART=n)
	@python tests/parts.py $(PART)

tests: test-setup
	$(MAKE) --jobs=4 --output-sync=target --keep-going $(if $(PART),IN_PARTS=yes PART=$(PART)) $(TESTS)

.PHONY: test-all
test-all: test $(LONGER) bench ## Also run what takes too long for every change: interruptions at each API call, mutation tests, the newest ansible-core, every framework, role scenarios, benchmarks
# Benchmarks run after all other targets, because other targets would distort the measurements.
ifneq (,$(filter test-all,$(MAKECMDGOALS)))
bench: | test $(LONGER)
# This target and the target sanity work on the same copy.
pythons: | test
endif

.PHONY: lint lint-python lint-ansible lint-docs
lint: lint-python lint-ansible lint-docs ## Check style, types, ansible-lint (production profile), documentation, changelog

lint-python: test-setup
	ruff check --quiet --output-format concise
	ruff format --quiet --check
	mkdir -p .cache/types/ansible_collections/deeplearning && ln -sfn ../../../.. .cache/types/ansible_collections/deeplearning/cluster
	mypy --no-error-summary

lint-ansible: test-setup
	# ansible-lint checks the syntax of each playbook with ansible-playbook, which would ask AWS for the hosts of the configured inventory.
	ANSIBLE_INVENTORY=/dev/null ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=false ansible-lint -q --offline --strict

lint-docs: test-setup
	antsibull-docs lint-collection-docs --plugin-docs .
	antsibull-changelog lint

.PHONY: sanity
sanity: test-setup ## Run ansible-test sanity without an ignore file. Only `make pythons` runs pylint, and imports plugins with all Python versions
	python tools/sanity.py --skip-test pylint --skip-test import
	python tools/sanity.py --test import --oldest-python

.PHONY: pythons
pythons: test-setup ## Run ansible-test's pylint, and import the collection's files with every Python that hosts can have
	python tools/sanity.py --test import --test compile --test pylint

.PHONY: units
units: test-setup ## Test individual functions
	$(PYTEST) -n 4 --dist worksteal tests/unit

.PHONY: integration
integration: test-setup ## Test modules and inventory against the local cloud's API
	$(PYTEST) $(IN_TWO) tests/integration

# The file `tested` contains the digest of the files that the tests of the local cloud last passed with. The tests do not depend on the
# collection.
LOCAL_CLOUD_FILES := extensions/local_cloud requirements/runtime.txt requirements/test.txt :!extensions/local_cloud/tested
LOCAL_CLOUD_DIGEST := git ls-files -z --cached --others --exclude-standard -- $(LOCAL_CLOUD_FILES) | sort -z | xargs -0 sha256sum | sha256sum

.PHONY: local-cloud local-cloud-changed
local-cloud: test-setup ## Test the local cloud: its API and its hosts
	$(PYTEST) extensions/local_cloud/tests
	if [ -z "$(PYTEST_ARGS)" ]; then $(LOCAL_CLOUD_DIGEST) >extensions/local_cloud/tested; fi

local-cloud-changed: test-setup ## Test the local cloud if its files or the requirements differ from those that the tests last passed with
	@if [ "$$($(LOCAL_CLOUD_DIGEST))" = "$$(cat extensions/local_cloud/tested 2>/dev/null)" ]; then
		echo 'The local cloud has not changed since its tests passed.'
	else
		$(MAKE) local-cloud
	fi

.PHONY: security
security: test-setup ## Simulate attacks by hostile nodes, neighbors and operators, and attacks through forged tags
	$(PYTEST) $(IN_TWO) tests/security

.PHONY: hosts
hosts: test-setup ## Test roles and jobs on hosts of the local cloud
	$(PYTEST) $(IN_TWO) tests/hosts

# CHAOS is the number of jobs, and SEED is the random seed for the schedule. By default, the time limits have slack for busy machines. On an
# otherwise idle machine, CHAOS_ARGS="--slack 1" removes this slack.
.PHONY: chaos chaos-short
chaos: test-setup ## Inject faults into jobs and hosts and judge the results; CHAOS=n jobs (0: each fault once), SEED=random seed
	time PYTHONPATH=tests python -m chaos --count $(or $(CHAOS),0) $(if $(SEED),--seed $(SEED)) $(CHAOS_ARGS)

chaos-short: test-setup ## Inject a few faults: the part of make chaos that make test runs
	$(PYTEST) tests/chaos

.PHONY: end-to-end
end-to-end: test-setup ## Test playbooks, from an empty account to a trained model and the deletion of the cluster
	$(PYTEST) tests/end_to_end

.PHONY: gpu
gpu: test-setup ## On a machine with an NVIDIA GPU and root permissions: test jobs and health checks on hosts that share the GPU (GPU_PYTHON=python with torch)
	$(PYTEST) -n 4 tests/gpu/test_jobs.py
	$(PYTEST) -n 0 tests/gpu/test_health.py

EXHAUSTIVE_FOLDERS := tests/integration tests/security tests/hosts tests/end_to_end extensions/local_cloud/tests
ROTATION := --rotation tests/rotation.txt --seconds $(or $(ROTATION_SECONDS),120)

.PHONY: rotation
rotation: test-setup ## Run the next two minutes of exhaustive, frameworks, chaos, molecule, mutation, docs and galaxy in tests/rotation.txt, then update this file
	time PYTHONPATH=tests pytest -m "exhaustive or frameworks or rotation" -p rotation $(ROTATION) $(PYTEST_ARGS) --timeout 3600 $(EXHAUSTIVE_FOLDERS) tests/targets

.PHONY: exhaustive
exhaustive: test-setup ## Run tests that take too long for every change: interruptions at each API call, all options of each component, insufficient capacity on real hosts and more
	time pytest -m exhaustive $(PYTEST_ARGS) --timeout 3600 $(EXHAUSTIVE_FOLDERS)

.PHONY: mutation
mutation: test-setup ## Run mutation tests of the pure code, or of FILES: unit tests must detect nine out of ten mutations in each file
	python tools/mutation.py $(FILES)

.PHONY: newest
newest: test-setup ## Run tests, on hosts too, with the newest ansible-core, 2.21, on the first installed Python of NEWEST_PYTHON
	@for python in $(NEWEST_PYTHON); do
		if "$$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
			"$$python" --version
			exec $(MAKE) VENV=$(NEWEST_VENV) PYTHON="$$python" units integration local-cloud security hosts end-to-end
		fi
	done
	echo "NEWEST_PYTHON: the newest ansible-core needs Python 3.12 or newer with the module ensurepip, but none of these is installed: $(NEWEST_PYTHON). Specify one: make newest NEWEST_PYTHON=/path/to/python3.12" >&2
	exit 1

.PHONY: frameworks
frameworks: test-setup ## Test every launcher with its real framework, including failures of its jobs
	time pytest -m frameworks $(PYTEST_ARGS) --timeout 3600 tests/hosts tests/end_to_end

.PHONY: molecule
molecule: test-setup ## Run the scenarios of the host roles: converge, idempotence, verify; SCENARIO=name runs one
	# Molecule installs the collection. Other tools must not find that copy.
	export ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/.cache/molecule
	trap "local-cloud --home .local/molecule destroy" EXIT
	local-cloud --home .local/molecule start
	eval "$$(local-cloud --home .local/molecule env)"
	molecule test $(if $(SCENARIO),--scenario-name $(SCENARIO),--all)

.PHONY: galaxy
galaxy: test-setup build ## Run the checks that Galaxy runs on an upload
	# galaxy-importer also needs the collections that this one refers to. They are in the project's virtual environment.
	if ! [ -e .cache/galaxy/installed ]; then
		$(PYTHON) -m venv --clear .cache/galaxy
		.cache/galaxy/bin/python -m pip install --quiet --requirement requirements/galaxy.txt
		python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >$$(echo .cache/galaxy/lib/python*/site-packages)/project.pth
		touch .cache/galaxy/installed
	fi
	cd .cache/galaxy
	PATH="$$PWD/bin:$$PATH" bin/python -m galaxy_importer.main $(CURDIR)/$(COLLECTION).tar.gz 2>&1 | tee log
	! grep --quiet --extended-regexp '^(WARNING|ERROR)' log
	rm -rf unpacked && mkdir -p unpacked/ansible_collections/deeplearning/cluster
	tar -xzf $(CURDIR)/$(COLLECTION).tar.gz -C unpacked/ansible_collections/deeplearning/cluster
	bin/ansible-builder introspect unpacked | tee environment
	grep --quiet 'boto3.*deeplearning.cluster' environment && grep --quiet 'rsync.*deeplearning.cluster' environment

.PHONY: bench
bench: test-setup ## Compare provisioning with amazon.aws and community.aws tasks, the inventory with boto3, and jobs with processes that are started over ssh; measure jobs on 100 simulated hosts and the health checks
	python tests/benchmarks/compare_provisioning.py
	python tests/benchmarks/scale.py
	python tests/benchmarks/compare_start.py
	python tests/benchmarks/many_hosts.py
	PYTHONPATH=tests python tests/benchmarks/supervision.py
	PYTHONPATH=tests python tests/benchmarks/health.py

##@ Build

.PHONY: build
build: $(VENV)/.runtime ## Build the collection's archive
	ansible-galaxy collection build --force

# The fragment contains the release's summary. The recipe does not name the variable of make, because `make -n` runs recipes that do.
RELEASE_NOTES = changelogs/fragments/release-$(VERSION).yml
.PHONY: release
release: test-setup ## Release VERSION=x.y.z: changelog, version, archive with Galaxy's checks, commit and tag. Nothing is published
	@if [[ ! "$(VERSION)" =~ ^[0-9]+\.[0-9]+\.[0-9]+$$ ]]; then echo 'VERSION: specify a version such as 0.2.0.'; exit 1; fi
	if git rev-parse --quiet --verify refs/tags/v$(VERSION) >/dev/null || grep --quiet '^  $(VERSION):$$' changelogs/changelog.yaml; then
		echo 'VERSION: $(VERSION) is released. Specify a new version.'; exit 1
	fi
	if [ ! -e $(RELEASE_NOTES) ]; then echo '$(RELEASE_NOTES): missing. Write the release_summary of the release in this file.'; exit 1; fi
	if [ -n "$$(git status --porcelain)" ]; then echo 'The checkout has changes that are not committed. Commit or remove them.'; exit 1; fi
	sed -i 's/^version: .*/version: $(VERSION)/' galaxy.yml
	antsibull-changelog release --version $(VERSION)
	make lint-docs galaxy
	git add galaxy.yml CHANGELOG.rst changelogs
	git commit --quiet --message 'Release $(VERSION)'
	git tag --annotate v$(VERSION) --message 'Release $(VERSION)'
	echo 'Committed and tagged v$(VERSION). To publish: git push --follow-tags, then'
	echo 'ansible-galaxy collection publish deeplearning-cluster-$(VERSION).tar.gz'

.PHONY: docs
docs: test-setup ## Build the documentation as a website: all pages, and the reference of modules and roles
	rm -rf .cache/docs && mkdir -p .cache/docs/source/docs/reference
	git ls-files -z | xargs -0 cp --parents --target-directory .cache/docs/source
	antsibull-docs collection --use-current --dest-dir .cache/docs/source/docs/reference --squash-hierarchy --cleanup everything --fail-on-error deeplearning.cluster
	sphinx-build --quiet --fail-on-warning --keep-going --conf-dir .cache/docs/source/docs .cache/docs/source .cache/docs/site
	echo "Open .cache/docs/site/docs/index.html in a browser."

docs/architecture.svg: docs/architecture.dot
	dot -Tsvg $< -o $@

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {print "\n" substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Set up (each step runs once)

.PHONY: run-setup test-setup
run-setup: $(STAMPS)/packages $(VENV)/.runtime $(VENV)/.local-cloud ## Install what `make train` needs
test-setup: run-setup $(VENV)/.test ## Install what `make test` needs

$(STAMPS)/packages: tools/debian_packages.sh
	tools/debian_packages.sh
	mkdir -p $(@D) && touch $@

# `make build` alone needs only the package python3-venv.
$(VENV)/bin/python: | $(if $(filter-out build,$(or $(MAKECMDGOALS),help)),$(STAMPS)/packages)
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || tools/debian_packages.sh
	PATH="$${PATH#*:}" $(PYTHON) -m venv $(VENV)

# Link the checkout into the installed collections, where ansible, ansible-lint, pytest and molecule find it.
$(VENV)/.runtime: requirements/runtime.txt | $(VENV)/bin/python
	python -m pip install --quiet --requirement $<
	namespace=$$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ansible_collections/deeplearning
	mkdir -p "$$namespace" && ln -sfn ../../../../../.. "$$namespace/cluster"
	touch $@

$(VENV)/.local-cloud: extensions/local_cloud/pyproject.toml | $(VENV)/.runtime
	python -m pip install --quiet --editable extensions/local_cloud
	touch $@

$(VENV)/.test: requirements/test.txt | $(VENV)/.runtime
	python -m pip install --quiet --requirement $<
	touch $@
