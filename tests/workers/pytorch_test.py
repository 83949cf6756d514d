#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch worker against the oracle: operators on small cases, forward and backward, eager; 16-bit types that
PyTorch rounds to on its way; networks, used and learning; one operator and one network through torch.compile. Ends with 77 (skipped) where PyTorch is not importable.
Usage: pytorch_test.py D5 [BACKEND [FOLDER]]; FOLDER: the packages of a PyTorch for a python3 that has none"""
import json
import os
import subprocess
import sys
import tempfile

import stand_ins

d5, ours = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "reference"
packages = sys.argv[3] if len(sys.argv) > 3 else ""
failures = 0


def records(*words, kind="op"):
    with tempfile.TemporaryDirectory() as folder:
        command = [d5, kind, *words, "-o", folder, "--quiet"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=900)
        rows = [json.loads(line) for line in open(folder + "/records.jsonl")]
    rows = [row for row in rows if row.get("kind") == kind]
    assert rows, (command, result.stdout, result.stderr)
    return rows


def expect(row, legal, words):
    global failures
    good = row["status"] in legal
    failures += not good
    print("ok    " if good else "FAILED", row["case"]["backend"], words, row["status"], row["reason"], flush=True)


def test():
    names = subprocess.run([d5, "list", "operators", "--json"], capture_output=True, text=True).stdout
    names = {json.loads(line)["name"] for line in names.splitlines()}
    tried = sorted({"Gemm", "Conv", "MatMul", "Add", "Relu", "MaxPool", "BatchNormalization", "Softmax"} & names)
    sizes = "--m 5 --n 2 --k 6 --c 4 --size 9x8 --pad 1 --a 7x7 --b 7x7 --shape 5x17".split()
    for row in records(",".join(tried), *sizes, "--backend", ours + ",pytorch", "--mode", "check", "--pass",
                       "forward,backward", "--layout", "fast,plain"):
        if row["status"] == "unsupported" and ("is not importable" in row["reason"] or "no Python" in row["reason"]):
            print("skipped:", row["reason"])
            sys.exit(77)
        expect(row, {"passed"}, " ".join(row["case"][field] for field in ("operator", "pass", "layout")))

    # Where a result is rounded on its way the worker says so, and nowhere else.
    rounding = {"HardSigmoid": {"forward", "backward"}, "LayerNormalization": {"backward"}, "Relu": set()}
    tried = sorted(set(rounding) & names)
    for row in records(",".join(tried), "--shape", "16x33", "--backend", "pytorch", "--mode", "check", "--pass",
                       "forward,backward", "--dtype", "bf16"):
        case = row["case"]
        expect(row, {"passed"}, "%s %s bf16" % (case["operator"], case["pass"]))
        said = "narrow_arithmetic" in row["details"]
        assert said == (case["pass"] in rounding[case["operator"]]), row["details"]

    once = ["--launches", "1", "--max-time", "0"]
    for row in records("Relu", "--shape", "64x64", "--backend", "pytorch-compile", *once):
        expect(row, {"passed", "unsupported"}, "Relu measured")
        if row["status"] == "passed":
            assert row["details"]["worker"]["compile_s"] > 0 and row["bound"]["share"] > 0, row


def test_networks():
    passes = ["--pass", "forward,step,backward", "--mode", "check", "--backend", "pytorch"]
    small = ["--layers", "1", "--length", "8", "--width", "16", "--heads", "2", "--hidden", "32", "--vocabulary", "50"]
    for words in (["lenet", "--batch", "3"], ["resnet-20", "--batch", "2", "--layout", "fast,plain"],
                  ["transformer-encoder", *small, "--dropout", "0"], ["lstm-lm", "--vocabulary", "50", "--width", "8",
                   "--length", "5", "--dropout", "0"]):
        for row in records(*words, *passes, kind="net"):
            expect(row, {"passed"}, " ".join(row["case"][field] for field in ("network", "pass", "layout")))
    for row in records("transformer-encoder", *small, "--dropout", "0.5", "--pass", "step", "--mode", "check", "--backend",
                       "pytorch", kind="net"):
        expect(row, {"unsupported"}, "a mask of its own")
        assert "Dropout" in row["reason"], row
    for row in records("mlp", "--pass", "step", "--backend", "pytorch-compile", "--launches", "1", "--max-time", "0",
                       kind="net"):
        expect(row, {"passed", "unsupported"}, "mlp measured")
        if row["status"] == "passed":
            assert row["details"]["worker"]["compile_s"] > 0 and "memory_peak" in row["details"]["unavailable"], row


def has_torch(python):
    return subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0


with tempfile.TemporaryDirectory() as folder:
    chosen = [name for name in ("D5_PYTHON_PYTORCH", "D5_PYTHON") if os.environ.get(name)]
    if packages and not chosen and not has_torch("python3"):
        made = stand_ins.make(os.path.join(packages, "torch", "lib"), folder)
        if made:
            print("standing in for", ", ".join(made))
        for name, value in (("PYTHONPATH", packages), ("LD_LIBRARY_PATH", folder)):
            os.environ[name] = value + (":" + os.environ[name] if os.environ.get(name) else "")
    test()
    test_networks()
print("%d failed" % failures)
sys.exit(1 if failures else 0)
