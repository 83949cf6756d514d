#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 cluster: up, exec, status, down, and that nothing is left behind. Usage: cluster_test.py D5. Status 77 where it cannot be made."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import mpi_tests

d5 = str(Path(sys.argv[1]).resolve())
NAME = "t5"


def run(*words, **more):
    return subprocess.run([d5, "cluster", *words], capture_output=True, text=True, timeout=120, **more)


def has_mpi():
    listed = subprocess.run([d5, "list", "communicators", "--json"], capture_output=True, text=True, check=True).stdout
    return any(json.loads(row)["name"] == "mpi" and json.loads(row)["available"] for row in listed.splitlines())


def left_over():
    links = [p.name for p in Path("/sys/class/net").iterdir() if p.name.startswith("d5" + NAME)]
    spaces = [p.name for p in Path("/run/netns").glob("d5" + NAME + "*")] if Path("/run/netns").exists() else []
    files = [str(p) for p in [*Path("/etc/netns").glob("d5" + NAME + "*"), Path("/run/d5-cluster") / NAME] if p.exists()]
    return links + spaces + files


def comes(condition, seconds=15):
    until = time.time() + seconds
    while not condition() and time.time() < until:
        time.sleep(0.1)
    return condition()


class Cluster(unittest.TestCase):
    def setUp(self):
        self.addCleanup(run, "down", "--name", NAME)

    def up(self, *words):
        result = run("up", "--name", NAME, "--nodes", "2", "--rate", "1gbit", "--json", *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_nodes_have_names_and_reach_each_other_at_the_rate(self):
        self.assertEqual([n["host"] for n in self.up()["nodes"]], ["d5t50", "d5t51"])
        self.assertEqual(run("exec", "--name", NAME, "--node", "1", "--", "hostname").stdout, "d5t51\n")
        self.assertEqual(run("exec", "--name", NAME, "--", "sh", "-c", "exit 7").returncode, 7)
        if has_mpi():
            result = run("exec", "--name", NAME, "--", d5, "comm", "put", "--ranks", "2", "--bytes", "1M", "--launches", "1", "--rounds", "1",
                         "--slice", "0.01", "--quiet", "--json", "-o", "/tmp/d5-cluster-test")
            put = json.loads(result.stdout.splitlines()[1])
            self.assertEqual(result.returncode, 0, result.stderr)
            if put["status"] == "passed":  # where the library can over TCP
                self.assertLess(put["metrics"]["busbw"]["median"], 1.4e8)
            else:
                self.assertEqual(put["status"], "unsupported")
                self.assertIn("has no windows between these machines", put["reason"])
            result = run("exec", "--name", NAME, "--", d5, "comm", "--ranks", "2", "--bytes", "8M", "--algorithm", "plain,ring",
                         "--launches", "1", "--rounds", "1", "--slice", "0.2", "--quiet", "--json", "-o", "/tmp/d5-cluster-test")
            self.assertEqual(result.returncode, 0, result.stderr)
            for record in map(json.loads, result.stdout.splitlines()[1:]):
                self.assertEqual(record["details"]["nodes"], [0, 1])
                rate = record["metrics"]["busbw"]["median"] * 8  # of 2 ranks: the bytes in each direction
                self.assertLess(rate, 1.1e9)
                self.assertGreater(rate, 0.3e9)
        self.assertEqual(run("down", "--name", NAME).returncode, 0)
        self.assertEqual(left_over(), [])

    def test_a_training_makes_and_removes_its_own(self):
        if not has_mpi():
            self.skipTest("no mpi")
        words = [d5, "train", *mpi_tests.LITTLE, "--scaling", "weak", "--ranks", "1,2,4", "--ranks-per-node", "2", "--json", "--quiet"]
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run([*words, "--communicator", "mpi", "--link", "1gbit", "-o", folder], capture_output=True, text=True, timeout=120)
            records = [r for r in map(json.loads, result.stdout.splitlines()) if r["kind"] == "train"]
            self.assertEqual([r["status"] for r in records], ["passed"] * 3, result.stderr + result.stdout)
            self.assertEqual([p.name for p in Path("/sys/class/net").iterdir() if p.name.startswith("d5train")], [])
            for more, said in [(["--link", "1gb", "--communicator", "mpi"], "1gbit"), (["--link", "1gbit"], "--communicator mpi")]:
                result = subprocess.run([*words, *more, "-o", folder], capture_output=True, text=True, timeout=60)
                self.assertEqual(result.returncode, 2, result.stdout)
                self.assertIn(said, result.stderr)

    def test_what_belongs_to_an_owner_goes_with_it(self):
        shell = subprocess.Popen(["sleep", "100"])
        self.up("--owner", str(shell.pid))
        refused = run("up", "--name", NAME, "--nodes", "2")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("is up already", refused.stderr)
        inside = subprocess.Popen([d5, "cluster", "exec", "--name", NAME, "--", "sleep", "100"])
        time.sleep(0.5)
        shell.kill()
        shell.wait()
        self.assertNotEqual(inside.wait(timeout=10), 0)
        self.assertTrue(comes(lambda: left_over() == []), left_over())
        self.assertEqual(run("up", "--name", NAME, "--owner", str(shell.pid)).returncode, 2)  # it is gone

    def test_without_an_owner_it_stays(self):
        subprocess.run(["sh", "-c", f'"{d5}" cluster up --name {NAME} --nodes 2; echo'], check=True, stdout=subprocess.DEVNULL)
        time.sleep(1)
        self.assertNotIn("left over", run("status").stdout)
        refused = run("up", "--name", "other", "--nodes", "1")
        self.assertEqual(refused.returncode, 2)
        self.assertIn(f"'{NAME}' is up", refused.stderr)

    def test_nodes_of_a_name_that_begins_alike_stay(self):
        self.up()
        self.assertIn("there was none", run("down", "--name", NAME[:-1]).stdout)
        self.assertEqual(run("exec", "--name", NAME, "--node", "1", "--", "hostname").stdout, f"d5{NAME}1\n")

    def test_what_is_left_over_is_not_removed_silently(self):
        self.up()
        state = Path("/run/d5-cluster") / NAME / "state"
        nodes, rate, burst, _, _, stage = state.read_text().split()
        state.write_text(f"{nodes} {rate} {burst} {os.getpid()} 1 {stage}\n")  # a pid that was given to another process since
        inside = subprocess.Popen([d5, "cluster", "exec", "--name", NAME, "--", "sleep", "100"])
        time.sleep(0.5)
        again = run("up", "--name", NAME, "--nodes", "2")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertRegex(again.stderr, f"removed: '{NAME}', left over from process {os.getpid()}, in which 1 processes ran")
        self.assertNotEqual(inside.wait(timeout=10), 0)

    def test_nothing_is_left_of_a_training_that_is_ended(self):
        if not has_mpi():
            self.skipTest("no mpi")
        remains = lambda: ([p.name for p in Path("/sys/class/net").iterdir() if p.name.startswith("d5train")] +
                           [p.name for p in Path(tempfile.gettempdir()).glob("d5-ranks-*") if p.name not in before])
        for end in (signal.SIGINT, signal.SIGKILL):
            before = {p.name for p in Path(tempfile.gettempdir()).glob("d5-ranks-*")}
            with tempfile.TemporaryDirectory() as folder:
                process = subprocess.Popen([d5, "train", *mpi_tests.LITTLE, "--epochs", "100000", "--ranks", "2", "--communicator", "mpi",
                                            "--link", "1gbit", "--quiet", "-o", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.addCleanup(process.kill)
                self.assertTrue(comes(lambda: len(remains()) > 3), remains())
                time.sleep(2)  # the ranks are at work
                process.send_signal(end)
                process.wait(timeout=20)
                self.assertTrue(comes(lambda: remains() == []), (end, remains()))

    def test_a_crash_while_it_is_made_leaves_nothing(self):
        for seconds in (0.03, 0.08, 0.15):
            process = subprocess.Popen([d5, "cluster", "up", "--name", NAME, "--nodes", "20"], stdout=subprocess.DEVNULL)
            time.sleep(seconds)
            process.kill()
            process.wait()
            time.sleep(0.1)
            run("down", "--name", NAME)
            self.assertEqual(left_over(), [], seconds)

    def test_wrong_usage(self):
        for words, text in [(("--rate", "fast"), "fast"), (("--nodes", "0"), "0 nodes"), (("--name", "a;b"), "a;b")]:
            result = run("up", "--name", NAME, *words) if words[0] != "--name" else run("up", *words)
            self.assertEqual(result.returncode, 2)
            self.assertIn(text, result.stderr)
        self.assertEqual(run("exec", "--name", "none", "--", "true").returncode, 2)


if __name__ == "__main__":
    if os.geteuid() != 0:
        refused = run("up", "--name", NAME)
        print("skipped:", refused.stderr)
        sys.exit(77 if refused.returncode == 2 and "root" in refused.stderr else 1)
    tried = run("up", "--name", NAME, "--nodes", "1")
    run("down", "--name", NAME)
    if tried.returncode != 0:
        print("skipped: no namespaces here:", tried.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
