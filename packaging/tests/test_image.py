"""The OCI image: what its documents say is so, and its program runs in nothing but its files, as nobody."""

import gzip
import hashlib
import io
import json
import os
import re
import stat
import subprocess
import tarfile
import tempfile
import unittest

from tools import HEDDLE, PACKAGING, done

import image
from processes import end, free_ports, wait_for

START_TIMEOUT_S = 30
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def made(folder):
    """The path of the image that the script writes into a folder."""
    found = done(os.path.join(PACKAGING, "image.py"), HEDDLE, folder, "--source", "https://example.org/heddle")
    assert found.returncode == 0, found.stdout
    return found.stdout.strip()


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="heddle-image-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = made(cls.folder.name)
        with tarfile.open(cls.path) as archive:
            cls.files = {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}
        cls.index = json.loads(cls.files["index.json"])
        cls.manifest = json.loads(cls.files[cls.blob(cls.index["manifests"][0])])
        cls.config = json.loads(cls.files[cls.blob(cls.manifest["config"])])

    @staticmethod
    def blob(descriptor):
        return "blobs/" + descriptor["digest"].replace(":", "/")

    def layer(self):
        return gzip.decompress(self.files[self.blob(self.manifest["layers"][0])])

    def entries(self):
        with tarfile.open(fileobj=io.BytesIO(self.layer())) as archive:
            return {entry.name: entry for entry in archive}

    def test_every_blob_is_what_refers_to_it(self):
        descriptors = [*self.index["manifests"], self.manifest["config"], *self.manifest["layers"]]
        for descriptor in descriptors:
            data = self.files[self.blob(descriptor)]
            self.assertEqual(descriptor["digest"], "sha256:" + hashlib.sha256(data).hexdigest())
            self.assertEqual(descriptor["size"], len(data))
        blobs = {name for name in self.files if name.startswith("blobs/")}
        self.assertEqual(blobs, {self.blob(descriptor) for descriptor in descriptors})
        self.assertEqual(self.config["rootfs"]["diff_ids"], ["sha256:" + hashlib.sha256(self.layer()).hexdigest()])

    def test_documents_have_what_the_specification_asks_for(self):
        self.assertEqual(json.loads(self.files["oci-layout"]), {"imageLayoutVersion": "1.0.0"})
        self.assertEqual((self.index["schemaVersion"], self.manifest["schemaVersion"]), (2, 2))
        types = [self.index["mediaType"], self.manifest["mediaType"], self.manifest["config"]["mediaType"],
                 self.manifest["layers"][0]["mediaType"]]
        self.assertEqual(types, [f"application/vnd.oci.image.{name}" for name in
                                 ("index.v1+json", "manifest.v1+json", "config.v1+json", "layer.v1.tar+gzip")])
        self.assertEqual(self.index["manifests"][0]["mediaType"], self.manifest["mediaType"])
        self.assertEqual(self.config["os"], "linux")
        self.assertIn(self.config["architecture"], ("amd64", "arm64"))
        self.assertEqual(self.index["manifests"][0]["platform"]["architecture"], self.config["architecture"])
        self.assertEqual(self.config["rootfs"]["type"], "layers")
        self.assertRegex(self.config["created"], RFC3339)
        self.assertEqual(len(self.config["history"]), len(self.manifest["layers"]))

    def test_it_says_what_it_is_and_how_it_runs(self):
        config = self.config["config"]
        self.assertEqual(config["User"], "65534:65534")
        self.assertEqual(config["Volumes"], {"/var/lib/heddle": {}})
        self.assertEqual(set(config["ExposedPorts"]), {"6306/tcp", "6080/tcp"})
        marks = config["Labels"]
        version = done(HEDDLE, "--version").stdout.split()[1]
        self.assertEqual(marks["org.opencontainers.image.version"], version)
        self.assertEqual(marks["org.opencontainers.image.licenses"], "Apache-2.0")
        self.assertEqual(marks["org.opencontainers.image.source"], "https://example.org/heddle")
        self.assertEqual(marks["org.opencontainers.image.created"], self.config["created"])
        self.assertEqual(self.manifest["annotations"], marks)

    def test_older_docker_loads_the_same_blobs(self):
        [entry] = json.loads(self.files["manifest.json"])
        self.assertEqual(entry["Config"], self.blob(self.manifest["config"]))
        self.assertEqual(entry["Layers"], [self.blob(layer) for layer in self.manifest["layers"]])

    def test_the_layer_is_sorted_and_has_one_time_and_its_licences(self):
        entries = self.entries()
        self.assertEqual(list(entries), sorted(entries))
        self.assertEqual(len({entry.mtime for entry in entries.values()}), 1)
        state = entries["var/lib/heddle"]
        self.assertEqual((state.uid, state.gid, state.mode), (65534, 65534, 0o700))
        others = {entry.uid for name, entry in entries.items() if name != "var/lib/heddle"}
        self.assertEqual(others, {0})
        for name, entry in entries.items():
            self.assertFalse(entry.mode & 0o6000, f"{name} runs as somebody else")
            self.assertTrue(entry.mode == 0o1777 or not entry.mode & 0o022, f"{name} can be written by others")
        for library in image.libraries(HEDDLE):
            self.assertIn(library.lstrip("/"), entries)
            package = image.package_of(library)[0]
            self.assertIn(f"usr/share/doc/{package}/copyright", entries)

    def test_the_same_program_gives_the_same_image(self):
        with tempfile.TemporaryDirectory() as other, open(made(other), "rb") as again, open(self.path, "rb") as first:
            self.assertEqual(again.read(), first.read())

    def test_what_is_no_program_is_refused_in_one_line(self):
        for wrong in ("/bin/sh", "/etc/passwd", "/nonexistent"):
            found = done(os.path.join(PACKAGING, "image.py"), wrong, self.folder.name)
            self.assertEqual(found.returncode, 1, found.stdout)
            self.assertTrue(found.stdout.startswith("image: ") and found.stdout.count("\n") <= 2, found.stdout)

    @unittest.skipIf(os.geteuid() != 0, "only root may chroot")
    def test_it_runs_as_nobody_in_its_own_files(self):
        with tempfile.TemporaryDirectory() as root:
            os.chmod(root, 0o755)
            with tarfile.open(fileobj=io.BytesIO(self.layer())) as archive:
                # The mode and owner of every file count here.
                archive.extraction_filter = lambda member, path: member
                archive.extractall(root)
            self.make_devices(root)
            inside = ["chroot", "--userspec=65534:65534", root]
            version = done(*inside, "/usr/bin/heddle", "--version")
            self.assertEqual(version.stdout, done(HEDDLE, "--version").stdout)
            self.serves(inside)

    def make_devices(self, root):
        """What every container has in /dev, as far as a router reads it."""
        os.mkdir(os.path.join(root, "dev"))
        for name, minor in (("null", 3), ("urandom", 9)):
            path = os.path.join(root, "dev", name)
            try:
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
                os.chmod(path, 0o666)
                with open(path, "rb", buffering=0) as device:
                    device.read(1)
            except PermissionError as error:
                self.skipTest(f"no devices may be made here: {error}")

    def serves(self, inside):
        """The image's own command line starts a router, its health check says so, and SIGTERM ends it."""
        sql, http = free_ports(2)
        config = self.config["config"]
        # A container has a working directory; chroot has not.
        state = os.path.join(config["WorkingDir"], "heddle-data")
        command = [*inside, "/usr/bin/" + config["Entrypoint"][0], *config["Cmd"]]
        for setting in (f"sql_listen=127.0.0.1:{sql}", f"http_listen=127.0.0.1:{http}"):
            command += ["--set", setting]
        check = [*inside, "/usr/bin/" + config["Healthcheck"]["Test"][1], *config["Healthcheck"]["Test"][2:]]
        check += ["--http", f"127.0.0.1:{http}", "--data", state]
        with tempfile.TemporaryFile("w+") as log:
            router = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                wait_for(lambda: router.poll() is not None or done(*check).returncode == 0, START_TIMEOUT_S, "the health check")
                self.assertIsNone(router.poll(), "it ended")
                # Its state lies in the volume, closed to others.
                found = os.stat(os.path.join(inside[-1], state.lstrip("/")))
                self.assertEqual((found.st_uid, found.st_mode & 0o777), (65534, 0o700))
                listed = done(*inside, "/usr/bin/heddle", "group", "lookup_groups", "--http", f"127.0.0.1:{http}", "--data", state)
                self.assertEqual(listed.returncode, 0, listed.stdout)
            except BaseException:
                log.seek(0)
                print(log.read())
                raise
            finally:
                code = end(router)
        self.assertEqual(code, 0)
        self.assertNotEqual(done(*check).returncode, 0, "a router that has ended is not healthy")


if __name__ == "__main__":
    unittest.main()
