"""The list of what the program is made of: it is whole, agrees with Cargo.lock, and is what CycloneDX wants."""

import json
import os
import re
import tempfile
import tomllib
import unittest

from tools import ROOT, done, text


class Sbom(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="heddle-sbom-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.written = cls.write("one.json")
        cls.document = json.loads(cls.written)

    @classmethod
    def write(cls, name):
        path = os.path.join(cls.folder.name, name)
        found = done(os.path.join(ROOT, "scripts/sbom.py"), path)
        assert found.returncode == 0, found.stdout
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_it_is_what_cyclonedx_wants(self):
        document = self.document
        self.assertEqual((document["bomFormat"], document["specVersion"], document["version"]), ("CycloneDX", "1.5", 1))
        self.assertRegex(document["serialNumber"], r"^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        self.assertEqual(document["metadata"]["component"]["type"], "application")
        self.assertEqual(document["metadata"]["component"]["name"], "heddle")
        every = [document["metadata"]["component"], *document["components"]]
        references = [one["bom-ref"] for one in every]
        self.assertEqual(len(references), len(set(references)))
        for one in every:
            self.assertTrue(one["type"] and one["name"] and one["version"])
        for need in document["dependencies"]:
            self.assertLessEqual({need["ref"], *need["dependsOn"]}, set(references))

    def test_every_crate_has_its_licence_and_the_checksum_of_the_lock(self):
        lock = {(one["name"], one["version"]): one.get("checksum") for one in tomllib.loads(text("Cargo.lock"))["package"]}
        for one in self.document["components"]:
            [licence] = one["licenses"]
            self.assertRegex(licence["expression"], re.compile(r"^[A-Za-z0-9.()+ -]+$"))
            sums = [entry["content"] for entry in one.get("hashes", [])]
            expected = lock[one["name"], one["version"]]
            self.assertEqual(sums, [expected] if expected else [])

    def test_it_has_what_is_linked_and_nothing_else(self):
        names = {one["name"] for one in self.document["components"]}
        self.assertLessEqual({"session", "reactor", "rustls", "tokio", "tonic"}, names)
        # Tests and builders.
        self.assertFalse({"testkit", "prost-build", "heddle"} & names)

    def test_the_same_lock_gives_the_same_bytes(self):
        self.assertEqual(self.write("two.json"), self.written)


if __name__ == "__main__":
    unittest.main()
