"""`python -m tests.bits.compare`: programs of tests/bits and of benchmarks/kernels give the same bits in 20 runs each.

Four processes, with one and two threads, in one order and the other; prints what differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys


def main() -> int:
    failures = 0
    for which in ([], ["--kernels"]):
        seen: dict[str, list[str]] = {}
        for threads in "12":
            for order in ([], ["--backwards"]):
                row = [sys.executable, "-m", "tests.bits", "--runs", "5", *which, *order]
                environment = {**os.environ, "TILEWISE_THREADS": threads}
                child = subprocess.run(row, stdout=subprocess.PIPE, text=True, env=environment, check=True)
                for name, found in json.loads(child.stdout).items():
                    seen.setdefault(name, []).extend(found)
        for name, found in seen.items():
            if len(set(found)) > 1:
                failures += 1
                number = {text: str(k) for k, text in enumerate(dict.fromkeys(found))}
                print(f"{name}: {' '.join(number[text] for text in found)}")
        print(f"{len(seen)} programs, 20 runs each; {failures} differ so far", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
