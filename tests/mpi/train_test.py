#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 train with ranks under real mpirun. Usage: train_test.py D5. Status 77 where there is no MPI.

Weights are those of ranks that are threads, bit for bit; with two ranks those of dsgd in every synchronous scheme; records have
volumes; what cannot be is refused, and a rank that fails ends all with one message."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

d5 = str(Path(sys.argv.pop(1)).resolve())
LITTLE = ("mlp --features 64 --width 16 --depth 1 --classes 4 --dataset generated-images --backend reference "
          "--options channels=1;height=8;width=8;classes=4;strength=6 --samples 320 --test-samples 100 --epochs 1 "
          "--optimizer momentum:learning_rate=0.02 --json --quiet").split()


def train(*words):
    words = [*words, *(() if "--batch" in words else ("--batch", "32"))]
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([d5, "train", *LITTLE, *words, "-o", folder], capture_output=True, text=True, timeout=120)


class Train(unittest.TestCase):
    def records(self, *words):
        result = train(*words)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return [r for r in map(json.loads, result.stdout.splitlines()) if r["kind"] == "train"]

    def weights(self, *words):
        return [r["details"]["training"]["weights_hash"] for r in self.records(*words)]

    def test_processes_and_threads_give_the_same_bits(self):
        for ranks in ["2", "4"]:
            schemes = "dsgd,pssgd,zero1,sparcml:density=0.1,qsgd,compressed,mavg,easgd,dpsgd:topology=torus"
            if ranks == "2":
                schemes = schemes.replace("torus", "ring")
            by = {c: self.weights("--ranks", ranks, "--scheme", schemes, "--communicator", c) for c in ("mpi", "threads")}
            self.assertEqual(by["mpi"], by["threads"])
            self.assertEqual(len(by["mpi"]), 9)

    def test_checkpoints_go_on_bit_for_bit(self):
        schemes = "dsgd,pssgd,zero1,sparcml:density=0.1,qsgd,compressed,hierarchical,mavg:period=4,easgd,dpsgd"
        for ranks in ["2", "4"]:
            both = ["--ranks", ranks, "--scheme", schemes, "--communicator", "mpi"]
            whole = self.weights(*both)
            with tempfile.TemporaryDirectory() as folder:
                saved = [*both, "--checkpoint", folder, "--every", "4", "--resume"]
                self.weights(*saved, "--steps", "6")  # saved at 4, and where it ends
                records = self.records(*saved)
                self.assertEqual({r["details"]["training"]["resumed_at_step"] for r in records}, {6})
                self.assertEqual([r["details"]["training"]["weights_hash"] for r in records], whole)
                self.assertEqual(len(list(Path(folder).iterdir())), 10 * int(ranks))
                # Threads go on from what processes wrote: it is finished, and the same.
                self.assertEqual(self.weights(*saved, "--communicator", "threads"), whole)

    def test_other_numbers_of_ranks_go_on(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = ["--communicator", "mpi", "--scheme", "dsgd,zero1,mavg", "--checkpoint", folder, "--every", "3"]
            self.records(*saved, "--ranks", "2", "--steps", "6")
            for record in self.records(*saved, "--ranks", "4", "--resume", "--from-ranks", "2"):
                self.assertEqual(record["details"]["training"]["resumed_at_step"], 6)
                self.assertEqual(record["details"]["training"]["samples"], 320)

    def test_two_ranks_of_synchronous_schemes_are_dsgd(self):
        weights = self.weights("--ranks", "2", "--communicator", "mpi", "--scheme", "dsgd,pssgd,zero1,hierarchical,sparcml:density=1")
        self.assertEqual(set(weights), {weights[0]})

    def test_servers_and_volumes(self):
        for record in self.records("--ranks", "3", "--batch", "30", "--communicator", "mpi", "--scheme", "asgd,ssp:slack=1"):
            scheme = record["details"]["training"]["scheme"]
            self.assertEqual(len(scheme["ranks"]), 3)
            self.assertGreater(scheme["pushes"], 0)
            self.assertGreater(record["metrics"]["sent_of_least"]["median"], 0.99)
            if record["case"]["scheme"] != "asgd":
                self.assertLessEqual(scheme["steps_ahead_most"], 1)

    def test_what_cannot_be_is_refused(self):
        for words, said in [(["--ranks", "3"], "not divided evenly"), (["--ranks", "2", "--scheme", "single"], "one process"),
                            (["--ranks", "2", "--scheme", "dsdg"], "dsgd")]:
            result = train(*words)
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn(said, result.stderr)
        result = train("--ranks", "2", "--communicator", "mpi", "--scheme", "dpsgd:topology=torus")
        self.assertIn("a torus of 2 ranks", result.stdout + result.stderr)
        self.assertNotEqual(result.returncode, 0)


if __name__ == "__main__":
    found = subprocess.run([d5, "list", "communicators"], capture_output=True, text=True, check=False).stdout
    if not any(line.split()[:2] == ["mpi", "on"] for line in found.splitlines()):
        print("no mpi:", found)
        sys.exit(77)
    unittest.main()
