#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What schemes do to weights, against their formulas in plain Python. Usage: schemes_test.py D5.

Softmax regression on a little table, whose gradients a few lines make. The loss is convex and the rate below 2 / L (L <= mean |x|^2 / 2,
about 1.8), so neither steps nor means enlarge an error: what rounding leaves in 9 steps is their sum, at most 25 roundings each of numbers
of about 1."""
import ast
import json
import math
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

d5 = str(Path(sys.argv.pop(1)).resolve())
FEATURES, CLASSES, SAMPLES, EPOCHS, RATE = 8, 3, 48, 3, 0.5
TOLERANCE = 9 * 25 * 2.0**-24

draw = random.Random(5)
X = [[struct.unpack("f", struct.pack("f", draw.uniform(-1, 1)))[0] for _ in range(FEATURES)] for _ in range(SAMPLES)]
Y = [draw.randrange(CLASSES) for _ in range(SAMPLES)]


def mean(vectors):
    return [sum(column) / len(vectors) for column in zip(*vectors)]


def gradient(p, samples):
    """Of the mean cross-entropy; p holds a row of weights for each class, then biases."""
    g = [0.0] * len(p)
    for i in samples:
        scores = [sum(p[c * FEATURES + f] * X[i][f] for f in range(FEATURES)) + p[CLASSES * FEATURES + c] for c in range(CLASSES)]
        shares = [math.exp(s) for s in scores]
        for c in range(CLASSES):
            slope = (shares[c] / sum(shares) - (c == Y[i])) / len(samples)
            g[CLASSES * FEATURES + c] += slope
            for f in range(FEATURES):
                g[c * FEATURES + f] += slope * X[i][f]
    return g


def stepped(p, g):
    return [a - RATE * b for a, b in zip(p, g)]


# Each: (parameters of all ranks at a step's begin, their gradients, step from 1, memory of the scheme) -> parameters.
def dsgd(p, g, t, memory):
    return [stepped(own, mean(g)) for own in p]


def dpsgd(neighbours):
    def step(p, g, t, memory):
        mixed = [mean([p[r], *(p[s] for s in sorted({n % len(p) for n in neighbours(r, t)}))]) for r in range(len(p))]
        return [stepped(m, own) for m, own in zip(mixed, g)]
    return step


def mavg(period):
    def step(p, g, t, memory):
        p = [stepped(own, grad) for own, grad in zip(p, g)]
        return [mean(p)] * len(p) if t % period == 0 else p
    return step


def easgd(period, beta):
    def step(p, g, t, memory):
        centre, pull = memory.setdefault("centre", memory["start"]), beta / len(p)
        if t % period == 0:
            apart = [[a - c for a, c in zip(own, centre)] for own in p]
            p = [[a - pull * d for a, d in zip(own, difference)] for own, difference in zip(p, apart)]
            memory["centre"] = [c + pull * sum(column) for c, column in zip(centre, zip(*apart))]
        return [stepped(own, grad) for own, grad in zip(p, g)]
    return step


def two_machines(period):
    def step(p, g, t, memory):
        means = [mean(g[:2])] * 2 + [mean(g[2:])] * 2
        p = [stepped(own, grad) for own, grad in zip(p, means)]
        return [mean(p)] * 4 if t % period == 0 else p
    return step


def sparcml(most):
    def step(p, g, t, memory):
        left = memory.setdefault("left", [[0.0] * len(own) for own in p])
        sent = []
        for r, grad in enumerate(g):
            whole = [a + b for a, b in zip(left[r], grad)]
            largest = sorted(range(len(whole)), key=lambda i: -abs(whole[i]))[:most]
            sent.append([whole[i] if i in largest else 0.0 for i in range(len(whole))])
            left[r] = [a - b for a, b in zip(whole, sent[-1])]
        return [stepped(own, mean(sent)) for own in p]
    return step


def trained(start, step, ranks, batch):
    p, memory, t = [start] * ranks, {"start": start}, 0
    for _ in range(EPOCHS):
        for first in range(0, SAMPLES, batch):
            each = (min(batch, SAMPLES - first)) // ranks
            t += 1
            p = step(p, [gradient(p[r], range(first + r * each, first + (r + 1) * each)) for r in range(ranks)], t, memory)
    return memory.get("centre", mean(p))


class Schemes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.table = f"{folder.name}/table.csv"
        rows = [",".join([*(f"f{i}" for i in range(FEATURES)), "label"])]
        rows += [",".join([*map(repr, x), str(y)]) for x, y in zip(X, Y)]
        Path(cls.table).write_text("\n".join(rows) + "\n")
        cls.start = cls.weights("--optimizer", "sgd:learning_rate=0", "--steps", "1", "--batch", "16")

    @classmethod
    def weights(cls, *words):
        with tempfile.TemporaryDirectory() as folder:
            command = [d5, "train", "mlp", "--features", FEATURES, "--depth", 0, "--classes", CLASSES, "--dataset", cls.table,
                       "--test-dataset", cls.table, "--sampler", "ordered", "--backend", "reference", "--quiet", "--json",
                       "-o", folder, "--export", f"{folder}/weights.npz", *words]
            result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
            assert result.returncode == 0, result.stdout + result.stderr
            arrays = {}
            with zipfile.ZipFile(f"{folder}/weights.npz") as file:
                for name in file.namelist():
                    data = file.read(name)
                    begin = 10 + struct.unpack("<H", data[8:10])[0]
                    header = ast.literal_eval(data[10:begin].decode())
                    arrays[header["shape"]] = struct.unpack(f"<{math.prod(header['shape'])}f", data[begin:])
            return [*arrays[(CLASSES, FEATURES)], *arrays[(CLASSES,)]]

    def check(self, scheme, step, ranks=4, batch=16, more=()):
        wanted = trained(self.start, step, ranks, batch)
        got = self.weights("--optimizer", f"sgd:learning_rate={RATE}", "--epochs", EPOCHS, "--ranks", ranks, "--batch", batch,
                           "--scheme", scheme, *more)
        self.assertLess(max(abs(a - b) for a, b in zip(wanted, got)), TOLERANCE, scheme)
        other = trained(self.start, dsgd, ranks, batch)
        if step is not dsgd:  # the bound tells formulas apart
            self.assertGreater(max(abs(a - b) for a, b in zip(wanted, other)), 10 * TOLERANCE, scheme)

    def test_the_mean_gradient(self):
        for scheme in ["dsgd", "pssgd:servers=2", "zero1"]:
            self.check(scheme, dsgd, batch=20)  # the last one of an epoch is short
        self.check("dsgd", dsgd, ranks=3, batch=30, more=["--accumulate", "2"])

    def test_mixing_comes_before_the_gradient_of_what_was_before(self):
        self.check("dpsgd", dpsgd(lambda r, t: (r - 1, r + 1)))
        self.check("dpsgd", dpsgd(lambda r, t: (r - 1, r + 1)), ranks=3, batch=15)
        self.check("dpsgd:topology=exponential", dpsgd(lambda r, t: (r - 1, r - 2)))
        self.check("dpsgd:topology=one-peer", dpsgd(lambda r, t: (r - 2 ** (t % 2),)))

    def test_means_every_few_steps(self):
        self.check("mavg:period=2", mavg(2))
        self.check("mavg:period=4", mavg(4))  # not at the end
        self.check("hierarchical:period=2", two_machines(2), more=["--ranks-per-node", "2"])

    def test_the_elastic_force_draws_both(self):
        self.check("easgd:period=1:beta=0.7", easgd(1, 0.7))
        self.check("easgd:period=2:beta=0.7", easgd(2, 0.7))

    def test_what_is_not_sent_is_added_to_the_next_step(self):
        # Of an arena of 48: weights and biases each begin at 16 numbers.
        self.check("sparcml:density=0.1", sparcml(5))


if __name__ == "__main__":
    unittest.main(verbosity=2)
