# SPDX-License-Identifier: Apache-2.0
"""Makes the small suite in suite/ with the packages onnx, onnxruntime and numpy: networks with stored inputs and outputs, in the form of
ONNX's own suites. The files are part of the tree, so nobody needs to run it."""

import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent / "suite"
F, I64 = TensorProto.FLOAT, TensorProto.INT64


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def save(name, graph, opset, ir, values):
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    onnx.checker.check_model(model)
    folder = HERE / name / "test_data_set_0"
    folder.mkdir(parents=True, exist_ok=True)
    (HERE / name / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs = session.run(None, values)

    def message(value):
        if isinstance(value, list):
            return numpy_helper.from_list(value)
        return numpy_helper.from_array(np.asarray(value))

    for kind, all_values in (("input", values.values()), ("output", outputs)):
        for i, value in enumerate(all_values):
            (folder / f"{kind}_{i}.pb").write_bytes(message(value).SerializeToString(deterministic=True))


def convolution():
    """Conv, BatchNormalization, MaxPool and Softmax of opset 9, the weights also inputs, as IR version 3 wants it."""
    random = np.random.default_rng(3)
    tensors = {name: (0.2 * random.standard_normal(shape)).astype(np.float32)
               for name, shape in {"w": (4, 3, 3, 3), "scale": (4,), "bias": (4,), "mean": (4,), "fc": (64, 5)}.items()}
    tensors["variance"] = random.uniform(0.5, 2, 4).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
             helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "variance"], ["n"]),
             helper.make_node("Relu", ["n"], ["r"]),
             helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("Flatten", ["p"], ["f"]),
             helper.make_node("MatMul", ["f", "fc"], ["m"]),
             helper.make_node("Softmax", ["m"], ["y"])]
    inputs = [info("x", F, ["N", 3, 8, 8])] + [info(name, F, value.shape) for name, value in tensors.items()]
    graph = helper.make_graph(nodes, "convolution", inputs, [info("y", F, ["N", 5])],
                              [numpy_helper.from_array(value, name) for name, value in tensors.items()])
    save("convolution", graph, 9, 3, {"x": random.standard_normal((2, 3, 8, 8)).astype(np.float32)})


def selection():
    """Shapes that depend on values: the positive elements, and a sequence of rows."""
    nodes = [helper.make_node("Greater", ["x", "zero"], ["g"]),
             helper.make_node("Cast", ["g"], ["k"], to=I64),
             helper.make_node("NonZero", ["k"], ["at"]),
             helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0, keepdims=0)]
    rows = helper.make_value_info("rows", helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, [3])))
    graph = helper.make_graph(nodes, "selection", [info("x", F, [2, 3])], [info("at", I64, [2, None]), rows],
                              [numpy_helper.from_array(np.float32(0), "zero")])
    save("nested/selection", graph, 13, 8, {"x": np.array([[1, -2, 3], [-1, 0, 0.5]], np.float32)})


convolution()
selection()
