#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 net --onnx-tests as a user meets it: what passes, and that everything planted is found.
Usage: onnx_tests_test.py D5 SOURCE_FOLDER"""
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

D5, SOURCE = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]).resolve()
SUITE = SOURCE / "tests/onnx/suite"


class OnnxTests(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.suite = self.root / "suite"
        shutil.copytree(SUITE, self.suite)

    def tearDown(self):
        self.folder.cleanup()

    def run_suite(self, *more, status=0):
        result = subprocess.run([D5, "net", "--onnx-tests", str(self.suite), "-o", str(self.root / "out"), *more],
                                cwd=self.root, capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def records(self, *more, status=0):
        lines = self.run_suite("--json", *more, status=status).stdout.splitlines()
        records = [json.loads(line) for line in lines]
        return {record["case"]["test"]: record for record in records if record["kind"] == "onnx-test"}

    def change(self, path, old, new):
        path = self.suite / path
        data = path.read_bytes()
        self.assertIn(old, data)
        path.write_bytes(data.replace(old, new, 1))

    def test_passes_and_counts(self):
        records = self.records()
        self.assertEqual(sorted(records), ["convolution", "nested/selection"])
        self.assertEqual({record["status"] for record in records.values()}, {"passed"})
        table = self.run_suite("--quiet").stdout
        self.assertRegex(table, r"reference +2 +2 +0 +0 +0 +0 +100.0 %")

    def test_a_wrong_output_fails(self):
        output = self.suite / "convolution/test_data_set_0/output_0.pb"
        data = bytearray(output.read_bytes())
        data[-1] ^= 0x02  # of the exponent of the last float
        output.write_bytes(data)
        record = self.records(status=1)["convolution"]
        self.assertEqual(record["status"], "failed")
        self.assertIn("output 'y': 1 of 10 elements differ", record["reason"])

    def test_an_unknown_operator_is_named(self):
        self.change("convolution/model.onnx", b"MaxPool", b"MaxPuul")
        record = self.records()["convolution"]
        self.assertEqual((record["status"], record["reason"]), ("unsupported", "operator MaxPuul is not supported"))

    def test_a_broken_file_is_an_error_of_its_case(self):
        path = self.suite / "convolution/model.onnx"
        path.write_bytes(path.read_bytes()[:500])
        records = self.records(status=1)
        self.assertEqual(records["convolution"]["status"], "error")
        self.assertIn("model.onnx: cut off", records["convolution"]["reason"])
        self.assertEqual(records["nested/selection"]["status"], "passed")

    def test_tolerances_may_be_given(self):
        output = self.suite / "convolution/test_data_set_0/output_0.pb"
        data = bytearray(output.read_bytes())
        data[-1] ^= 0x02
        output.write_bytes(data)
        (self.suite / "convolution/data.json").write_text('{"atol": 2.0, "rtol": 1e-3}')
        self.assertEqual(self.records()["convolution"]["status"], "passed")

    def test_tolerances_are_numbers(self):
        for text, reason in (('{"rtol": "x"}', 'the rtol "x"; a number'), ('{"atol": -1}', "the atol -1"), ("[", "no object")):
            (self.suite / "convolution/data.json").write_text(text)
            record = self.records(status=1)["convolution"]
            self.assertEqual(record["status"], "error")
            self.assertIn(reason, record["reason"])

    def test_what_compares_nothing_is_an_error(self):
        data = self.suite / "convolution/test_data_set_0"
        (data / "output_0.pb").rename(self.root / "output")
        record = self.records(status=1)["convolution"]
        self.assertEqual(record["status"], "error")
        self.assertIn("test_data_set_0: 0 outputs are stored, the network has 1", record["reason"])
        (self.root / "output").rename(data / "output_0.pb")
        (data / "input_0.pb").unlink()
        record = self.records(status=1)["convolution"]
        self.assertEqual(record["status"], "error")
        self.assertRegex(record["reason"], "test_data_set_0: input '.*' is not stored")

    def test_the_usual_options(self):
        first = json.loads(self.run_suite("--json").stdout.splitlines()[0])
        self.assertEqual(first["kind"], "environment")
        self.run_suite("--quiet", "--csv", str(self.root / "all.csv"))
        rows = (self.root / "all.csv").read_text().splitlines()
        self.assertEqual(len(rows), 3)
        self.assertIn("nested/selection", rows[2])
        shutil.rmtree(self.root / "out")
        listed = self.run_suite("--mode", "list").stdout.splitlines()
        self.assertEqual([line.split()[:3] for line in listed], [["d5", "net", "--onnx-tests"]] * 2)
        self.assertFalse((self.root / "out").exists())

    def test_cases_behind_links_keep_their_names(self):
        (self.suite / "nested/selection").rename(self.root / "elsewhere")
        (self.suite / "nested/selection").symlink_to(self.root / "elsewhere")
        self.assertEqual(sorted(self.records()), ["convolution", "nested/selection"])

    def test_sets_without_a_number_only_warn(self):
        shutil.copytree(self.suite / "convolution/test_data_set_0", self.suite / "convolution/test_data_set_other")
        output = self.suite / "convolution/test_data_set_other/output_0.pb"
        data = bytearray(output.read_bytes())
        data[-1] ^= 0x02
        output.write_bytes(data)
        record = self.records()["convolution"]
        self.assertEqual(record["status"], "passed")
        self.assertIn("test_data_set_other: output 'y'", record["warnings"][0])

    def test_two_networks_are_no_case(self):
        shutil.copy(self.suite / "convolution/model.onnx", self.suite / "convolution/another.onnx")
        self.assertEqual(sorted(self.records()), ["nested/selection"])

    def test_wrong_usage(self):
        empty = self.root / "empty"
        empty.mkdir()
        for words, text in ((["net"], "no network is named"),
                            (["net", "--onnx-tests", str(empty)], "holds no folder"),
                            (["net", "--onnx-tests", str(self.suite), "--backend", "referense"], "did you mean 'reference'"),
                            (["model", "show", "nothing.onnx"], "'nothing.onnx' is neither a file nor a built-in network")):
            result = subprocess.run([D5, *words], cwd=self.root, capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(text, result.stderr)

    def test_models_are_shown_and_written(self):
        network = self.suite / "convolution/model.onnx"
        run = lambda *words, status=0: subprocess.run([D5, "model", *words], cwd=self.root, capture_output=True, text=True,
                                                      timeout=60)
        shown = [json.loads(line) for line in run("show", str(network), "--sizes", "N=2", "--json").stdout.splitlines()]
        self.assertEqual(shown[0]["outputs"], ["f32[2x4x8x8]"])
        self.assertEqual(shown[-1]["parameters"], 4 * 3 * 9 + 4 * 4 + 64 * 5)
        self.assertEqual(run("export", str(network), "--as-read", "-o", "same.onnx").returncode, 0)
        self.assertEqual((self.root / "same.onnx").read_bytes(), network.read_bytes())
        self.assertEqual(run("diff", str(network), "same.onnx").returncode, 0)
        self.change("convolution/model.onnx", b"MaxPool", b"MinPool")
        different = run("diff", "--as-read", str(network), "same.onnx")
        self.assertEqual(different.returncode, 1)
        self.assertIn("MinPool and MaxPool", different.stdout)
        self.assertIn("digraph", run("dot", "same.onnx").stdout)
        (self.root / "broken.onnx").write_bytes(network.read_bytes()[:200])
        for words in (["broken.onnx", "same.onnx"], ["same.onnx", "broken.onnx", "--as-read"]):
            unreadable = run("diff", *words)
            self.assertEqual(unreadable.returncode, 2)
            self.assertIn("'broken.onnx' cannot be compared", unreadable.stderr)

    def test_odd_names_are_shown(self):
        network, whole = self.root / "odd.onnx", (SOURCE / "tests/unit/graph/data/perceptron.onnx").read_bytes()
        show = lambda *words: subprocess.run([D5, "model", "show", *words, str(network)], capture_output=True, text=True,
                                             timeout=60)
        network.write_bytes(whole.replace(b"Relu", b"Rilu"))
        shown = show()
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertRegex(shown.stdout, r"odd.onnx: node 1 'act' \(Rilu\): operator Rilu is not supported\n")
        network.write_bytes(whole.replace(b"Relu", b"R\xff\xfeu"))
        shown = show("--json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("R\ufffd", "".join(json.loads(line).get("operator", "") for line in shown.stdout.splitlines()))

    def test_built_in_networks_are_models_too(self):
        run = lambda *words: subprocess.run([D5, "model", *words], cwd=self.root, capture_output=True, text=True, timeout=60)
        shown = [json.loads(line) for line in run("show", "lenet", "--classes", "7", "--sizes", "N=3", "--json").stdout.splitlines()]
        self.assertEqual(shown[-1]["parameters"], 61706 - 3 * 85)  # three rows of 84 weights and a bias fewer
        self.assertEqual(shown[-2]["outputs"], ["f32[3x7]"])
        self.assertEqual(run("export", "lenet", "--training", "-o", "lenet.onnx").returncode, 0)
        different = run("diff", "lenet", "lenet.onnx")
        self.assertEqual(different.returncode, 1)
        self.assertIn("loss", different.stdout)
        self.assertEqual(run("diff", "lenet", "lenet").returncode, 0)
        self.assertEqual(run("show", "lenet", "--training").returncode, 0)
        check = subprocess.run([D5, "net", "lenet.onnx", "--mode", "check", "--quiet"], cwd=self.root, capture_output=True,
                               text=True, timeout=120)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
        for words, text in ((["show", "lenet", "--sizes", "M=3"], "size 'M' is not free"),
                            (["show", "same.onnx", "--training"], "neither a file")):
            result = run(*words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(text, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
