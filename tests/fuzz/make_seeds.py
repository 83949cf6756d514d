#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files from which fuzzing of containers and pictures starts, FOLDER/fuzz_NAME/*: as d5 writes them, and forms that it
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
    return whole.getvalue()


def palette():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 2, 8, 3, 0, 0, 0)) + \
        chunk(b"PLTE", bytes(range(12))) + chunk(b"IDAT", zlib.compress(bytes([0, 0, 1, 2, 3, 0, 3, 2, 1, 0]))) + \
        chunk(b"IEND", b"")


with tempfile.TemporaryDirectory() as folder:
    written_by_d5(folder)
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
