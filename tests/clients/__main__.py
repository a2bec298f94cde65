"""`python -m tests.clients`: the public suites of libraries that take arrays by protocol, with our arrays and NumPy's.

    python -m tests.clients [scipy|sklearn|xarray|array_api_extra ...] [--files PART] [--output FILE]

Prints, for each suite, how many tests pass with both, and each that passes with NumPy's arrays only. The suites come
with the installed packages; tests that a library runs with NumPy alone are skipped with ours.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

Outcomes = dict[str, list[str]]

SCIPY = """cluster/tests/test_vq cluster/tests/test_hierarchy constants/tests/test_constants
    differentiate/tests/test_differentiate fft/tests/test_basic fft/tests/test_helper fft/tests/test_fftlog
    fft/tests/test_real_transforms integrate/tests/test_cubature integrate/tests/test_quadrature
    integrate/tests/test_tanhsinh interpolate/tests/test_interpolate interpolate/tests/test_rgi
    linalg/tests/test_procrustes linalg/tests/test_special_matrices ndimage/tests/test_filters
    ndimage/tests/test_fourier ndimage/tests/test_interpolation ndimage/tests/test_measurements
    ndimage/tests/test_morphology optimize/tests/test_bracket optimize/tests/test_chandrupatla
    signal/tests/test_filter_design signal/tests/test_signaltools signal/tests/test_windows
    signal/tests/test_fir_filter_design signal/tests/test_savitzky_golay signal/tests/test_upfirdn
    spatial/transform/tests/test_rotation special/tests/test_logsumexp stats/tests/test_correlation
    stats/tests/test_entropy stats/tests/test_hypotests stats/tests/test_morestats stats/tests/test_quantile
    stats/tests/test_rank stats/tests/test_resampling stats/tests/test_stats stats/tests/test_variation""".split()
SKLEARN = """utils/tests/test_array_api utils/tests/test_extmath utils/tests/test_indexing utils/tests/test_multiclass
    utils/tests/test_stats decomposition/tests/test_pca metrics/tests/test_common metrics/tests/test_classification
    metrics/tests/test_pairwise preprocessing/tests/test_data preprocessing/tests/test_label
    preprocessing/tests/test_polynomial linear_model/tests/test_ridge linear_model/tests/test_logistic
    model_selection/tests/test_split model_selection/tests/test_search mixture/tests/test_gaussian_mixture
    tests/test_naive_bayes""".split()
XARRAY = ["tests/test_duck_array_wrapping", "tests/test_array_api"]
EXTRA = [f"tests/main/test_{name}" for name in "at creation elementwise indexing inspection".split()]
EXTRA += [f"tests/main/test_{name}" for name in "lazy linalg manipulation searching set sorting statistical".split()]
SUITES = {"scipy": SCIPY, "sklearn": SKLEARN, "xarray": XARRAY, "array_api_extra": EXTRA}
ROW = '"ARRAYS": {"attrs": {"array": "ndarray", "constructor": "asarray"}, "xfails": {}}'
EDITS = {  # xarray's tests name their libraries themselves: copies of them name ours
    "NAMESPACE_ARRAYS = {": "NAMESPACE_@ = {" + ROW + ",",
    "NAMESPACE_REQUIREMENTS = {": 'NAMESPACE_REQUIREMENTS = {"ARRAYS": (),',
    "NAMESPACES = [": 'NAMESPACES = ["ARRAYS"]\nothers = [',
    'pytest.importorskip("array_api_strict")': 'pytest.importorskip("ARRAYS")',
    "from array_api_strict._array_object import Array": "from ARRAYS import ndarray as Array",
}


def package(suite: str) -> Path:
    """Where the library of a suite is installed."""
    spec = importlib.util.find_spec(suite)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{suite} is not installed: pip install tilewise[dev]")
    return Path(spec.origin).parent


def files(suite: str, arrays: str, part: str, folder: Path) -> list[str]:
    """The files with a suite's tests."""
    found = [package(suite) / f"{name}.py" for name in SUITES[suite] if part in name]
    if suite != "xarray":
        return [str(path) for path in found]
    copies = []
    for path in found:
        text = path.read_text()
        for old, new in EDITS.items():
            text = text.replace(old, new.replace("ARRAYS", arrays).replace("@", "ARRAYS"))
        copies.append(folder / path.name)
        copies[-1].write_text(text)
    return [str(path) for path in copies]


def outcomes(suite: str, arrays: str, part: str) -> Outcomes:
    """What became of each test."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = folder / "outcomes.json"
        chosen = {"scipy": ["-k", "xp or arrays"], "sklearn": ["-k", "array_api or arrays or tilewise or numpy"]}
        chosen["array_api_extra"] = ["-k", "arrays"]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.clients.plugin", "-p", "no:cacheprovider"]
        command += ["-p", "no:xdist", "-c", os.devnull, "--rootdir", str(folder), "--tb=short", *chosen.get(suite, [])]
        paths = files(suite, arrays, part, folder)
        # Above a suite's package pytest shall find no conftest.py: where packages are installed inside of another
        # checkout, it would put that one, and its tilewise, before this one.
        command += ["--confcutdir", str(folder if suite == "xarray" else package(suite))]
        environment = os.environ | {
            "CLIENT_ARRAYS": arrays,
            "CLIENT_OUTCOMES": str(target),
            "SCIPY_ARRAY_API": "1",
            "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]),
        }
        done = subprocess.run(
            [*command, *paths],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if not target.exists():
            raise SystemExit(f"{suite} with {arrays} did not run:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
        return {k.replace(arrays, "arrays"): v for k, v in json.loads(target.read_text()).items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", default=list(SUITES))
    parser.add_argument("--files", default="", help="only files whose names have this text")
    parser.add_argument("--output", type=Path, help="write the counts and the failures as JSON")
    options = parser.parse_args()
    failed = {}
    for suite in options.suites or list(SUITES):
        ours, theirs = (outcomes(suite, arrays, options.files) for arrays in ("tilewise", "numpy"))
        both = Counter(f"{ours[k][0]}" for k in theirs if theirs[k][0] == "passed" and k in ours)
        counts = Counter(found[0] for found in ours.values())
        print(f"{suite}: with our arrays {dict(counts)}; of those that pass with NumPy's {dict(both)}")
        worse = {k: v[1] for k, v in ours.items() if v[0] == "failed" and theirs.get(k, ["passed"])[0] != "failed"}
        failed[suite] = {"counts": counts, "both": both, "failed": worse}
        for name, cause in worse.items():
            print(f"  {name}\n      {cause[:200]}")
    if options.output:
        options.output.write_text(json.dumps(failed, indent=1))
    return int(any(found["failed"] for found in failed.values()))


if __name__ == "__main__":
    sys.exit(main())
