#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 train against plain loops over PyTorch and LibTorch: the same samples, the same cores, everything included.

    benchmarks/training/compare.py --data DIR [--d5 build/bin/d5] [--cases lenet,resnet-20,optimizers] [--rounds 7] [--cores 1]

Needs PyTorch and NumPy in the Python that runs it. The C++ loop is benchmarks/training/torch_loop.cpp ('ninja -C build
bench_torch_loop', where the torch backend is built); without its program only Python's is compared. DIR is the folder of data sets
with mnist/ and cifar10/; `--generated` takes generated images of the same sizes instead.

lenet       batch 64 on MNIST; resnet-20: batch 128 on CIFAR-10 with crops and flips. A round runs every contender once, as a
            process of its own, in an order that turns from round to round: d5 on --backend, pytorch_loop.py with 0 and with as many
            workers as there are cores, torch_loop.cpp likewise. A rate is samples / seconds of the epochs: input, augmentation,
            metrics, everything but the test. The ratio of a round is to the fastest form of a loop.
optimizers  a training step of LeNet on the torch backend: d5's Adam against LibTorch's own (torch:adam), fused and plain, by the
            median of the steps of a run; and the accuracies.

Printed: the median of the rounds' ratios and the 95 % interval of that median by order statistics (six rounds give the first one).
Exit status 3 where d5 is not 1.5 times as fast, or its step takes more than 1.01 times the native one's, by the median.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError as missing:
    sys.exit(f"{__doc__}\n{missing}: {sys.executable} needs NumPy")

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from median_interval import with_interval  # noqa: E402
BUILD = HERE.parent.parent / "build/bin"
CASES = {"lenet": ("mnist", "channels=1;height=28;width=28", 12800, 60000,
                   ["--normalise", "mean=0.1307 deviation=0.3081", "--batch", "64",
                    "--optimizer", "momentum:learning_rate=0.02:mu=0.9"]),
         "resnet-20": ("cifar-10", "channels=3;height=32;width=32", 1280, 2560,
                       ["--normalise", "mean=0.4914/0.4822/0.4465 deviation=0.2470/0.2435/0.2616", "--augment", "crop padding=4 + flip",
                        "--batch", "128", "--optimizer", "momentum:learning_rate=0.1:mu=0.9:weight_decay=0.0001"])}
WANTED, MOST_STEP = 1.5, 1.01


def call(command, cores, **more):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                            preexec_fn=lambda: os.sched_setaffinity(0, cores), **more)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


def source_words(arguments, dataset, options):
    """The set, as 'd5 train' names it."""
    if arguments.generated:
        return ["--dataset", "generated-images", "--options", options]
    return ["--dataset", dataset, "--data", arguments.data]


def write_parts(arguments, cores, dataset, options, samples, folder):
    """The same samples for the loops: .npz for Python, bytes for C++."""
    for part, count in (("train", samples), ("test", arguments.test_samples)):
        file = folder / f"{part}.npz"
        words = ["generated-images"] if arguments.generated else [dataset, "--data", arguments.data]
        chosen = [*options.split(";"), f"size={count}"] if arguments.generated else []
        for option in [*chosen, f"part={part}"]:
            words += ["--option", option]
        call([arguments.d5, "data", "convert", *words, file, "--first", count], cores)
        arrays = np.load(file)
        images, labels = arrays["image"], arrays["label"]
        with open(folder / f"{part}.bytes", "wb") as out:
            out.write((" ".join(map(str, images.shape)) + "\n").encode())
            out.write(np.ascontiguousarray(images).tobytes())
            out.write(labels.astype(np.uint8).tobytes())


def train(arguments, cores, words):
    """The record of one training of d5."""
    with tempfile.TemporaryDirectory() as folder:
        out = call([arguments.d5, "train", *words, "--threads", arguments.threads, "--json", "--quiet", "-o", folder + "/records"], cores)
    record = next(record for record in map(json.loads, out.splitlines()) if record["kind"] == "train")
    if record["status"] != "passed":
        sys.exit(f"d5: {record['status']}: {record['reason']}")
    return record


def rate_of(record):
    training = record["details"]["training"]
    return training["samples"] / (training["seconds"] - training["test_seconds"] - training["checkpoint_seconds"])


def compare_loops(arguments, cores, network):
    dataset, options, quick, usual, values = CASES[network]
    samples = arguments.samples or (quick if arguments.generated else usual)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_parts(arguments, cores, dataset, options, samples, folder)
        workers = sorted({0, len(cores)})
        ours = [network, *source_words(arguments, dataset, options), *values, "--samples", samples, "--test-samples",
                arguments.test_samples, "--epochs", arguments.epochs, "--backend", arguments.backend]
        contenders = {"d5": lambda: rate_of(train(arguments, cores, ours))}

        def loop(command):
            return lambda: json.loads(call(command, cores))["samples_per_second"]
        for count in workers:
            contenders[f"pytorch, {count} workers"] = loop(
                [sys.executable, HERE / "pytorch_loop.py", network, folder / "train.npz", folder / "test.npz", "--epochs", arguments.epochs,
                 "--workers", count, "--threads", arguments.threads])
            if Path(arguments.torch_loop).exists():
                contenders[f"libtorch, {count} workers"] = loop(
                    [arguments.torch_loop, network, folder / "train.bytes", folder / "test.bytes", arguments.epochs, count,
                     arguments.threads])
        rates = in_turn(contenders, arguments.rounds)
    good = True
    print(f"{network}, {samples} samples, {arguments.epochs} epochs, {len(cores)} cores, {arguments.threads} threads; samples/s: " +
          ", ".join(f"{key} {statistics.median(found):.0f}" for key, found in rates.items()), flush=True)
    for kind in ("pytorch", "libtorch"):
        forms = [key for key in rates if key.startswith(kind)]
        if not forms:
            print(f"{network}: no LibTorch loop: {arguments.torch_loop} is not there")
            continue
        best = max(forms, key=lambda key: statistics.median(rates[key]))
        ratios = [mine / theirs for mine, theirs in zip(rates["d5"], rates[best])]
        print(f"{network}: d5 {arguments.backend} / {best}: {with_interval(ratios)}, wanted {WANTED}", flush=True)
        good &= statistics.median(ratios) >= WANTED
    return good


def in_turn(contenders, rounds):
    """What each gives in every round; each round begins with another one."""
    names = list(contenders)
    found = {name: [] for name in names}
    for turn in range(rounds):
        for i in range(len(names)):
            name = names[(i + turn) % len(names)]
            found[name].append(contenders[name]())
    return found


def compare_optimizers(arguments, cores):
    dataset, options, quick, usual, values = CASES["lenet"]
    common = ["lenet", *source_words(arguments, dataset, options), *values[:4], "--samples", arguments.samples or (quick if arguments.generated else usual),
              "--test-samples", arguments.test_samples, "--epochs", arguments.epochs, "--backend", "torch"]
    names = ["adam", "torch:adam", "torch:adam:fused=false"]
    accuracies = {name: [] for name in names}

    def step_of(name):
        optimizer = name.replace("adam", "adam:learning_rate=0.001")

        def once():
            record = train(arguments, cores, [*common, "--optimizer", optimizer])
            accuracies[name].append(record["metrics"]["test_accuracy"]["median"])
            return record["metrics"]["step_time"]["median"]
        return once
    steps = in_turn({name: step_of(name) for name in names}, arguments.rounds)
    good = True
    for name in names:
        print(f"lenet on torch, {name}: step {statistics.median(steps[name]) * 1e3:.4f} ms, test accuracy {statistics.median(accuracies[name]):.4f}")
    for name in names[1:]:
        ratios = [mine / theirs for mine, theirs in zip(steps["adam"], steps[name])]
        print(f"a step with d5's adam / {name}: {with_interval(ratios)}, at most {MOST_STEP} wanted", flush=True)
        good &= statistics.median(ratios) <= MOST_STEP
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("D5_DATA"), help="folder of data sets [D5_DATA]")
    parser.add_argument("--generated", action="store_true", help="generated images instead of MNIST and CIFAR-10")
    parser.add_argument("--d5", default=str(BUILD / "d5"))
    parser.add_argument("--torch-loop", default=str(BUILD / "d5-torch-loop"))
    parser.add_argument("--cases", default="lenet,resnet-20,optimizers")
    parser.add_argument("--backend", default="onednn")
    parser.add_argument("--cores", type=int, default=1, help="how many, of those this process may use")
    parser.add_argument("--threads", type=int, default=0, help="of a training [as many as cores]")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--samples", type=int, default=0, help="of an epoch [60000 for lenet, 2560 for resnet-20]")
    parser.add_argument("--test-samples", type=int, default=1000)
    arguments = parser.parse_args()
    if not arguments.data and not arguments.generated:
        parser.error("--data DIR, D5_DATA or --generated is needed")
    usable = sorted(os.sched_getaffinity(0))
    if arguments.cores > len(usable):
        parser.error(f"--cores {arguments.cores}: this process may use {len(usable)}")
    cores = usable[-arguments.cores:]
    arguments.threads = arguments.threads or len(cores)
    good = True
    for case in arguments.cases.split(","):
        if case != "optimizers" and case not in CASES:
            parser.error(f"--cases {case}: legal are {', '.join([*CASES, 'optimizers'])}")
        good &= compare_optimizers(arguments, cores) if case == "optimizers" else compare_loops(arguments, cores, case)
    print("all reached" if good else "MISSED: see above")
    return 0 if good else 3


if __name__ == "__main__":
    sys.exit(main())
