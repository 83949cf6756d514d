#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every d5 command of the documents, shortened to one launch, in the order in which a reader would type them.
Usage: commands_test.py D5 SOURCE_FOLDER"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

d5, source = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]).resolve()
SHORT = "--launches 1 --rounds 2 --slice 0.001 --max-time 0 --quiet".split()
GATES = {"compare", "run"}  # may say no (status 3): one launch is too little to agree

commands = []
for document in [source / "README.md", *sorted((source / "docs").glob("*.md"))]:
    for block in re.findall(r"^```\n(.*?)^```", document.read_text(), re.M | re.S):
        for line in block.splitlines():
            if line.startswith("build/bin/d5 "):
                commands.append((document.name, line.split("#")[0].split()[1:]))

failures = 0
with tempfile.TemporaryDirectory() as folder:
    for name in ["recipes", "examples", "tests"]:
        os.symlink(source / name, Path(folder) / name)
    environment = {**os.environ, "XDG_CACHE_HOME": folder + "/cache"}
    for document, words in commands:
        short = SHORT if words[0] in ("op", "net", "run") and "--mode" not in words else []
        result = subprocess.run([d5, *words, *short], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        good = result.returncode == 0 or (words[0] in GATES and result.returncode == 3)
        print("ok    " if good else "FAILED", document, " ".join(words), flush=True)
        if not good:
            print(result.stdout, result.stderr)
            failures += 1
print(f"{len(commands) - failures} passed, {failures} failed")
sys.exit(1 if failures or len(commands) < 10 else 0)
