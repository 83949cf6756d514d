# SPDX-License-Identifier: Apache-2.0
"""Libraries that stand in for those of CUDA. PyTorch's wheel does not load without cuBLAS, cuDNN, NCCL and others,
gigabytes that a test on the CPU never calls; so those that are missing become libraries of the same names whose
functions end the process."""
import os
import re
import subprocess


def output(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


def make(torch_libraries, folder):
    """Puts a library into `folder` for each that the loader does not find. Returns their names."""
    users = [os.path.join(torch_libraries, "libtorch_%s.so" % part) for part in ("python", "cuda", "nvshmem")]
    users = [user for user in users if os.path.exists(user)]
    missing = sorted(set(re.findall(r"(\S+) => not found", "".join(output("ldd", user) for user in users))))
    if not missing:
        return missing
    owners = {}  # a version of symbols: the library that has it
    for user in users:
        for block in output("readelf", "-VW", user).split("File: ")[1:]:
            owners.update({version: block.split()[0] for version in re.findall(r"Name: (\S+)", block)})
    symbols = set(re.findall(r" U (\w+)(?:@+(\S+))?", "".join(output("nm", "-D", user) for user in users)))
    cuda = re.compile("cublas|cudnn|cufft|cusparse|nccl|nvrtc|cuFile|nvshmem")  # where there is no version
    for name in missing:
        versions = {}
        for symbol, version in symbols:
            if owners.get(version) == name if version else cuda.match(symbol):
                versions.setdefault(version, []).append(symbol)
        source, script = os.path.join(folder, "stand_in.c"), os.path.join(folder, "stand_in.map")
        with open(source, "w") as file:
            for symbol in sum(versions.values(), []):
                file.write("void %s(void) { __builtin_trap(); }\n" % symbol)
        with open(script, "w") as file:
            for version, members in versions.items():
                file.write("%s { global: %s; };\n" % (version, "; ".join(members)) if version else "")
        named = ["-Wl,--version-script," + script] if any(versions) else []
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-fno-builtin", "-Wl,-soname," + name, *named, source,
                        "-o", os.path.join(folder, name)], check=True)
    return missing
