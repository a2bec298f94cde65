# Two commands do everything on a machine with Python >= 3.11 and make: `make demo` and `make test`.
# They build an environment in .venv first, again only when pyproject.toml has changed.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin

# One stamp per set of extras; its time says when it was installed.
RUN := $(VENV)/.installed-run
DEV := $(VENV)/.installed-dev
BENCH := $(VENV)/.installed-bench

.PHONY: demo test lint fuzz bits soak kills clients numpy-suite bench bench-cluster bench-data bench-kernels bench-loops bench-parfor bench-programs bench-scripts bench-solver clean

demo: $(RUN)
	$(BIN)/python examples/demo.py

test: $(DEV)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

lint: $(DEV)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Random programs and functions, random kernels, and the property tests, each with many new random examples, and sweeps
# of kernels compiled as in programs (half an hour).
fuzz: $(DEV)
	$(BIN)/python -m tests.fuzz --cases 20000 --seed $$(date +%s)
	$(BIN)/python -m tests.fuzz --cases 5000 --seed $$(date +%s) --thresholds
	$(BIN)/python -m tests.fuzz.jitted --cases 5000 --seed $$(date +%s)
	$(BIN)/python -m tests.fuzz.jitted --cases 1000 --seed $$(date +%s) --thresholds
	$(BIN)/python -m tests.fuzz.bits --cases 200 --seed $$(date +%s)
	$(BIN)/python -m tests.fuzz.loops --cases 5000 --seed $$(date +%s)
	$(BIN)/python -m tests.fuzz.parfor --cases 20000 --seed $$(date +%s)
	$(BIN)/python -m tests.fuzz.parfor.running --cases 1000 --seed $$(date +%s)
	$(BIN)/python -m tests.fuzz.damage --cases 1000 --seed $$(date +%s)
	$(BIN)/python -m tests.kernel.fuzz_kernels --cases 5000 --seed $$(date +%s)
	$(BIN)/python -m tests.kernel.fuzz_kernels --cases 5000 --seed $$(date +%s) --thresholds
	$(BIN)/python -m pytest -n $(WORKERS) -m "(hypothesis or quick_code) and not soak" --hypothesis-profile=soak

# The same program on the same data gives the same bits: every program of benchmarks/kernels, and 2,000 random ones (an hour).
bits: $(DEV)
	$(BIN)/python -m tests.bits.compare
	$(BIN)/python -m tests.fuzz.bits --cases 2000

# Property tests with many examples, the tests marked `soak`, and all rows of those marked `sampled` (long).
soak: $(DEV)
	$(BIN)/python -m pytest -n $(WORKERS) -m "hypothesis or soak or sampled" --hypothesis-profile=soak

# Kills of workers and nodes of a Ray cluster, and of a driver with checkpoints, at random moments (a quarter of an hour).
kills: $(DEV)
	$(BIN)/python -m tests.engine.kills --cases 40 --seed $$(date +%s)
	$(BIN)/python -m tests.store.killed --cases 20 --seed $$(date +%s)
	$(BIN)/python -m tests.store.killed --cases 20 --seed $$(date +%s) --engine ray

# Test suites of libraries that take arrays by protocol (SciPy, scikit-learn, xarray), with our arrays (half an hour).
clients: $(DEV)
	$(BIN)/python -m tests.clients

# The tests that come with the installed NumPy, with Tilewise in NumPy's place (half an hour).
numpy-suite: $(DEV)
	$(BIN)/python -m tests.numpy_suite

# Every benchmark there is: first the table of array programs beside their peers and C.
bench: bench-kernels bench-scripts
	set -e; for file in benchmarks/[a-z]*.py; do $(BIN)/python -m benchmarks.$$(basename $$file .py); done

bench-kernels: $(BENCH)
	$(BIN)/python -m benchmarks.kernels --memory

# Loop programs beside plain Python, Numba and C, and compile time by the length of functions (half an hour).
bench-loops: $(BENCH)
	$(BIN)/python -m benchmarks.loops
	$(BIN)/python -m benchmarks.loops.compile_time

# Ordinary scripts as whole processes, with an empty and a warm code cache, and again and again.
bench-scripts: $(BENCH)
	$(BIN)/python -m benchmarks.scripts

# Programs on 2 and 4 processes beside Dask distributed and NumPy, control cost, growth of bytes (five minutes).
bench-cluster: $(BENCH)
	$(BIN)/python -m benchmarks.cluster

# Files larger than the memory allowed, beside a plain read of them and Dask (4 GB of disk, some minutes).
bench-data: $(BENCH)
	$(BIN)/python -m benchmarks.out_of_core
# Loops beside the plain ones, joblib and prange (five minutes), and on two and four workers of Ray (three).
bench-parfor: $(BENCH)
	$(BIN)/python -m benchmarks.parfor
	$(BIN)/python -m benchmarks.parfor --ray 2,4 --rounds 1

bench-programs: $(BENCH)
	$(BIN)/python -m benchmarks.programs

# The layout search: how fast, how often proved, beside Spartan's greedy and brute force (ten minutes).
bench-solver: $(BENCH)
	$(BIN)/python -m benchmarks.solver

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tilewise needs Python 3.11 or newer, got " + sys.version.split()[0] + ". Use make PYTHON=python3.12, or another that you have.")'
	$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(DEV): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@ $(RUN)

$(BENCH): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[dev,bench]"
	@touch $@ $(DEV) $(RUN)
