#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that die, hang or raise in the middle of a training. Usage: faults_test.py D5 SOURCE [--all]. Status 77 where there is no MPI.

The kill test: a rank of four is killed (SIGKILL) in a phase of a step; with --restarts the training ends with the weights of an
undisturbed one, bit for bit. Here one rank for each phase; --all takes each of the four ranks in each phase, at its beginning and
a moment later."""
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import mpi_tests
from mpi_tests import LITTLE, PHASES

whole_test = "--all" in sys.argv
if whole_test:
    sys.argv.remove("--all")
d5 = str(Path(sys.argv.pop(1)).resolve())
source = Path(sys.argv.pop(1)).resolve()
NAMES = dict(sampling="input", optimizer_step="communication")


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def run_d5(self, *words, timeout=120):
        with tempfile.TemporaryDirectory() as output:
            little = LITTLE[:1] + [w for pair in zip(LITTLE[1::2], LITTLE[2::2]) if pair[0] not in words for w in pair]
            return subprocess.run([d5, "train", *little, "--quiet", "--source", str(source / "tests/mpi/kill.cpp"), *words, "-o", output, "--json"],
                                  capture_output=True, text=True, timeout=timeout)

    def record(self, *words):
        result = self.run_d5(*words)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        record, = [r for r in map(json.loads, result.stdout.splitlines()) if r["kind"] == "train"]
        return record

    def weights(self, record):
        return record["details"]["training"]["weights_hash"]

    def fault(self, rank, phase, step=6, **more):
        values = {"rank": rank, "phase": phase, "step": step, "mark": f"{self.folder}/mark-{time.time_ns()}", **more}
        return ["--events", "kill:" + ":".join(f"{k}={v}" for k, v in values.items()),
                "--checkpoint", f"{self.folder}/{time.time_ns()}", "--every", "2"]

    def test_each_phase_is_survived(self):
        for scheme in ["dsgd", "zero1"] if whole_test else ["dsgd"]:
            both = ["--ranks", "4", "--communicator", "mpi", "--scheme", scheme]
            expected = self.weights(self.record(*both))
            ranks = range(4)
            for i, phase in enumerate(PHASES):
                for rank in ranks if whole_test else [(i + 1) % 4]:
                    for later in [0, random.Random(i * 4 + rank).randrange(50, 3000)] if whole_test else [0]:
                        record = self.record(*both, *self.fault(rank, phase, microseconds=later), "--restarts", "2")
                        restarts = record["details"]["training"]["restarts"]
                        what = f"{scheme}, rank {rank}, {NAMES.get(phase, phase)}" + (f" + {later} us" if later else "")
                        print(f"{what}: resumed at step {restarts[0]['resumed_at']}, recovery {restarts[0]['recovery_s']:.2f} s", flush=True)
                        self.assertEqual(self.weights(record), expected, what)
                        self.assertEqual(len(restarts), 1, what)
                        self.assertEqual(record["metrics"]["restarts"]["median"], 1)
                        self.assertGreater(record["metrics"]["recovery_time"]["median"], 0)

    def test_a_hung_rank_is_found_and_started_again(self):
        both = ["--ranks", "3", "--batch", "30", "--communicator", "mpi"]
        begin = time.time()
        record = self.record(*both, *self.fault(1, "backward", how="stop"), "--restarts", "1", "--rank-limit", "3")
        self.assertLess(time.time() - begin, 40)
        self.assertIn("rank 1", record["details"]["training"]["restarts"][0]["why"])
        self.assertEqual(self.weights(record), self.weights(self.record(*both)))

    def test_a_rank_that_raises_is_started_again(self):
        for communicator in ["threads", "mpi"]:
            both = ["--ranks", "2", "--communicator", communicator]
            record = self.record(*both, *self.fault(1, "forward", how="raise"), "--restarts", "1")
            self.assertIn("a planted fault on rank 1", record["details"]["training"]["restarts"][0]["why"])
            self.assertEqual(self.weights(record), self.weights(self.record(*both)))

    def test_without_restarts_one_message_names_the_rank(self):
        for communicator, how, said in [("mpi", "kill", "rank 1"), ("mpi", "raise", "a planted fault on rank 1"),
                                        ("threads", "raise", "a planted fault on rank 1")]:
            begin = time.time()
            result = self.run_d5("--ranks", "3", "--batch", "30", "--communicator", communicator, *self.fault(1, "backward", how=how))
            self.assertLess(time.time() - begin, 30)
            self.assertNotEqual(result.returncode, 0)
            record, = [r for r in map(json.loads, result.stdout.splitlines()) if r["kind"] == "train"]
            self.assertEqual(record["status"], "error", record)
            self.assertIn(said, record["reason"])

    def test_the_others_go_on_without_a_lost_rank(self):
        for scheme in ["dsgd", "zero1", "mavg", "dpsgd"]:
            record = self.record("--ranks", "4", "--communicator", "threads", "--scheme", scheme, "--elastic", "true",
                                 *self.fault(1, "forward", how="raise"))
            training = record["details"]["training"]
            shrunk, = training["shrunk"]
            self.assertEqual((shrunk["ranks"], shrunk["resumed_at"], shrunk["lost"]), (3, 6, [1]))
            self.assertEqual(len(training["scheme"]["ranks"]), 3)
            # 6 steps of 32; of the 128 samples that are left two cannot be divided among three ranks, which take 24 a step.
            self.assertEqual((training["samples"], training["steps"]), (318, 12))
            self.assertEqual(record["metrics"]["test_accuracy"]["n"], 100)

    def test_elastic_says_why_it_is_off(self):
        words = ["--ranks", "2", "--communicator", "mpi", "--elastic", "true", *self.fault(1, "backward")]
        result = self.run_d5(*words)
        record, = [r for r in map(json.loads, result.stdout.splitlines()) if r["kind"] == "train"]
        if record["status"] != "passed":  # else this MPI can: library_test.py
            self.assertRegex(record["reason"], "elastic is off: .* has no MPIX_Comm_shrink")

    def test_what_would_happen_again_is_not_started_again(self):
        words = ["--ranks", "2", "--communicator", "threads", "--checkpoint", self.folder, "--restarts", "2"]
        result = self.run_d5(*words, "--optimizer", "sgd:learning_rate=1e30")
        record, = [r for r in map(json.loads, result.stdout.splitlines()) if r["kind"] == "train"]
        self.assertIn("the loss is", record["reason"])
        self.assertNotIn("restarts", record["reason"])


if __name__ == "__main__":
    mpi_tests.main(d5)
