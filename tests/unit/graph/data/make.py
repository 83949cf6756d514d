# SPDX-License-Identifier: Apache-2.0
"""Makes the networks of this folder with the package onnx, so that what the tests read was written by somebody else.

  python3 make.py        writes *.onnx beside itself; the files are part of the tree, so nobody needs to run it
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
F, I64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def model(graph, opset, ir, **more):
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir, **more)
    return made


def save(name, made):
    (HERE / f"{name}.onnx").write_bytes(made.SerializeToString(deterministic=True))


def perceptron():
    """IR version 3: initialisers are inputs. Typed data, comments, metadata, a named size, value_info, also of a value that a tool
    removed."""
    w = helper.make_tensor("w", F, [3, 2], [0.5, -1.0, 2.0, 0.25, -0.5, 1.0])
    b = numpy_helper.from_array(np.array([0.1, -0.2], np.float32), "b")
    w.doc_string = "weights"
    gemm = helper.make_node("Gemm", ["x", "w", "b"], ["h"], "dense", transB=0, alpha=1.0, doc_string="a layer")
    relu = helper.make_node("Relu", ["h"], ["y"], "act")
    graph = helper.make_graph(
        [gemm, relu], "perceptron",
        [info("x", F, ["N", 3]), info("w", F, [3, 2]), info("b", F, [2])], [info("y", F, ["N", 2])], [w, b],
        doc_string="one layer", value_info=[info("gone", F, ["N", 7]), info("h", F, ["N", 2])])
    made = model(graph, 9, 3, producer_name="make.py", doc_string="a network")
    helper.set_model_props(made, {"author": "somebody", "license": "none"})
    save("perceptron", made)


def branches():
    """If inside Loop: y = x doubled while the sum is below 100; captures a value of the graph around it."""
    add = helper.make_graph([helper.make_node("Add", ["v", "step"], ["a"])], "then", [], [info("a", F, [2])])
    double = helper.make_graph([helper.make_node("Add", ["v", "v"], ["d"])], "else", [], [info("d", F, [2])])
    body = helper.make_graph(
        [helper.make_node("ReduceSum", ["v"], ["s"], keepdims=0),
         helper.make_node("Less", ["s", "ten"], ["small"]),
         helper.make_node("If", ["small"], ["next"], then_branch=add, else_branch=double),
         helper.make_node("Less", ["s", "hundred"], ["again"]),
         helper.make_node("Identity", ["s"], ["trace"])],
        "body", [info("i", I64, []), info("c", B, []), info("v", F, [2])],
        [info("again", B, []), info("next", F, [2]), info("trace", F, [])],
        [numpy_helper.from_array(np.float32(10), "ten")])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["", "", "x"], ["y", "sums"], body=body)], "branches",
        [info("x", F, [2])], [info("y", F, [2]), info("sums", F, [None])],
        [numpy_helper.from_array(np.array([1, 2], np.float32), "step"),
         numpy_helper.from_array(np.float32(100), "hundred")])
    save("branches", model(graph, 13, 8))


def functions():
    """A function with an attribute and a default, called twice, and one that calls it."""
    scale = helper.make_function(
        "own", "Scale", ["X"], ["Y"],
        [helper.make_node("Constant", [], ["f"]), helper.make_node("Mul", ["X", "f"], ["Y"])],
        [helper.make_opsetid("", 18)], [], [helper.make_attribute("factor", 3.0)])
    reference = scale.node[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "value_float", "factor", onnx.AttributeProto.FLOAT
    twice = helper.make_function(
        "own", "Twice", ["A"], ["B"],
        [helper.make_node("Scale", ["A"], ["t"], domain="own"), helper.make_node("Scale", ["t"], ["B"], domain="own", factor=0.5)],
        [helper.make_opsetid("own", 1)])
    graph = helper.make_graph(
        [helper.make_node("Twice", ["x"], ["u"], "first", domain="own"),
         helper.make_node("Scale", ["u"], ["y"], "second", domain="own", factor=10.0)],
        "functions", [info("x", F, [2])], [info("y", F, [2])])
    made = helper.make_model(graph, functions=[scale, twice], ir_version=9,
                             opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("own", 1)])
    save("functions", made)


def types():
    """Every element type, as raw bytes and as typed lists, and a sparse tensor."""
    names = ["FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "BOOL", "FLOAT16", "DOUBLE", "UINT32",
             "UINT64", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "UINT4", "INT4", "FLOAT4E2M1", "UINT2", "FLOAT6E2M3",
             "FLOAT6E3M2"]
    tensors, outputs, nodes = [], [], []
    for name in names:
        kind = getattr(TensorProto, name)
        values = [1, 0, 1] if name == "BOOL" else [1, 2, 3]
        for form, raw in (("typed", False), ("raw", True)):
            dtype = helper.tensor_dtype_to_np_dtype(kind)
            if raw:
                tensor = numpy_helper.from_array(np.array(values).astype(dtype), f"{name}_{form}")
            else:
                tensor = helper.make_tensor(f"{name}_{form}", kind, [3], values)
            tensors.append(tensor)
            nodes.append(helper.make_node("Identity", [tensor.name], [tensor.name + "_out"]))
            outputs.append(info(tensor.name + "_out", kind, [3]))
    tensors.append(helper.make_tensor("STRING_typed", TensorProto.STRING, [2], [b"one", b"two"]))
    nodes.append(helper.make_node("Identity", ["STRING_typed"], ["STRING_out"]))
    outputs.append(info("STRING_out", TensorProto.STRING, [2]))
    sparse = helper.make_sparse_tensor(helper.make_tensor("sparse", F, [2], [5.0, 7.0]),
                                       helper.make_tensor("at", I64, [2], [1, 4]), [2, 3])
    nodes.append(helper.make_node("Identity", ["sparse"], ["sparse_out"]))
    outputs.append(info("sparse_out", F, [2, 3]))
    graph = helper.make_graph(nodes, "types", [], outputs, tensors, sparse_initializer=[sparse])
    save("types", model(graph, 28, 14))


def external():
    """A tensor in another file, after 8 bytes of something else."""
    (HERE / "external.bin").write_bytes(b"not ours" + np.array([1, 2, 3, 4], np.float32).tobytes())
    w = TensorProto(name="w", data_type=F, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "external.bin"), ("offset", "8"), ("length", "16")):
        w.external_data.add(key=key, value=value)
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "external", [info("x", F, [4])],
                              [info("y", F, [4])], [w])
    save("external", model(graph, 18, 8))


perceptron()
branches()
external()
functions()
types()
