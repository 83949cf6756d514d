# SPDX-License-Identifier: Apache-2.0
"""A worker that adds two tensors of f32 and their gradients, well or as badly as its name says; or, rounding each sum,
several of bf16."""
import array
import os
import signal
import struct
import sys
import threading
import time

import d5_worker

DOES = sys.argv[1][len("fake-"):]
if DOES == "exit":
    print("the license has expired", flush=True)
    sys.exit(3)


def spin():
    while True:
        pass


def bf16(value):  # to the nearest, ties to even; as bits
    bits, = struct.unpack("I", struct.pack("f", value))
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16


def widened(bits):
    return struct.unpack("f", struct.pack("I", bits << 16))[0]


class Rounded(d5_worker.Case):
    def __init__(self, fields):
        self.shape = fields["outputs"][0]["shape"]
        self.details = {"narrow_arithmetic": "every sum is stored in bf16"} if DOES == "narrow" else {}

    def load(self, tensors):
        self.inputs = [array.array("H", bytes(tensors[name].data)) for name in sorted(tensors)]
        self.step()

    def step(self):
        self.sums = self.inputs[0]
        for other in self.inputs[1:]:
            self.sums = array.array("H", (bf16(widened(x) + widened(y)) for x, y in zip(self.sums, other)))

    def fetch(self, name):
        return d5_worker.Tensor("bf16", self.shape, self.sums)


class Sum(d5_worker.Case):
    def __init__(self, fields):
        if fields["operator"] != "Add" or DOES == "unsupported":
            raise d5_worker.Unsupported("only sums, and none today")
        if DOES == "hang":
            time.sleep(3600)
        if DOES == "busy":
            threading.Thread(target=spin, daemon=True).start()
        self.shape, self.backward, self.runs = fields["outputs"][0]["shape"], fields["pass"] == "backward", 0
        self.details = {"kernels": {"Add": "a loop"}, "pid": os.getpid()}

    def load(self, tensors):
        if DOES == "raises":
            raise ValueError("no such luck")
        floats = {name: array.array("f", bytes(tensor.data)) for name, tensor in tensors.items()}
        self.a, self.b, self.gradient = floats["x0"], floats["x1"], floats.get("gradient y0")
        self.step()

    def step(self):
        self.runs += 1
        if self.backward:
            self.results = {"gradient x0": self.gradient, "gradient x1": self.gradient}
        else:
            self.results = {"y0": array.array("f", (x + y for x, y in zip(self.a, self.b)))}
        if DOES == "wrong" or (DOES == "late" and self.runs > 10):
            self.results["y0"][3] += 0.5

    def run(self, *arguments):
        if DOES == "crash":
            print("something is rotten", flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        if DOES == "garbage":
            os.write(int(os.environ["D5_WORKER_FD"]), b"Warning: this is deprecated\n")
        hoard = []
        while DOES == "memory":
            hoard.append(bytearray(b"x" * 10000000))
            time.sleep(0.005)
        seconds, starts = super().run(*arguments)
        return ([-1.0] * len(seconds) if DOES == "times" else seconds), starts

    def fetch(self, name):
        data, shape = self.results[name], list(self.shape)
        if DOES == "shape":
            shape.reverse()
        if DOES == "short":
            data = data[1:]
        if DOES == "dtype":
            return d5_worker.Tensor("f64", shape, array.array("d", data))
        return d5_worker.Tensor("f32", shape, data)


d5_worker.serve(Rounded if DOES in ("narrow", "silent") else Sum, "1.0", {"library": "plain Python"},
                "there is no sun" if DOES == "unavailable" else "")
