#!/usr/bin/env python3
"""Writes what the program is made of as CycloneDX JSON: scripts/sbom.py OUTPUT_FILE [--target TRIPLE]

Every crate that is linked into `heddle` on the target, from `cargo metadata` and Cargo.lock: name, version, licence,
checksum, and what needs what. Crates that only build it or test it are left out. A crate may be listed that only a
feature asked for by tests brings, since cargo joins the features of a workspace. The same Cargo.lock gives the same
bytes.
"""

import argparse
import json
import os
import subprocess
import sys
import tomllib
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CARGO = os.environ.get("CARGO", "cargo")
PROGRAM = "heddle"
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


class Failed(Exception):
    """Why there is no list, in one line."""


def said(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def host():
    """The triple for which this machine's compiler builds."""
    lines = dict(line.split(": ", 1) for line in said("rustc", "--version", "--verbose").splitlines() if ": " in line)
    return lines["host"]


def linked(metadata):
    """{id: ids that it links} of the program and of everything below it."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    [program] = [package["id"] for package in metadata["packages"]
                 if package["name"] == PROGRAM and package["id"] in metadata["workspace_members"]]
    found, waiting = {}, [program]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        # A kind that is not named is neither `build` nor `dev`.
        needs = [need["pkg"] for need in nodes[one]["deps"] if any(kind["kind"] is None for kind in need["dep_kinds"])]
        found[one] = sorted(needs)
        waiting += needs
    return program, found


def checksums(lock):
    """{(name, version): SHA-256} of the crates that come from the registry."""
    return {(one["name"], one["version"]): one["checksum"] for one in tomllib.loads(lock)["package"] if "checksum" in one}


def reference(package):
    return f"{package['name']}@{package['version']}"


def component(package, sums):
    found = {"type": "library", "bom-ref": reference(package), "name": package["name"], "version": package["version"]}
    if package["license"]:
        # Older crates write a slash for OR.
        found["licenses"] = [{"expression": package["license"].replace(" / ", "/").replace("/", " OR ")}]
    if package["source"] == REGISTRY:
        found["purl"] = f"pkg:cargo/{reference(package)}"
        found["hashes"] = [{"alg": "SHA-256", "content": sums[package["name"], package["version"]]}]
    if package["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return found


def bill(metadata, lock):
    """The document, as CycloneDX 1.5 wants it."""
    program, needs = linked(metadata)
    packages = {package["id"]: package for package in metadata["packages"]}
    sums = checksums(lock)
    order = sorted(needs, key=lambda one: reference(packages[one]))
    top = component(packages[program], sums)
    top["type"] = "application"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": top},
        "components": [component(packages[one], sums) for one in order if one != program],
        "dependencies": [{"ref": reference(packages[one]), "dependsOn": sorted(reference(packages[need]) for need in needs[one])}
                         for one in order],
    }
    document["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document, sort_keys=True)).urn
    return document


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", help="the file to write")
    parser.add_argument("--target", help="triple that the program is for; default: this machine's")
    options = parser.parse_args()
    try:
        metadata = json.loads(said(CARGO, "metadata", "--format-version", "1", "--locked",
                                   "--filter-platform", options.target or host()))
        with open(os.path.join(ROOT, "Cargo.lock"), encoding="utf-8") as file:
            document = bill(metadata, file.read())
        os.makedirs(os.path.dirname(os.path.abspath(options.output)), exist_ok=True)
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1, sort_keys=True)
            file.write("\n")
    except (Failed, OSError) as error:
        sys.exit(f"sbom: {error}")
    print(options.output)


if __name__ == "__main__":
    main()
