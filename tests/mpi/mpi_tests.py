# SPDX-License-Identifier: Apache-2.0
"""How a file of tests that need MPI is run: status 77 (skipped) where d5 has none."""
import subprocess
import sys
import unittest


def main(d5):
    found = subprocess.run([d5, "list", "communicators"], capture_output=True, text=True, check=False).stdout
    if not any(line.split()[:2] == ["mpi", "on"] for line in found.splitlines()):
        print("no mpi:", found)
        sys.exit(77)
    unittest.main()
