#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 train as a user meets it: a run and its record, the kill test, recipes in check mode, what is refused.

    train_test.py D5 SOURCE_FOLDER BACKENDS [--kills 5] [--only-kills]

The kill test by hand: train_test.py build/bin/d5 . onednn,reference --kills 50 --only-kills"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("d5", type=lambda path: str(Path(path).resolve()))
parser.add_argument("source", type=lambda path: Path(path).resolve())
parser.add_argument("backends", type=lambda names: names.split(","))
parser.add_argument("--kills", type=int, default=5, help="of a backend")
parser.add_argument("--only-kills", action="store_true")
arguments = parser.parse_args()
d5, source, backends = arguments.d5, arguments.source, arguments.backends
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


def damaged():
    """A set in which one record of the training and one of the test (the last tenth) are damaged."""
    result = run("data", "convert", "generated-images", "damaged.tfrecord", "--option", "size=400", "--option", "classes=4",
                 "--option", "channels=1", "--option", "height=8", "--option", "width=8")
    expect(result.returncode == 0, "data convert", result.stdout + result.stderr)
    file = Path(folder, "damaged.tfrecord")
    data, at = bytearray(file.read_bytes()), 0
    for record in range(400):
        length, = struct.unpack_from("<Q", data, at)
        if record in (7, 390):
            data[at + 12 + length // 2] ^= 0x55
        at += 12 + length + 4
    file.write_bytes(data)
    words = ["--dataset", file.name, "--options", "", "--samples", "-1", "--test-samples", "-1", "--epochs", "2", "--backend", backends[0]]
    result, record = train(*words)
    expect(result.returncode == 1 and "damaged.tfrecord, record 7: its sum is wrong" in record["reason"],
           "a damaged sample ends a training, and is named", result.stdout + result.stderr)
    result, record = train(*words, "--on-error", "skip")
    skipped = record["details"]["training"]["skipped"]
    expect(result.returncode == 0 and (skipped["train"], skipped["test"]) == (2, 1) and "record 7" in skipped["first"][0],
           "or others take its place, and it is counted", result.stdout + result.stderr)


def photographs():
    """ImageNet's folders; pictures stay encoded until they are cropped, and `val` is the test."""
    for part, size in (("train", 400), ("val", 100)):
        result = run("data", "convert", "generated-images", f"sets/imagenet/{part}", "--to", "folder", "--to-option", "format=raw",
                     "--option", f"size={size}", "--option", "classes=4", "--option", "channels=3", "--option", "height=24", "--option", "width=30")
        expect(result.returncode == 0, f"pictures of {part}", result.stdout + result.stderr)
    hashes = set()
    for threads in ("0", "2"):
        result, record = train("--features", "768", "--dataset", "imagenet", "--data", "sets", "--options", "encoded=true", "--samples", "-1",
                               "--test-samples", "-1", "--augment", "random-resized-crop height=16 + flip", "--test-augment",
                               "centre-crop height=16 shorter=20", "--loader-threads", threads, "--backend", backends[0])
        expect(result.returncode == 0 and record["metrics"]["test_accuracy"]["n"] == 100, "a training on crops of encoded pictures",
               result.stdout + result.stderr)
        hashes.add(record and record["details"]["training"]["weights_hash"])
    expect(len(hashes) == 1, "is the same for any number of loading threads", str(hashes))
    for name in ("--augment", "--test-augment"):
        result, _ = train(name, "normalise mean=0.5")
        expect(result.returncode == 2 and "--normalise" in result.stderr, f"normalise is refused in {name}", result.stderr)


# Long enough to be killed in: 2000 steps of 20 epochs, and a checkpoint every 7.
KILLED = ["--epochs", "20"]
SAVED = [*KILLED, "--every", "7"]


def position(checkpoint):
    """Epoch, batch and step of the checkpoint; None: there is none."""
    try:
        with open(checkpoint, "rb") as file:
            length, = struct.unpack("<8xQ", file.read(16))
            about = json.loads(file.read(length))["about"]
    except FileNotFoundError:
        return None
    return about["epoch"], about["batch"], about["step"]


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.002)
    return False


def here():
    """Processes whose folder is ours: the program and its child."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == os.path.realpath(folder):
                found.append(process.name)
        except OSError:  # it is gone, or not ours
            pass
    return found


def phase(checkpoint, before, unfinished):
    """Where the kill hit, from what it left."""
    now = position(checkpoint)
    if unfinished:
        return "writing a checkpoint"
    if now == before:
        return "start, before a checkpoint"
    _, batch, _ = now
    return "the beginning of an epoch" if batch == 0 else "the end of an epoch, its test" if batch >= 93 else "within an epoch"


def kill_at_random(backend):
    """Killed at random moments while it trains, resumed each time: the same weights in the end. One that ends before it is killed is
    looked at too, and another one begins."""
    rng = random.Random(backend)
    whole = train(*KILLED, "--backend", backend)[1]["details"]["training"]
    checkpoints = Path(folder) / f"kill-{backend}"
    words = [*SAVED, "--backend", backend, "--checkpoint", checkpoints.name, "--resume"]
    command = [d5, "train", *little(words), "--json", "--quiet"]
    hit, finished, wrong, began = collections.Counter(), 0, [], time.monotonic()
    record = train(*words)[1]  # the length of one with its checkpoints
    length = record["details"]["training"]["seconds"]
    startup = time.monotonic() - began - length
    files = list(checkpoints.glob("*.d5c"))
    expect(len(files) == 1, f"{backend}: one checkpoint file")
    file = files[0]
    part = Path(str(file) + ".part")

    def is_wrong(one):
        return one is None or one["details"]["training"]["weights_hash"] != whole["weights_hash"]

    def fresh():
        shutil.rmtree(checkpoints, ignore_errors=True)
    wrong += [0] if is_wrong(record) else []
    fresh()
    while sum(hit.values()) < arguments.kills:
        before = position(file)
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if rng.random() < 0.2:  # anywhere, the start included
            time.sleep(rng.uniform(0, startup))
        else:  # it trains: a checkpoint is newer than its start
            wait_for(lambda: position(file) != before or process.poll() is not None, 60)
            time.sleep(rng.uniform(0, length / 3))
        alive = process.poll() is None
        process.kill()  # its child dies with it
        out = process.communicate()[0]
        if not wait_for(lambda: not here(), 10):
            expect(False, f"{backend}: the child dies with the program", str(here()))
        if alive:
            hit[phase(file, before, part.exists())] += 1
            continue
        finished += 1
        ended = [r for r in map(json.loads, out.splitlines()) if r["kind"] == "train"]
        wrong += [finished] if is_wrong(ended[0] if ended else None) else []
        fresh()
    at = position(file)
    result, record = train(*words)
    resumed = record and record["details"]["training"]["resumed_at_step"]
    wrong += ["the last"] if is_wrong(record) else []
    print(f"{backend}: {length:.2f} s of training, killed in: " + ", ".join(f"{name} {count}" for name, count in hit.most_common()) +
          f"; {finished} ended in between; the last one went on at step {resumed} of {whole['steps']}", flush=True)
    expect(not wrong and resumed == (at[2] if at else 0), f"{backend}: killed {sum(hit.values())} times, resumed, bitwise equal",
           f"{wrong}\n{result.stdout}{result.stderr}")


def diverging(first):
    """What fails is a record like others: the next case goes on, seeds are judged with it, a repetition agrees."""
    never = "sgd:learning_rate=1e38"  # one step sends the weights beyond all numbers; its own loss is finite
    words = ["--epochs", "1", "--steps", "1", "--backend", first]
    result = run("train", *little([*words, "--optimizer", f"{never},sgd:learning_rate=0.01"]), "--json", "--quiet", "-o", "two")
    made = records(result)
    expect(result.returncode == 1 and [r["status"] for r in made] == ["failed", "passed"] and "the test loss is" in made[0]["reason"],
           "weights that are no numbers after the last step: failed, and the next case is trained", result.stdout + result.stderr)
    metrics = made[1]["metrics"] if len(made) == 2 else {}
    expect(all(metrics.get(name, {}).get("median", 0) > 0 and metrics[name]["ci95"] is None for name in ("throughput", "step_time")),
           "one step alone has a speed, without an interval", str(metrics))
    result = run("run", "two", "--quiet")
    expect(result.returncode == 0 and result.stdout.count(": agrees; the same weights, bit for bit") == 2,
           "what failed again in the same way agrees", result.stdout + result.stderr)
    Path(folder, "accepted.toml").write_text(f"""
name  = "accepted"
level = 2
[fixed]
network = "mlp"
features = 64
width = 16
depth = 1
classes = 4
dataset = "generated-images"
options = "channels=1;height=8;width=8;classes=4;strength=6"
samples = 320
test_samples = 100
steps = 1
target = {{ test_accuracy = 0.9 }}
[mutable]
backend = "{first}"
optimizer = "{never}"
[axes]
seed = [1, 2, 3, 4, 5]
[accept]
test_accuracy = ">= 0.5"
""")
    result = run("run", "accepted.toml", "--quiet")
    expect(result.returncode == 1 and "reached by 0 of 5; median never" in result.stdout and
           "test_accuracy over 5 seeds: bound -inf >= 0.5: refused" in result.stderr,
           "seeds that all diverge: a summary and a verdict", result.stdout + result.stderr)


def checkpoints_beside(first):
    words = ["--backend", first, "--checkpoint", "beside", "--resume"]
    train("--epochs", "1", *words)
    record = train("--epochs", "2", *words)[1]
    expect(record["details"]["training"]["resumed_at_step"] == 0 and
           any("began anew" in w and "differs in epochs (1 there, 2 here)" in w for w in record["warnings"]),
           "a training that begins anew beside another's checkpoint says so", str(record["warnings"]))
    result = run("train", *little(["--epochs", "1", "--seed", "1,2", "--backend", first, "--checkpoint", "siblings", "--resume"]), "--json", "--quiet")
    expect(len(records(result)) == 2 and not any("began anew" in w for r in records(result) for w in r["warnings"]), "other seeds of the same run are no others", result.stdout)


def exports(first):
    Path(folder, "file").write_text("no folder")
    result, record = train("--epochs", "1", "--backend", first, "--export", "file/little.onnx")
    expect(result.returncode == 1 and "--export file/little.onnx cannot be written" in record["reason"] and not record["details"].get("training"),
           "an export that cannot be written is refused before the training", result.stdout + result.stderr)
    # The checkpoints' folder takes the name when the training has begun.
    result, record = train("--epochs", "1", "--backend", first, "--export", "late.onnx", "--checkpoint", "late.onnx")
    expect(result.returncode == 0 and "test_accuracy" in record["metrics"] and any("--export late.onnx" in w for w in record["warnings"]),
           "one that fails in the end is a warning", result.stdout + result.stderr)
    result, record = train("--epochs", "1", "--backend", first, "--dtype", "bf16", "--export", "narrow.onnx")
    if record and record["status"] == "passed":
        result = run("net", "narrow.onnx", "--backend", "reference", "--mode", "check", "--json", "--quiet")
        shown = run("model", "show", "narrow.onnx")
        expect(result.returncode == 0 and "bf16" not in shown.stdout, "bf16 is exported as f32", shown.stdout + shown.stderr + result.stdout)


def without_torch(first):
    """A folder of modules in which torch is off."""
    from_here = next((Path(d5).parent.parent / "lib").glob("d5/backends.txt"), None)
    if from_here is None:
        return
    modules = Path(folder, "modules")
    modules.mkdir()
    for file in from_here.parent.iterdir():
        if "torch" not in file.name and file.name != "backends.txt":
            (modules / file.name).symlink_to(file)
    lines = [line for line in from_here.read_text().splitlines() if not line.startswith("torch|")]
    (modules / "backends.txt").write_text("\n".join([*lines, "torch|off|not built here"]) + "\n")
    environment["D5_BACKEND_PATH"] = str(modules)
    result = run("train", *little(["--epochs", "1", "--backend", first, "--optimizer", "adam:learning_rate=0.01,torch:adam"]), "--json", "--quiet")
    del environment["D5_BACKEND_PATH"]
    made = records(result)
    expect(result.returncode == 0 and [r["status"] for r in made] == ["passed", "unsupported"] and "torch is off: not built here" in made[1]["reason"],
           "an optimizer whose module is off is unsupported, and the others are trained", result.stdout + result.stderr)


with tempfile.TemporaryDirectory() as folder:
    environment = {**os.environ, "XDG_CACHE_HOME": folder + "/cache"}
    train("--epochs", "1", "--backend", backends[0])  # the first one also looks at the machine
    for backend in backends:
        kill_at_random(backend)
    if arguments.only_kills:
        sys.exit(1 if failures else 0)
    for backend in backends:
        result, record = train("--epochs", "3", "--backend", backend)
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
    result = run("compare", "seeds", "seeds", "--fail-on", "slower")
    expect(result.returncode == 0 and "not faster than the first set allows" in result.stdout, "d5 compare: reference convergence",
           result.stdout + result.stderr)
    record = train("--epochs", "1", "--backend", first, "--price", "3.6")[1]
    training = record["details"]["training"]
    cost = record["metrics"]["cost_per_sample"]["median"] * training["samples"] / training["seconds"]
    expect(abs(cost - 0.001) < 1e-9, "a price of an hour: the cost of a sample", str(cost))
    train("--epochs", "1", "--backend", first, "--export", "little.onnx")
    expect(Path(folder, "little.onnx").exists(), "exports ONNX")
    result = run("net", "little.onnx", "--backend", first, "--mode", "check", "--quiet")
    expect(result.returncode == 0, "what was exported runs", result.stdout + result.stderr)

    damaged()
    photographs()
    diverging(first)
    checkpoints_beside(first)
    exports(first)
    without_torch(first)

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
    expect("from the baseline's (backend" in result.stdout, "optimizers: a table", result.stdout + result.stderr)

    for words, message in [
            (["--optimizer", "adam:learning_rat=1"], "learning_rate"),
            (["--optimizer", "adamm"], "adam"),
            (["--optimizer", "adam:beta1"], "'beta1' is no value; legal: name=value"),
            (["--schedule", "multi-step:milestones=1,2"], "joined by '/'"),
            (["--optimizer", "sgd:scaling=cubic"], "none, linear, sqrt"),
            (["--optimizer", "sgd:scaling=linear"], "reference_batch 0;"),
            (["--schedule", "cosin"], "cosine"),
            (["--schedule", "cosine:length=-3"], "length is -3"),
            (["--epochs", "0"], "epochs is 0"),
            (["--accumulate", "5"], "not divided evenly"),
            (["--resume"], "--checkpoint"),
            (["--export", "a.txt"], ".onnx or .npz"),
            (["--task", "classificatio"], "classification"),
            (["--task", "gan"], "task gan wants one"),
            (["--trajectory", "drift", "--trajectory-every", "0"], "at least 1 is legal"),
            (["--augment", "flip + normalise mean=0.5"], "use --normalise"),
            (["--every", "5"], "without --checkpoint"),
            (["--time-limit", "-5"], "time_limit is -5.0; 0 and more are legal"),
            (["--optimizer", "sgd:learning_rate=-1"], "learning_rate is -1; 0 and more are legal"),
            (["--optimizer", "sgd:clip_norm=-1"], "clip_norm is -1; 0 and more are legal"),
            (["--optimizer", "adam:beta2=2"], "beta2 is 2; 0 to less than 1 are legal"),
            (["--optimizer", "momentum:mu=-3"], "mu is -3; 0 to 1 are legal"),
            (["--seed", "1,2", "--export", "a.onnx"], "several cases would write it"),
            (["--normalise", "mea=1"], "mean")]:
        result = run("train", *little(words), "--backend", first)
        expect(result.returncode == 2 and message in result.stderr, f"refuses {' '.join(words)}", result.stdout + result.stderr)
    # Two ranks of 32 take steps of 64, twice the batch for which the rate is given.
    record = train("--epochs", "1", "--backend", first, "--ranks", "2", "--scaling", "weak",
                   "--optimizer", "sgd:learning_rate=0.01:scaling=linear:reference_batch=32")[1]
    expect(record["details"]["training"]["curve"][0]["learning_rate"] == 0.02, "the rate scales with the batch of all ranks", str(record))

    for words, message in [
            (["--batch", "6400"], "a batch of 6400 is larger than the training set of 3200 samples"),
            (["--classes", "3"], "has 4 classes; mlp has 3"),
            (["--task", "regression"], "task regression wants numbers"),
            (["--dataset", "digts"], "'digts' is no data set (d5 list datasets: "),
            (["--trajectory", "/proc/none"], "[trajectory] /proc/none/"),
            (["--normalise", "mean=nan"], "mean = nan; legal: finite numbers"),
            (["--normalise", "deviation=inf"], "deviation = inf; legal: above 0"),
            (["--optimizer", "sgd:learning_rate=1e20"], "the loss is nan at epoch 1"),
            (["--features", "63"], "takes 63")]:
        result, record = train(*words, "--backend", first)
        expect(result.returncode == 1 and message in record["reason"], f"refuses {' '.join(words)}", result.stdout + result.stderr)

    shown = run("list", "schedules").stdout
    expect("milestones=30/60/80" in shown, "schedules are listed as --schedule takes them", shown)
    recipe = source / "recipes" / "generated-images.toml"
    result = run("train", str(recipe), "--epochs", "1")
    expect(result.returncode == 2 and "'epochs' is fixed" in result.stderr, "a fixed part stays as it is", result.stderr)
    result = run("train", str(source / "recipes" / "mnist-lenet.toml"), "--test-samples", "100")
    expect(result.returncode == 2 and "'test_samples' is not mutable" in result.stderr, "and so does what it is judged on", result.stderr)
    has_torch = "torch:" in run("list", "optimizers").stdout
    for recipe in sorted((source / "recipes").rglob("*.toml")):
        if not re.search(r"^level\s*= 2$", recipe.read_text(), re.M) or ("torch:" in recipe.read_text() and not has_torch):
            continue
        result = run("run", str(recipe), "--set", "seed=1", "--set", f"backend={first}", "--mode", "check", "--quiet", "--json")
        made = records(result)
        expect(result.returncode == 0 and all(r["status"] == "passed" for r in made),
               f"{recipe.name} in check mode", result.stdout[-2000:] + result.stderr)
        warnings = [w for r in made for w in r["warnings"]]
        expect(not any("never reached" in w for w in warnings) and
               any("random samples stand in" in w for w in warnings) == any("fixture" in r["details"] for r in made),
               f"{recipe.name}: random samples are named, no target is missed", str(warnings))
print(f"{failures} failed")
sys.exit(1 if failures else 0)
