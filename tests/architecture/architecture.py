# SPDX-License-Identifier: Apache-2.0
"""Proves the arrows of ARCHITECTURE.md: which room of d5/ may include which, and the few rules every file keeps.

  architecture.py ROOT        prints each broken rule as FILE:LINE: what is wrong; exit status 1 if there is one
"""

import pathlib
import re
import sys

# Each of these sees the ones before it.
LEVELS = ["core", "operators", "graph", "backends", "networks", "training", "distributed", "bench", "runner", "cli"]
# The rooms beside the levels see only core, and what is named here.
BESIDE = {"datasets": [], "measure": [], "recipe": ["measure"], "report": ["measure"], "solvers": ["graph", "operators"]}
# Which of the rooms beside them the levels see; a level also sees what the levels before it see.
SEES_BESIDE = {"backends": ["measure"], "training": ["datasets"], "bench": ["report"], "runner": ["recipe"], "cli": ["solvers"]}

MOST_LINES = 600
SOURCES = {".cpp", ".hpp", ".h", ".cu", ".cuh", ".inc", ".py", ".sh"}
INCLUDE = re.compile(r'\s*#\s*include\s*["<](d5/[^">]+)[">]')
SPDX = "SPDX-License-Identifier: Apache-2.0"


def allowed(room):
    """The rooms that a file of this room may include, or None for a room that nobody has described."""
    if room in BESIDE:
        return {room, "core", *BESIDE[room]}
    if room not in LEVELS:
        return None
    below = LEVELS[: LEVELS.index(room) + 1]
    return {*below, *(beside for level in below for beside in SEES_BESIDE.get(level, []))}


def broken_includes(root):
    for path in sorted((root / "d5").rglob("*")):
        if path.suffix not in SOURCES:
            continue
        parts = path.relative_to(root).parts
        legal = allowed(parts[1])
        if legal is None:
            yield path, 1, f"room '{parts[1]}' has no place in the order of rooms; give it one in {pathlib.Path(__file__).name}"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1).split("/")
            if target[1] not in legal:
                yield path, number, f"{parts[1]} may not include {match.group(1)}; it sees {', '.join(sorted(legal))}"
            elif target[1] == "backends" and len(target) > 3 and parts[:3] != tuple(target[:3]):
                yield path, number, f"{match.group(1)} is a concrete backend; only its own folder may include it"


def broken_files(root):
    for top in ["d5", "tests", "benchmarks", "examples", "scripts"]:
        for path in sorted((root / top).rglob("*")):
            if "fixtures" in path.relative_to(root).parts:
                continue
            if path.is_dir() and path.name in ("utils", "util", "helpers", "common", "misc"):
                yield path, 1, "a folder is named after a concept; a helper of one room stays in it"
            if path.suffix not in SOURCES:
                continue
            lines = path.read_text().splitlines()
            if len(lines) > MOST_LINES:
                yield path, len(lines), f"{len(lines)} lines; a file has at most {MOST_LINES}"
            if not any(SPDX in line for line in lines[:2]):
                yield path, 1, f"the first line is not '{SPDX}'"


def broken_rules(root):
    return [*broken_includes(root), *broken_files(root)]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    if not (root / "d5" / "core").is_dir():
        sys.exit(f"{root}/d5/core is not there: is this the top folder of the project?")
    broken = broken_rules(root)
    for path, line, what in broken:
        print(f"{path.relative_to(root)}:{line}: {what}")
    print(f"{len(broken)} broken rules")
    sys.exit(1 if broken else 0)
