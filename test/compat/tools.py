"""What the programs need beyond Heddle: interpreters from the distribution, drivers from the languages' own
registries by their ordinary clients, kept in a cache directory that later runs find again."""

import glob
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(os.environ.get("HEDDLE_CACHE") or os.path.expanduser("~/.cache/heddle"), "compat")
INSTALL_TIMEOUT_S = 900


class Missing(Exception):
    """A tool or a driver is not here and could not be had; the text says what and how to get it."""


def _run(command, what, **options):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=INSTALL_TIMEOUT_S, errors="replace", **options)
    except subprocess.TimeoutExpired:
        raise Missing(f"{what}: no answer within {INSTALL_TIMEOUT_S} s")
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        telling = [line for line in lines if "ERROR" in line or "error" in line] or lines[-1:]
        raise Missing(f"{what}: {telling[0] if telling else 'failed without a word'}")
    return done.stdout


def program(name, package):
    """The path of a program that a Debian package holds."""
    path = shutil.which(name)
    if path is None:
        raise Missing(f"{name} is not here: apt-get install {package}")
    return path


def unpacked(*packages):
    """(folder, version of the first) of Debian packages that are fetched and unpacked, not installed: an application's
    package would bring a web server along."""
    folder = os.path.join(CACHE, "debian", packages[0])
    noted = os.path.join(folder, "VERSION")
    if not os.path.exists(noted):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        _run([program("apt-get", "apt"), "download", "--quiet", *packages], "apt-get download " + " ".join(packages), cwd=folder)
        for archive in glob.glob(os.path.join(folder, "*.deb")):
            _run(["dpkg-deb", "--extract", archive, folder], archive)
        [first] = glob.glob(os.path.join(folder, f"{packages[0]}_*.deb"))
        version = _run(["dpkg-deb", "--field", first, "Version"], first).strip()
        with open(noted, "w", encoding="utf-8") as file:
            file.write(version.split(":")[-1].split("+")[0].split("-")[0])
    with open(noted, encoding="utf-8") as file:
        return folder, file.read()


class Python:
    """A virtual environment; a package is installed when something first asks for it."""

    def __init__(self):
        self.folder = os.path.join(CACHE, "python")
        self.python = os.path.join(self.folder, "bin", "python")

    def need(self, *packages):
        if not os.path.exists(self.python):
            _run([program("python3", "python3"), "-m", "venv", self.folder],
                 "python3 -m venv (apt-get install python3-venv)")
        have = self.versions()
        missing = [package for package in packages if package.lower() not in have]
        if missing:
            _run([self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *missing],
                 "pip install " + " ".join(missing))
        return self.python

    def versions(self):
        script = ("import importlib.metadata as m\n"
                  "for d in m.distributions(): print(d.metadata['Name'].lower(), d.version)")
        lines = _run([self.python, "-c", script], "python").splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def version(self, package):
        return self.versions().get(package.lower(), "?")

    def source(self, package):
        """The folder of a package's sources, which hold its tests; the version is the installed one's."""
        name = f"{package}=={self.version(package)}"
        target = os.path.join(CACHE, "python-sources", name)
        if not os.path.isdir(target):
            part = target + ".part"
            shutil.rmtree(part, ignore_errors=True)
            os.makedirs(part)
            _run([self.python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                  "--no-binary", package, "--dest", part, name], f"pip download {name}")
            (archive,) = glob.glob(os.path.join(part, "*.tar.gz"))
            _run(["tar", "xzf", archive, "-C", part, "--strip-components=1"], "tar")
            os.rename(part, target)
        return target


class Node:
    """A folder with node_modules; programs in it are found through NODE_PATH."""

    def __init__(self):
        self.folder = os.path.join(CACHE, "node")
        self.modules = os.path.join(self.folder, "node_modules")

    def need(self, *packages):
        node, npm = program("node", "nodejs"), program("npm", "npm")
        os.makedirs(self.folder, exist_ok=True)
        missing = [name for name in packages if not os.path.isdir(os.path.join(self.modules, name))]
        if missing:
            _run([npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", self.folder, *missing],
                 "npm install " + " ".join(missing))
        return node

    def version(self, package):
        script = f"console.log(require('{self.modules}/{package}/package.json').version)"
        return _run([program("node", "nodejs"), "-e", script], "node").strip()


class Java:
    """Maven's local repository holds the drivers; the programs are compiled into the cache."""

    def need(self):
        """The class path: the compiled programs and the drivers that pom.xml names."""
        program("java", "default-jdk-headless")
        maven = program("mvn", "maven")
        source = os.path.join(HERE, "java")
        folder = os.path.join(CACHE, "java")
        listing = os.path.join(folder, "classpath")
        sources = glob.glob(os.path.join(source, "**", "*.java"), recursive=True) + [os.path.join(source, "pom.xml")]
        if not os.path.exists(listing) or any(os.path.getmtime(name) > os.path.getmtime(listing) for name in sources):
            os.makedirs(folder, exist_ok=True)
            _run([maven, "--batch-mode", "--quiet", "--file", os.path.join(source, "pom.xml"),
                  f"-Dcompat.target={folder}", "compile", "dependency:build-classpath",
                  f"-Dmdep.outputFile={listing}"], "mvn compile")
        with open(listing, encoding="utf-8") as file:
            return os.path.join(folder, "classes") + ":" + file.read().strip()

    def version(self, artifact):
        for path in self.need().split(":"):
            name = os.path.basename(path)
            if name.startswith(artifact + "-"):
                return name[len(artifact) + 1:-len(".jar")]
        return "?"


class Go:
    """A folder whose go.mod names the driver; its program is built into the cache."""

    def __init__(self, folder="go"):
        self.folder = folder

    def need(self):
        go = program("go", "golang")
        target = os.path.join(CACHE, self.folder, "program")
        _run([go, "build", "-o", target, "."], "go build", cwd=os.path.join(HERE, self.folder))
        return target

    def build(self, source, folder):
        """Another program with the same modules, built from one file into a folder."""
        for name in ("go.mod", "go.sum"):
            shutil.copy(os.path.join(HERE, self.folder, name), folder)
        shutil.copy(source, os.path.join(folder, "main.go"))
        _run([program("go", "golang"), "build", "-o", "program", "."], "go build", cwd=folder)
        return os.path.join(folder, "program")

    def module(self, module):
        """Version and folder of a module in Go's cache, tests included."""
        go = program("go", "golang")
        text = _run([go, "list", "-m", "-f", "{{.Version}} {{.Dir}}", module], "go list",
                    cwd=os.path.join(HERE, self.folder))
        return text.split()


class Rust:
    """A workspace of its own in a folder, built into the cache."""

    def __init__(self, folder="rust", binary="compat"):
        self.folder = folder
        self.binary = binary

    def need(self):
        cargo = program(os.environ.get("CARGO", "cargo"), "cargo")
        target = os.path.join(CACHE, self.folder)
        _run([cargo, "build", "--quiet", "--locked", "--target-dir", target,
              "--manifest-path", os.path.join(HERE, self.folder, "Cargo.toml")], "cargo build")
        return os.path.join(target, "debug", self.binary)

    def version(self, crate):
        with open(os.path.join(HERE, self.folder, "Cargo.lock"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        return lines[lines.index(f'name = "{crate}"') + 1].split('"')[1]
