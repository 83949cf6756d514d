#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 comm under real mpirun. Usage: mpi_test.py D5. Status 77 where there is no MPI.

Every collective by every algorithm with 2 to 4 ranks is right; records are complete; a killed, a stopped and a failing rank end the
job in bounded time with one message that names the rank."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

d5 = str(Path(sys.argv[1]).resolve())
COLLECTIVES = "allreduce,reduce_scatter,allgather,broadcast,reduce,gather,scatter,all_to_all"
SHORT = ["--launches", "1", "--rounds", "1", "--slice", "0.002", "--quiet"]


def run(*words, timeout=120):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([d5, *words, "-o", folder], capture_output=True, text=True, timeout=timeout)


def records(result):
    return [json.loads(line) for line in result.stdout.splitlines()][1:]


def ranks_below(pid):
    """The processes of ranks of a running d5 comm, as (pid, rank), by what mpirun told them."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"comm-rank" not in (folder / "cmdline").read_bytes() or b"mpirun" in (folder / "cmdline").read_bytes():
                continue
            environment = dict(e.split(b"=", 1) for e in (folder / "environ").read_bytes().split(b"\0") if b"=" in e)
            if environment.get(b"D5_TEST_MARK", b"").decode() == str(pid):
                for name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK"):
                    if name in environment:
                        found[int(environment[name])] = int(folder.name)
        except OSError:
            pass
    return found


class Mpi(unittest.TestCase):
    def long_run(self, *words):
        """A run that goes on for long, once all its ranks are there."""
        mark = f"{os.getpid()}-{time.time()}"
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        process = subprocess.Popen(
            [d5, "comm", "--ranks", "3", "--launches", "1", "--rounds", "10000", "--slice", "0.05", "--quiet", "-o", folder, *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "D5_TEST_MARK": mark})
        for _ in range(200):
            time.sleep(0.1)
            if len(ranks_below(mark)) == 3:
                break
        time.sleep(1.5)
        ranks = ranks_below(mark)
        self.assertEqual(sorted(ranks), [0, 1, 2], process.communicate(timeout=60) if process.poll() else "")
        return process, ranks

    def test_every_collective_by_every_algorithm(self):
        for ranks in ["2", "3", "4"]:
            result = run("comm", COLLECTIVES, "--ranks", ranks, "--bytes", "0,52,5000,300000", "--json", *SHORT)
            self.assertEqual(result.returncode, 0, result.stderr)
            all_records = records(result)
            self.assertTrue(all(r["status"] in ("passed", "unsupported") for r in all_records),
                            [r["reason"] for r in all_records if r["status"] != "passed"])
            passed = {(r["case"]["collective"], r["case"]["algorithm"]) for r in all_records if r["status"] == "passed"}
            self.assertLessEqual({("allreduce", a) for a in ("plain", "library", "ring", "segmented_ring", "tree", "hierarchical",
                                                             "recursive_doubling", "rabenseifner")}, passed)
            self.assertEqual({c for c, a in passed if a == "library"}, set(COLLECTIVES.split(",")))

    def test_messages_neighbours_and_windows(self):
        direct = ["send", "send_receive", "neighbour_exchange", "put", "get"]
        for ranks, topologies in [("2", "ring"), ("4", "ring,torus")]:
            result = run("comm", ",".join(direct), "--ranks", ranks, "--topology", topologies, "--bytes", "0,52,300000", "--json", *SHORT)
            self.assertEqual(result.returncode, 0, result.stderr)
            passed = [r for r in records(result) if r["status"] == "passed"]
            for what in direct:
                rows = [r for r in passed if r["case"]["collective"] == what]
                wanted = {"windows"} if what in ("put", "get") else {"plain", "library", "pairwise", "messages"}
                self.assertEqual({r["case"]["algorithm"] for r in rows}, wanted)
                self.assertTrue(all(r["bound"]["value"] > 0 for r in rows))
            for r in passed:
                if r["case"]["bytes"] == 300000 and "traffic" in r["details"]:
                    sent = 300000 * (1 if r["case"]["collective"] == "send" else int(ranks))
                    self.assertEqual(r["metrics"]["bytes_sent"]["median"], sent, r["case"])
                if r["case"]["bytes"] > 0:
                    self.assertEqual(r["metrics"]["algbw"]["median"], r["metrics"]["busbw"]["median"])

    def test_every_type_means_and_sparse(self):
        result = run("comm", "--ranks", "3", "--bytes", "4000", "--dtype", "f32,f64,bf16,f16,i8,i16,i32,i64,u8,u64",
                     "--algorithm", "library,ring,rabenseifner", "--json", *SHORT)
        self.assertEqual([r["status"] for r in records(result)], ["passed"] * 30, result.stderr)
        result = run("comm", "--ranks", "3", "--bytes", "400000", "--reduction", "mean,max", "--dtype", "f32,bf16", "--json", *SHORT)
        self.assertEqual({r["status"] for r in records(result)}, {"passed"}, result.stderr)
        result = run("comm", "--ranks", "4", "--bytes", "400000", "--density", "0.01,0.5", "--algorithm", "ring,sparse,auto",
                     "--json", *SHORT)
        sparse = [r for r in records(result) if r["case"]["algorithm"] == "sparse"]
        self.assertEqual([r["status"] for r in sparse], ["passed"] * 2, result.stderr)
        self.assertLess(sparse[0]["details"]["traffic"]["over_least"], 0.2)  # less than any dense algorithm

    def test_a_record_says_all(self):
        record = records(run("comm", "--ranks", "2", "--bytes", "1M", "--algorithm", "plain,ring", "--json", *SHORT))[1]
        self.assertEqual(record["kind"], "comm")
        self.assertEqual(record["bound"]["name"], "alpha-beta")
        self.assertGreater(record["bound"]["value"], 0)
        self.assertAlmostEqual(record["details"]["traffic"]["over_least"], 1.0, places=6)
        time_s, busbw = record["metrics"]["time"]["median"], record["metrics"]["busbw"]["median"]
        self.assertAlmostEqual(busbw * time_s / (1 << 20), 1.0, places=6)
        self.assertIn("--algorithm ring", record["rerun"])
        self.assertIn("p95", record["details"]["tails"])

    def ends_naming_rank_1(self, process, within):
        begin = time.time()
        output, error = process.communicate(timeout=within)
        self.assertEqual(process.returncode, 1, output + error)
        self.assertLess(time.time() - begin, within)
        self.assertEqual(error.count("d5: "), 1, error)
        self.assertRegex(error, r"rank 1\b")

    def test_a_killed_rank_ends_the_job_and_is_named(self):
        process, ranks = self.long_run("--bytes", "1M")
        os.kill(ranks[1], signal.SIGKILL)
        self.ends_naming_rank_1(process, 20)

    def test_a_stopped_rank_is_found_in_own_algorithms_in_the_library_and_in_windows(self):
        for what, algorithm in [("allreduce", "segmented_ring"), ("allreduce", "library"), ("send", "plain"), ("put", "windows")]:
            process, ranks = self.long_run(what, "--bytes", "1M", "--algorithm", algorithm, "--time-limit", "2")
            os.kill(ranks[1], signal.SIGSTOP)
            try:
                self.ends_naming_rank_1(process, 30)
            finally:
                try:
                    os.kill(ranks[1], signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def test_nothing_is_left_of_a_run_that_is_ended(self):
        """No process, no file for ranks, no memory that they shared; however it ends."""
        files = lambda: {str(p) for folder in ("/dev/shm", tempfile.gettempdir()) for p in Path(folder).glob("*")
                         if p.name.startswith(("d5-ranks-", "vader_segment", "sm_segment", "ompi.", "prte", "pmix"))}
        for end in (signal.SIGINT, signal.SIGKILL):
            before = files()
            process, ranks = self.long_run("--bytes", "1M", "--algorithm", "plain,ring")
            self.assertTrue(any("d5-ranks-" in f for f in files() - before))
            process.send_signal(end)
            process.communicate(timeout=20)
            for _ in range(200):
                left = [pid for pid in ranks.values() if Path(f"/proc/{pid}").exists()], files() - before
                if not any(left):
                    break
                time.sleep(0.1)
            self.assertFalse(any(left), (end, left))

    def test_a_plan_may_be_longer_than_a_word_of_a_command(self):
        many = ["allreduce,reduce_scatter,allgather,broadcast,reduce,gather,scatter,all_to_all,send,send_receive", "--bytes",
                ",".join(str(n) for n in range(1, 125)), "--algorithm", "plain"]  # of which no two are one case
        result = run("comm", *many, "--ranks", "2", "--json", "--launches", "1", "--rounds", "1", "--slice", "1e-9", "--quiet")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(records(result)), 1240)

    def test_wrong_usage(self):
        for words, text in [(("--ranks", "0"), "--ranks '0'"), (("--bytes", "1X"), "1X"), (("--algorithm", "rign"), "ring"),
                            (("--root", "2", "--ranks", "2"), "--root 2"), (("--communicator", "mpy"), "mpi"),
                            (("--mpirun", "true"), "Open MPI"), (("--density", "abc"), "'abc'"), (("--density", "0.1x"), "'0.1x'"),
                            (("--from", "4M", "--to", "1K"), "above --to"), (("--bytes", "9999999999G"), "no number of bytes"),
                            (("--bytes", "100000G"), "GiB of this machine"),
                            (("--bytes", f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // 15}", "--ranks", "4"), "GiB of this machine"), (("--suite", "deepbench", "--bytes", "8"), "its own sizes"),
                            (("--dtype", "bool"), "legal: f32"), (("--dtype", "i32", "--reduction", "sum,mean"), "the mean of i32"),
                            (("--ranks-per-node", "-1"), "below 0"), (("--topology", "star"), "ring"),
                            (("neighbour_exchange", "--ranks", "3", "--topology", "torus"), "product of two numbers"),
                            (("neighbour_exchange", "--ranks", "1"), "no neighbours"), (("barrier",), "moves no sizes")]:
            result = run("comm", *words, *SHORT)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(text, result.stderr)


if __name__ == "__main__":
    listed = subprocess.run([d5, "list", "communicators", "--json"], capture_output=True, text=True, check=True).stdout
    mpi = [row for row in map(json.loads, listed.splitlines()) if row["name"] == "mpi" and row["available"]]
    if not mpi or not shutil.which("mpirun"):
        print("skipped: no mpi")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
