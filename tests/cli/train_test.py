#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 train as a user meets it: a run and its record, the kill test, recipes in check mode, what is refused.
Usage: train_test.py D5 SOURCE_FOLDER BACKENDS [KILLS]"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

d5, source = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]).resolve()
backends = sys.argv[3].split(",")
kills = int(sys.argv[4]) if len(sys.argv) > 4 else 5
LITTLE = ("mlp --features 64 --width 16 --depth 1 --classes 4 --dataset generated-images --batch 32 "
          "--options channels=1;height=8;width=8;classes=4;strength=6 --samples 3200 --test-samples 200 "
          "--optimizer adam:learning_rate=0.01").split()
failures = 0


def expect(good, what, more=""):
    global failures
    print("ok    " if good else "FAILED", what, flush=True)
    if not good:
        print(more)
        failures += 1


def run(*words, timeout=300):
    return subprocess.run([d5, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout)


def records(result):
    return [r for r in map(json.loads, result.stdout.splitlines()) if r["kind"] == "train"]


def little(words):
    """The little training with these options instead of its own."""
    kept = LITTLE[:1]
    for name, value in zip(LITTLE[1::2], LITTLE[2::2]):
        if name not in words:
            kept += [name, value]
    return [*kept, *words]


def train(*words):
    result = run("train", *little(words), "--json", "--quiet")
    return result, (records(result) or [None])[0]


def kill_at_random(backend, reference):
    """Killed at random moments, resumed each time: the same weights in the end."""
    rng = random.Random(backend)
    checkpoints = f"kill-{backend}"
    words = [d5, "train", *LITTLE, "--epochs", "3", "--backend", backend, "--checkpoint", checkpoints, "--every", "7",
             "--resume", "--json", "--quiet"]
    done = 0
    while done < kills:
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        time.sleep(startup * rng.uniform(0.3, 1.3))
        alive = process.poll() is None
        process.kill()  # its child dies with it
        process.communicate()
        done += 1
        if not alive:
            break
    time.sleep(0.2)
    result, record = train("--epochs", "3", "--backend", backend, "--checkpoint", checkpoints, "--every", "7", "--resume")
    same = record and record["details"]["training"]["weights_hash"] == reference
    expect(same, f"{backend}: killed {done} times, resumed at step "
           f"{record and record['details']['training']['resumed_at_step']}, bitwise equal", result.stdout + result.stderr)


with tempfile.TemporaryDirectory() as folder:
    environment = {**os.environ, "XDG_CACHE_HOME": folder + "/cache"}
    for backend in backends:
        if backend == backends[0]:
            train("--epochs", "1", "--backend", backend)  # the first one also looks at the machine
        begin = time.monotonic()
        result, record = train("--epochs", "3", "--backend", backend)
        startup = time.monotonic() - begin
        good = result.returncode == 0 and record and record["status"] == "passed"
        expect(good, f"{backend}: trains", result.stdout + result.stderr)
        if not good:
            continue
        training = record["details"]["training"]
        expect(training["steps"] == 300 and len(training["curve"]) == 3, f"{backend}: 300 steps, 3 points")
        step = training["step"]
        parts = sum(step[p] for p in ("operators_s", "optimizer_s", "input_s", "residual_s"))
        expect(abs(parts - step["whole_s"]) < 1e-9, f"{backend}: the sum of a step is closed")
        accuracy = record["metrics"]["test_accuracy"]
        expect(accuracy["ci95"][0] < accuracy["median"] <= accuracy["ci95"][1], f"{backend}: accuracy with its interval")
        again = train("--epochs", "3", "--backend", backend)[1]
        expect(again["details"]["training"]["weights_hash"] == training["weights_hash"], f"{backend}: the same weights again")
        kill_at_random(backend, training["weights_hash"])

    first = backends[0]
    result, record = train("--epochs", "1", "--backend", first, "--target", "1.5")
    expect(result.returncode == 0 and any("never reached" in w for w in record["warnings"]), "a target that is never reached",
           result.stdout + result.stderr)
    result, record = train("--epochs", "1", "--backend", first, "--optimizer", "sgd:learning_rate=1e30")
    expect(result.returncode == 1 and "the loss is" in record["reason"] and "at epoch 1" in record["reason"],
           "a diverging loss: failed, named, the record kept", result.stdout + result.stderr)
    result = run("train", *LITTLE, "--seed", "1,2", "--target", "0.9", "--epochs", "5", "--backend", first, "-o", "seeds")
    expect(result.returncode == 0 and "Kaplan-Meier" in result.stdout, "seeds: a table and the time to the target",
           result.stdout + result.stderr)
    result = run("run", "seeds", "--quiet")
    expect(result.returncode == 0 and result.stdout.count("the same weights, bit for bit") == 2,
           "d5 run RECORDS: agrees bit for bit", result.stdout + result.stderr)
    train("--epochs", "1", "--backend", first, "--export", "little.onnx")
    expect(Path(folder, "little.onnx").exists(), "exports ONNX")
    result = run("net", "little.onnx", "--backend", first, "--mode", "check", "--quiet")
    expect(result.returncode == 0, "what was exported runs", result.stdout + result.stderr)

    drifting = ["--epochs", "1", "--trajectory", "drift", "--trajectory-every", "20"]
    result = run("train", *little([*drifting, "--backend", ",".join(backends)]), "--json", "--quiet", "-o", "drift-records")
    drift = [r["details"]["training"]["trajectory"] for r in records(result)]
    expect(result.returncode == 0 and "steps" not in drift[0] and
           all(d["steps"] == [0, 20, 40, 60, 80, 100] and d["all_l2"][0] == 0 and 0 < d["all_l2"][-1] < 0.1 * d["baseline_l2"][-1]
               for d in drift[1:]), "backends drift apart, from the same weights", result.stdout + result.stderr)
    expect(len(drift) == 1 or (Path(folder) / "drift-records/trajectories.csv").read_text().count("\n") ==
           1 + (len(drift) - 1) * 6 * 5, "every step and parameter in a file")
    drift = train(*drifting, "--backend", first)[1]["details"]["training"]["trajectory"]
    expect(drift["all_l2"] == [0] * 6, "the baseline again: no drift at all")
    result = run("train", *little([*drifting, "--backend", first, "--optimizer", "nesterov:learning_rate=0.01"]), "--quiet")
    expect("weights less those of backend" in result.stdout, "optimizers: a table", result.stdout + result.stderr)

    for words, message in [
            (["--optimizer", "adam:learning_rat=1"], "learning_rate"),
            (["--optimizer", "adamm"], "adam"),
            (["--schedule", "cosin"], "cosine"),
            (["--epochs", "0"], "epochs is 0"),
            (["--accumulate", "5"], "not divided evenly"),
            (["--resume"], "--checkpoint"),
            (["--export", "a.txt"], ".onnx or .npz"),
            (["--task", "classificatio"], "classification"),
            (["--normalise", "mea=1"], "mean")]:
        result = run("train", *little(words), "--backend", first)
        expect(result.returncode == 2 and message in result.stderr, f"refuses {' '.join(words)}", result.stdout + result.stderr)
    for words, message in [
            (["--batch", "6400"], "a batch of 6400 is larger than the training set of 3200 samples"),
            (["--classes", "3"], "has 4 classes; mlp has 3"),
            (["--features", "63"], "takes 63")]:
        result, record = train(*words, "--backend", first)
        expect(result.returncode == 1 and message in record["reason"], f"refuses {' '.join(words)}", result.stdout + result.stderr)

    recipe = source / "recipes" / "generated-images.toml"
    result = run("train", str(recipe), "--epochs", "1")
    expect(result.returncode == 2 and "'epochs' is fixed" in result.stderr, "a fixed part stays as it is", result.stderr)
    for recipe in sorted((source / "recipes").rglob("*.toml")):
        if not re.search(r"^level\s*= 2$", recipe.read_text(), re.M):
            continue
        result = run("run", str(recipe), "--set", "seed=1", "--set", f"backend={first}", "--mode", "check", "--quiet", "--json")
        expect(result.returncode == 0 and all(r["status"] == "passed" for r in records(result)),
               f"{recipe.name} in check mode", result.stdout[-2000:] + result.stderr)
print(f"{failures} failed")
sys.exit(1 if failures else 0)
