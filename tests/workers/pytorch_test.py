#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch worker against the oracle: every operator of this build on small cases, forward and backward, eager; one
through torch.compile. Ends with 77 (skipped) where PyTorch is not importable.  Usage: pytorch_test.py D5 [BACKEND]"""
import json
import subprocess
import sys
import tempfile

d5, ours = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "reference"


def records(*words):
    with tempfile.TemporaryDirectory() as folder:
        command = [d5, "op", *words, "-o", folder, "--quiet"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=900)
        rows = [json.loads(line) for line in open(folder + "/records.jsonl")]
    rows = [row for row in rows if row.get("kind") == "op"]
    assert rows, (command, result.stdout, result.stderr)
    return rows


failures = 0


def expect(row, legal, words):
    global failures
    good = row["status"] in legal
    failures += not good
    print("ok    " if good else "FAILED", row["case"]["backend"], words, row["status"], row["reason"], flush=True)


names = subprocess.run([d5, "list", "operators", "--json"], capture_output=True, text=True).stdout.splitlines()
names = {json.loads(line)["name"] for line in names}
tried = sorted({"Gemm", "Conv", "MatMul", "Add", "Relu", "MaxPool", "BatchNormalization", "Softmax"} & names)
sizes = "--m 5 --n 2 --k 6 --c 4 --size 9x8 --pad 1 --a 7x7 --b 7x7 --shape 5x17".split()
for row in records(",".join(tried), *sizes, "--backend", ours + ",pytorch", "--mode", "check", "--pass", "forward,backward",
                   "--layout", "fast,plain"):
    if row["status"] == "unsupported" and ("is not importable" in row["reason"] or "no Python" in row["reason"]):
        print("skipped:", row["reason"])
        sys.exit(77)
    expect(row, {"passed"}, " ".join(row["case"][field] for field in ("operator", "pass", "layout")))

for row in records("Relu", "--shape", "64x64", "--backend", "pytorch-compile", "--launches", "1", "--max-time", "0"):
    expect(row, {"passed", "unsupported"}, "Relu measured")
    if row["status"] == "passed":
        assert row["details"]["worker"]["compile_s"] > 0 and row["bound"]["share"] > 0, row
print("%d failed" % failures)
sys.exit(1 if failures else 0)
