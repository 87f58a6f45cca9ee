"""The workflows: they parse, call targets that are there, and give no more rights than they need."""

import glob
import os
import re
import subprocess
import tomllib
import unittest

from tools import ROOT, text

try:
    import yaml
except ImportError:
    yaml = None

# Our own actions, and foreign ones by their major version.
ACTION = re.compile(r"\./\.github/actions/[a-z]+|[A-Za-z0-9-]+/[a-z-]+@v\d+")


@unittest.skipIf(yaml is None, "python3-yaml is not installed")
class Workflows(unittest.TestCase):
    def setUp(self):
        paths = glob.glob(os.path.join(ROOT, ".github/workflows/*.yml"))
        self.files = {os.path.basename(path): yaml.safe_load(text(path)) for path in paths}
        self.action = yaml.safe_load(text(".github/actions/rust/action.yml"))
        self.steps = [step for file in self.files.values() for job in file["jobs"].values() for step in job["steps"]]
        self.steps += self.action["runs"]["steps"]

    def test_there_are_checks_and_releases(self):
        self.assertEqual(set(self.files), {"checks.yml", "release.yml"})
        # YAML 1.1 reads the key `on` as a truth value.
        self.assertEqual(self.files["release.yml"][True], {"push": {"tags": ["v*"]}})

    def test_each_action_has_its_major_version(self):
        for step in self.steps:
            if "uses" in step:
                self.assertRegex(step["uses"], ACTION)
            if step.get("uses", "").startswith("./"):
                self.assertTrue(os.path.exists(os.path.join(ROOT, step["uses"], "action.yml")), step["uses"])

    def test_each_target_is_in_the_makefile(self):
        targets = set(re.findall(r"^([a-z-]+):.*## ", text("Makefile"), re.MULTILINE))
        called = [word for step in self.steps for line in re.findall(r"^make (.*)$", step.get("run", ""), re.MULTILINE)
                  for word in line.split()]
        self.assertLessEqual({"check", "test", "package", "tar", "image", "sbom"}, set(called))
        self.assertLessEqual(set(called), targets)

    def test_scripts_are_shell_and_hold_nothing_that_a_stranger_writes(self):
        for step in self.steps:
            if "run" in step:
                subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)
                # A title or branch in the text of a script would be run.
                self.assertNotIn("${{", step["run"])

    def test_rights_are_few_and_no_secret_is_named(self):
        for name, file in self.files.items():
            self.assertEqual(file["permissions"], {"contents": "read"}, name)
            for job in file["jobs"].values():
                self.assertIn("timeout-minutes", job)
        writes = [job["permissions"] for file in self.files.values() for job in file["jobs"].values() if "permissions" in job]
        self.assertEqual(writes, [{"contents": "write", "id-token": "write", "attestations": "write"}])
        for name in self.files:
            self.assertNotIn("secrets.", text(".github/workflows", name))

    def test_the_toolchain_is_the_one_that_the_workspace_asks_for(self):
        asked = tomllib.loads(text("Cargo.toml"))["workspace"]["package"]["rust-version"]
        [run] = [step["run"] for step in self.action["runs"]["steps"] if "run" in step]
        self.assertIn(f"--default-toolchain {asked}.", run)


if __name__ == "__main__":
    unittest.main()
