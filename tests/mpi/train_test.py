#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 train with ranks under real mpirun. Usage: train_test.py D5. Status 77 where there is no MPI.

Weights are those of ranks that are threads, bit for bit; with two ranks those of dsgd in every synchronous scheme; records have
volumes; what cannot be is refused, and a rank that fails ends all with one message."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import mpi_tests  # noqa: E402
from trace_format import spans  # noqa: E402

d5 = str(Path(sys.argv.pop(1)).resolve())
LITTLE = ("mlp --features 64 --width 16 --depth 1 --classes 4 --dataset generated-images --backend reference "
          "--options channels=1;height=8;width=8;classes=4;strength=6 --samples 320 --test-samples 100 "
          "--optimizer momentum:learning_rate=0.02 --json --quiet").split()


def train(*words, environment=None):
    words = [*words, *(() if "--batch" in words else ("--batch", "32")), *(() if "--epochs" in words else ("--epochs", "1"))]
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([d5, "train", *LITTLE, *words, "-o", folder], capture_output=True, text=True, timeout=120,
                              env={**os.environ, **(environment or {})})


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

    def test_algorithms_of_the_all_reduce(self):
        for communicator in ["mpi", "threads"]:
            with tempfile.TemporaryDirectory() as cache:
                both = ["--ranks", "2", "--communicator", communicator]
                names = ["ring", "tree", "rabenseifner", "auto", *(["library"] if communicator == "mpi" else [])]
                usual, = self.records(*both)
                self.assertEqual(usual["details"]["training"]["algorithm"]["used"][0], {"from_bytes": 0, "algorithm": "recursive_doubling"})
                for again in [False, True]:
                    result = train(*both, "--algorithm", ",".join(names), environment={"XDG_CACHE_HOME": cache})
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                    for record in [r for r in map(json.loads, result.stdout.splitlines()) if r["kind"] == "train"]:
                        training, name = record["details"]["training"], record["case"]["algorithm"]
                        self.assertEqual(training["weights_hash"], usual["details"]["training"]["weights_hash"], name)
                        self.assertEqual(training["algorithm"]["asked"], name)
                        used = {row["algorithm"] for row in training["algorithm"]["used"]}
                        if "library" in used:  # what it sends is not known
                            self.assertNotIn("sent_per_step", record["metrics"])
                        else:  # two ranks send the least, whatever the algorithm; what tuning sent is not the training's
                            self.assertAlmostEqual(record["metrics"]["sent_of_least"]["median"], 1.0, delta=0.05)
                        if name != "auto":
                            self.assertEqual(training["algorithm"]["used"], [{"from_bytes": 0, "algorithm": name}])
                            continue
                        self.assertTrue(Path(training["algorithm"]["table"]).exists())
                        self.assertEqual(training["algorithm"]["timed_sizes"] > 0, not again)
                        used = training["algorithm"]["used"]
                        self.assertTrue(not again or used == before, used)
                        before = used
        result = train("--ranks", "2", "--communicator", "threads", "--algorithm", "library")
        self.assertIn("has no library", result.stdout)
        for words, said in [(["--algorithm", "rign"], "ring"), (["--algorithm", "pairwise"], "tree, auto"), (["--algorithm", "ring", "--scheme", "zero1"], "no all-reduce")]:
            result = train("--ranks", "2", *words)
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn(said, result.stderr)

    def test_what_d5_comm_found_is_what_a_training_takes(self):
        with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as folder:
            environment = {"XDG_CACHE_HOME": cache}
            words = ["comm", "--ranks", "2", "--communicator", "mpi", "--bytes", "16K", "--algorithm", "auto", "--launches", "1"]
            subprocess.run([d5, *words, "--rounds", "1", "--slice", "0.002", "--quiet", "-o", folder], check=True, timeout=120,
                           stdout=subprocess.DEVNULL, env={**os.environ, **environment})
            table, = Path(cache, "d5").glob("algorithms-*.json")
            result = train("--ranks", "2", "--communicator", "mpi", "--algorithm", "auto", environment=environment)
            record, = [r for r in map(json.loads, result.stdout.splitlines()) if r["kind"] == "train"]
            self.assertEqual(record["details"]["training"]["algorithm"]["table"], str(table))
            self.assertEqual(record["details"]["training"]["algorithm"]["timed_sizes"], 0)

    def test_a_search_spreads_its_trials_over_machines(self):
        recipe = """
name = "spread"
level = 2
[fixed]
network = "mlp"
features = 64
depth = 1
classes = 4
dataset = "generated-images"
options = "channels=1;height=8;width=8;classes=4;strength=6"
samples = 320
test_samples = 100
epochs = 1
[mutable]
backend = "reference"
ranks = 1
batch = 32
optimizer = "momentum:learning_rate=0.01"
"""
        names = ["localhost", "127.0.0.1"]  # both this machine, so that nothing is reached over a network
        for ranks in ["1", "2"]:
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "spread.toml").write_text(recipe)
                words = [d5, "search", f"{folder}/spread.toml", "--space", "batch=16,32,64,80", "--method", "grid", "--set",
                         f"ranks={ranks}", "--no-confirm", "--json", "--quiet", "--parallel", "2"]
                result = subprocess.run([*words, "-o", f"{folder}/out", "--hosts", ",".join(names)], capture_output=True,
                                        text=True, timeout=120)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                trials = [r for r in map(json.loads, result.stdout.splitlines()) if r["kind"] == "train"]
                self.assertEqual({tuple(t["details"]["search"]["hosts"]) for t in trials}, {(n,) for n in names})
                self.assertEqual([t["status"] for t in trials], ["passed"] * 4, [t["reason"] for t in trials])
                here = subprocess.run([*words, "-o", f"{folder}/here"], capture_output=True, text=True, timeout=120)
                self.assertEqual(here.returncode, 0, here.stdout + here.stderr)
                hashes = lambda text: {(r["case"]["batch"], r["details"]["training"]["weights_hash"])
                                       for r in map(json.loads, text.splitlines()) if r["kind"] == "train"}
                self.assertEqual(hashes(result.stdout), hashes(here.stdout))
                more = subprocess.run([*words[:-1], "3", "-o", f"{folder}/more", "--hosts", ",".join(names)],
                                      capture_output=True, text=True, timeout=120)
                self.assertEqual(more.returncode, 2, more.stdout)
                self.assertIn("parallel is 3, but there are 2 hosts", more.stderr)

    def test_checkpoints_go_on_bit_for_bit(self):
        for ranks, schemes in [("2", "dsgd,zero1,mavg:period=4"), ("4", "pssgd,zero1,sparcml:density=0.1,easgd,dpsgd")]:
            both = ["--ranks", ranks, "--scheme", schemes]
            whole = self.weights(*both, "--communicator", "threads")
            with tempfile.TemporaryDirectory() as folder:
                saved = [*both, "--checkpoint", folder, "--every", "4", "--resume"]
                self.weights(*saved, "--communicator", "mpi", "--steps", "6")  # saved at 4, and where it ends
                records = self.records(*saved, "--communicator", "mpi")
                self.assertEqual({r["details"]["training"]["resumed_at_step"] for r in records}, {6})
                self.assertEqual([r["details"]["training"]["weights_hash"] for r in records], whole)
                self.assertEqual(len(list(Path(folder).iterdir())), len(whole) * int(ranks))
                # Threads go on from what processes wrote: it is finished, and the same.
                self.assertEqual(self.weights(*saved, "--communicator", "threads"), whole)

    def test_other_numbers_of_ranks_go_on(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = ["--communicator", "mpi", "--scheme", "dsgd,zero1,mavg", "--checkpoint", folder, "--every", "3"]
            self.records(*saved, "--ranks", "2", "--steps", "6")
            for record in self.records(*saved, "--ranks", "4", "--resume", "--from-ranks", "2"):
                self.assertEqual(record["details"]["training"]["resumed_at_step"], 6)
                self.assertEqual(record["details"]["training"]["samples"], 320)

    def test_ranks_join_at_the_only_checkpoint_there_is(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = ["--checkpoint", folder, "--every", "3"]
            self.records(*saved, "--ranks", "2", "--steps", "6")
            record, = self.records(*saved, "--ranks", "4", "--steps", "7", "--resume")
            self.assertEqual(record["details"]["training"]["resumed_at_step"], 6)
            result = train(*saved, "--ranks", "8", "--resume")
            self.assertNotEqual(result.returncode, 0)
            self.assertRegex(result.stdout, "-2ranks.d5c, .*-4ranks.d5c; --from-ranks says which")
            result = train(*saved, "--ranks", "8", "--resume", "--from-ranks", "3")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("from_ranks is 3, and there is no", result.stdout)
        with tempfile.TemporaryDirectory() as folder:  # numbers of ranks beside each other, as in a study, are trainings of their own
            records = self.records("--checkpoint", folder, "--resume", "--ranks", "1,2")
            self.assertEqual([r["details"]["training"]["resumed_at_step"] for r in records], [0, 0])
            self.assertTrue(any("began anew" in w for w in records[1]["warnings"]), records[1]["warnings"])

    def test_the_communicator_follows_the_place(self):
        cluster = {"D5_CLUSTER_HOSTS": "localhost"}
        for words, environment, communicator in [(["--ranks", "2"], {}, "threads"), (["--ranks", "2"], cluster, "mpi"),
                                                 (["--ranks", "1"], cluster, "threads"), (["--ranks", "2", "--launcher", "mpirun"], {}, "mpi"),
                                                 (["--ranks", "2", "--communicator", "threads"], cluster, "threads")]:
            result = train(*words, "--steps", "1", environment=environment)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            record, = [r for r in map(json.loads, result.stdout.splitlines()) if r["kind"] == "train"]
            self.assertEqual(record["case"]["communicator"], communicator)
        self.assertIn("--communicator threads", record["rerun"])  # what is usual there is another
        result = train("--ranks", "2", "--launcher", "mpirun", "--communicator", "threads")
        self.assertEqual(result.returncode, 2)
        self.assertIn("launcher mpirun", result.stderr)

    def test_machines_are_counted(self):
        result = train("--ranks", "2", "--communicator", "mpi", "--ranks-per-node", "1")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("2 ranks, 1 on each machine, need 2 machines; there is 1", result.stdout)
        result = train("--ranks", "2", "--communicator", "mpi", "--ranks-per-node", "-1")
        self.assertEqual(result.returncode, 2)

    def test_inside_mpirun_one_rank_says_that_d5_starts_its_own(self):
        for words in [["train", *LITTLE, "--ranks", "2", "--communicator", "mpi"], ["comm", "--ranks", "2"]]:
            result = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", d5, *words], capture_output=True,
                                    text=True, timeout=60)
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(result.stderr.count("d5 starts its ranks itself"), 1, result.stderr)
            self.assertNotIn("recursive", result.stderr)

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

    def by_mpirun(self, *programs):
        """Ranks that were started by hand, each (program, file of its case)."""
        words = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
        for program, case in programs:
            words += [":"] if words[-1] != "--oversubscribe" else []
            words += ["-n", "1", program, "train-rank", case]
        return subprocess.run(words, capture_output=True, text=True, timeout=60)

    def test_ranks_with_other_cases_or_programs_are_named(self):
        case = {k: v for k, v in self.records("--ranks", "2", "--communicator", "mpi")[0]["case"].items()}
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number, seed in enumerate([1, 2]):
                files.append(f"{folder}/{number}.json")
                Path(files[-1]).write_text(json.dumps({"fields": {**case, "seed": seed}, "depth": "measure"}))
            result = self.by_mpirun((d5, files[0]), (d5, files[1]))
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("rank 1 has another case than rank 0", result.stderr)
            # The same program, but for a byte at its end.
            Path(folder, "bin").mkdir()
            Path(folder, "lib").symlink_to(Path(d5).parent.parent / "lib")
            other = Path(folder, "bin", "d5")
            other.write_bytes(Path(d5).read_bytes() + b" ")
            other.chmod(0o755)
            result = self.by_mpirun((d5, files[0]), (str(other), files[0]))
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("rank 1 is another program than rank 0", result.stderr)

    def test_ranks_that_an_mpirun_of_another_library_started_do_not_train(self):
        """Each of them would be alone: here one that was started alone, and a mpirun whose ranks are."""
        case = {k: v for k, v in self.records("--ranks", "2", "--communicator", "mpi")[0]["case"].items()}
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "case").write_text(json.dumps({"fields": case, "depth": "measure"}))
            result = self.by_mpirun((d5, f"{folder}/case"))
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("1 ranks were started, the case is for 2", result.stderr)
            mpirun = Path(folder, "mpirun")
            mpirun.write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo 'HYDRA build details' && exit\n"
                              "while [ \"$1\" != -n ]; do shift; done\nshift 2\n\"$@\" & \"$@\" & wait\n")
            mpirun.chmod(0o755)
            result = train("--ranks", "2", "--communicator", "mpi", environment={"PATH": f"{folder}:{os.environ['PATH']}"})
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("1 ranks were started, the case is for 2", result.stdout + result.stderr)

    def test_a_missing_machine_and_no_mpi_are_said(self):
        words = ["--ranks", "2", "--communicator", "mpi"]
        result = train(*words, environment={"D5_CLUSTER_HOSTS": "d5-no-such-host,d5-no-such-host-2"})
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("d5-no-such-host", result.stdout + result.stderr)
        result = train(*words, environment={"PATH": "/there-is-no-such-folder"})
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("Open MPI", result.stdout + result.stderr)
        result = train("--ranks", "2", "--communicator", "threads", environment={"PATH": "/there-is-no-such-folder"})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_bucketed_schemes_say_what_they_hide(self):
        for record in self.records("--ranks", "2", "--communicator", "mpi", "--scheme", "dsgd,dsgd:bucket_mb=-1,compressed", "--epochs", "8"):
            scheme = record["details"]["training"]["scheme"]
            self.assertGreater(scheme["communication_s"], 0)
            self.assertGreater(scheme["bucket_mb"], 0)
            could = min(scheme["communication_s"], scheme["backward_s"])
            share = min(1, max(0, (scheme["communication_s"] - scheme["exposed_s"]) / could))
            self.assertAlmostEqual(record["metrics"]["hidden_share"]["median"], share, places=9)

    def test_a_trace_has_all_ranks_on_one_clock(self):
        for communicator in ["mpi", "threads"]:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "trace.json"
                self.records("--ranks", "4", "--communicator", communicator, "--epochs", "2", "--trace", str(path))
                events = json.loads(path.read_text())["traceEvents"]
            categories, steps = {}, {}
            for event in spans(self, events, 1e-3):
                categories.setdefault(event["pid"], set()).add(event["cat"])
                if event["cat"] == "step":
                    steps.setdefault(event["name"], []).append((event["ts"], event["ts"] + event["dur"]))
            self.assertEqual({e["args"]["name"] for e in events if e["name"] == "process_name"}, {f"rank {r}" for r in range(4)})
            for rank in range(4):
                self.assertLessEqual({"step", "input", "batch", "pass", "operator", "optimizer", "communication"}, categories[rank + 1])
            self.assertEqual(sorted(steps), [f"step {i}" for i in range(13, 18)])
            for times in steps.values():  # nobody ends a step before everyone has begun it
                self.assertEqual(len(times), 4)
                self.assertGreater(min(end for _, end in times), max(begin for begin, _ in times))

    def test_replayed_ranks_are_stamped(self):
        record, = self.records("--ranks", "4", "--communicator", "mpi", "--replay", "true", "--epochs", "2")
        self.assertIn("replayed", record["details"]["training"])
        self.assertTrue(any("replayed compute" in w for w in record["warnings"]), record["warnings"])

    def test_srun_starts_the_ranks_inside_an_allocation(self):
        """Of a stand-in; a real one where it is installed: slurm_test.py."""
        with tempfile.TemporaryDirectory() as folder:
            srun, log = Path(folder) / "srun", Path(folder) / "log"
            srun.write_text("#!/bin/sh\necho \"$@\" > " + str(log) + "\n"
                            "for word; do case $word in --ntasks=*) n=${word#*=}; shift;; --*) shift;; *) break;; esac; done\n"
                            "exec mpirun --oversubscribe -n $n \"$@\"\n")
            srun.chmod(0o755)
            slurm = {**os.environ, "PATH": folder + ":" + os.environ["PATH"], "SLURM_JOB_ID": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            result = train("--ranks", "2", "--communicator", "mpi", environment=slurm)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn("--ntasks=2", log.read_text())
            # The shell of an allocation may be a step of one task.
            shell = {**slurm, "SLURM_JOB_NUM_NODES": "1", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "PMI_SIZE": "1", "PMI_RANK": "0"}
            result = train("--ranks", "2", "--ranks-per-node", "2", environment=shell)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertRegex(log.read_text(), "--nodes=1 --ntasks-per-node=2")
            log.unlink()
            result = train("--ranks", "2", "--communicator", "mpi", "--launcher", "mpirun", environment=slurm)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertFalse(log.exists())

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
    mpi_tests.main(d5)
