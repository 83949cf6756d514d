#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 net --validate, --trace, --context, its latencies, memory and energy, and an observer of one's own.
Usage: net_views_test.py D5 SOURCE BACKENDS"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from trace_format import spans  # noqa: E402

D5 = sys.argv.pop(1)
SOURCE = Path(sys.argv.pop(1))
BACKENDS = sys.argv.pop(1)
CACHE = tempfile.TemporaryDirectory()
QUICK = ["--launches", "1", "--rounds", "2", "--slice", "0.002", "--max-time", "0", "--quiet"]
SMALL = ["lenet", "--size", "16", "--batch", "2", "--backend", BACKENDS]


def environment(**more):
    return {**os.environ, "XDG_CACHE_HOME": CACHE.name, **more}


def d5(*arguments, **more):
    return subprocess.run([D5, *arguments], capture_output=True, text=True, timeout=300, env=environment(**more))


class NetViews(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = ["--quiet", "-o", str(self.folder / "o")]

    def records(self, result, status=0):
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()][1:]

    # ---- node by node
    def test_validation_passes_node_by_node(self):
        for network in [SMALL, ["resnet-20", "--size", "8", "--width", "2", "--pass", "step", "--backend", BACKENDS]]:
            records = self.records(d5("net", *network, "--validate", "--json", *self.out))
            self.assertEqual(len(records), BACKENDS.count(",") + 1)
            for r in records:
                self.assertEqual((r["kind"], r["status"]), ("net-validate", "passed"), r["reason"])
                self.assertIn("--validate", r["rerun"])
                self.assertGreater(len(r["details"]["nodes"]), 8)
                for node in r["details"]["nodes"]:
                    self.assertLessEqual(node["worst_share_of_tolerance"], 1, node)
                self.assertTrue({"error_linf", "error_l1", "error_l2"} <= set(r["metrics"]))
        table = d5("net", *SMALL, "--validate", "--top", "2", *self.out).stdout
        for word in ["L-inf", "of tolerance", "values that are nearer"]:
            self.assertIn(word, table)

    def test_a_planted_fault_is_found_at_its_node(self):
        plant = str(SOURCE / "tests/cli/planted_backend.cpp")
        arguments = ["net", "resnet-20", "--size", "8", "--width", "2", "--pass", "step", "--backend", "reference,planted", "--source", plant,
                     "--validate", "--metric", "difference_map", *self.out]
        for which in ["forward", "backward"]:
            fault = {"D5_PLANTED": "layer2.1.relu1", "D5_PLANTED_PASS": which}
            right, wrong = self.records(d5(*arguments, "--json", **fault), status=1)
            self.assertEqual(right["status"], "passed", right["reason"])
            self.assertEqual(wrong["status"], "failed")
            self.assertIn(f"the first node that deviates is 'layer2.1.relu1' (Relu, {which})", wrong["reason"])
            first = wrong["details"]["nodes"][wrong["details"]["first"]]
            self.assertEqual(first["node"], "layer2.1.relu1")
            self.assertAlmostEqual(first["error"]["linf"], 1e-3, places=6)
            picture, = wrong["details"]["metrics"]["difference_map"]["files"]
            self.assertIn("<svg", (self.folder / "o" / picture).read_text())
            table = d5(*arguments, **fault)
            self.assertEqual(table.returncode, 1)
            self.assertRegex(table.stdout, r"layer2\.1\.relu1 +Relu .*<- the first that deviates")

    # ---- as it is measured
    def test_latency_memory_and_energy_are_in_records_and_in_the_table(self):
        result = d5("net", *SMALL, "--pass", "forward,step", *QUICK, *self.out)
        self.assertEqual(result.returncode, 0, result.stderr)
        for word in ["p50", "p90", "p99", "planned MiB", "peak MiB", "J/sample"]:
            self.assertIn(word, result.stdout)
        records = [json.loads(line) for line in (self.folder / "o/records.jsonl").read_text().splitlines()][1:]
        for r in records:
            metrics, reasons = r["metrics"], r["details"].get("unavailable", {})
            for name in ["latency_p50", "latency_p90", "latency_p99", "memory_planned", "memory_peak", "energy_per_sample"]:
                if metrics[name]["median"] is None:
                    self.assertTrue(reasons[name])
                    self.assertIn(f"{name}: unavailable: ", result.stdout)
                else:
                    self.assertGreater(metrics[name]["median"], 0, name)
            self.assertIn("throughput", metrics)
            self.assertGreater(metrics["memory_planned"]["median"], 4 * 5000)  # its parameters alone
        schema = subprocess.run([sys.executable, str(SOURCE / "tests/schema/validate.py"), str(SOURCE / "docs/record.schema.json"),
                                 str(self.folder / "o/records.jsonl")], capture_output=True, text=True)
        self.assertEqual(schema.returncode, 0, schema.stdout + schema.stderr)

    # ---- a trace
    def check_trace(self, trace):
        """Every event has its fields, spans nest, parts fit into the whole. Gives microseconds by process and category."""
        sums = {}
        for event in spans(self, trace["traceEvents"], 1e-6):
            of = sums.setdefault(event["pid"], {})
            of[event["cat"]] = of.get(event["cat"], 0) + event["dur"]
        for of in sums.values():
            self.assertLessEqual(of["pass"], of["executor"] + 1e-3)
            self.assertLessEqual(of["operator"], of["pass"] + 1e-3)
            self.assertGreater(of["operator"], 0.2 * of["executor"])
        return sums

    def test_a_trace_of_every_backend_in_one_file(self):
        path = self.folder / "trace.json"
        for mode in [["--mode", "check"], QUICK]:
            result = d5("net", *SMALL, "--pass", "step", "--trace", str(path), *mode, *self.out)
            self.assertEqual(result.returncode, 0, result.stderr)
            trace = json.loads(path.read_text())
            sums = self.check_trace(trace)
            self.assertEqual(len(sums), BACKENDS.count(",") + 1)
            names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
            for backend in BACKENDS.split(","):
                self.assertTrue(any(f"--backend {backend}" in name for name in names), names)
            self.assertTrue({"step", "forward", "backward"} <= {e["name"] for e in trace["traceEvents"]})
        unwritable = d5("net", *SMALL, "--trace", str(self.folder / "none/t.json"), *self.out)
        self.assertEqual(unwritable.returncode, 1)
        self.assertIn("none/t.json", unwritable.stderr)
        for wrong in [["--mode", "list"], ["--validate"]]:
            result = d5("net", *SMALL, "--trace", str(path), *wrong, *self.out)
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn("--trace", result.stderr)

    def test_an_interrupted_trace_is_valid(self):
        path = self.folder / "trace.json"
        process = subprocess.Popen([D5, "net", "lenet", "--batch", "1,2,3,4,5,6,7,8", "--size", "16", "--backend", "reference", "--trace", str(path),
                                    "--launches", "3", "--max-time", "0", *self.out],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        deadline = time.monotonic() + 120
        seen = []
        while time.monotonic() < deadline and process.poll() is None:
            if path.exists() and path.stat().st_size > 0:
                seen.append(len(json.loads(path.read_text())["traceEvents"]))  # at any time
                if seen[-1] > 0:
                    break
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)
        trace = json.loads(path.read_text())
        self.assertGreater(len(trace["traceEvents"]), 10)
        self.check_trace(trace)

    # ---- operators in the network and alone
    def test_context_closes_the_sum(self):
        records = self.records(d5("net", *SMALL, "--pass", "step", "--context", "--top", "2", "--json", *self.out))
        for r in records:
            self.assertEqual((r["kind"], r["status"]), ("net-context", "passed"), r["reason"])
            context = r["details"]["context"]
            in_situ = sum(row["in_situ_s"] for row in context["rows"])
            self.assertAlmostEqual((in_situ + context["residual_s"]) / context["whole_s"], 1, places=9)
            self.assertEqual(len([row for row in context["rows"] if "hot_s" in row or "alone" in row]), 2)
        table = d5("net", *SMALL, "--context", *self.out)
        self.assertEqual(table.returncode, 0, table.stderr)
        for word in ["in situ", "situ/hot", "situ/cold", "of FLOPs", "outside of operators", "the whole step"]:
            self.assertIn(word, table.stdout)
        self.assertEqual(d5("net", *SMALL, "--context", "--top", "0").returncode, 2)

    # ---- an observer of one's own
    def test_the_example_observer(self):
        example = str(SOURCE / "examples/observer/slowest_operator.cpp")
        records = self.records(d5("net", *SMALL, "--source", example, "--metric", "slowest_operator", "--mode", "check", "--json", *self.out))
        for r in records:
            self.assertEqual(r["status"], "passed", r["reason"])
            self.assertGreater(r["metrics"]["slowest_operator"]["median"], 0)
            self.assertTrue(r["details"]["metrics"]["slowest_operator"]["node"])
        self.assertIn("slowest_operator", d5("list", "metrics", "--source", example).stdout)

    def test_records_of_a_view_are_repeated(self):
        d5("net", *SMALL, "--validate", *self.out)
        again = d5("run", str(self.folder / "o"), "--quiet", "-o", str(self.folder / "again"))
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertIn("agrees", again.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
