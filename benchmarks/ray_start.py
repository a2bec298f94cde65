"""How long a session on a Ray of its own takes to start, beside bare Ray. In: options. Out: a table and JSON.

    python -m benchmarks.ray_start [--workers 2] [--rounds 3] [--output ...]

Bare Ray: `ray.init` with the same public options, and as many actors that do nothing but import NumPy. Both run in
fresh processes, by turns; importing ray and tilewise is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median

RESULTS = Path(__file__).resolve().parent / "results" / "ray_start.json"
GOAL = 1.2
BARE = """
import logging, os, sys, tempfile, time
import ray
began = time.perf_counter()
folder = tempfile.mkdtemp(dir="/tmp")
ray.init("local", num_cpus=WORKERS, num_gpus=0, include_dashboard=False, log_to_driver=False,
         logging_level=logging.ERROR, _node_ip_address="127.0.0.1", _temp_dir=folder)
class Empty:
    def __init__(self):
        import numpy
    def ready(self):
        return True
actors = [ray.remote(num_cpus=0)(Empty).remote() for _ in range(WORKERS)]
ray.get([a.ready.remote() for a in actors])
print(time.perf_counter() - began)
"""
SESSION = """
import time
import tilewise as tw, tilewise.engine.ray
began = time.perf_counter()
session = tw.session(engine="ray", workers=WORKERS)
print(time.perf_counter() - began)
session.close()
"""


def seconds(program: str, workers: int) -> float:
    """What a program prints."""
    env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    code = program.replace("WORKERS", str(workers))
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> int:
    """Print and write; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    found: dict[str, list[float]] = {"bare": [], "session": []}
    for _ in range(options.rounds):
        found["bare"].append(seconds(BARE, options.workers))
        found["session"].append(seconds(SESSION, options.workers))
    ratio = median(found["session"]) / median(found["bare"])
    for name, each in found.items():
        print(f"{name:<10}{median(each):>8.2f} s   ({', '.join(f'{x:.2f}' for x in each)})")
    print(f"ratio {ratio:.2f}, goal {GOAL}: {'met' if ratio <= GOAL else 'MISSED'}")
    machine = {"python": platform.python_version(), "cpus": os.cpu_count()}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"machine": machine, "seconds": found, "ratio": ratio}, indent=1) + "\n")
    return int(ratio > GOAL)


if __name__ == "__main__":
    sys.exit(main())
