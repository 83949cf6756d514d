#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""d5 data fetch against a server of our own that stands for the real one: whole files, resumed ones, wrong ones, no server.
Usage: fetch_test.py D5. 77: skipped, for want of curl or openssl. What needs real files wants D5_DATA."""
import http.server
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

D5 = sys.argv.pop(1)
DATA = Path(os.environ.get("D5_DATA", "/nonexistent"))
NAMES = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]


class Files(http.server.BaseHTTPRequestHandler):
    contents, asked = {}, []

    def do_GET(self):
        name, begin = self.path.rsplit("/", 1)[1], 0
        Files.asked.append((name, self.headers.get("Range")))
        if name not in Files.contents:
            return self.send_error(404)
        body = Files.contents[name]
        if self.headers.get("Range"):
            begin = int(self.headers["Range"].split("=")[1].split("-")[0])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - begin))
        self.end_headers()
        self.wfile.write(body[begin:])

    def log_message(self, *_):
        pass


class Fetch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.home = Path(cls.temporary.name)
        host = "ossci-datasets.s3.amazonaws.com"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={host}", "-addext",
                        f"subjectAltName=DNS:{host}", "-keyout", cls.home / "key", "-out", cls.home / "certificate"],
                       check=True, capture_output=True)
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cls.home / "certificate", cls.home / "key")
        cls.server.socket = context.wrap_socket(cls.server.socket, server_side=True)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        # curl's own settings lead to our server
        (cls.home / ".curlrc").write_text(f'connect-to = "{host}:443:127.0.0.1:{cls.server.server_port}"\n'
                                          f'cacert = "{cls.home}/certificate"\nretry = 0\n')

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.temporary.cleanup()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        Files.asked.clear()

    def fetch(self, *arguments):
        environment = {**os.environ, "CURL_HOME": str(self.home), "HOME": str(self.home)}
        for name in ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]:
            environment.pop(name, None)
        return subprocess.run([D5, "data", "fetch", *arguments, "--data", str(self.folder)], capture_output=True, text=True,
                              timeout=120, env=environment)

    @unittest.skipUnless((DATA / "mnist" / NAMES[0]).exists(), "D5_DATA has no mnist")
    def test_files_come_whole_and_resumed(self):
        Files.contents = {name: (DATA / "mnist" / name).read_bytes() for name in NAMES}
        (self.folder / "mnist").mkdir()
        (self.folder / "mnist" / (NAMES[0] + ".part")).write_bytes(Files.contents[NAMES[0]][:1000000])
        result = self.fetch("mnist")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn((NAMES[0], "bytes=1000000-"), Files.asked)
        self.assertEqual(sorted(path.name for path in (self.folder / "mnist").iterdir()), sorted(NAMES))
        for name in NAMES:
            self.assertEqual((self.folder / "mnist" / name).read_bytes(), Files.contents[name])
        asked = len(Files.asked)
        self.assertEqual(self.fetch("mnist").returncode, 0)
        self.assertEqual(len(Files.asked), asked)

    @unittest.skipUnless((DATA / "mnist" / NAMES[0]).exists(), "D5_DATA has no mnist")
    def test_a_damaged_file_is_fetched_anew(self):
        Files.contents = {name: (DATA / "mnist" / name).read_bytes() for name in NAMES}
        (self.folder / "mnist").mkdir()
        for name in NAMES:
            (self.folder / "mnist" / name).write_bytes(Files.contents[name])
        cut = self.folder / "mnist" / NAMES[3]
        cut.write_bytes(Files.contents[NAMES[3]][:1000])
        kept, Files.contents = Files.contents, {}
        result = self.fetch("mnist")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"damaged: {cut}", result.stderr)
        self.assertIn("in place of the damaged one", result.stderr)
        Files.contents = kept
        result = self.fetch("mnist")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual({name for name, _ in Files.asked}, {NAMES[3]})
        self.assertEqual(cut.read_bytes(), kept[NAMES[3]])

    def test_what_is_computed_needs_no_fetching(self):
        result = self.fetch("generated-images")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("nothing to fetch", result.stdout)

    def test_a_wrong_file_is_not_kept(self):
        Files.contents = {name: b"not what was published" for name in NAMES}
        result = self.fetch("mnist")
        self.assertEqual(result.returncode, 1)
        self.assertIn("f68b3c2dcbeaaa9fbdd348bbdeb94873", result.stderr)
        self.assertEqual(list((self.folder / "mnist").iterdir()), [])

    def test_without_a_server_it_says_what_to_put_where(self):
        Files.contents = {}
        result = self.fetch("mnist")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{self.folder}/mnist/{NAMES[0]} from https://", result.stderr)
        self.assertEqual(self.fetch("imagenet").returncode, 1)
        self.assertEqual(self.fetch("mnits").returncode, 2)


if __name__ == "__main__":
    if not shutil.which("curl") or not shutil.which("openssl"):
        sys.exit(77)
    unittest.main()
