#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files from which fuzzing of containers, pictures and old networks starts, FOLDER/fuzz_NAME/*: as d5 writes them, and forms that it
reads but does not write. What this build of d5 cannot write is left out. Usage: make_seeds.py D5 FOLDER"""
import gzip
import io
import lzma
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib

d5, corpus = sys.argv[1], sys.argv[2]


def seed(target, name, data):
    folder = os.path.join(corpus, "fuzz_" + target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def written_by_d5(folder):
    for target, container, name, *options in (
            ("cifar", "cifar", "written"), ("lmdb", "lmdb", "written"), ("npy", "npz", "written"), ("raw", "raw", "written"),
            ("tar", "tar", "written"), ("tfrecord", "tfrecord", "written"), ("csv", "csv", "written"),
            ("hdf5", "hdf5", "written"), ("hdf5", "hdf5", "packed", "--to-option", "chunk=1", "--to-option", "gzip=1")):
        path = os.path.join(folder, container)
        command = [d5, "data", "convert", "generated-images", path, "--to", container, "--first", "2", *options]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0:
            with open(path, "rb") as file:
                seed(target, name, file.read())
    subprocess.run([d5, "data", "info", os.path.join(folder, "tar"), "--container", "tar"], stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "tar.d5index"), "rb") as file:
        seed("index", "made", file.read())
    for kind in ("jpeg", "png", "raw"):
        path = os.path.join(folder, "pictures-" + kind)
        command = [d5, "data", "convert", "generated-images", path, "--to", "folder", "--first", "1", "--to-option",
                   "format=" + kind]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0:
            for parent, _, files in os.walk(path):
                for name in files:
                    with open(os.path.join(parent, name), "rb") as file:
                        seed("picture", kind, file.read())


def array(descr, shape, data):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def zipped(compression):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", compression) as file:
        file.writestr("image.npy", array("|u1", "(2, 3, 2, 2)", bytes(range(24))))
        file.writestr("label.npy", array("<i8", "(2,)", struct.pack("<2q", 1, 0)))
    return whole.getvalue()


def tarred(form):
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=form) as file:
        for name, data in (("a" * 120 + ".ppm", b"P6 2 1 255\n" + bytes(6)), ("a" * 120 + ".cls", b"3")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
        for name, kind, link in (("d/b.ppm", tarfile.SYMTYPE, "../" + "a" * 120 + ".ppm"), ("c.ppm", tarfile.LNKTYPE, "a" * 120 + ".ppm"),
                                 ("e", tarfile.SYMTYPE, "d"), ("f.ppm", tarfile.SYMTYPE, "e/../d/b.ppm"), ("g.ppm", tarfile.SYMTYPE, "g.ppm")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            file.addfile(member)
    return whole.getvalue()


def palette():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 2, 8, 3, 0, 0, 0)) + \
        chunk(b"PLTE", bytes(range(12))) + chunk(b"IDAT", zlib.compress(bytes([0, 0, 1, 2, 3, 0, 3, 2, 1, 0]))) + \
        chunk(b"IEND", b"")


def field(number, data):
    if isinstance(data, int):
        return bytes([number << 3, data])
    size = len(data)
    return bytes([number << 3 | 2] + ([size] if size < 128 else [size & 127 | 128, size >> 7])) + data


def node(op, inputs, outputs, **attributes):
    whole = b"".join(field(1, name.encode()) for name in inputs) + b"".join(field(2, name.encode()) for name in outputs)
    whole += field(4, op.encode())
    for name, value in attributes.items():
        if isinstance(value, int):
            what = field(3, value) + b"\xa0\x01\x02"
        elif isinstance(value, float):
            what = b"\x15" + struct.pack("<f", value) + b"\xa0\x01\x01"
        elif isinstance(value[0], float):
            what = field(7, struct.pack("<%df" % len(value), *value)) + b"\xa0\x01\x06"
        else:
            what = b"".join(field(8, one) for one in value) + b"\xa0\x01\x07"
        whole += field(5, field(1, name.encode()) + what)
    return field(1, whole)


def network(opset, *nodes):
    size = b"".join(field(1, field(1, axis)) for axis in (1, 2, 4, 4))
    x = field(11, field(1, b"x") + field(2, field(1, field(1, 1) + field(2, size))))
    return field(1, 8) + field(7, b"".join(nodes) + x + field(12, field(1, b"y"))) + field(8, field(2, opset))


# Operators whose old forms are translated: a network of each age, and nodes without any input.
def old_networks():
    seed("onnx", "opset_6", network(
        6, node("Add", ["x", "x"], ["a"], broadcast=1, axis=0), node("Clip", ["a"], ["b"], min=0.0, max=6.0),
        node("Dropout", ["b"], ["c", "m"], ratio=0.5, is_test=1), node("Pad", ["c"], ["d"], pads=[0] * 8, value=1.0),
        node("PRelu", ["d", "x"], ["e"]), node("Softmax", ["e"], ["y"], axis=1)))
    seed("onnx", "opset_9", network(
        9, node("Upsample", ["x", "s"], ["y"]), node("Constant", [], ["s"], value_floats=[1.0, 1.0, 2.0, 2.0])))
    seed("onnx", "opset_10", network(
        10, node("TopK", ["x", "k"], ["v", "i"]), node("Shape", ["x"], ["k"]), node("Resize", ["v", "v"], ["w"]),
        node("Slice", ["w", "k", "k"], ["y"])))
    seed("onnx", "opset_12", network(
        12, node("Squeeze", ["x"], ["a"], axes=[0]), node("ReduceSum", ["a"], ["b"], axes=[1], keepdims=0),
        node("Split", ["b"], ["c", "d"], axis=1), node("Unsqueeze", ["c"], ["e"], axes=[0]),
        node("Hardmax", ["e"], ["y"])))
    for op, opset in (("Dropout", 6), ("PRelu", 6), ("Upsample", 9), ("Resize", 10), ("Softmax", 11), ("Hardmax", 12),
                      ("GroupNormalization", 18)):
        seed("onnx", "no_inputs_" + op, network(opset, node(op, [], ["y"])))


with tempfile.TemporaryDirectory() as folder:
    written_by_d5(folder)
old_networks()
bytes_2x2x3 = struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 3) + bytes(range(12))
seed("idx", "bytes", bytes_2x2x3)
seed("idx", "floats", struct.pack(">4BI2f", 0, 0, 13, 1, 2, 0.5, -1.0))
seed("idx", "packed", gzip.compress(bytes_2x2x3, mtime=0))
seed("csv", "packed", gzip.compress(b"1,2\n3,4\n", mtime=0))
seed("npy", "big_endian", array(">f4", "(2, 2)", struct.pack(">4f", 1, 2, 3, 4)))
seed("npy", "rows", array("<i4", "(3, 2)", struct.pack("<6i", *range(6))))
seed("npy", "stored", zipped(zipfile.ZIP_STORED))
seed("npy", "packed", zipped(zipfile.ZIP_DEFLATED))
seed("tar", "gnu", tarred(tarfile.GNU_FORMAT))
seed("tar", "pax", tarred(tarfile.PAX_FORMAT))
seed("picture", "palette", palette())
seed("packed", "gz", gzip.compress(tarred(tarfile.GNU_FORMAT), mtime=0))
seed("packed", "xz", lzma.compress(tarred(tarfile.PAX_FORMAT)))
