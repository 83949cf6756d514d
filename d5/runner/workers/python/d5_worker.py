# SPDX-License-Identifier: Apache-2.0
"""The protocol of docs/protocol.md for workers in Python (3.6 and later). A worker is a class of cases and one call:

    class Sum(d5_worker.Case):
        def __init__(self, fields): ...        # raises Unsupported(reason) for what it cannot do
        def load(self, tensors): ...           # the inputs, by name; computes the results once
        def step(self): ...                    # what is timed; leaves the results for fetch
        def fetch(self, name): ...             # a Tensor
    d5_worker.serve(Sum, version="1.0", facts={"library": "..."})
"""
import itertools
import json
import os
import socket
import sys
import time
from collections import namedtuple

del sys.path[0]  # the worker's own folder: one that is named after its framework (jax.py) must not hide it

Tensor = namedtuple("Tensor", "dtype shape data")  # "f32", [2, 3], row-major bytes (anything with the buffer protocol)


class Unsupported(Exception):
    """The case cannot be done; the reason is its text."""


class Case:
    # {"kernels": {"Gemm": "addmm"}, "narrow_arithmetic": "it adds in bf16", ...}; read after prepare and after load
    details = {}

    def mark(self):  # on a device: an event
        return time.perf_counter()

    def seconds(self, begin, end):  # between two marks, once synchronised
        return end - begin

    def synchronize(self):
        pass

    def flush(self, bytes_to_walk):  # writes one half of a buffer into the other
        if len(getattr(self, "walked", ())) != bytes_to_walk // 2 * 2:
            self.walked = memoryview(bytearray(bytes_to_walk // 2 * 2))
        self.walked[: bytes_to_walk // 2] = self.walked[bytes_to_walk // 2:]

    def run(self, samples, batch, rewarm, flush_bytes):
        step = self.step
        for _ in itertools.repeat(None, rewarm):
            step()
        self.synchronize()
        starts, marks = [], []
        for _ in range(samples):
            if flush_bytes:
                self.flush(flush_bytes)
            starts.append(time.monotonic())
            begin = self.mark()
            for _ in itertools.repeat(None, batch):
                step()
            marks.append((begin, self.mark()))
        self.synchronize()
        return [self.seconds(begin, end) / batch for begin, end in marks], starts


def refuse_beyond(framework, fields, legal, dtypes):
    """Unsupported where a field of the case, or the type of a tensor, is not among the legal ones."""
    for name, values in legal.items():
        if fields[name] not in values:
            raise Unsupported("the %s worker has no %s %s" % (framework, name, fields[name]))
    for tensor in filter(None, fields["inputs"] + fields["outputs"]):
        if tensor["dtype"] not in dtypes:
            raise Unsupported("the %s worker has no %s" % (framework, tensor["dtype"]))


def read_tensors(path):
    """The tensors of a file: one line of JSON that says where each lies, then their bytes."""
    tensors = {}
    with open(path, "rb") as file:
        header = json.loads(file.readline().decode())
        origin = file.tell()
        for row in header["tensors"]:
            data = bytearray(row["bytes"])
            file.seek(origin + row["offset"])
            file.readinto(data)
            tensors[row["name"]] = Tensor(row["dtype"], row["shape"], data)
    return tensors


def serve(make_case, version, facts, unavailable=""):
    """Answers requests until the parent closes. `unavailable` is the reason where it can do nothing here."""
    cases = {}
    connection = socket.socket(fileno=int(os.environ["D5_WORKER_FD"]))
    connection.set_inheritable(False)

    def say(word, **message):
        connection.sendall((json.dumps(dict(message, say=word)) + "\n").encode())

    def prepare(id, case, **_):
        cases.pop(id, None)
        try:
            cases[id] = make_case(case)
        except Unsupported as reason:
            return say("prepared", status="unsupported", reason=str(reason), details={})
        say("prepared", status="passed", reason="", details=cases[id].details)

    def load(id, file):
        cases[id].load(read_tensors(file))
        say("loaded", details=cases[id].details)

    def run(id, samples, batch, rewarm, flush_bytes):
        seconds, starts = cases[id].run(samples, batch, rewarm, flush_bytes)
        say("ran", seconds=seconds, start=starts, probe={})

    def fetch(id, tensor, file):
        result = cases[id].fetch(tensor)
        with open(file, "wb") as to:
            to.write(result.data)
        say("fetched", dtype=result.dtype, shape=list(result.shape))

    def finish(id):
        cases.pop(id, None)
        say("finished", status="passed", reason="", details={})

    def describe(**_):
        say("described", facts=facts)

    answers = dict(prepare=prepare, load=load, run=run, fetch=fetch, finish=finish, describe=describe)
    program = os.path.basename(sys.argv[0])
    say("hello", protocol=1, program=program, version=version, pid=os.getpid(), unavailable=unavailable)
    for line in connection.makefile("r", encoding="utf-8"):
        request = json.loads(line)
        what = request.pop("do")
        if what == "close":
            break
        if what == "cancel":
            continue
        try:
            answers[what](**request)
        except MemoryError:
            say("error", what="[%s] out of memory" % program)
        except Exception as error:  # belongs to its case; the worker lives on
            say("error", what="[%s] %s: %s" % (program, type(error).__name__, error))
    sys.stdout.flush()
    os._exit(0)  # frameworks take their time to leave
