#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a training by PyTorch's DistributedDataParallel (gloo), or by Horovod: what d5 train is held against.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=... MASTER_PORT=... GLOO_SOCKET_IFNAME=... ddp_loop.py NETWORK TRAIN.npz [--batch 32] [--steps 60] [--with ddp|horovod]

NETWORK is resnet-20 (as benchmarks/training/pytorch_loop.py has it) or resnet-50 (25 M parameters, stride in the 3x3 convolutions).
TRAIN.npz holds `image`, u8 of samples x channels x height x width, and `label`; it lies in memory, and a step takes, normalises and
learns a random batch of it. Rank 0 prints one JSON object: the median time of a step, loss read in each, without the first fifth.
"""
import argparse
import importlib.util
import json
import os
import socket
import statistics
import threading
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, before, maps, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, maps, 1, bias=False), nn.BatchNorm2d(maps)
        self.conv2, self.bn2 = nn.Conv2d(maps, maps, 3, stride, 1, bias=False), nn.BatchNorm2d(maps)
        self.conv3, self.bn3 = nn.Conv2d(maps, 4 * maps, 1, bias=False), nn.BatchNorm2d(4 * maps)
        self.shortcut = None
        if stride != 1 or before != 4 * maps:
            self.shortcut = nn.Sequential(nn.Conv2d(before, 4 * maps, 1, stride, bias=False), nn.BatchNorm2d(4 * maps))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(F.relu(self.bn2(self.conv2(y)))))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet50(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        blocks, before = [], 64
        for stage, (count, maps) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512))):
            for i in range(count):
                blocks.append(Bottleneck(before, maps, 2 if i == 0 and stage > 0 else 1))
                before = 4 * maps
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(2048, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(self.blocks(x).mean((2, 3)))


def resnet20():
    file = Path(__file__).resolve().parent.parent / "training/pytorch_loop.py"
    spec = importlib.util.spec_from_file_location("pytorch_loop", file)
    loop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loop)
    return loop.ResNet20()


def start_horovod():
    """Horovod with gloo, from the variables that DDP takes: rank 0 has the server where ranks find each other."""
    import horovod.torch as hvd
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer
    rank, ranks, address, port = (os.environ[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
    if rank == "0":
        server = RendezvousHTTPServer(("", int(port)), RendezvousHandler, 0)
        server.init(get_host_assignments(parse_hosts(",".join(f"node{r}:1" for r in range(int(ranks)))), int(ranks)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
    for _ in range(300):
        try:
            socket.create_connection((address, int(port)), timeout=10).close()
            break
        except OSError:
            time.sleep(0.1)
    os.environ.update({"HOROVOD_RANK": rank, "HOROVOD_SIZE": ranks, "HOROVOD_LOCAL_RANK": "0", "HOROVOD_LOCAL_SIZE": "1",
                       "HOROVOD_CROSS_RANK": rank, "HOROVOD_CROSS_SIZE": ranks, "HOROVOD_HOSTNAME": f"node{rank}",
                       "HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_GLOO_RENDEZVOUS_ADDR": address,
                       "HOROVOD_GLOO_RENDEZVOUS_PORT": port, "HOROVOD_GLOO_IFACE": os.environ["GLOO_SOCKET_IFNAME"]})
    hvd.init()
    return hvd


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=["resnet-20", "resnet-50"])
    parser.add_argument("train")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--with", dest="by", choices=["ddp", "horovod"], default="ddp")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    network = resnet20() if arguments.network == "resnet-20" else ResNet50()
    if arguments.by == "ddp":  # Horovod takes contiguous gradients alone; activations are channels_last with both
        network = network.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    if arguments.by == "ddp":
        torch.distributed.init_process_group("gloo")
        rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        model = nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True) if ranks > 1 else network
    else:
        hvd = start_horovod()
        rank, ranks, model = hvd.rank(), hvd.size(), network
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=network.named_parameters())
        hvd.broadcast_parameters(network.state_dict(), root_rank=0)
    arrays = np.load(arguments.train)
    images, labels = torch.from_numpy(arrays["image"]), torch.from_numpy(arrays["label"].astype(np.int64))
    chosen = torch.Generator().manual_seed(rank)
    seconds = []
    for _ in range(arguments.steps):
        begin = time.perf_counter()
        batch = torch.randint(0, len(labels), (arguments.batch,), generator=chosen)
        pixels = ((images[batch].float() / 255 - 0.5)).contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad() if arguments.by == "horovod" else optimizer.zero_grad(set_to_none=False)  # DDP has views of its buckets
        loss = F.cross_entropy(model(pixels), labels[batch])
        loss.backward()
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - begin)
    if rank == 0:
        print(json.dumps({"step_s": statistics.median(seconds[arguments.steps // 5:]), "ranks": ranks,
                          "parameters": sum(p.numel() for p in network.parameters())}))
    torch.distributed.destroy_process_group() if arguments.by == "ddp" else hvd.shutdown()


if __name__ == "__main__":
    main()
