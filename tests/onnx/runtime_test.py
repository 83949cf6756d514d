#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime opens every file that d5 writes, and computes with it what it computes with the original.

  runtime_test.py D5 SOURCE_FOLDER        77: onnxruntime or numpy is not here (D5_PYTHON names another Python)

Files: those of tests/unit/graph/data and of D5_DATA/onnx-models, exported as they were read, in the newest words, and folded.
Tolerances: both sides are the same arithmetic but for the order of sums, in f32. Built-in networks, exported in both forms, are opened and
run: finite numbers of the shapes that d5 says come out.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

python = os.environ.get("D5_PYTHON")
if python and os.path.abspath(python) != sys.executable and "D5_NESTED" not in os.environ:
    sys.exit(subprocess.call([python, *sys.argv], env={**os.environ, "D5_NESTED": "1"}))
# The wheel that scripts/dependencies.sh fetched, after whatever this Python has itself.
sys.path += map(str, Path(sys.argv[1]).resolve().parents[1].glob("dependencies/lib/python3*/site-packages"))
try:
    import numpy as np
    import onnxruntime
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

D5, SOURCE = sys.argv[1], Path(sys.argv[2]).resolve()
# Small ones; every kind of layer is there.
BUILT_IN = {
    "mlp": "--features 7 --width 5 --classes 3",
    "lenet": "--classes 3 --size 16",
    "resnet-20": "--classes 3 --size 8 --width 2",
    "mobilenet-v2": "--classes 3 --size 32 --width 0.1",
    "inception-v3": "--classes 3 --size 75 --divide 16",
    "densenet-121": "--classes 3 --size 32 --growth 2",
    "unet": "--size 16 --width 2 --depth 2",
    "dcgan-generator": "--size 16 --width 2 --depth 2",
    "cosmoflow": "--size 104 --width 1 --hidden 8",
    "lstm-lm": "--vocabulary 11 --length 5 --width 8",
    "transformer-encoder": "--layers 2 --width 8 --heads 2 --hidden 16 --length 5 --vocabulary 11 --positions 7",
    "transformer-decoder": "--layers 2 --width 8 --heads 2 --length 5 --vocabulary 11 --positions 7",
    "vit": "--size 32 --layers 1 --width 8 --heads 2 --hidden 16 --classes 3",
}
# This library is built for inference: it opens a BatchNormalization that learns, but has no kernel for it.
NO_TRAINING_KERNEL = "BatchNormalization"
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
         "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}


NUMBERED = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_, 11: np.float64}


def varint(data, at):
    """The whole number that begins at this byte, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def varints(data):
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        yield value


def fields(data):
    """Of a protobuf message: number and value, which is a whole number or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            length, at = (8, at) if key & 7 == 1 else (4, at) if key & 7 == 5 else varint(data, at)
            value, at = data[at : at + length], at + length
        yield key >> 3, value


def stored_tensor(path):
    """A TensorProto whose elements are raw bytes, or None for another."""
    dims, kind, raw = [], None, None
    for number, value in fields(path.read_bytes()):
        if number == 1:
            dims += [value] if isinstance(value, int) else varints(value)
        elif number == 2:
            kind = NUMBERED.get(value)
        elif number == 9:
            raw = value
    return None if kind is None or raw is None else np.frombuffer(raw, kind).reshape(dims)


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # it changes what quantised networks round
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def inputs_of(network, stored):
    """The stored inputs where there are some, else random ones with free sizes of 1."""
    random = np.random.default_rng(1)
    values = {}
    for i, one in enumerate(network.get_inputs()):
        file = stored / f"input_{i}.pb" if stored else None
        if file and file.exists() and (kept := stored_tensor(file)) is not None:
            values[one.name] = kept
            continue
        shape = [size if isinstance(size, int) else 1 for size in one.shape]
        kind = TYPES[one.type]
        if kind in (np.float32, np.float64):
            values[one.name] = random.standard_normal(shape).astype(kind)
        else:
            values[one.name] = random.integers(0, 2, shape).astype(kind)
    return values


def check(path, folder):
    try:
        original = session(path)
    except Exception as error:  # what the runtime cannot run in the original is no fault of ours
        return f"not run by onnxruntime itself: {str(error).splitlines()[0][:100]}"
    given = inputs_of(original, path.parent / "test_data_set_0")
    wanted = original.run(None, given)
    for name, flags in {"as-read": ["--as-read"], "modern": [], "folded": ["--fold"]}.items():
        made = folder / f"{path.stem}-{name}.onnx"
        subprocess.run([D5, "model", "export", str(path), "-o", str(made), *flags], check=True, capture_output=True)
        again = session(made)
        if [one.name for one in again.get_inputs()] != [one.name for one in original.get_inputs()]:
            raise AssertionError(f"{made.name}: other inputs")
        for a, b in zip(wanted, again.run(None, given)):
            if isinstance(a, np.ndarray) and a.dtype.kind in "fiub":
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=made.name)
    return "as read, modern and folded agree"


def check_built_in(name, training, folder):
    made = folder / f"{name}{'-training' if training else ''}.onnx"
    words = [D5, "model", "export", name, *BUILT_IN[name].split(), "-o", str(made), *(["--training"] if training else [])]
    subprocess.run(words, check=True, capture_output=True)
    opened = session(made)
    for one, value in zip(opened.get_outputs(), opened.run(None, inputs_of(opened, None))):
        shape = [size if isinstance(size, int) else 1 for size in one.shape]
        if list(value.shape) != shape or not np.isfinite(value).all():
            raise AssertionError(f"{made.name}: output {one.name} is {value.shape}, {shape} was written")
    return "opened and run"


networks = sorted((SOURCE / "tests/unit/graph/data").glob("*.onnx"))
for data in (os.environ.get("D5_DATA"), SOURCE.parent / "shared/data"):
    if data and Path(data, "onnx-models").is_dir():
        networks += sorted(Path(data, "onnx-models").glob("*/*.onnx"))
        break
failures = checks = 0


def attempt(name, check_one, *arguments):
    global checks, failures
    checks += 1
    try:
        print(f"ok     {name}: {check_one(*arguments)}", flush=True)
    except Exception as error:
        text = str(getattr(error, "stderr", b"") or error)
        if NO_TRAINING_KERNEL in text and "raining" in text:
            print(f"ok     {name}: opened; {NO_TRAINING_KERNEL} does not learn in this build", flush=True)
            return
        failures += 1
        print(f"FAILED {name}: {text}", flush=True)


with tempfile.TemporaryDirectory() as folder:
    for network in networks:
        attempt(network.relative_to(network.parents[1]), check, network, Path(folder))
    for name in BUILT_IN:
        for training in (False, True):
            attempt(name + (" in training" if training else ""), check_built_in, name, training, Path(folder))
print(f"{checks - failures} passed, {failures} failed")
sys.exit(1 if failures else 0)
