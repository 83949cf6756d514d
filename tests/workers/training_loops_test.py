#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The loops that d5 train is held against run, on a few generated samples, and are compared. Ends with 77 (skipped) where PyTorch
is not importable. Usage: training_loops_test.py D5 SOURCE_FOLDER BACKEND [FOLDER]; FOLDER: the packages of a PyTorch"""
import json
import os
import subprocess
import sys
from pathlib import Path

d5, source, backend = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]).resolve(), sys.argv[3]
packages = sys.argv[4] if len(sys.argv) > 4 else ""
environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
if packages:
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [packages, os.environ.get("PYTHONPATH", "")]))
if subprocess.run([sys.executable, "-c", "import torch, numpy"], env=environment, capture_output=True).returncode != 0:
    print("skipped: PyTorch is not importable")
    sys.exit(77)
failures = 0


def expect(good, what, more=""):
    global failures
    print("ok    " if good else "FAILED", what, flush=True)
    if not good:
        print(more)
        failures += 1


# Order statistics of the median: 6 values give their range, 9 the second from both ends (tables of the sign test).
interval = subprocess.run([sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import median_interval; "
                           "print([median_interval.median_interval(range(n)) for n in (5, 6, 8, 9, 20)])", source / "benchmarks"],
                          env=environment, capture_output=True, text=True)
expect(interval.stdout.strip() == "[None, (0, 5), (0, 7), (1, 7), (5, 14)]", "intervals of medians", interval.stdout + interval.stderr)

listed = subprocess.run([d5, "list", "backends", "--json"], capture_output=True, text=True).stdout
there = {row["name"] for row in map(json.loads, listed.splitlines()) if row["available"]}
for case in ["lenet", "resnet-20", *(["optimizers"] if "torch" in there else [])]:
    command = [sys.executable, source / "benchmarks/training/compare.py", "--generated", "--d5", d5, "--torch-loop",
               Path(d5).parent / "d5-torch-loop", "--cases", case, "--backend", backend, "--rounds", "1", "--samples", "256",
               "--test-samples", "64"]
    result = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=600)
    ratio = "a step with d5's adam / torch:adam:" if case == "optimizers" else f"{case}: d5 {backend} / pytorch, "
    # Three says that a ratio was missed, which a few samples on a busy machine may.
    expect(result.returncode in (0, 3) and ratio in result.stdout, f"compare.py --cases {case}", result.stdout + result.stderr)
print(f"{failures} failed")
sys.exit(1 if failures else 0)
