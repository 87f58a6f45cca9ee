#!/usr/bin/env python3
"""Makes an OCI image of a built program: packaging/image.py PROGRAM OUTPUT_DIRECTORY [--source URL]

The image holds the program, the libraries that it was linked with, its settings and nothing else: no shell, no
package manager. It comes as one tar, an OCI layout that `docker load` takes, too. The same program, libraries and
commit give the same bytes. Needs ldd, strip and dpkg-query, which a Debian that has built Heddle has; neither
docker nor root.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
NOBODY = 65534
STATE = "/var/lib/heddle"
DOC = "/usr/share/doc"
TITLE = "heddle"
DESCRIPTION = "One address for a farm of MySQL and MariaDB servers"
LICENCE = "Apache-2.0"
# e_machine of the ELF header, and what OCI calls it.
ARCHITECTURES = {62: "amd64", 183: "arm64"}
SECOND_NS = 1_000_000_000

ACCOUNTS = f"root:x:0:0:root:/:/sbin/nologin\nnobody:x:{NOBODY}:{NOBODY}:nobody:{STATE}:/sbin/nologin\n"
GROUPS = f"root:x:0:\nnogroup:x:{NOBODY}:\n"
NAME_SERVICES = "passwd: files\ngroup: files\nhosts: files dns\n"


class Failed(Exception):
    """Why there is no image, in one line."""


def said(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Failed(f"{command[0]} is not installed") from error
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def content(path):
    with open(path, "rb") as file:
        return file.read()


def architecture(program):
    """OCI's name of the processor that an ELF program is for."""
    head = content(program)[:20]
    machine = int.from_bytes(head[18:20], "little")
    if head[:4] != b"\x7fELF" or machine not in ARCHITECTURES:
        raise Failed(f"{program} is no program for {' or '.join(ARCHITECTURES.values())}")
    return ARCHITECTURES[machine]


def commit_time():
    """Seconds since 1970: SOURCE_DATE_EPOCH, else the last commit, else now."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    done = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False)
    return int(done.stdout) if done.stdout.strip() else int(time.time())


def stripped(program):
    """The program without its symbols, as in the Debian package."""
    with tempfile.NamedTemporaryFile() as file:
        said("strip", "--strip-unneeded", "-o", file.name, program)
        return content(file.name)


def libraries(program):
    """The paths at which the loader looks for the libraries of the program, and of the loader itself."""
    found = []
    for line in said("ldd", program).splitlines():
        if "not found" in line:
            raise Failed(f"a library of {program} is missing: {line.strip()}")
        path = re.search(r"(/\S+) \(0x", line)
        if path:
            found.append(path.group(1))
    return sorted(found)


def package_of(library):
    """(name, version) of the Debian package that brought a library."""
    real = os.path.realpath(library)
    # Where /lib is a link to /usr/lib, packages are listed under either.
    for path in dict.fromkeys([library, real, real.removeprefix("/usr"), "/usr" + library]):
        done = subprocess.run(["dpkg-query", "--search", path], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            name = done.stdout.split(": ")[0].split(",")[0].split(":")[0]
            return name, said("dpkg-query", "--show", "--showformat=${Version}", name)
    raise Failed(f"no Debian package has brought {library}, so its licence is unknown")


class Layer:
    """The files of the image by their paths; `tar` gives them sorted, all of one time."""

    def __init__(self, mtime):
        self.mtime = mtime
        self.entries = {}

    def folder(self, path, mode=0o755, owner=0):
        if path in ("", "/") or path in self.entries:
            return
        self.folder(os.path.dirname(path))
        self.entries[path] = (None, mode, owner)

    def file(self, path, data, mode=0o644):
        self.folder(os.path.dirname(path))
        self.entries[path] = (data.encode() if isinstance(data, str) else data, mode, 0)

    def tar(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path, (data, mode, owner) in sorted(self.entries.items()):
                add(archive, path.lstrip("/"), data, self.mtime, mode, owner)
        return out.getvalue()


def add(archive, name, data, mtime, mode=0o644, owner=0):
    """One file, or a folder where `data` is None."""
    entry = tarfile.TarInfo(name)
    entry.mtime, entry.mode, entry.uid, entry.gid = mtime, mode, owner, owner
    if data is None:
        entry.type = tarfile.DIRTYPE
    else:
        entry.size = len(data)
    archive.addfile(entry, None if data is None else io.BytesIO(data))


def root_of(program, mtime):
    """What the container sees as its root."""
    layer = Layer(mtime)
    layer.file("/usr/bin/heddle", stripped(program), 0o755)
    brought = {}
    for library in libraries(program):
        layer.file(library, content(os.path.realpath(library)), 0o755)
        name, version = package_of(library)
        brought.setdefault((name, version), []).append(library)
    notes = ["The libraries of this image come from Debian, unchanged. Debian has their sources, by package and version:", ""]
    for (name, version), paths in sorted(brought.items()):
        notes.append(f"{name} {version}: {', '.join(paths)}")
        layer.file(f"{DOC}/{name}/copyright", content(f"{DOC}/{name}/copyright"))
    layer.file(f"{DOC}/heddle/LIBRARIES", "\n".join(notes) + "\n")
    layer.file(f"{DOC}/heddle/LICENSE", content(os.path.join(ROOT, "LICENSE")))
    layer.file("/etc/passwd", ACCOUNTS)
    layer.file("/etc/group", GROUPS)
    layer.file("/etc/nsswitch.conf", NAME_SERVICES)
    layer.file("/etc/heddle/heddle.toml", content(os.path.join(HERE, "image.toml")))
    layer.folder("/tmp", 0o1777)
    layer.folder(STATE, 0o700, NOBODY)
    return layer


def labels(version, created, source):
    found = {"title": TITLE, "description": DESCRIPTION, "version": version, "licenses": LICENCE, "created": created}
    if source:
        found["source"] = source
    return {f"org.opencontainers.image.{name}": text for name, text in sorted(found.items())}


def configuration(processor, diff_id, created, marks):
    """The image's configuration. Healthcheck is docker's; OCI leaves room for it and orchestrators ask by HTTP."""
    return {
        "created": created,
        "architecture": processor,
        "os": "linux",
        "config": {
            "User": f"{NOBODY}:{NOBODY}",
            "ExposedPorts": {"6306/tcp": {}, "6080/tcp": {}},
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["heddle"],
            "Cmd": ["serve", "--config", "/etc/heddle/heddle.toml"],
            "Volumes": {STATE: {}},
            "WorkingDir": STATE,
            "Labels": marks,
            "StopSignal": "SIGTERM",
            "Healthcheck": {
                "Test": ["CMD", "heddle", "manage", "ping"],
                "Interval": 5 * SECOND_NS,
                "Timeout": 5 * SECOND_NS,
                "StartPeriod": 30 * SECOND_NS,
                "Retries": 3,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created": created, "created_by": "packaging/image.py"}],
    }


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def as_json(value):
    return json.dumps(value, indent=1, sort_keys=True).encode()


class Layout:
    """An OCI layout in memory: blobs by their digests, and the files beside them."""

    def __init__(self):
        self.files = {"oci-layout": as_json({"imageLayoutVersion": "1.0.0"})}

    def blob(self, media_type, data):
        """Keeps a blob; returns what refers to it."""
        self.files[self.path(digest(data))] = data
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    @staticmethod
    def path(name):
        return "blobs/" + name.replace(":", "/")

    def tar(self, mtime):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for folder in ("blobs", "blobs/sha256"):
                add(archive, folder, None, mtime, 0o755)
            for name, data in sorted(self.files.items()):
                add(archive, name, data, mtime)
        return out.getvalue()


def image(program, version, source):
    """The bytes of the image's tar."""
    mtime = commit_time()
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(mtime))
    processor = architecture(program)
    marks = labels(version, created, source)
    tar = root_of(program, mtime).tar()
    layout = Layout()
    # No time stands in the header of the compressed layer.
    layer = layout.blob("application/vnd.oci.image.layer.v1.tar+gzip", gzip.compress(tar, 6, mtime=0))
    config = layout.blob("application/vnd.oci.image.config.v1+json",
                         as_json(configuration(processor, digest(tar), created, marks)))
    manifest_type = "application/vnd.oci.image.manifest.v1+json"
    manifest = layout.blob(manifest_type, as_json({"schemaVersion": 2, "mediaType": manifest_type, "config": config,
                                                   "layers": [layer], "annotations": marks}))
    manifest["platform"] = {"architecture": processor, "os": "linux"}
    manifest["annotations"] = {"org.opencontainers.image.ref.name": version}
    layout.files["index.json"] = as_json({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                                          "manifests": [manifest]})
    # `docker load` of releases that read no OCI layout.
    layout.files["manifest.json"] = as_json([{"Config": Layout.path(config["digest"]), "RepoTags": [f"{TITLE}:{version}"],
                                              "Layers": [Layout.path(layer["digest"])]}])
    return processor, layout.tar(mtime)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("output", help="the directory for the image")
    parser.add_argument("--source", help="URL of the sources, for the image's labels")
    options = parser.parse_args()
    try:
        words = said(options.program, "--version").split()
        if len(words) != 2:
            raise Failed(f"{options.program} --version does not say NAME VERSION")
        processor, data = image(options.program, words[1], options.source)
        os.makedirs(options.output, exist_ok=True)
        path = os.path.join(options.output, f"heddle_{words[1]}_{processor}.oci.tar")
        with open(path, "wb") as file:
            file.write(data)
    except (Failed, OSError) as error:
        sys.exit(f"image: {error}")
    print(path)


if __name__ == "__main__":
    main()
