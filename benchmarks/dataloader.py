#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The loader of deep500 against PyTorch's DataLoader: the same files, the same cores, the same bytes out.

    benchmarks/dataloader.py --data DIR [--d5 build/bin/d5] [--cores 1] [--sets mnist,cifar-10,jpeg] [--rounds 5]

Needs PyTorch and NumPy, and Pillow for the JPEG folder. DIR is the folder of data sets (d5 data fetch NAME --data DIR), with
mnist/, cifar10/ and a folder of class folders of JPEG files (--jpegs, default: caltech101 or jpegs in DIR).

What is compared: batches of u8 images and their labels, shuffled, every sample once an epoch. A Dataset in Python gives one
sample at a time, as in PyTorch's tutorials: a row of the array that holds the whole set (MNIST, CIFAR-10), or a picture that
Pillow decodes and cuts to its middle (JPEG). No conversion to floats: neither side does it. First the samples of both are
compared, byte for byte. Then rounds alternate: an epoch of the DataLoader with each number of workers (0, 1, ..., cores;
workers persist, their start is not timed), then `d5 data bench` with as many threads as there are cores. The ratio of a
round is to the DataLoader with the fastest number of workers; the table shows the median of the rounds and their range.

A Dataset may also take a whole batch of indices at once (__getitems__), which few do; for arrays in memory the DataLoader then
only copies. That is shown for MNIST and CIFAR-10 as `batched`, for information.
"""
import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

try:
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset
except ImportError as missing:
    sys.exit(f"{__doc__}\n{missing}: {sys.executable} needs NumPy and PyTorch")

SAMPLES_COMPARED = 500


class Arrays(Dataset):
    def __init__(self, images, labels):
        self.images, self.labels = torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], self.labels[i]


class BatchedArrays(Arrays):
    def __getitems__(self, indices):
        return self.images[indices], self.labels[indices]


class Pictures(Dataset):
    def __init__(self, folder, size):
        from PIL import Image
        self.open, self.size = Image.open, size
        classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        self.files = [(path, label) for label, name in enumerate(classes)
                      for path in sorted(str(path) for path in (folder / name).rglob("*.jpg"))]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path, label = self.files[i]
        picture = self.open(path).convert("RGB")
        # The middle; what is missing around a smaller picture is black.
        left, top = ((have - self.size) // 2 if have >= self.size else -((self.size - have) // 2) for have in picture.size)
        picture = picture.crop((left, top, left + self.size, top + self.size))
        return torch.from_numpy(np.array(picture)).permute(2, 0, 1), label


def mnist(data):
    def idx(name):
        path = data / "mnist" / name
        raw = gzip.open(str(path) + ".gz").read() if not path.exists() else path.read_bytes()
        shape = [int.from_bytes(raw[4 + 4 * axis:8 + 4 * axis], "big") for axis in range(raw[3])]
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape).copy()
    return idx("train-images-idx3-ubyte")[:, None], idx("train-labels-idx1-ubyte")


def cifar(data):
    folder = data / "cifar10"
    names = [f"data_batch_{i}.bin" for i in range(1, 6)]
    found = {path.name: path.read_bytes() for path in folder.rglob("*.bin")}
    if not found:
        archive = next(iter(sorted(folder.glob("*.tar*"))))
        with tarfile.open(archive) as tar:
            found = {Path(member.name).name: tar.extractfile(member).read() for member in tar if member.name.endswith(".bin")}
    records = np.frombuffer(b"".join(found[name] for name in names), np.uint8).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32).copy(), records[:, 0].copy()


def run_d5(arguments, cores, *words):
    command = [arguments.d5, "data", *words]
    os.sched_setaffinity(0, cores)
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def d5_rate(arguments, cores, words, batch):
    with tempfile.TemporaryDirectory() as folder:
        out = run_d5(arguments, cores, "bench", *words, "--batch", str(batch), "--threads", str(len(cores)), "--launches", "1",
                     "--rounds", "6", "--slice", "0.15", "--max-time", "0", "--quiet", "--json", "-o", folder + "/records")
    record = next(record for record in map(json.loads, out.splitlines()) if record["kind"] == "data")
    if record["status"] != "passed":
        sys.exit(f"d5: {record['status']}: {record['reason']}")
    return record["metrics"]["throughput"]["median"]


def torch_rate(loader, seconds):
    """Samples a second over whole epochs, for about so long."""
    samples, began = 0, time.perf_counter()
    while samples == 0 or time.perf_counter() - began < seconds:
        for images, _ in loader:
            samples += len(images)
    return samples / (time.perf_counter() - began)


def compare_samples(arguments, cores, name, words, dataset):
    """All that d5 reads, as an array, against what the Dataset gives."""
    with tempfile.TemporaryDirectory() as folder:
        run_d5(arguments, cores, "convert", *words, folder + "/x.npz", "--first", str(SAMPLES_COMPARED))
        theirs = np.load(folder + "/x.npz")
        count = len(theirs["label"])
        for i in range(count):
            image, label = dataset[i]
            if not np.array_equal(theirs["image"][i], image.numpy()) or theirs["label"][i] != int(label):
                different = np.abs(theirs["image"][i].astype(int) - image.numpy().astype(int))
                sys.exit(f"{name}: sample {i} differs (label {theirs['label'][i]} and {label}; pixels by up to "
                         f"{different.max()}, {np.mean(different > 0):.2%} of them)")
    print(f"{name}: {count} samples are the same, byte for byte", flush=True)


def measure(arguments, cores, name, words, dataset, batch, batched=None):
    def loader(source, workers):
        collate = (lambda pair: pair) if source is batched else None
        return DataLoader(source, batch, shuffle=True, num_workers=workers, persistent_workers=workers > 0, drop_last=True,
                          collate_fn=collate)
    os.sched_setaffinity(0, cores)
    loaders = {str(workers): loader(dataset, workers) for workers in range(len(cores) + 1)}
    if batched is not None:
        loaders["batched"] = loader(batched, 0)
    for one in loaders.values():
        torch_rate(one, 0)  # starts the workers, warms everything
    rates, ours = {key: [] for key in loaders}, []
    for _ in range(arguments.rounds):
        for key, one in loaders.items():
            rates[key].append(torch_rate(one, arguments.seconds))
        ours.append(d5_rate(arguments, cores, words, batch))
    best = max((key for key in loaders if key != "batched"), key=lambda key: statistics.median(rates[key]))
    ratios = [mine / theirs for mine, theirs in zip(ours, rates[best])]
    shown = ", ".join(f"{key} {'' if key == 'batched' else 'workers '}{statistics.median(found):.0f}" for key, found in rates.items())
    print(f"{name}, batch {batch}, {len(cores)} cores: DataLoader {shown}; d5 {statistics.median(ours):.0f} samples/s; "
          f"d5 / DataLoader ({best} workers) {statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]", flush=True)
    return statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("D5_DATA"), help="folder of data sets [D5_DATA]")
    parser.add_argument("--d5", default=str(Path(__file__).resolve().parent.parent / "build/bin/d5"))
    parser.add_argument("--cores", type=int, default=1, help="how many, of those this process may use")
    parser.add_argument("--sets", default="mnist,cifar-10,jpeg")
    parser.add_argument("--jpegs", help="folder of class folders")
    parser.add_argument("--pixels", type=int, default=224, help="of the JPEG folder's pictures, a side")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="about, of one measurement of the DataLoader")
    arguments = parser.parse_args()
    if not arguments.data:
        parser.error("--data DIR, or D5_DATA, is needed")
    data = Path(arguments.data)
    usable = sorted(os.sched_getaffinity(0))
    if arguments.cores > len(usable):
        parser.error(f"--cores {arguments.cores}: this process may use {len(usable)}")
    cores = usable[-arguments.cores:]
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, cores {cores}", flush=True)
    good = True
    for name, load in (("mnist", mnist), ("cifar-10", cifar)):
        if name not in arguments.sets.split(","):
            continue
        images, labels = load(data)
        words = [name, "--data", str(data)]
        compare_samples(arguments, cores, name, words, Arrays(images, labels))
        words = [name, "--data", str(data), "--access", "shuffle"]
        good &= measure(arguments, cores, name, words, Arrays(images, labels), 128, BatchedArrays(images, labels)) >= 3
    if "jpeg" in arguments.sets.split(","):
        places = [Path(arguments.jpegs)] if arguments.jpegs else [data / "caltech101/101_ObjectCategories", *(data / "jpegs").glob("*")]
        folder = next((place for place in places if place.is_dir()), None)
        if folder is None:
            parser.error(f"no folder of JPEG files in {data}: name one with --jpegs")
        dataset = Pictures(folder, arguments.pixels)
        compare_samples(arguments, cores, "jpeg", [str(folder), "--size", str(arguments.pixels), "--fit", "crop"], dataset)
        words = [str(folder), "--pixels", str(arguments.pixels), "--fit", "crop", "--access", "shuffle"]
        good &= measure(arguments, cores, "jpeg", words, dataset, 32) >= 1.5
    print("all reached: MNIST and CIFAR-10 3x, JPEG 1.5x" if good else "MISSED: MNIST and CIFAR-10 want 3x, JPEG 1.5x")
    return 0 if good else 3


if __name__ == "__main__":
    sys.exit(main())
