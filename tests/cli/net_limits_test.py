#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 net under a limit of memory: what does not fit is said, transforms make it fit, and both are compared in one run.
Usage: net_limits_test.py D5"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

D5 = sys.argv.pop(1)
CACHE = tempfile.TemporaryDirectory()
QUICK = ["--launches", "1", "--rounds", "2", "--slice", "0.002", "--max-time", "0", "--quiet"]


def d5(*arguments):
    return subprocess.run([D5, *arguments], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "XDG_CACHE_HOME": CACHE.name})


class NetLimits(unittest.TestCase):
    def records(self, *arguments, status=0):
        with tempfile.TemporaryDirectory() as folder:
            result = d5("net", *arguments, *QUICK, "--json", "-o", folder + "/o")
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()][1:]

    def test_micro_batches_run_what_does_not_fit(self):
        network = ["lenet", "--size", "32", "--batch", "32", "--backend", "onednn", "--kernel", "im2col", "--pass", "step"]
        whole, = self.records(*network)
        limit = 0.6 * whole["details"]["memory_bytes"] / 2**20
        compared = self.records(*network, "--arena-limit", f"0,{limit:.3f}", "--transform", "none,micro-batch:auto")
        self.assertEqual(len(compared), 4)
        self.assertEqual(len({r["group"] for r in compared}), 1, "one group, interleaved")
        by = {(r["case"]["arena_limit"] > 0, r["case"]["transform"]): r for r in compared}
        self.assertEqual(by[False, "none"]["status"], "passed")
        self.assertEqual(by[True, "none"]["status"], "unsupported")
        self.assertRegex(by[True, "none"]["reason"], r"needs \d+\.\d\d MiB for a step, the limit is \d+\.\d\d MiB")
        divided = by[True, "micro-batch:auto"]
        self.assertEqual(divided["status"], "passed", divided["reason"])
        self.assertTrue(divided["details"]["micro_batches"]["pieces"])
        self.assertLessEqual(divided["details"]["memory_bytes"] / 2**20, limit)
        self.assertIn("--arena-limit", divided["rerun"])
        self.assertIn("--transform micro-batch:auto", divided["rerun"])

    def test_a_step_in_parts_warns_of_statistics(self):
        network = ["resnet-20", "--size", "8", "--width", "2", "--batch", "8", "--pass", "step", "--transform", "accumulate:4"]
        record, = self.records(*network)
        self.assertEqual(record["status"], "passed", record["reason"])
        self.assertTrue([w for w in record["warnings"] if "statistics of a part" in w], record["warnings"])

    def test_wrong_values_are_named(self):
        for arguments, words in [(["--transform", "checkpoint:x"], "no number of MiB"),
                                 (["--transform", "micro-batch:x"], "side-by-side"),
                                 (["--arena-limit", "-3"], "0 (none) or more"),
                                 (["--kernel", "im3col", "--backend", "onednn"], "im2col")]:
            result = d5("net", "lenet", *arguments, "--mode", "check", "--quiet")
            self.assertNotEqual(result.returncode, 0, arguments)
            self.assertIn(words, result.stdout + result.stderr)

    def test_transforms_are_listed(self):
        listed = d5("list", "transforms").stdout
        for name in ["none", "fold", "dead-code", "fusion", "batch", "precision", "checkpoint", "accumulate", "micro-batch"]:
            self.assertIn(name, listed)


unittest.main(verbosity=2)
