#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 inside an allocation of a real Slurm: one node, on loopback, made and ended here. Usage: slurm_test.py D5.

Status 77 without root, MPI or Debian's packages slurmctld, slurmd, slurm-client and munge, which nothing installs: they are daemons."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import mpi_tests

d5 = str(Path(sys.argv.pop(1)).resolve())
PROGRAMS = ["munged", "slurmctld", "slurmd", "salloc", "srun", "scontrol"]
os.environ["PATH"] += ":/usr/sbin:/sbin"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="d5-slurm-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.folder.chmod(0o755)
        key = cls.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        host, cores = socket.gethostname().split(".")[0], os.cpu_count()
        (cls.folder / "slurm.conf").write_text(f"""
ClusterName=d5
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={cls.folder}/munge.socket
CredType=cred/munge
StateSaveLocation={cls.folder}/state
SlurmdSpoolDir={cls.folder}/spool
SlurmctldPidFile={cls.folder}/slurmctld.pid
SlurmdPidFile={cls.folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=pmix
ReturnToService=2
SelectType=select/cons_tres
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES OverSubscribe=FORCE:8 State=UP
""")
        os.environ["SLURM_CONF"] = str(cls.folder / "slurm.conf")
        begin = [["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={cls.folder}/munge.socket",
                  f"--pid-file={cls.folder}/munge.pid", f"--log-file={cls.folder}/munge.log", f"--seed-file={cls.folder}/munge.seed"],
                 ["slurmctld", "-D"], ["slurmd", "-D"]]
        for command in begin:
            log = open(cls.folder / f"{command[0]}.out", "w")  # noqa: SIM115: the daemon's, until it ends
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            cls.addClassCleanup(process.wait)
            cls.addClassCleanup(process.terminate)
            cls.addClassCleanup(log.close)
            time.sleep(0.5)
        for _ in range(150):
            state = subprocess.run(["scontrol", "show", "node", host], capture_output=True, text=True, check=False)
            if "State=IDLE" in state.stdout:
                return
            time.sleep(0.2)
        logs = "\n".join(p.read_text()[-2000:] for p in cls.folder.glob("*.out"))
        raise AssertionError(f"the node is not there: {state.stdout}{state.stderr}\n{logs}")

    def inside(self, *words, tasks=2):
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(["salloc", "--quiet", f"--ntasks={tasks}", "--overcommit", d5, *words, "-o", folder],
                                  capture_output=True, text=True, timeout=120)

    def train(self, *words):
        result = self.inside("train", *mpi_tests.LITTLE, "--quiet", "--json", "--ranks", "2", *words)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        record, = [r for r in map(json.loads, result.stdout.splitlines()) if r["kind"] == "train"]
        return record

    def test_srun_starts_the_ranks_of_a_training(self):
        by = {c: self.train("--communicator", c) for c in ("mpi", "threads")}
        self.assertEqual(*(r["details"]["training"]["weights_hash"] for r in by.values()))
        self.assertEqual(len(by["mpi"]["details"]["training"]["scheme"]["ranks"]), 2)

    def test_mpirun_starts_them_where_it_is_asked(self):
        self.train("--communicator", "mpi", "--launcher", "mpirun")

    def test_collectives(self):
        result = self.inside("comm", "allreduce", "--ranks", "2", "--bytes", "4000,1M", "--launches", "1", "--rounds", "1", "--slice",
                             "0.002", "--quiet", "--json")
        records = [r for r in map(json.loads, result.stdout.splitlines()) if r["kind"] == "comm"]
        self.assertEqual({r["status"] for r in records} - {"unsupported"}, {"passed"}, result.stderr)

    def test_a_rank_that_cannot_start_ends_all_in_time(self):
        begin = time.time()
        result = self.inside("train", *mpi_tests.LITTLE, "--quiet", "--json", "--ranks", "2", "--communicator", "mpi", "--batch", "31")
        self.assertNotEqual(result.returncode, 0)
        self.assertLess(time.time() - begin, 30)


if __name__ == "__main__":
    missing = [p for p in PROGRAMS if not shutil.which(p)]
    if missing or os.geteuid() != 0:
        print("skipped:", "not root" if not missing else f"no {', '.join(missing)}")
        sys.exit(77)
    mpi_tests.main(d5)
