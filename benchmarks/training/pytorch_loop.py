#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training as PyTorch's tutorials have it: a Dataset, a DataLoader, a loop. What d5 train is held against.

    benchmarks/training/pytorch_loop.py NETWORK TRAIN.npz TEST.npz [--epochs 1] [--workers 0] [--threads 1]

NETWORK is lenet (batch 64, momentum 0.9, rate 0.02; pixels normalised) or resnet-20 (batch 128, momentum 0.9, rate 0.1, weight decay
0.0001; crops of 4 zeros around, flips, pixels normalised), as recipes/mnist-lenet.toml and recipes/cifar10-resnet20.toml have them.
The files hold `image`, u8 of samples x channels x height x width, and `label` ('d5 data convert mnist train.npz').

Prints one JSON object: samples a second over the epochs, everything included but the test (input, augmentation, loss and
accuracy of every batch), and the accuracies.
"""
import argparse
import json
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

MNIST = (torch.tensor([0.1307]), torch.tensor([0.3081]))
CIFAR = (torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2470, 0.2435, 0.2616]))


class Images(Dataset):
    def __init__(self, file, normalisation, augmented):
        arrays = np.load(file)
        self.images, self.labels = torch.from_numpy(arrays["image"]), torch.from_numpy(arrays["label"].astype(np.int64))
        self.mean, self.deviation = (values.view(-1, 1, 1) for values in normalisation)
        self.augmented = augmented

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = self.images[i]
        if self.augmented:
            height, width = image.shape[1:]
            top, left = torch.randint(0, 9, (2,)).tolist()
            image = F.pad(image, (4, 4, 4, 4))[:, top:top + height, left:left + width]
            if torch.rand(()) < 0.5:
                image = image.flip(2)
        return (image.float() / 255 - self.mean) / self.deviation, self.labels[i]


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


class Block(nn.Module):
    def __init__(self, before, maps, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, maps, 3, stride, 1, bias=False), nn.BatchNorm2d(maps)
        self.conv2, self.bn2 = nn.Conv2d(maps, maps, 3, 1, 1, bias=False), nn.BatchNorm2d(maps)
        self.stride, self.zeros = stride, (maps - before) // 2

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.stride == 2:  # every second pixel, zero maps on both sides (option A)
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.zeros, self.zeros))
        return F.relu(y + x)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        blocks = []
        for stage, maps in enumerate((16, 32, 64)):
            for i in range(3):
                first = i == 0 and stage > 0
                blocks.append(Block(maps // 2 if first else maps, maps, 2 if first else 1))
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(64, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn1(self.conv1(x))))
        return self.fc(x.mean((2, 3)))


NETWORKS = {"lenet": (LeNet, MNIST, False, 64, dict(lr=0.02, momentum=0.9)),
            "resnet-20": (ResNet20, CIFAR, True, 128, dict(lr=0.1, momentum=0.9, weight_decay=0.0001))}


def accuracy(network, loader):
    right = samples = 0
    network.eval()
    with torch.no_grad():
        for images, labels in loader:
            right += (network(images).argmax(1) == labels).sum().item()
            samples += len(labels)
    return right / samples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0, help="of the DataLoader")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    make, normalisation, augmented, batch, values = NETWORKS[arguments.network]
    network = make()
    optimizer = torch.optim.SGD(network.parameters(), **values)
    train = DataLoader(Images(arguments.train, normalisation, augmented), batch, shuffle=True, num_workers=arguments.workers,
                       persistent_workers=arguments.workers > 0)
    test = DataLoader(Images(arguments.test, normalisation, False), batch)
    seconds, samples, right, loss_sum = 0.0, 0, 0, 0.0
    for _ in range(arguments.epochs):
        network.train()
        began, samples_of_epoch, right, loss_sum = time.perf_counter(), 0, 0, 0.0
        for images, labels in train:
            optimizer.zero_grad()
            scores = network(images)
            loss = F.cross_entropy(scores, labels)
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(labels)
            right += (scores.argmax(1) == labels).sum().item()
            samples_of_epoch += len(labels)
        seconds += time.perf_counter() - began
        samples += samples_of_epoch
    print(json.dumps({"loop": "pytorch", "version": torch.__version__, "samples_per_second": samples / seconds, "samples": samples,
                      "seconds": seconds, "train_loss": loss_sum / samples_of_epoch, "train_accuracy": right / samples_of_epoch,
                      "test_accuracy": accuracy(network, test)}))


if __name__ == "__main__":
    main()
