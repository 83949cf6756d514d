# SPDX-License-Identifier: Apache-2.0
"""What files of tests that need MPI share: a training of a moment, and how a file is run: status 77 (skipped) where d5 has no MPI."""
import subprocess
import sys
import unittest

PHASES = ["sampling", "forward", "backward", "optimizer_step", "update", "checkpoint"]
LITTLE = ("mlp --features 64 --width 16 --depth 1 --classes 4 --dataset generated-images --backend reference --batch 32 "
          "--options channels=1;height=8;width=8;classes=4;strength=6 --samples 320 --test-samples 100 "
          "--optimizer adam:learning_rate=0.02").split()

def main(d5):
    found = subprocess.run([d5, "list", "communicators"], capture_output=True, text=True, check=False).stdout
    if not any(line.split()[:2] == ["mpi", "on"] for line in found.splitlines()):
        print("no mpi:", found)
        sys.exit(77)
    unittest.main()
