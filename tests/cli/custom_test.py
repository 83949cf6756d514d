#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A user's own operators and kernels: --source, --plugin, D5_PLUGINS, and what goes wrong. Usage: custom_test.py D5 SOURCE"""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

D5 = sys.argv.pop(1)
SOURCE = Path(sys.argv.pop(1))
FAULTS = str(SOURCE / "tests/cli/faults.cpp")
HEADER = '#include "d5/operators/operator.hpp"\n'
SHARED = tempfile.TemporaryDirectory()  # what several tests compile is compiled once


def d5(*arguments, cache=SHARED.name, timeout=300, **environment):
    return subprocess.run([D5, *arguments], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, "XDG_CACHE_HOME": cache, **environment})


class Custom(unittest.TestCase):
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

    def check(self, *arguments, **keywords):
        """Operator, pass and kernel of each case with its status and reason, and the exit status."""
        result = d5("op", *arguments, "--shape", "2x4", "--mode", "check", "--json", "--quiet", "-o",
                    str(self.folder / f"o{time.monotonic_ns()}"), **keywords)
        records = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertGreater(len(records), 1, result.stdout + result.stderr)
        found = {}
        for r in records[1:]:
            found[r["case"]["operator"], r["case"]["pass"], r["case"]["kernel"]] = (r["status"], r["reason"])
        return found, result.returncode, records[1:]

    # ---- what goes wrong in an operator or kernel is named, and the rest runs
    def test_every_fault_is_named_and_the_rest_runs(self):
        names = "Crashes,Hangs,Overruns,WrongShape,NotWritten,Right,Relu"
        found, status, _ = self.check(names, "--source", FAULTS, "--time-limit", "4")
        self.assertEqual(status, 1)
        expected = {"Crashes": ("error", "SIGSEGV"), "Hangs": ("error", "no answer within 4 s"),
                    "Overruns": ("error", "[Overruns] wrote byte 1 beyond the end of output 0"),
                    "WrongShape": ("error", "[WrongShape] made output 0 as f64[3]; infer() promised f64[2x4]"),
                    "NotWritten": ("failed", "y0[5] is nan although every input is finite"),
                    "Right": ("mistrusted", "its only implementation is its own oracle"), "Relu": ("passed", "")}
        for operator, (kind, words) in expected.items():
            got = found[operator, "forward", "builtin"]
            self.assertEqual(got[0], kind, (operator, got))
            self.assertIn(words, got[1], operator)

    def test_faults_before_it_computes_are_named_too(self):
        names = "InferCrashes,InferHangs,InferThrows,CostCrashes,DescribeCrashes,ConstructorThrows,Relu"
        found, status, _ = self.check(names, "--source", FAULTS, "--time-limit", "4")
        self.assertEqual(status, 1)
        expected = {"InferCrashes": "[InferCrashes] infer crashes: SIGSEGV", "InferHangs": "[InferHangs] infer does not end within",
                    "InferThrows": "[InferThrows] infer throws: at(3)", "CostCrashes": "[CostCrashes] cost crashes: SIGFPE",
                    "DescribeCrashes": "[DescribeCrashes] describe crashes: SIGABRT",
                    "ConstructorThrows": "[ConstructorThrows] its constructor throws: no such attribute"}
        for operator, words in expected.items():
            kind, reason = found[operator, "forward", "builtin"]
            self.assertEqual(kind, "error", operator)
            self.assertIn(words, reason)
        self.assertEqual(found["Relu", "forward", "builtin"], ("passed", ""))
        suite = self.write("rows.csv", "operator,shape\nInferCrashes,2x4\nRelu,2x4\n")
        result = d5("op", "--suite", suite, "--source", FAULTS, "--mode", "check", "--quiet", "-o", str(self.folder / "rows"))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("rows.csv:2", result.stderr)
        self.assertIn("[InferCrashes] infer crashes: SIGSEGV", result.stderr)
        self.assertIn("Relu", result.stdout)
        listed = d5("list", "operators", "--support", "--operator", "InferCrashes,DescribeCrashes,Relu", "--backend", "reference",
                    "--source", FAULTS, "--json")
        self.assertEqual(listed.returncode, 1, listed.stderr)
        rows = [json.loads(line) for line in listed.stdout.splitlines()]
        reasons = {r["operator"]: r["reasons"] for r in rows if r["failed"] and r["dtype"] == "f32"}
        self.assertEqual(sorted(reasons), ["DescribeCrashes", "InferCrashes"])
        self.assertIn("crashes: SIGABRT", reasons["DescribeCrashes"][0])
        self.assertTrue(any(r["operator"] == "Relu" and r["passed"] for r in rows))

    def test_stray_writes_are_found_far_away_and_in_inputs(self):
        found, _, _ = self.check("FarBeyond,BeyondItsInput,WritesItsInput", "--source", FAULTS)
        self.assertEqual(found["FarBeyond", "forward", "builtin"],
                         ("error", "[FarBeyond] wrote byte 8001 beyond the end of output 0"))
        self.assertEqual(found["BeyondItsInput", "forward", "builtin"],
                         ("error", "[BeyondItsInput] wrote byte 1 before the begin of input 0"))
        self.assertIn("[WritesItsInput] changed input 0", found["WritesItsInput", "forward", "builtin"][1])
        found, _, _ = self.check("VeryFarBeyond,VeryFarBefore,WritesOnAndOn", "--source", FAULTS)
        gib = 1 << 30
        for operator, expected in {
                "VeryFarBeyond": ("error", f"[VeryFarBeyond] wrote byte {gib + 1} beyond the end of output 0"),
                "VeryFarBefore": ("error", f"[VeryFarBefore] wrote byte {gib} before the begin of input 0")}.items():
            self.assertEqual(found[operator, "forward", "builtin"], expected)
        self.assertIn("SIGSEGV", found["WritesOnAndOn", "forward", "builtin"][1])  # more than the guards bear
        found, _, _ = self.check("Right", "--source", FAULTS, "--kernel", "builtin,distant,remote,spoils")
        self.assertEqual(found["Right", "forward", "remote"],
                         ("failed", f"Right (square) wrote byte {12 * gib + 1} beyond the end of y0"))
        self.assertEqual(found["Right", "forward", "distant"], ("failed", "Right (square) wrote byte 8001 beyond the end of y0"))
        self.assertEqual(found["Right", "forward", "spoils"], ("failed", "x0 was written to: a kernel may only read it"))
        backends = [json.loads(line) for line in d5("list", "backends", "--json").stdout.splitlines()]
        if any(b["name"] == "torch" and b["available"] for b in backends):
            found, _, _ = self.check("Right", "--source", FAULTS, "--kernel", "fast,beyond,distant,remote", "--backend", "torch")
            self.assertEqual(found["Right", "forward", "fast"], ("passed", ""))
            self.assertEqual(found["Right", "forward", "beyond"], ("failed", "Right (square) wrote byte 1 beyond the end of y0"))
            self.assertEqual(found["Right", "forward", "distant"], ("failed", "Right (square) wrote byte 8001 beyond the end of y0"))
            self.assertEqual(found["Right", "forward", "remote"],
                             ("failed", f"Right (square) wrote byte {12 * gib + 1} beyond the end of y0"))

    def test_a_kernel_that_stops_computing_while_it_is_timed_fails(self):
        out = self.folder / "lazy"
        result = d5("op", "Right", "--kernel", "fast,lazy", "--shape", "64x64", "--source", FAULTS, "--launches", "1", "--rounds", "2",
                    "--slice", "0.001", "--max-time", "0", "--quiet", "-o", str(out))
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()[1:]]
        found = {r["case"]["kernel"]: (r["status"], r["reason"]) for r in records}
        self.assertEqual(found["fast"], ("passed", ""))
        self.assertEqual(found["lazy"][0], "failed")
        self.assertRegex(found["lazy"][1], r"after the measurement: y0\[0\] is -?nan")

    def test_results_that_differ_between_runs_and_infinite_ones(self):
        found, _, records = self.check("LeavesAnInteger,Infinite", "--source", FAULTS)
        kind, reason = found["LeavesAnInteger", "forward", "builtin"]
        self.assertEqual(kind, "failed")
        self.assertIn("y0[0] differs between two runs on the same inputs: never written", reason)
        infinite = next(r for r in records if r["case"]["operator"] == "Infinite")
        self.assertIn("y0[1] is infinite although every input is finite", infinite["warnings"])

    def test_a_metric_that_crashes_or_throws_is_a_warning(self):
        found, status, records = self.check("Relu,Abs", "--source", FAULTS, "--metric", "value_throws,value_crashes,value_is_fine")
        self.assertEqual(status, 0)
        self.assertEqual(len(records), 2)
        for record in records:
            self.assertEqual(record["status"], "passed")
            self.assertIn("value_throws: unavailable: [value_throws] value throws: no value today", record["warnings"])
            self.assertTrue(any("[value_crashes] value crashes: SIGSEGV" in w for w in record["warnings"]), record["warnings"])
            self.assertEqual(record["metrics"]["value_is_fine"]["median"], 42)

    def test_a_metric_that_fails_elsewhere_is_a_warning_too(self):
        names = {"see_throws_a_number": "see throws: an exception of an unknown type", "cannot_be_made": "its constructor throws: not today",
                 "reports_a_list": "its report is [1,2]; an object is wanted"}
        _, status, records = self.check("Relu", "--source", FAULTS, "--metric", ",".join(names))
        self.assertEqual((status, records[0]["status"]), (0, "passed"), records[0]["reason"])
        for name, words in names.items():
            self.assertTrue(any(w.startswith(f"{name}: unavailable:") and words in w for w in records[0]["warnings"]), records[0]["warnings"])
        result = d5("list", "metrics", "--source", FAULTS, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = {row["name"]: row for row in map(json.loads, result.stdout.splitlines())}
        self.assertIn("[about_crashes] what it says of itself crashes: SIGSEGV", rows["about_crashes"]["unavailable"])
        self.assertEqual(rows["value_is_fine"]["about"], "nothing")
        self.assertIn("repeatability", rows)

    def test_a_cost_that_is_no_number_is_named(self):
        found, status, _ = self.check("CostIsNoNumber,Right", "--source", FAULTS)
        self.assertEqual(status, 1)
        self.assertEqual(found["CostIsNoNumber", "forward", "builtin"],
                         ("error", "[CostIsNoNumber] cost gives nan operations and 8 bytes; finite numbers of 0 or more are wanted"))
        self.assertEqual(found["Right", "forward", "builtin"][0], "mistrusted")

    def test_gradients_from_outside_are_checked_by_central_differences(self):
        found, _, _ = self.check("Right,WrongGradient,NoGradient", "--source", FAULTS, "--pass", "backward")
        self.assertEqual(found["Right", "backward", "builtin"], ("passed", ""))
        self.assertEqual(found["NoGradient", "backward", "builtin"], ("unsupported", "NoGradient has no gradient"))
        status, reason = found["WrongGradient", "backward", "builtin"]
        self.assertEqual(status, "failed")
        self.assertIn("gradient of x0[3]", reason)
        self.assertIn("by central differences", reason)

    def test_kernels_are_checked_against_the_oracle(self):
        found, status, _ = self.check("Right", "--source", FAULTS, "--kernel", "builtin,fast,beyond,nan")
        self.assertEqual(status, 1)
        self.assertEqual(found["Right", "forward", "fast"], ("passed", ""))  # a second opinion
        self.assertEqual(found["Right", "forward", "beyond"], ("failed", "Right (square) wrote byte 1 beyond the end of y0"))
        self.assertEqual(found["Right", "forward", "nan"][0], "failed")
        self.assertIn("y0[2] is nan", found["Right", "forward", "nan"][1])

    def test_an_unknown_kernel_is_an_error_with_the_legal_ones(self):
        found, status, _ = self.check("Right", "--source", FAULTS, "--kernel", "fats,builtin,foreign")
        self.assertEqual(status, 1)
        kind, reason = found["Right", "forward", "fats"]
        self.assertEqual(kind, "error")
        for word in ["'fats'", "did you mean 'fast'", "builtin, beyond, distant, fast, lazy, nan, remote, spoils"]:
            self.assertIn(word, reason)
        kind, reason = found["Right", "forward", "foreign"]  # another backend has it
        self.assertEqual(kind, "unsupported")
        self.assertIn("reference has no kernel 'foreign' for Right", reason)

    # ---- what does not load
    def test_a_source_that_does_not_compile(self):
        path = self.write("bad.cpp", HEADER + "int x = missing_name;\n")
        self.refused(d5("op", "Mine", "--source", path), "[source]", "bad.cpp does not compile", "bad.cpp:2:", "missing_name")
        self.refused(d5("list", "operators", "--source", self.write("none.cpp", '#include "nowhere.hpp"\n')), "nowhere.hpp", status=1)
        self.refused(d5("op", "Mine", "--source", str(self.folder / "absent.cpp")), "absent.cpp cannot be read")
        many = self.write("many.cpp", "".join(f"int x{i} = y{i};\n" for i in range(60)))
        result = d5("op", "Mine", "--source", many)
        self.refused(result, "lines more")
        self.assertLess(len(result.stderr.splitlines()), 45)
        self.refused(d5("op", "Mine", "--source", path, D5_CXX="/no/compiler"), "/no/compiler", "D5_CXX")

    def test_what_does_not_open_is_named_and_the_rest_runs(self):
        bad = self.write("bad.cpp", "int x = missing_name;\n")
        text = self.write("text.so", "no library")
        out = self.folder / "rest"
        result = d5("op", "Mine,Right,Relu", "--source", bad, "--plugin", text, "--source", FAULTS, "--shape", "2x4", "--width", "3",
                    "--mode", "check", "--quiet", "-o", str(out), D5_PLUGINS=text)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        for words in ["bad.cpp does not compile", "text.so does not load", "nothing that is there has --width 3"]:
            self.assertIn(words, result.stderr)
        records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()[1:]]
        found = {r["case"]["operator"]: (r["status"], r["reason"]) for r in records}
        self.assertEqual(found["Mine"][0], "error")
        self.assertIn("there is no operator 'Mine'", found["Mine"][1])
        self.assertIn("bad.cpp does not compile", found["Mine"][1])
        self.assertEqual(found["Right"][0], "mistrusted")
        self.assertEqual(found["Relu"], ("passed", ""))
        self.check("Relu", "--source", bad)  # one operator that is there: its record, and exit status 1
        self.assertEqual(d5("op", "Relu", "--source", bad, "--shape", "2x4", "--mode", "check", "--quiet", "-o", str(out)).returncode, 1)

    def test_a_replaced_name_is_told(self):
        mine = self.write("mine.cpp", HEADER + "using namespace d5;\nstruct Mine : Operator {\n"
                          "  std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const override { return {in[0]}; }\n"
                          "  void forward(Context& c) const override { c.output(0).copy_from(c.input(0)); }\n};\n"
                          'D5_REGISTER(operators, "Relu", Mine);\nD5_REGISTER(operators, "Mine", Mine);\n')
        other = self.write("other.cpp", Path(mine).read_text() + "// another file\n#define OTHER 1\nint other;\n")
        result = d5("op", "Relu", "--source", mine, "--source", other, "--shape", "2x4", "--mode", "check", "--json", "-o",
                    str(self.folder / "replaced"))
        self.assertIn(f"warning: [plugin] {mine} replaces the operator 'Relu' of deep500", result.stderr)
        self.assertIn(f"warning: [plugin] {other} replaces the operator 'Mine' of {mine}", result.stderr)
        record = json.loads(result.stdout.splitlines()[1])
        self.assertIn(f"{other} replaces the operator 'Relu' of {mine}", record["warnings"])

    def test_what_a_plugin_does_at_the_end_does_not_decide(self):
        end = self.write("end.cpp", "#include <cstdlib>\nstruct End { ~End() { std::abort(); } };\nstatic End end;\n")
        result = d5("op", "Relu", "--source", end, "--shape", "2x4", "--mode", "check", "--quiet", "-o", str(self.folder / "end"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Relu", result.stdout)

    def test_plugins_that_do_not_load(self):
        crash = self.write("crash.cpp", "#include <csignal>\nstatic const int now = raise(SIGSEGV);\n")
        for words, environment, said in [
                (["--plugin", str(self.folder / "none.so")], {}, ["none.so"]),
                (["--plugin", self.write("text.so", "no library")], {}, ["text.so", "does not load"]),
                (["--source", FAULTS], {"D5_CXXFLAGS": "-DD5_ABI=abi_0"}, ["built for another version of libd5"]),
                (["--source", crash], {}, ["crashes while it is opened", "SIGSEGV"])]:
            result = d5("list", "operators", *words, **environment)
            self.refused(result, *said, status=1)
            self.assertIn("Relu", result.stdout)  # the rest is listed

    def test_every_command_goes_on_without_what_does_not_open(self):
        bad = self.write("bad.cpp", "int x = missing_name;\n")
        broken = ["--source", bad, "--plugin", str(self.folder / "none.so")]
        little = ["mlp", "--features", "8", "--width", "4", "--depth", "1", "--classes", "2"]
        data = ["--dataset", "generated-vectors", "--options", "features=8;classes=2;size=64"]
        recipe = self.write("r.toml", 'name = "r"\nlevel = 0\n[mutable]\noperator = "Relu"\nshape = "2x2"\n')
        training = self.write("t.toml", 'name = "t"\nlevel = 2\n[fixed]\nnetwork = "mlp"\nfeatures = 8\nclasses = 2\ndepth = 1\n'
                              'dataset = "generated-vectors"\noptions = "features=8;classes=2;size=64"\nepochs = 1\n'
                              '[mutable]\nwidth = 4\nbatch = 8\nbackend = "reference"\n')
        out = lambda: ["--quiet", "-o", str(self.folder / f"o{time.monotonic_ns()}")]
        commands = {
            "net": (["net", *little, "--batch", "2", "--backend", "reference", "--mode", "check", *out()], "mlp"),
            "train": (["train", *little, *data, "--batch", "8", "--epochs", "1", "--backend", "reference", *out()], "mlp"),
            "search": (["search", training, "--space", "width=2,4", "--method", "grid", "--no-confirm", *out()], "width"),
            "run": (["run", recipe, "--mode", "check", *out()], "Relu"),
            "list": (["list", "optimizers"], "adam"),
            "doctor": (["doctor"], "reference")}
        for name, (words, shown) in commands.items():
            result = d5(*words, *broken)
            self.refused(result, "bad.cpp does not compile", "none.so", status=1)
            self.assertIn(shown, result.stdout, name)
        result = d5("comm", "allreduce", "--communicator", "threads", "--ranks", "2", "--bytes", "8", "--launches", "1", "--rounds", "1",
                    *out(), D5_PLUGINS=str(self.folder / "none.so"))
        self.refused(result, "none.so", status=1)
        self.assertIn("allreduce", result.stdout)
        # What needs the file is an unknown name.
        self.refused(d5("run", recipe, "--set", "operator=Mine", *broken), "bad.cpp does not compile", "unknown operator 'Mine'")
        self.refused(d5("net", "mine", *broken), "none.so", "mine")
        self.refused(d5("train", *little, *data, "--optimizer", "mine", *broken), "none.so", "'mine'")

    def test_a_plugin_that_registers_nothing_is_warned_of(self):
        result = d5("list", "dtypes", "--source", self.write("empty.cpp", "int nothing;\n"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("empty.cpp registers nothing", result.stderr)

    # ---- how it is found again
    def test_the_cache_knows_contents_and_includes(self):
        cache = str(self.folder / "cache")
        operator = (HEADER + '#include "factor.hpp"\nusing namespace d5;\nstruct Own : Operator {\n'
                    "  std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const override { return {in[0]}; }\n"
                    "  void forward(Context& c) const override { c.output(0).fill_bytes(factor); }\n};\n"
                    'D5_REGISTER(operators, "Own", Own);\n')
        self.write("factor.hpp", "constexpr int factor = 1;\n")
        path = self.write("own.cpp", operator)
        both = [subprocess.Popen([D5, "list", "operators", "--source", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, env={**os.environ, "XDG_CACHE_HOME": cache}) for _ in range(2)]
        for process in both:  # at once
            stdout, stderr = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, stderr)
            self.assertIn("Own ", stdout)
        libraries = lambda: sorted(p.name for p in (self.folder / "cache/d5/sources").iterdir())
        self.assertEqual(len(libraries()), 1)
        self.assertEqual(d5("list", "operators", "--source", path, cache=cache).stderr, "")
        self.write("factor.hpp", "constexpr int factor = 2;\n")
        self.assertIn("compiled", d5("list", "operators", "--source", path, cache=cache).stderr)
        self.assertEqual(len(libraries()), 2)

    def test_records_name_the_source_and_a_changed_one_is_seen(self):
        text = (SOURCE / "examples/operator/squared_relu.cpp").read_text()
        path = self.write("mine.cpp", text)
        out = self.folder / "first"
        quick = ["--launches", "1", "--rounds", "2", "--slice", "0.001", "--max-time", "0", "--quiet"]
        result = d5("op", "SquaredRelu", "--shape", "4x4", "--source", path, *quick, "-o", str(out))
        self.assertEqual(result.returncode, 0, result.stderr)
        record = json.loads((out / "records.jsonl").read_text().splitlines()[1])
        self.assertIn(f"--source {path}", record["rerun"])
        self.assertEqual(record["status"], "mistrusted")
        self.assertEqual(record["details"]["plugins"][0]["file"], path)
        again = d5(*record["rerun"].split()[1:], "--mode", "check", "--quiet", "-o", str(self.folder / "again"))
        self.assertEqual(again.returncode, 0, again.stderr)
        self.refused(d5("run", str(out), *quick), "made with " + path, "SquaredRelu")
        self.write("mine.cpp", text + "// changed\n")
        changed = d5("run", str(out), "--source", path, *quick, "-o", str(self.folder / "changed"))
        self.assertEqual(changed.returncode, 3, changed.stdout + changed.stderr)
        self.assertIn(f"contents of {path}", changed.stdout)

    def test_plugins_by_option_and_by_variable_reach_children(self):
        self.check("Right", "--source", FAULTS)
        library = next(str(p) for p in Path(SHARED.name, "d5/sources").iterdir() if p.name.startswith("faults-"))
        for found, status, records in [self.check("Right", "--plugin", library), self.check("Right", D5_PLUGINS=library)]:
            self.assertEqual(found["Right", "forward", "builtin"][0], "mistrusted")
            self.assertIn("--plugin " + library, records[0]["rerun"])
        recipe = self.write("r.toml", 'name = "r"\nlevel = 0\n[fixed]\noperator = "Right"\nshape = "2x2"\n')
        result = d5("run", recipe, "--plugin", library, "--mode", "check", "--quiet", "-o", str(self.folder / "r"))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_examples(self):
        operator, kernel = (str(SOURCE / "examples" / name) for name in ["operator/squared_relu.cpp", "kernel/squared_relu_kernel.cpp"])
        found, status, _ = self.check("SquaredRelu", "--source", operator, "--source", kernel, "--kernel", "builtin,mine", "--pass",
                                      "forward,backward")
        self.assertEqual(status, 0)
        self.assertEqual(found["SquaredRelu", "forward", "builtin"][0], "mistrusted")
        self.assertEqual(found["SquaredRelu", "forward", "mine"], ("passed", ""))
        self.assertEqual(found["SquaredRelu", "backward", "builtin"], ("passed", ""))
        self.assertEqual(found["SquaredRelu", "backward", "mine"][0], "unsupported")
        listed = d5("list", "operators", "--source", operator).stdout
        self.assertIn("SquaredRelu", listed)
        help_text = d5("op", "SquaredRelu", "--source", operator, "--help").stdout
        self.assertIn("--shape", help_text)

    def test_a_source_alone_is_what_is_meant(self):
        path = str(SOURCE / "examples/operator/squared_relu.cpp")
        found, status, _ = self.check("--source", path)
        self.assertEqual(status, 0)
        self.assertEqual(list(found), [("SquaredRelu", "forward", "builtin")])
        self.refused(d5("op", "--mode", "check"), "neither an operator nor --suite is named")

    def test_a_source_may_have_any_name(self):
        text = (SOURCE / "examples/operator/squared_relu.cpp").read_text()
        for name in ["op.hpp", "op.txt", "a:b.cpp", "two words.cpp"]:
            found, status, _ = self.check("SquaredRelu", "--source", self.write(name, text))
            self.assertEqual((status, found["SquaredRelu", "forward", "builtin"][0]), (0, "mistrusted"), name)

    def test_a_parameter_that_is_named_as_an_option_of_all(self):
        text = HEADER + ("using namespace d5;\nstruct Clash : Operator {\n"
                         "  std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const override { return {in[0]}; }\n"
                         "  void forward(Context&) const override {}\n"
                         '  static std::vector<Parameter> parameters() { return {{"kernel", "a size", 3}}; }\n'
                         "  static OperatorCase describe(const Attributes&, DType type) { return {.inputs = {{.spec = {type, {2}}}}}; }\n"
                         '};\nD5_REGISTER(operators, "Clash", Clash);\n')
        self.refused(d5("op", "Clash", "--source", self.write("clash.cpp", text)), "'kernel' of Clash", "--kernel")

    def test_torch_runs_an_operator_of_a_user_inside_its_autograd(self):
        listed = [json.loads(line) for line in d5("list", "backends", "--json").stdout.splitlines()]
        if not any(row["name"] == "torch" and row["available"] for row in listed):
            self.skipTest("torch is off")
        operator, kernel = (str(SOURCE / "examples" / name) for name in ["operator/squared_relu.cpp", "kernel/torch_squared_relu.cpp"])
        found, status, records = self.check("SquaredRelu", "--source", operator, "--source", kernel, "--backend", "torch", "--kernel",
                                            "builtin,mine", "--pass", "forward,backward")
        self.assertEqual(status, 0)
        self.assertEqual(found["SquaredRelu", "forward", "builtin"][0], "mistrusted")
        for key in [("backward", "builtin"), ("forward", "mine"), ("backward", "mine")]:
            self.assertEqual(found["SquaredRelu", *key], ("passed", ""), key)
        self.assertEqual({r["case"]["backend"] for r in records}, {"torch"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
