# SPDX-License-Identifier: Apache-2.0
"""Makes the small files of this folder with other programs than ours: NumPy, Pillow, h5py, lmdb, protobuf, tarfile.

  make.py FOLDER
"""

import io
import pathlib
import struct
import sys
import tarfile

import h5py
import lmdb
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from PIL import Image

folder = pathlib.Path(sys.argv[1])

# ---- NumPy
np.save(folder / "rows.npy", np.arange(24, dtype=np.float32).reshape(4, 2, 3) / 8)
np.save(folder / "big_endian.npy", np.array([[1, -2], [300, 40000]], dtype=">i4"))
np.save(folder / "fortran.npy", np.asfortranarray(np.arange(6.0).reshape(2, 3)))
x = np.arange(60, dtype=np.int16).reshape(5, 3, 4) - 30
np.savez(folder / "stored.npz", x=x, y=np.array([3, 1, 4, 1, 5], dtype=np.int32))
np.savez_compressed(folder / "packed.npz", x=x, y=np.array([3, 1, 4, 1, 5], dtype=np.int32))

# ---- pictures: a gradient with a coloured square
y, z = np.mgrid[0:37, 0:53]
picture = np.stack([y * 6, z * 4, (y + z) * 2], axis=-1).astype(np.uint8)
picture[10:20, 10:30] = (200, 30, 60)
Image.fromarray(picture).save(folder / "plain.png")
Image.fromarray(picture).save(folder / "photo.jpg", quality=90)
Image.fromarray(picture).save(folder / "progressive.jpg", quality=80, progressive=True)
Image.fromarray(picture).convert("L").save(folder / "grey.jpg", quality=90)
Image.fromarray(picture).convert("CMYK").save(folder / "inks.jpg", quality=95)
Image.fromarray(picture).convert("P", palette=Image.Palette.ADAPTIVE, colors=16).save(folder / "palette.png")
rgba = np.dstack([picture, np.full(picture.shape[:2], 128, np.uint8)])
Image.fromarray(rgba).save(folder / "transparent.png")
Image.fromarray((y.astype(np.uint16) * 1000 + z.astype(np.uint16))).save(folder / "deep.png")
Image.fromarray(picture).save(folder / "pixels.ppm")

# ---- tar, as WebDataset names its members; one name longer than 100 characters, in both ways to store it
for name, format in [("gnu.tar", tarfile.GNU_FORMAT), ("pax.tar", tarfile.PAX_FORMAT)]:
    with tarfile.open(folder / name, "w", format=format) as archive:
        for key, label in [("first", 2), ("deep/" * 25 + "second", 0)]:
            for ending, contents in [("ppm", (folder / "pixels.ppm").read_bytes()), ("cls", str(label).encode())]:
                member = tarfile.TarInfo(f"{key}.{ending}")
                member.size = len(contents)
                archive.addfile(member, io.BytesIO(contents))
with tarfile.open(folder / "hostile.tar", "w") as archive:
    for name in ["good.bin", "../../outside.bin"]:
        member = tarfile.TarInfo(name)
        member.size = 3
        archive.addfile(member, io.BytesIO(b"abc"))
# Links: to members, over each other, through a linked folder; then such as lead nowhere.
links = {"a/2.ppm": "1.ppm", "b/3.ppm": "../a/2.ppm", "shown": "a", "b/4.ppm": "../shown/1.ppm", "b/4.cls": "../shown/./1.cls",
         "b/5.ppm": "../" + "long/" * 25 + "5.ppm", "c/1.ppm": "../../outside.ppm", "c/2.ppm": "/etc/hostname", "c/3.ppm": "4.ppm",
         "c/4.ppm": "3.ppm", "c/5.ppm": "none.ppm", "c/6.ppm": "../a/1.ppm/../1.ppm"}
for name, format in [("links_gnu.tar", tarfile.GNU_FORMAT), ("links_pax.tar", tarfile.PAX_FORMAT)]:
    with tarfile.open(folder / name, "w", format=format) as archive:
        for name, contents in [("a/1.ppm", b"first"), ("a/1.cls", b"1"), ("long/" * 25 + "5.ppm", b"far")]:
            member = tarfile.TarInfo(name)
            member.size = len(contents)
            archive.addfile(member, io.BytesIO(contents))
        for kind, members in [(tarfile.SYMTYPE, links), (tarfile.LNKTYPE, {"d/7.ppm": "a/1.ppm", "d/8.ppm": "b/3.ppm", "d/9.ppm": "none.ppm"})]:
            for name, target in members.items():
                member = tarfile.TarInfo(name)
                member.type, member.linkname, member.size = kind, target, 5
                archive.addfile(member)

# ---- TFRecord: tf.train.Example from its published definition; CRC-32C bit by bit
proto = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")


def message(name, *fields):
    described = proto.message_type.add(name=name)
    for number, (field, kind, label, type_name) in enumerate(fields, 1):
        described.field.add(name=field, number=number, type=kind, label=label, type_name=type_name)
    return described


F = descriptor_pb2.FieldDescriptorProto
one, many = F.LABEL_OPTIONAL, F.LABEL_REPEATED
message("BytesList", ("value", F.TYPE_BYTES, many, None))
message("FloatList", ("value", F.TYPE_FLOAT, many, None))
message("Int64List", ("value", F.TYPE_INT64, many, None))
message("Feature", ("bytes_list", F.TYPE_MESSAGE, one, ".t.BytesList"), ("float_list", F.TYPE_MESSAGE, one, ".t.FloatList"),
        ("int64_list", F.TYPE_MESSAGE, one, ".t.Int64List"))
features = message("Features", ("feature", F.TYPE_MESSAGE, many, ".t.Features.FeatureEntry"))
entry = features.nested_type.add(name="FeatureEntry")
entry.options.map_entry = True
entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=one)
entry.field.add(name="value", number=2, type=F.TYPE_MESSAGE, label=one, type_name=".t.Feature")
message("Example", ("features", F.TYPE_MESSAGE, one, ".t.Features"))
pool = descriptor_pool.DescriptorPool()
pool.Add(proto)
Example = message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


with open(folder / "examples.tfrecord", "wb") as file:
    for label in [1, 1000]:
        example = Example()
        feature = example.features.feature
        feature["image/encoded"].bytes_list.value.append((folder / "photo.jpg").read_bytes())
        feature["image/class/label"].int64_list.value.append(label)
        feature["image/object/bbox"].float_list.value.extend([0.25, 0.5, label])
        data = example.SerializeToString()
        length = struct.pack("<Q", len(data))
        file.write(length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data)))

# ---- HDF5: in one piece, in packed chunks, big-endian
with h5py.File(folder / "arrays.h5", "w") as file:
    file["x"] = x
    file.create_dataset("packed", data=np.linspace(0, 1, 20).reshape(5, 4), chunks=(2, 4), compression="gzip")
    file.create_dataset("big", data=np.arange(5, dtype=">f4"))
    file["label"] = np.array([3, 1, 4, 1, 5], dtype=np.int32)
    file["text"] = "no numbers"

# ---- LMDB with Caffe's Datum, written by hand: channels 1, height 2, width 3, data 4, label 5
environment = lmdb.open(str(folder / "datum.lmdb"), subdir=False, map_size=1 << 20, lock=False)
with environment.begin(write=True) as transaction:
    for i in range(3):
        pixels = bytes(range(i, i + 12))
        datum = bytes([8, 3, 16, 2, 24, 2, 34, 12]) + pixels + bytes([40, 7 - i])
        transaction.put(b"%08d" % i, datum)
environment.close()
