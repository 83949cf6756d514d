#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 train --scheme dsgd against PyTorch DDP and Horovod (both with gloo) on an emulated cluster.

    benchmarks/distributed/compare.py [--python PYTHON] [--peer ddp,horovod] [--nodes 2,4] [--networks resnet-20,resnet-50] [--rate 1gbit] [--rounds 6]

Root is needed: the nodes are network namespaces (d5 cluster), the same ones for all contenders; one rank of one thread on each.
resnet-20: batch 32 a rank, 32 x 32 pixels; resnet-50: 25 M parameters, batch 8 a rank, 64 x 64 pixels. A round runs every contender
once, in an order that turns from round to round; the figure of a run is the median time of its steps, input and loss included.
Where nodes outnumber cores, all contenders share them: that is said, and measures contention beside communication.
Horovod 0.28.1 builds against PyTorch 2.15 with CMAKE_CXX_STANDARD 20 in its CMake files, HOROVOD_WITH_PYTORCH=1 HOROVOD_WITH_GLOO=1
HOROVOD_WITHOUT_MPI=1 and pip's --no-build-isolation.

Printed: medians of samples/s, and the median of the rounds' ratios d5 / other with its 95 % interval by order statistics (six rounds
give the first one). Exit status 3 where d5 is slower by the median.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from median_interval import with_interval  # noqa: E402
CASES = {"resnet-20": (32, 32, 60, []), "resnet-50": (64, 8, 15, ["--size", "64"])}  # pixels, batch of a rank, steps, words of d5
NAME, PORT = "cmp", 29555


class Cluster:
    def __init__(self, d5, nodes, rate):
        self.d5, self.nodes, self.rate = d5, nodes, rate

    def __enter__(self):
        subprocess.run([self.d5, "cluster", "up", "--name", NAME, "--nodes", str(self.nodes), "--rate", self.rate, "--owner",
                        str(os.getpid())], check=True, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        subprocess.run([self.d5, "cluster", "down", "--name", NAME], check=False, stdout=subprocess.DEVNULL)

    def start(self, node, command, **more):
        return subprocess.Popen([self.d5, "cluster", "exec", "--name", NAME, "--node", str(node), "--", *map(str, command)],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def finished(processes, what):
    results = [(p, *p.communicate()) for p in processes]
    for process, out, error in results:
        if process.returncode != 0:
            sys.exit(f"{what} failed with {process.returncode}:\n{out}{error}")
    return results[0][1]


def by_d5(cluster, arguments, network, folder):
    pixels, batch, steps, words = CASES[network]
    command = [arguments.d5, "train", network, *words, "--dataset", folder / "train.npz", "--normalise", "mean=0.5", "--test-dataset",
               folder / "train.npz", "--test-samples", "8", "--batch", batch, "--scaling", "weak", "--ranks", cluster.nodes, "--communicator",
               "mpi", "--scheme", arguments.scheme, "--backend", arguments.backend, "--optimizer", "momentum:learning_rate=0.01", "--steps",
               steps, "--epochs", "1000", "--json", "--quiet", "-o", folder / f"records-{os.urandom(4).hex()}"]
    out = finished([cluster.start(0, command)], "d5 train")
    record = next(r for r in map(json.loads, out.splitlines()) if r["kind"] == "train")
    if record["status"] != "passed":
        sys.exit(f"d5: {record['status']}: {record['reason']}")
    hidden = record["metrics"].get("hidden_share")
    by_d5.hidden = hidden["median"] if hidden else None
    return record["metrics"]["step_time"]["median"]


def by_torch(peer):
    def step_seconds(cluster, arguments, network, folder):
        _, batch, steps, _ = CASES[network]
        processes = []
        for node in range(cluster.nodes):
            environment = {**os.environ, "RANK": str(node), "WORLD_SIZE": str(cluster.nodes), "MASTER_ADDR": "10.77.0.1",
                           "MASTER_PORT": str(PORT), "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
            processes.append(cluster.start(node, [arguments.python, HERE / "ddp_loop.py", network, folder / "train.npz", "--batch", batch,
                                                  "--steps", steps, "--with", peer], env=environment))
        return json.loads(finished(processes, peer).splitlines()[-1])["step_s"]
    return step_seconds


def compare(arguments, network, nodes):
    pixels, batch, _, _ = CASES[network]
    contenders = {"d5": by_d5, **{peer: by_torch(peer) for peer in arguments.peer.split(",")}}
    steps = {name: [] for name in contenders}
    with tempfile.TemporaryDirectory() as name, Cluster(arguments.d5, nodes, arguments.rate) as cluster:
        folder = Path(name)
        subprocess.run([arguments.d5, "data", "convert", "generated-images", str(folder / "train.npz"), "--option", f"height={pixels}",
                        "--option", f"width={pixels}", "--option", "channels=3", "--option", "size=512", "--option", "part=train"],
                       check=True, capture_output=True)
        for turn in range(arguments.rounds):
            order = list(contenders)
            for who in order[turn % len(order):] + order[:turn % len(order)]:
                steps[who].append(contenders[who](cluster, arguments, network, folder))
    cores = len(os.sched_getaffinity(0))
    print(f"{network}, {nodes} nodes at {arguments.rate}, batch {batch} a rank{f', {nodes} ranks share {cores} cores' if nodes > cores else ''}"
          "; samples/s: " + ", ".join(f"{who} {nodes * batch / statistics.median(found):.1f}" for who, found in steps.items()) +
          (f"; d5 hides {100 * by_d5.hidden:.0f} % of what could be hidden" if by_d5.hidden is not None else ""))
    good = True
    for who in list(contenders)[1:]:
        ratios = [theirs / mine for mine, theirs in zip(steps["d5"], steps[who])]
        print(f"  d5 / {who}: {with_interval(ratios)}", flush=True)
        good = good and statistics.median(ratios) >= 1
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d5", default=str(HERE.parent.parent / "build/bin/d5"))
    parser.add_argument("--python", default=sys.executable, help="one that has PyTorch and NumPy")
    parser.add_argument("--peer", default="ddp", help="ddp, horovod (Horovod 0.28 with gloo, for that Python), or both")
    parser.add_argument("--nodes", default="2,4")
    parser.add_argument("--networks", default="resnet-20,resnet-50")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--scheme", default="dsgd")
    parser.add_argument("--backend", default="onednn")
    arguments = parser.parse_args()
    needed = {"ddp": "torch.distributed", "horovod": "horovod.torch"}
    for peer in arguments.peer.split(","):
        if peer not in needed:
            parser.error(f"--peer {peer}; legal: {', '.join(needed)}")
        if subprocess.run([arguments.python, "-c", f"import {needed[peer]}"], capture_output=True, check=False).returncode != 0:
            parser.error(f"--peer {peer}: {arguments.python} cannot import {needed[peer]}")
    good = True
    for network in arguments.networks.split(","):
        for nodes in map(int, arguments.nodes.split(",")):
            good = compare(arguments, network, nodes) and good
    sys.exit(0 if good else 3)


if __name__ == "__main__":
    main()
