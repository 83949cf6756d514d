#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program's contract as a user meets it: exit status, stdout and stderr, records, bad input. Usage: cli_test.py D5"""
import json
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

D5 = sys.argv.pop(1)
SOURCE = Path(__file__).resolve().parents[2]
QUICK = ["--launches", "1", "--rounds", "2", "--slice", "0.002", "--max-time", "0", "--quiet"]
SMALL = ["--m", "8", "--n", "8", "--k", "8"]


def d5(*arguments, timeout=120, **keywords):
    return subprocess.run([D5, *arguments], capture_output=True, text=True, timeout=timeout, **keywords)


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


class Cli(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def refused(self, result, *words, status=2):
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    # ---- what works
    def test_version_is_quick(self):
        times = []
        for _ in range(15):
            begin = time.perf_counter()
            result = d5("--version")
            times.append(time.perf_counter() - begin)
        self.assertRegex(result.stdout, r"^d5 \d+\.\d+\.\d+\n$")
        self.assertLessEqual(min(times), 0.030)

    def test_help_names_every_option_of_an_operator(self):
        text = d5("op", "Conv", "--help").stdout
        for option in ["--filter", "--stride", "--groups", "--backend", "--launches", "--json", "--output"]:
            self.assertIn(option, text)

    def test_axes_expand_with_the_last_fastest(self):
        result = d5("op", "Gemm", "--m", "512,1024", "--n", "128", "--k", "512", "--backend", "onednn,reference", "--pass",
                    "forward,backward", "--threads", "1,2", "--mode", "list")
        self.assertEqual(result.returncode, 0, result.stderr)
        cases = result.stdout.splitlines()
        self.assertEqual(len(cases), 16)
        self.assertIn("--backend onednn", cases[0])
        self.assertIn("--backend reference", cases[1])
        # Every printed command runs that very case.
        again = d5(*cases[5].split()[1:], "--mode", "list")
        self.assertEqual(again.stdout.strip(), cases[5])

    def test_the_operator_may_stand_anywhere(self):
        result = d5("op", "--json", "Gemm", "--m", "8", "--mode", "list")
        self.assertEqual(json.loads(result.stdout)["m"], 8, result.stderr)

    def test_check_mode_prints_a_table_and_writes_records(self):
        out = self.folder / "out"
        result = d5("op", "Relu,Softmax", "--shape", "4x5", "--backend", "reference", "--mode", "check", "-o", str(out))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Softmax f32 forward, 1 thread", result.stdout)
        self.assertIn(str(out / "records.jsonl"), result.stderr)
        self.assertNotIn("\033", result.stdout)
        records = lines((out / "records.jsonl").read_text())
        self.assertEqual([r["kind"] for r in records], ["environment", "op", "op"])

    def test_json_is_one_record_a_line_and_nothing_else(self):
        result = d5("op", "Gemm", *SMALL, "--backend", "reference", *QUICK, "--json", "-o", str(self.folder / "out"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        environment, record = lines(result.stdout)
        self.assertEqual(record["environment"], environment["environment"])
        self.assertEqual(record["status"], "passed")
        self.assertEqual(record["schema"], "d5-record/1")
        for name in ["time", "gflops", "error_linf"]:
            self.assertIn(name, record["metrics"])
        self.assertEqual(len(record["samples"]["time_s"]), len(record["samples"]["launch"]))
        self.assertIn(record["stopped"], ["converged", "max_time", "max_samples"])
        self.assertIn("environment", record)
        self.assertTrue(record["rerun"].startswith("d5 op Gemm"))

    def test_a_result_that_is_not_whole_is_a_failure(self):
        with open("/dev/full", "w") as full:
            for command in (["list", "dtypes"], ["op", "Relu", "--shape", "2x3", "--mode", "check", "--quiet", "-o", str(self.folder / "out")]):
                result = subprocess.run([D5, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
                self.assertEqual(result.returncode, 1, command)
                self.assertIn("stdout cannot be written", result.stderr)
        self.assertEqual([r["kind"] for r in lines((self.folder / "out/records.jsonl").read_text())], ["environment", "op"])

    def test_where_no_csv_can_be_made_nothing_is_run(self):
        out = self.folder / "out"
        op = ["op", "Relu", "--shape", "2x3", "--mode", "check", "--quiet", "-o", str(out), "--csv"]
        for path in (self.folder / "none/x.csv", self.folder):
            self.refused(d5(*op, str(path)), "[csv]", str(path), "cannot be written")
            self.assertEqual((out / "records.jsonl").read_text(), "")
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
        self.assertEqual(d5(*op, str(pipe)).returncode, 0)
        self.assertTrue(reader.communicate(timeout=10)[0].startswith("kind,"))
        self.assertTrue(pipe.is_fifo())  # it was written to, not replaced

    def test_lists(self):
        backends = lines(d5("list", "backends", "--json").stdout)
        self.assertEqual(next(b for b in backends if b["name"] == "reference")["available"], True)
        self.assertTrue(all({"name", "available", "reason"} <= set(b) for b in backends))
        operators = [o["name"] for o in lines(d5("list", "operators", "--json").stdout)]
        self.assertTrue({"Gemm", "MatMul", "Conv", "Relu", "Add", "MaxPool", "Softmax", "BatchNormalization"} <= set(operators))

    def test_optimizers_and_schedules_are_listed_with_their_values(self):
        optimizers = {o["name"]: o for o in lines(d5("list", "optimizers", "--json").stdout)}
        self.assertTrue({"sgd", "adam", "lamb", "lbfgs", "accelegrad"} <= set(optimizers))
        self.assertEqual(optimizers["adam"]["parameters"]["beta2"]["default"], "0.999")
        self.assertIn("clip_norm", optimizers["adam"]["parameters"])
        self.assertIn("warmup", d5("list", "schedules").stdout)

    def test_completion_scripts_are_valid_shell(self):
        script = d5("completion", "bash").stdout
        self.assertEqual(subprocess.run(["bash", "-n"], input=script, text=True).returncode, 0)
        answer = subprocess.run(
            ["bash", "-c", script + 'COMP_WORDS=(d5 op Gemm --back); COMP_CWORD=3; _d5; echo "${COMPREPLY[@]}"'],
            capture_output=True, text=True)
        self.assertIn("--backend", answer.stdout)
        self.assertIn("complete -c d5", d5("completion", "fish").stdout)

    def test_doctor_tells_the_machine_the_roofline_and_each_backend(self):
        report = json.loads(d5("doctor", "--json", timeout=300).stdout)
        self.assertGreater(report["roofline"][0]["peak_flops"]["f32"], 1e9)
        self.assertIn("reference", [b["name"] for b in report["backends"]])
        self.assertIsInstance(report["traps"], list)

    # ---- data sets
    def test_data_is_described_converted_and_verified(self):
        table = self.write("points.csv", "1,2,0\n3,4.5,1\n5,6,1\n")
        described = json.loads(d5("data", "info", table, "--json").stdout)
        self.assertEqual(described["samples"], 3)
        self.assertEqual(described["fields"][0], {"name": "value", "dtype": "f32", "shape": [2]})
        self.assertEqual(described["fields"][1]["classes"], 2)
        lowest = str(self.folder / "lowest.csv")  # an option takes one value, what follows is the target
        self.assertEqual(d5("data", "convert", table, "--option", "label=last", lowest, "--first", "1").returncode, 0)
        self.assertEqual(Path(lowest).read_text(), "value_0,value_1,label\n1,2,0\n")
        for name in ["points.npz", "points.tar", "points.tfrecord", "points.d5raw"]:
            target = str(self.folder / name)
            self.assertEqual(d5("data", "convert", table, target).returncode, 0)
            verdict = json.loads(d5("data", "verify", target, "--json").stdout)
            self.assertEqual((verdict["samples"], verdict["broken"], verdict["good"]), (3, 0, True), name)
            back = str(self.folder / (name + ".csv"))
            self.assertEqual(d5("data", "convert", target, back).returncode, 0)
            self.assertEqual(Path(back).read_text(), "value_0,value_1,label\n1,2,0\n3,4.5,1\n5,6,1\n", name)

    def test_data_that_is_damaged_or_missing(self):
        broken = d5("data", "verify", self.write("points.csv", "1,2,0\n3,x,1\n"))
        self.assertEqual(broken.returncode, 1)
        self.assertIn("points.csv:2", broken.stdout)
        empty_array = b"\x93NUMPY\x01\x00\x39\x00{'descr': '|u1', 'fortran_order': False, 'shape': (0, 3)}"
        for name, contents in (("e.tfrecord", b""), ("e.tar", bytes(1024)), ("e.bin", b""), ("e.idx", bytes([0, 0, 8, 1, 0, 0, 0, 0])),
                               ("e.npy", empty_array), ("e.csv", b""), ("e.npz", b"PK\x05\x06" + bytes(18))):
            path = self.folder / name
            path.write_bytes(contents)
            self.refused(d5("data", "verify", str(path)), name, "no", status=1)
        missing = d5("data", "info", "mnist", "--data", str(self.folder))
        self.refused(missing, "https://", str(self.folder), "f68b3c2dcbeaaa9fbdd348bbdeb94873", status=1)
        self.refused(d5("data", "info", "mnits"), "mnist")
        self.refused(d5("data", "info", self.write("x.csv", "1,2\n"), "--option", "lable=first"), "did you mean 'label'")
        report = d5("data", "verify", "mnist", "--data", str(self.folder), "--json")
        self.assertEqual(report.returncode, 1)
        self.assertIn("train-images", json.loads(report.stdout)["error"])
        self.refused(d5("data", "convert", self.write("points.csv", "1,2,0\n3,4,1\n"), str(self.folder / "x.npz.gz")), "gunzip")
        names = [row["name"] for row in lines(d5("list", "containers", "--json").stdout)]
        self.assertLessEqual({"idx", "cifar", "folder", "tar", "tfrecord", "hdf5", "npy", "npz", "raw", "lmdb", "csv", "text"}, set(names))
        self.assertIn("cifar-10", d5("list", "datasets").stdout)

    def test_data_convert_skips_what_is_broken_and_says_so(self):
        table = self.write("points.csv", "1,2,0\n3,x,1\n5,6,1\n")
        target = str(self.folder / "new/points.npz")
        self.assertEqual(d5("data", "convert", table, target).returncode, 1)
        self.assertEqual([str(p) for p in self.folder.rglob("*npz*")], [])
        result = d5("data", "convert", table, target, "--on-error", "skip", "--json")
        report = json.loads(result.stdout)
        self.assertEqual((result.returncode, report["samples"], len(report["skipped"])), (0, 2, 1))
        self.assertIn("points.csv:2", report["skipped"][0])
        self.assertEqual(json.loads(d5("data", "info", target, "--json").stdout)["samples"], 2)
        self.assertIn("points.csv:2", d5("data", "convert", table, target, "--on-error", "skip").stderr)
        self.refused(d5("data", "convert", table, target, "--on-error", "ignore"), "legal: fail, skip")

    def test_data_info_tells_the_optimum_of_what_is_generated(self):
        told = json.loads(d5("data", "info", "generated-text", "--option", "sharpness=0", "--option", "symbols=4", "--json").stdout)
        self.assertEqual(told["optimum"]["metric"], "bits per symbol")
        self.assertAlmostEqual(told["optimum"]["value"], 2)  # four symbols, equally likely
        self.assertIn("optimum    accuracy", d5("data", "info", "generated-images").stdout)

    @unittest.skipUnless(shutil.which("tar"), "there is no tar")
    def test_data_of_an_archive_with_links(self):
        for name in ("cats", "dogs"):
            (self.folder / "set" / name).mkdir(parents=True)
        (self.folder / "set/cats/1.ppm").write_bytes(b"P6 1 1 255\n\1\2\3")
        os.link(self.folder / "set/cats/1.ppm", self.folder / "set/dogs/2.ppm")
        os.symlink("../cats/1.ppm", self.folder / "set/dogs/3.ppm")
        archive = str(self.folder / "x.tar")
        subprocess.run(["tar", "-C", str(self.folder / "set"), "-cf", archive, "--sort=name", "cats", "dogs"], check=True)
        verdict = json.loads(d5("data", "verify", archive, "--json").stdout)
        self.assertEqual((verdict["samples"], verdict["broken"]), (3, 0))
        target = self.folder / "pictures"
        self.assertEqual(d5("data", "convert", archive, str(target), "--to", "folder").returncode, 0)
        self.assertEqual([picture.read_bytes() for picture in target.rglob("*.ppm")], [b"P6 1 1 255\n\1\2\3"] * 3)
        os.symlink("../../secret.ppm", self.folder / "set/dogs/4.ppm")
        subprocess.run(["tar", "-C", str(self.folder / "set"), "-cf", archive, "cats", "dogs"], check=True)
        broken = d5("data", "verify", archive)
        self.assertEqual(broken.returncode, 1)
        self.assertRegex(broken.stdout, "dogs/4.*leaves the archive")
        skipped = d5("data", "bench", archive, "--pixels", "4", "--on-error", "skip", "--mode", "check", "--batch", "4", "--json", "--quiet", "-o", str(self.folder / "out"))
        record = lines(skipped.stdout)[-1]
        self.assertEqual(record["status"], "passed", record)

    def test_data_whose_names_are_no_utf8(self):
        with tarfile.open(self.folder / "x.tar", "w", format=tarfile.GNU_FORMAT) as archive:
            archive.addfile(tarfile.TarInfo(b"\xff\xfe.ppm".decode("utf-8", "surrogateescape")))
        for command in ["info", "verify"]:
            json.loads(d5("data", command, str(self.folder / "x.tar"), "--json").stdout)

    # ---- storage
    def test_storage_of_folders_is_recorded_and_compared(self):
        (self.folder / "a").mkdir()
        (self.folder / "b").mkdir()
        staged = self.write("staged", "x" * 100000)
        paths = [str(self.folder / "a"), str(self.folder / "b")]
        quick = ["--mebibytes", "2", "--files", "20", "--block", "1000", "--threads", "2", "--launches", "2", "--quiet"]
        outs = [str(self.folder / name) for name in ("one", "two")]
        for out in outs:
            result = d5("data", "storage", *paths, "--stage", staged, *quick, "-o", out)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("MB/s", result.stdout)
            self.assertIn("files/s", result.stdout)
        file = self.folder / "one/records.jsonl"
        valid = subprocess.run([sys.executable, str(SOURCE / "tests/schema/validate.py"), str(SOURCE / "docs/record.schema.json"), str(file)],
                               capture_output=True, text=True)
        self.assertEqual(valid.returncode, 0, valid.stdout + valid.stderr)
        environment, *records = lines(file.read_text())
        self.assertEqual(environment["kind"], "environment")
        self.assertEqual(len(records), 2 * 10)  # reads are hot and cold
        for record in records:
            case, name = record["case"], record["case"]["load"]
            self.assertEqual((record["kind"], record["environment"]), ("storage", environment["environment"]))
            if record["status"] == "unsupported":
                self.assertEqual(case["cache"], "cold")
                self.assertIn("keeps the pages", record["reason"])
                continue
            self.assertEqual(record["samples"]["launch"], [0, 1], name)
            amount = {"sequential-read": 2 << 20, "random-read": 1000, "checkpoint-write": 2 << 20, "staging": 100000}.get(name, 1)
            metric = record["metrics"]["rate" if name.startswith("file-") else "bandwidth"]
            expected = amount / statistics.median(record["samples"]["time_s"]) * (1 if name.startswith("file-") else 1e-6)
            self.assertAlmostEqual(metric["median"], expected, delta=1e-6 * expected)
        groups = {}
        for record in records:
            groups.setdefault(record["group"], []).append(record["case"]["path"])
        self.assertTrue(all(group == paths for group in groups.values()), groups)
        self.assertEqual(sorted(p.name for p in self.folder.glob("[ab]/*")), [])  # nothing stays
        compared = lines(d5("compare", *outs, "--json").stdout)
        self.assertEqual(len(compared), sum(record["status"] == "passed" for record in records))
        again = d5(*shlex.split(records[0]["rerun"])[1:], "--launches", "1", "--json", "--quiet", "-o", str(self.folder / "again"))
        self.assertEqual([r["case"] for r in lines(again.stdout)[1:]], [records[0]["case"]])

    def test_storage_that_cannot_be_measured(self):
        here = str(self.folder)
        self.refused(d5("data", "storage", here + "/none"), "none' is no folder")
        self.refused(d5("data", "storage", here, here), "named twice")
        self.refused(d5("data", "storage", here, "--load", "file-copy"), "unknown load 'file-copy'", "file-create")
        self.refused(d5("data", "storage", here, "--cache", "warm"), "hot, cold")
        self.refused(d5("data", "storage", here, "--load", "staging"), "--stage")
        self.refused(d5("data", "storage", here, "--load", "file-read", "--stage", here), "leaves out")
        result = d5("data", "storage", "/proc", "--load", "checkpoint-write,file-create", "--launches", "1", "--quiet", "--json", "-o", here + "/out")
        self.assertEqual(result.returncode, 1)
        self.assertEqual([(r["status"], "/proc" in r["reason"]) for r in lines(result.stdout)[1:]], [("error", True)] * 2)

    # ---- files: compare, run again, csv
    def measured(self, name, *more):
        out = self.folder / name
        result = d5("op", "Gemm", *SMALL, "--backend", "reference", "--launches", "6", "--rounds", "2", "--slice", "0.001", "--max-time", "0",
                    "--quiet", "-o", str(out), *more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out

    def test_compare_run_again_and_csv(self):
        first = self.measured("a", "--csv", str(self.folder / "a.csv"))
        self.assertIn("time_median", (self.folder / "a.csv").read_text().splitlines()[0])
        second = self.folder / "b"
        second.mkdir()
        # The second file is the first, with every time doubled: the gate must see it.
        slow = []
        for record in lines((first / "records.jsonl").read_text()):
            if record["kind"] == "op":
                record["samples"]["time_s"] = [2 * t for t in record["samples"]["time_s"]]
            slow.append(json.dumps(record))
        (second / "records.jsonl").write_text("\n".join(slow) + "\n")
        result = d5("compare", str(first), str(second), "--fail-on", "slower")
        self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
        self.assertIn("slower", result.stdout)
        self.assertEqual(d5("compare", str(first), str(second)).returncode, 0)
        self.assertEqual(d5("compare", str(first), str(first), "--fail-on", "slower").returncode, 0)
        again = d5("run", str(second), "--launches", "6", "--rounds", "2", "--slice", "0.001", "--max-time", "0", "--quiet", "-o",
                   str(self.folder / "c"))
        self.assertEqual(again.returncode, 3, again.stdout + again.stderr)  # twice as fast as the record claims

    def test_a_truncated_records_file_is_named_with_its_line_and_the_rest_used(self):
        first = self.measured("a")
        file = first / "records.jsonl"
        text = file.read_text()
        file.write_text(text + text.splitlines()[1][:100])
        result = d5("compare", str(first), str(first))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("records.jsonl:3", result.stderr)
        self.assertIn("same", result.stdout)

    # ---- recipes
    def test_a_recipe_runs_and_mutable_values_can_be_set(self):
        recipe = self.write("r.toml", 'name = "r"\nlevel = 0\n[fixed]\noperator = "Relu"\n[mutable]\nshape = "4x4"\n'
                                      '[measure]\nlaunches = 1\nmax_time = 0.0\n')
        result = d5("run", recipe, "--set", "shape=2x2,3x3", "--mode", "list")
        self.assertEqual(len(result.stdout.splitlines()), 2, result.stderr)
        self.refused(d5("run", recipe, "--set", "operator=Add", "--mode", "list"), "operator", "fixed")

    def test_accept_refuses_with_3(self):
        recipe = self.write("r.toml", 'name = "r"\nlevel = 0\n[fixed]\noperator = "Gemm"\nm = 8\nn = 8\nk = 8\n'
                                      '[measure]\nlaunches = 6\nrounds = 2\nslice = 0.001\nmax_time = 0.0\n[accept]\ngflops = ">= 1e9"\n')
        self.refused(d5("run", recipe, "--quiet", "-o", str(self.folder / "o")), "gflops", status=3)

    def test_broken_recipes_name_file_line_and_column(self):
        self.refused(d5("run", self.write("a.toml", 'name = "a"\nlevel = 0\n[fixd]\nm = 1\n')), "a.toml:3", "fixed")
        self.refused(d5("run", self.write("b.toml", 'name = "b"\nlevel = 0\n[fixed]\noperator = "Gem"\n')), "b.toml:4", "Gemm")
        self.refused(d5("run", self.write("c.toml", 'name = "c\n')), "c.toml:1")
        self.refused(d5("run", str(self.folder / "none.toml")), "none.toml")

    # ---- bad input
    def test_unknown_names_suggest_the_nearest(self):
        self.refused(d5("op", "Gem"), "did you mean 'Gemm'")
        self.refused(d5("op", "Gem", "--m", "8"), "did you mean 'Gemm'")
        self.refused(d5("op", "Gemm", "--backend", "onedn"), "onednn")
        self.refused(d5("op", "Gemm", "--bakend", "onednn"), "--backend")
        self.refused(d5("op", "Gemm", "--dtype", "f33"), "f32")
        self.refused(d5("op", "Gemm", "--pass", "forwards"), "forward")
        self.refused(d5("lst"), "list")
        self.refused(d5("list", "backend"), "backends")
        self.refused(d5("op", "Gemm", "--mode", "chek"), "check")
        self.refused(d5("op", "Gemm", "--m", "many"), "many")
        self.refused(d5("op", "Gemm", "--threads", "0"), "threads", "0")
        for limit in ("-1", "nan"):
            self.refused(d5("op", "Gemm", "--memory-limit", limit), f"memory limit is {limit}")
        for field, value in (("kernel", b"\xff"), ("environment", b"A=\xff")):
            result = subprocess.run([D5, "op", "Gemm", "--" + field, value], capture_output=True, timeout=120)
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"{field} is".encode(), result.stderr)
            self.assertIn(b"no UTF-8", result.stderr)

    def error_record(self, *arguments):
        result = d5("op", *arguments, "--mode", "check", "--json", "--quiet", "-o", str(self.folder / f"o{time.monotonic_ns()}"))
        record = lines(result.stdout)[-1]
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(record["status"], ["error", "failed"])
        return record["reason"]

    def test_impossible_and_overflowing_shapes_and_memory(self):
        self.assertIn("filter", self.error_record("Conv", "--size", "4x4", "--filter", "9x9").replace("kernel", "filter"))
        self.assertIn("elements", self.error_record("Gemm", "--m", "4000000000", "--n", "4000000000", "--k", "4000000000"))
        self.assertIn("-3", self.error_record("Gemm", "--m", "-3"))

    def test_what_does_not_fit_the_memory_is_skipped_with_the_figure(self):
        result = d5("op", "Relu", "--shape", "1000000x1000000", "--mode", "check", "--json", "--quiet", "-o", str(self.folder / "o"))
        self.assertEqual(result.returncode, 0, result.stderr)
        record = lines(result.stdout)[-1]
        self.assertEqual(record["status"], "skipped")
        self.assertRegex(record["reason"], r"needs about \d+\.\d GiB")

    # ---- suites
    def test_a_suite_is_run_selected_and_summed_up(self):
        names = [s["name"] for s in lines(d5("list", "suites", "--json").stdout)]
        self.assertTrue({"deepbench-gemm", "deepbench-conv", "deepbench-rnn", "deepbench-sparse-gemm", "resnet50-layers",
                         "transformer-layers", "elementwise-sweep", "reduction-sweep", "streaming"} <= set(names))
        cases = lines(d5("op", "--suite", "deepbench-gemm", "--set", "training", "--mode", "list", "--json").stdout)
        self.assertEqual(len(cases), 160)
        self.assertEqual([cases[0][k] for k in ("m", "n", "k")], [16, 1760, 1760])
        replaced = d5("op", "Conv", "--suite=resnet50-layers", "--set", "batch1", "--n", "3", "--pass", "forward,backward",
                      "--mode", "list", "--json")
        self.assertEqual({c["n"] for c in lines(replaced.stdout)}, {3}, replaced.stderr)

    SUITE = "# Two\noperator,set,m,n,k,shape\nGemm,a,8,8,8,\nRelu,b,,,,4x5\n"

    def test_records_of_a_suite_carry_its_rows(self):
        suite = self.write("two.csv", self.SUITE)
        result = d5("op", "--suite", suite, "--backend", "reference", *QUICK, "-o", str(self.folder / "o"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Suite two, f32 forward, 1 thread", result.stdout)
        records = lines((self.folder / "o" / "records.jsonl").read_text())
        self.assertEqual([r["details"].get("suites") for r in records[1:]],
                         [[{"suite": "two", "set": "a", "line": 3}], [{"suite": "two", "set": "b", "line": 4}]])
        recipe = self.write("r.toml", 'name = "r"\nlevel = 0\n[[cases]]\nsuite = "two.csv"\nset = "b"\n')
        self.assertEqual(d5("run", recipe, "--mode", "list").stdout, "d5 op Relu --backend reference --shape 4x5\n")

    def test_bad_rows_are_named_and_the_rest_runs(self):
        suite = self.write("bad.csv", self.SUITE + "Gemm,a,many,8,8,\nGem,a,8,8,8,\nConv,a,1,,,\nRelu,b\nGemm,a,-3,8,8,\n")
        result = d5("op", "--suite", suite, "--mode", "check", "--quiet", "--json", "-o", str(self.folder / "o"))
        self.refused(result, "bad.csv:5:8: [Gemm] m is 'many'", "bad.csv:6:1: ", "did you mean 'Gemm'", "bad.csv:7:8: ", "bad.csv:8:1: 2 cells",
                     "bad.csv:9:1: ", "-3", status=1)
        self.assertEqual([r["status"] for r in lines(result.stdout)[1:]], ["passed", "passed"])
        none = self.write("none.csv", "operator,m\nGemm,many\n")
        self.refused(d5("op", "--suite", none, "--mode", "list"), "none.csv:2:6", "no row is left")
        self.refused(d5("op", "--suite", "deepbench-gem"), "did you mean 'deepbench-gemm'")
        self.refused(d5("op", "--suite", suite, "--set", "c"), "unknown set 'c'")
        self.refused(d5("op", "--mode", "list"), "--suite")
        self.refused(d5("op", "Gemm", "--set", "training"), "--suite")

    # ---- metrics
    def test_metrics_are_chosen_by_name_and_leave_their_files(self):
        out = self.folder / "o"
        result = d5("op", "Softmax", "--shape", "8x9", "--backend", "reference", *QUICK, "-o", str(out), "--metric",
                    "repeatability,difference_map,variance_map,share,energy")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("repeatability", result.stdout)
        record = lines((out / "records.jsonl").read_text())[-1]
        self.assertEqual(record["metrics"]["repeatability"]["median"], 0)
        self.assertEqual(record["metrics"]["difference_map"]["n"], 72)
        self.assertIn("share", record["metrics"])
        for name in ["difference_map", "variance_map"]:
            for file in record["details"]["metrics"][name]["files"]:
                self.assertIn("<svg", (out / file).read_text())
        if "energy" not in record["metrics"]:
            self.assertTrue(any(w.startswith("energy: unavailable: ") for w in record["warnings"]), record["warnings"])
        self.refused(d5("op", "Softmax", "--metric", "energie"), "energy")
        self.assertTrue({"time", "energy"} <= {m["name"] for m in lines(d5("list", "metrics", "--json").stdout)})

    def test_support_tells_who_takes_what(self):
        result = d5("list", "operators", "--support", "--backend", "reference", "--operator", "Gemm,Conv", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        cells = {(r["operator"], r["dtype"], r["pass"]): r for r in lines(result.stdout)}
        self.assertGreater(cells["Gemm", "f32", "backward"]["passed"], 3)
        self.assertIn(("Gemm", "i32", "forward"), cells)
        self.assertNotIn(("Conv", "i32", "forward"), cells)
        self.assertRegex(d5("list", "operators", "--support", "--backend", "reference", "--operator", "Gemm").stdout, r"Gemm +reference +both")
        self.refused(d5("list", "operators", "--support", "--operator", "Gem"), "Gemm")
        self.refused(d5("list", "backends", "--support"), "--support")

    def test_nan_inputs_are_followed_not_hidden(self):
        result = d5("op", "Gemm", *SMALL, "--inputs", "nan", "--backend", "reference", "--mode", "check", "--json", "--quiet", "-o",
                    str(self.folder / "o"))
        self.assertEqual(lines(result.stdout)[-1]["status"], "passed", result.stdout)

    def test_an_unwritable_folder_and_a_full_disk(self):
        self.write("file", "")
        self.refused(d5("op", "Gemm", *SMALL, "--mode", "check", "-o", str(self.folder / "file" / "x")), str(self.folder))
        (self.folder / "full").mkdir()
        os.symlink("/dev/full", self.folder / "full" / "records.jsonl")
        self.refused(d5("op", "Gemm", *SMALL, "--mode", "check", "-o", str(self.folder / "full")), "records.jsonl", "No space", status=1)

    def interrupted(self, number):
        out = self.folder / f"i{number}"
        process = subprocess.Popen([D5, "op", "Gemm", "--m", "8,16,24,32,40", "--n", "8", "--k", "8", "--backend", "reference", "--launches", "12",
                                    "--slice", "0.01", "--max-time", "0", "-o", str(out)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            file = out / "records.jsonl"
            if file.exists() and len(file.read_text().splitlines()) >= 2:
                break
            time.sleep(0.05)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, stderr)
        records = lines((out / "records.jsonl").read_text())
        self.assertGreaterEqual(len(records), 2)
        self.assertLess(len(records), 6)
        left = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout
        self.assertEqual(left, "")

    def test_control_c_and_sigterm_leave_whole_records(self):
        self.interrupted(signal.SIGINT)
        self.interrupted(signal.SIGTERM)

    def test_records_are_whole_after_sigkill(self):
        out = self.folder / "k"
        process = subprocess.Popen([D5, "op", "Gemm", "--m", "8,16,24", "--n", "8", "--k", "8", "--backend", "reference", "--slice", "0.01", "--max-time", "0",
                                    "--quiet", "-o", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            if (out / "records.jsonl").exists() and len((out / "records.jsonl").read_text().splitlines()) >= 2:
                break
            time.sleep(0.02)
        process.kill()
        process.wait()
        text = (out / "records.jsonl").read_text()
        whole = text[:text.rfind("\n") + 1]  # the record in flight may be cut
        self.assertGreaterEqual(len(lines(whole)), 2)

    def test_a_group_compares_with_the_first(self):
        if not next((b["available"] for b in lines(d5("list", "backends", "--json").stdout) if b["name"] == "onednn"), False):
            self.skipTest("onednn is off in this build")
        result = d5("op", "Gemm", "--m", "96", "--n", "96", "--k", "96", "--backend", "onednn,reference", "--slice", "0.002", "--max-time", "0", "--quiet",
                    "-o", str(self.folder / "o"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, re.compile(r"reference .*x slower \("))


if __name__ == "__main__":
    unittest.main(verbosity=2)
