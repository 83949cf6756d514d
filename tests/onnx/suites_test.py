#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX's own suites, and real networks with stored outputs, on one backend.

  suites_test.py D5 SOURCE_FOLDER BACKEND       77: neither the suites nor the networks are here

The suites are Debian's libonnx-testdata, or the folder that D5_ONNX_TESTS names (node/, simple/, ...). Nothing may be wrong on any
backend: what it cannot run is `unsupported`, with a reason. How much must pass is said for `reference` alone. The networks are those of
D5_DATA/onnx-models; every backend runs all of them."""
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

D5, SOURCE, BACKEND = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]).resolve(), sys.argv[3]
SUITES = Path(os.environ.get("D5_ONNX_TESTS", "/usr/share/libonnx-testdata/data"))
DATA = [Path(folder) for folder in (os.environ.get("D5_DATA"), SOURCE.parent / "shared/data") if folder]
# Of `reference`: what share passes. Complex numbers, training by Gradient and a few random or old operators do not.
LEAST = {"node": 0.95, "simple": 1, "pytorch-converted": 1, "pytorch-operator": 1}
NOT_WANTED = ("strnorm", "gradient")  # of `simple`


def run(folder):
    """Status -> [(test, reason)]."""
    with tempfile.TemporaryDirectory() as out:
        result = subprocess.run([D5, "net", "--onnx-tests", str(folder), "--backend", BACKEND, "--json", "--quiet", "-o", out],
                                capture_output=True, text=True)
    if result.returncode not in (0, 1):
        sys.exit(f"{folder}: status {result.returncode}\n{result.stderr}")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    return [(r["case"]["test"], r["status"], r["reason"]) for r in records if r["kind"] == "onnx-test"]


failures = 0


def judge(good, text):
    global failures
    failures += not good
    print("ok    " if good else "FAILED", text, flush=True)


ran = False
for name, least in LEAST.items():
    if not (SUITES / name).is_dir():
        print(f"skipped: {SUITES / name} is not here (Debian's libonnx-testdata has it)")
        continue
    ran = True
    found = run(SUITES / name)
    if name == "simple":
        found = [one for one in found if not any(part in one[0] for part in NOT_WANTED)]
    counts = Counter(status for _, status, _ in found)
    wrong = [one for one in found if one[1] not in ("passed", "unsupported", "skipped")]  # skipped: a fault of the suite
    unnamed = [one for one in found if one[1] == "unsupported" and not one[2]]
    judge(found and not wrong and not unnamed, f"{name}: {len(found)} tests, {dict(counts)}")
    for one in (wrong + unnamed)[:20]:
        print("       ", *one)
    if BACKEND == "reference":
        judge(counts["passed"] >= least * len(found), f"{name}: {counts['passed']} of {len(found)}, at least {least:.0%} are wanted")

for networks in [folder / "onnx-models" for folder in DATA if (folder / "onnx-models").is_dir()][:1]:
    ran = True
    for test, status, reason in run(networks):
        judge(status == "passed", f"{test}: {status} {reason}")
print(f"{failures} failed")
sys.exit(1 if failures else 0 if ran else 77)
