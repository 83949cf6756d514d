# SPDX-License-Identifier: Apache-2.0
"""A check that cannot fail proves nothing: every rule is broken once in fixtures/, and each break must be found."""

import pathlib
import tempfile
import unittest

import architecture

FIXTURES = pathlib.Path(__file__).parent / "fixtures"


def found_in(root):
    return {(str(path.relative_to(root)), line) for path, line, _ in architecture.broken_rules(root)}


class Architecture(unittest.TestCase):
    def test_a_clean_tree_passes(self):
        self.assertEqual(found_in(FIXTURES / "clean"), set())

    def test_every_planted_include_is_found(self):
        planted = {
            (str(path.relative_to(FIXTURES / "broken")), number)
            for path in (FIXTURES / "broken").rglob("*.?pp")
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if "planted" in line
        }
        self.assertGreaterEqual(len(planted), 6)
        self.assertEqual(found_in(FIXTURES / "broken"), planted)

    def test_files_keep_their_rules(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "d5/core").mkdir(parents=True)
            (root / "tests/utils").mkdir(parents=True)
            line = f"// {architecture.SPDX}\n"
            (root / "d5/core/longest.cpp").write_text(line * architecture.MOST_LINES)
            (root / "d5/core/too_long.cpp").write_text(line * (architecture.MOST_LINES + 1))
            (root / "tests/no_licence.cpp").write_text("int x;\n")
            self.assertEqual(
                found_in(root), {("d5/core/too_long.cpp", 601), ("tests/utils", 1), ("tests/no_licence.cpp", 1)}
            )

    def test_rooms_see_what_the_architecture_says(self):
        self.assertEqual(architecture.allowed("core"), {"core"})
        self.assertEqual(architecture.allowed("datasets"), {"core", "datasets"})
        self.assertEqual(architecture.allowed("graph"), {"core", "operators", "graph"})
        self.assertNotIn("measure", architecture.allowed("operators"))
        self.assertNotIn("bench", architecture.allowed("report"))
        self.assertEqual(architecture.allowed("cli"), {*architecture.LEVELS, *architecture.BESIDE})


if __name__ == "__main__":
    unittest.main()
