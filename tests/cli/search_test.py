#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 search as a user meets it: trials, their records, going on after an interruption, a search for each of several values.
Usage: search_test.py D5 BACKEND"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

d5, backend = str(Path(sys.argv[1]).resolve()), sys.argv[2]
RECIPE = f"""
name  = "little"
level = 2
[fixed]
network = "mlp"
features = 64
depth = 1
classes = 4
dataset = "generated-images"
options = "channels=1;height=8;width=8;classes=4;strength=6"
samples = 640
test_samples = 200
epochs = 3
target = {{ test_accuracy = 0.6 }}
[mutable]
backend = "{backend}"
batch = 32
optimizer = {{ name = "momentum", learning_rate = 0.01 }}
[axes]
seed = [1, 2]
[search.space]
"optimizer.learning_rate" = {{ from = 0.0001, to = 0.1, scale = "log" }}
"""
failures = 0


def expect(good, what, more=""):
    global failures
    print("ok    " if good else "FAILED", what, flush=True)
    if not good:
        print(more)
        failures += 1


def search(*words, recipe="little.toml"):
    return subprocess.run([d5, "search", recipe, *words], cwd=folder, env=environment, capture_output=True, text=True,
                          timeout=300)


def records(name):
    lines = map(json.loads, Path(folder, name, "records.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == "train"]


with tempfile.TemporaryDirectory() as folder:
    environment = {**os.environ, "XDG_CACHE_HOME": folder + "/cache"}
    Path(folder, "little.toml").write_text(RECIPE)

    result = search("--method", "random", "--trials", "4", "-o", "four")
    made = records("four") if result.returncode == 0 else []
    rates = {r["details"]["search"]["values"]["optimizer.learning_rate"] for r in made}
    expect(len(made) == 5 and len(rates) == 4, "4 trials and the best again with the second seed", result.stdout + result.stderr)
    expect("time to solution" in result.stdout and "the best" in result.stdout, "the table", result.stdout)
    if made:
        best = max(made[:4], key=lambda r: r["metrics"]["test_accuracy"]["median"])
        again = [r for r in made if r["details"]["search"].get("confirms")]
        expect(len(again) == 1 and again[0]["case"]["optimizer"] == best["case"]["optimizer"] and again[0]["case"]["seed"] == 2,
               "the best one is confirmed", json.dumps(again))

        # Only two trials are left: what is missing is run again, the rest is taken from the records.
        lines = Path(folder, "four", "records.jsonl").read_text().splitlines(True)
        Path(folder, "four", "records.jsonl").write_text("".join(lines[:3]))
        result = search("--method", "random", "--trials", "4", "-o", "four")
        after = records("four")
        expect(result.returncode == 0 and len(after) == 5 and "going on after 2" in result.stderr, "goes on", result.stderr)
        expect({r["details"]["search"]["values"]["optimizer.learning_rate"] for r in after} == rates, "with the same trials")
        weights = {r["rerun"]: r["details"]["training"]["weights_hash"] for r in made}
        expect(all(weights.get(r["rerun"]) == r["details"]["training"]["weights_hash"] for r in after), "bitwise the same")

        result = search("--method", "grid", "--trials", "9", "-o", "four")
        expect(result.returncode == 2 and "something else" in result.stderr, "another search is refused", result.stderr)

    result = search("--method", "halving", "--value", "eta=2", "--value", "least=0.5", "--trials", "2", "--per", "batch=16,64",
                    "--parallel", "2", "--no-confirm", "-o", "per")
    made = records("per") if result.returncode == 0 else []
    expect(len(made) == 6 and {r["case"]["batch"] for r in made} == {16, 64}, "a search for each batch, in parallel",
           result.stdout + result.stderr)
    expect("epochs to target" in result.stdout, "the guideline", result.stdout)

    # Three are halved to one; with another number of trials those of the records would be taken for others.
    halving = ["--method", "halving", "--value", "least=0.3", "--no-confirm", "-o", "halving"]
    result = search(*halving, "--trials", "3")
    lengths = [r["details"]["search"]["budget"] for r in records("halving")] if result.returncode == 0 else []
    expect(len(lengths) == 4 and lengths[-1] == 1, "halving has a winner of the whole length", result.stdout + result.stderr)
    result = search(*halving, "--trials", "9")
    expect(result.returncode == 2 and "another number of trials" in result.stderr, "other trials are another search", result.stderr)

    Path(folder, "several.toml").write_text(RECIPE + '[search]\nmethod = "tpe"\ntrials = 12\nvalues = { startup = 3 }\n')
    hyperband = ["--method", "hyperband", "--value", "least=1", "--no-confirm"]
    result = search(*hyperband, "-o", "hyperband", recipe="several.toml")
    expect(result.returncode == 0 and len(records("hyperband")) == 1, "a method brings its own trials", result.stdout + result.stderr)
    result = search("--method", "hyperband", "--trials", "12")
    expect(result.returncode == 2 and "--trials 0" in result.stderr, "what hyperband takes is named", result.stderr)

    # Rates of 1e30 and more give no numbers.
    result = search("--space", "optimizer.learning_rate=1e30,1e35", "--method", "grid", "-o", "diverged")
    expect(result.returncode == 1 and len(records("diverged")) == 2 and "none of 2 trainings succeeded" in result.stderr,
           "a search without a winner fails", result.stdout + result.stderr)
    Path(folder, "aimless.toml").write_text(RECIPE.replace("target =", "# target ="))
    result = search("--objective", "time_to_target", "--trials", "1", recipe="aimless.toml")
    expect(result.returncode == 2 and "has no target" in result.stderr, "no time to a target that is not there", result.stderr)

    Path(folder, "ranks.toml").write_text(RECIPE.replace("batch = 32", "batch = 32\nranks = 2"))
    result = search("--method", "random", "--trials", "3", "--parallel", "2", "--no-confirm", "-o", "ranks", recipe="ranks.toml")
    made = records("ranks") if result.returncode == 0 else []
    expect(len(made) == 3 and all(len(r["details"]["training"]["scheme"]["ranks"]) == 2 for r in made), "trials by two ranks each",
           result.stdout + result.stderr)

    Path(folder, "export.toml").write_text(RECIPE.replace("batch = 32", 'batch = 32\nexport = "a.onnx"'))
    result = search("--trials", "2", recipe="export.toml")
    expect(result.returncode == 2 and "every trial would write it" in result.stderr, "an export by every trial is refused", result.stderr)

    result = search("--space", "classes=3,4", "--trials", "2")
    expect(result.returncode == 2 and "another benchmark" in result.stderr, "a fixed value is refused", result.stderr)
    result = search("--space", "batch=64..32")
    expect(result.returncode == 2 and "64 to 32" in result.stderr, "a wrong range is named", result.stderr)
    result = search("--space", "batch=16,32", "--per", "batch=16,32")
    expect(result.returncode == 2 and "one of them" in result.stderr, "a field is searched or each of its values has a search", result.stderr)
    result = search("--space", "batch=16,32", "--space", "batch=64,128")
    expect(result.returncode == 2 and "searched twice" in result.stderr, "a field is searched once", result.stderr)
    expect(not Path(folder, "results").exists(), "wrong usage leaves nothing behind")

sys.exit(failures > 0)
