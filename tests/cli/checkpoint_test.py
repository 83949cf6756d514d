#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints for others: NumPy reads what `d5 model export` makes of one, ONNX Runtime runs it on raw pixels and is right as often as the
training's record says; also of several ranks, whose optimizer's state is in shards.

  checkpoint_test.py D5 BACKEND        77: onnxruntime or numpy is not here (D5_PYTHON names another Python)"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

python = os.environ.get("D5_PYTHON")
if python and os.path.abspath(python) != sys.executable and "D5_NESTED" not in os.environ:
    sys.exit(subprocess.call([python, *sys.argv], env={**os.environ, "D5_NESTED": "1"}))
D5, BACKEND = Path(sys.argv[1]).resolve(), sys.argv[2]
# The wheel that scripts/dependencies.sh fetched, after whatever this Python has itself.
sys.path += map(str, D5.parents[1].glob("dependencies/lib/python3*/site-packages"))
try:
    import numpy as np
    import onnxruntime
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

MEAN, DEVIATION = 0.4, 0.2
EPOCHS = "3"
MLP = ["mlp", "--features", "48", "--width", "8", "--depth", "1", "--classes", "3"]
RESNET = ["resnet-20", "--size", "4", "--width", "2", "--classes", "3"]


class Checkpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        random = np.random.default_rng(5)
        cls.sets = {}
        for part, samples in {"train": 256, "test": 120}.items():
            y = random.integers(0, 3, samples)
            x = random.integers(0, 160, (samples, 3, 4, 4))
            x[np.arange(samples), y] += 60  # a channel is brighter
            cls.sets[part] = (x.astype(np.uint8), y.astype(np.int64))
            np.savez(cls.folder / f"{part}.npz", x=cls.sets[part][0], y=cls.sets[part][1])

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def d5(self, *words):
        return subprocess.run([D5, *words], capture_output=True, text=True, timeout=300, cwd=self.folder)

    def trained(self, name, network, *words):
        """The training's record and its checkpoint."""
        result = self.d5("train", *network, "--dataset", "train.npz", "--test-dataset", "test.npz", "--normalise",
                         f"mean={MEAN} deviation={DEVIATION}", "--batch", "32", "--epochs", EPOCHS, "--backend", BACKEND, "--checkpoint", name,
                         "--json", "--quiet", "-o", name + "-records", *words)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        record = json.loads(result.stdout.splitlines()[-1])
        self.assertEqual(record["status"], "passed", record["reason"])
        file, = (self.folder / name).glob("*.d5c")
        return record, file

    def exported(self, file, output):
        result = self.d5("model", "export", str(file), "-o", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.folder / output

    def accuracy_in_onnx_runtime(self, file):
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        taken, = session.get_inputs()
        x, y = self.sets["test"]
        shape = [size if isinstance(size, int) else 1 for size in taken.shape]
        scores = [session.run(None, {taken.name: sample.astype(np.float32).reshape(shape)})[0][0] for sample in x]
        return float(np.mean(np.argmax(scores, axis=1) == y))

    def check(self, record, file, name):
        recorded = record["metrics"]["test_accuracy"]["median"]
        self.assertGreater(recorded, 0.5)  # it has learned
        self.assertEqual(self.accuracy_in_onnx_runtime(self.exported(file, name + ".onnx")), recorded)
        with np.load(self.exported(file, name + ".npz")) as arrays:
            arrays = dict(arrays)
        about = json.loads(arrays["about"].tobytes())
        self.assertEqual((about["epoch"], about["batch"]), (int(EPOCHS), 0))
        self.assertEqual(about["step"], record["details"]["training"]["steps"])
        return arrays, recorded

    def test_of_one_process(self):
        record, file = self.trained("alone", MLP, "--optimizer", "adam:learning_rate=0.01")
        arrays, recorded = self.check(record, file, "alone")
        x, y = self.sets["test"]
        h = (x.reshape(len(x), -1) / 255 - MEAN) / DEVIATION
        h = np.maximum(h @ arrays["parameter layers.0.weight"].T + arrays["parameter layers.0.bias"], 0)
        scores = h @ arrays["parameter classifier.weight"].T + arrays["parameter classifier.bias"]
        self.assertEqual(float(np.mean(np.argmax(scores, axis=1) == y)), recorded)
        for state in "mv":  # Adam's moments, one for each weight
            self.assertEqual(arrays[f"optimizer {state} of layers.0.weight"].shape, (8, 48))
        self.assertTrue((arrays["optimizer v of classifier.weight"] > 0).all())

    def test_of_ranks_with_a_sharded_optimizer(self):
        words = ["--ranks", "2", "--communicator", "threads", "--optimizer", "momentum:learning_rate=0.05"]
        record, file = self.trained("shards", RESNET, *words, "--scheme", "zero1")
        arrays, _ = self.check(record, file, "shards")
        moments = [name for name in arrays if name.startswith("optimizer ") and name.endswith("weight")]
        self.assertGreater(len(moments), 20)  # of all layers, whichever rank has them
        for name in moments:
            self.assertTrue(np.any(arrays[name]), name)
        part, = file.parent.glob("*.r1")
        result = self.d5("model", "export", str(part), "-o", "part.npz")
        self.assertEqual(result.returncode, 2)
        self.assertIn(f"is the part of one rank; legal: {file}", result.stderr)

    def test_ranks_with_weights_of_their_own_become_their_mean(self):
        record, file = self.trained("means", MLP, "--ranks", "2", "--communicator", "threads", "--scheme", "mavg:period=3", "--optimizer",
                                    "sgd:learning_rate=0.1")
        self.check(record, file, "means")

    def test_what_cannot_be_converted(self):
        _, file = self.trained("damaged", MLP)
        good = file.read_bytes()
        for change, words in {
                "cut": (good[:-100], ["is cut short"]), "bits": (good[:-9] + bytes([good[-9] ^ 1]) + good[-8:], ["is damaged", "CRC-32C"]),
                "header": (good[:40] + bytes([good[40] ^ 1]) + good[41:], ["is damaged", "the header"]),
                "foreign": (b"PK\3\4" + bytes(100), ["is no checkpoint of d5"]), "empty": (b"", ["is cut short"])}.items():
            other = self.folder / f"{change}.d5c"
            other.write_bytes(words[0])
            for output in ["x.onnx", "x.npz"]:
                result = self.d5("model", "export", other.name, "-o", output)
                self.assertEqual(result.returncode, 1, change)
                for word in [other.name, *words[1]]:
                    self.assertIn(word, result.stderr)
                self.assertFalse((self.folder / output).exists())
        for words, said in [(["none.d5c", "-o", "x.onnx"], "none.d5c cannot be read"), ([str(file), "-o", "x.txt"], "end in .onnx or .npz"),
                            ([str(file), "-o", "x.onnx", "--fold"], "is a checkpoint"), ([str(file)], "-o FILE is missing")]:
            result = self.d5("model", "export", *words)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(said, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
