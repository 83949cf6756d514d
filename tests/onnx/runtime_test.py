#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime opens every file that d5 writes, and computes with it what it computes with the original.

  runtime_test.py D5 SOURCE_FOLDER        77: onnxruntime or onnx is not here (D5_PYTHON names another Python)

Networks: those of tests/unit/graph/data and of D5_DATA/onnx-models. Each is exported as it was read, in the newest words,
and folded. Tolerances: both sides are the same arithmetic but for the order of sums, in f32.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

python = os.environ.get("D5_PYTHON")
if python and Path(python).resolve() != Path(sys.executable).resolve() and "D5_NESTED" not in os.environ:
    sys.exit(subprocess.call([python, *sys.argv], env={**os.environ, "D5_NESTED": "1"}))
try:
    import numpy as np
    import onnx
    import onnx.numpy_helper
    import onnxruntime
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

D5, SOURCE = sys.argv[1], Path(sys.argv[2])
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
         "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def inputs_of(network, stored):
    """The stored inputs where there are some, else random ones with free sizes of 1."""
    random = np.random.default_rng(1)
    values = {}
    for i, one in enumerate(network.get_inputs()):
        if (stored / f"input_{i}.pb").exists():
            values[one.name] = onnx.numpy_helper.to_array(onnx.load_tensor(stored / f"input_{i}.pb"))
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


networks = sorted((SOURCE / "tests/unit/graph/data").glob("*.onnx"))
data = os.environ.get("D5_DATA")
if data:
    networks += sorted(Path(data, "onnx-models").glob("*/*.onnx"))
failures = 0
with tempfile.TemporaryDirectory() as folder:
    for network in networks:
        name = network.relative_to(network.parents[1])
        try:
            print(f"ok     {name}: {check(network, Path(folder))}", flush=True)
        except (AssertionError, subprocess.CalledProcessError, Exception) as error:
            failures += 1
            print(f"FAILED {name}: {getattr(error, 'stderr', b'') or error}", flush=True)
print(f"{len(networks) - failures} passed, {failures} failed")
sys.exit(1 if failures else 0)
