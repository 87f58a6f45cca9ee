"""compose.yaml and packaging/kubernetes: they parse, their parts agree, and the program takes their settings."""

import glob
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
import unittest

from tools import HEDDLE, ROOT, done, text

try:
    import yaml
except ImportError:
    yaml = None

MARIADB = "11.4.0-MariaDB"
# What docs/DEPLOYING.md asks of each server's own configuration.
SERVER_OPTIONS = {"log-bin", "log-slave-updates", "gtid-strict-mode", "read-only", "init-rpl-role"}
# Beyond what the router waits for by itself at its end.
END_MARGIN_S = 10


def grants(*features):
    """The GRANT statements for Heddle's account, as the program prints them, without those for replicas."""
    found = done(HEDDLE, "grants", MARIADB, "--account", "heddle@%", "--for", ",".join(features))
    return [line for line in found.stdout.splitlines() if line.startswith("GRANT") and "heddle_replication" not in line]


@unittest.skipIf(yaml is None, "python3-yaml is not installed")
class Deployment(unittest.TestCase):
    """What both kinds have in common: a folder that stands in for the container's files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="heddle-deployment-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def inside(self, path, content):
        """Writes a file of the container; returns where it stands here."""
        here = self.folder + path
        os.makedirs(os.path.dirname(here), exist_ok=True)
        with open(here, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(here, 0o600)
        return here

    def check(self, arguments, passwords):
        """`heddle ARGUMENTS --check`, with the container's paths as they are here."""
        settings = arguments[arguments.index("--config") + 1]
        words = [self.folder + settings if word == settings else word for word in arguments]
        for path in passwords:
            self.inside(path, "secret\n")
            words = [word.replace(f"={path}", f"={self.folder}{path}") for word in words]
        return done(HEDDLE, *words, "--check")

    def assert_right(self, arguments, passwords):
        found = self.check(arguments, passwords)
        self.assertEqual(found.returncode, 0, found.stdout)
        self.assertIn("is right", found.stdout)
        # The check above sees what is wrong.
        found = self.check([*arguments, "--set", "drain_s=a while"], passwords)
        self.assertNotEqual(found.returncode, 0, found.stdout)


class Compose(Deployment):
    def setUp(self):
        super().setUp()
        self.file = yaml.safe_load(text("compose.yaml"))
        services = self.file["services"]
        self.routers = {name: one for name, one in services.items() if name.startswith("router")}
        self.servers = {name: one for name, one in services.items() if name.startswith("mariadb")}

    def test_the_program_takes_the_settings_of_each_router(self):
        self.assertEqual(len(self.routers), 3)
        self.inside("/etc/heddle/heddle.toml", text("packaging/image.toml"))
        for name, router in self.routers.items():
            self.assertIn(f"router_name={name}", router["command"])
            self.assertIn(f"peer_url=http://{name}:6080", router["command"])
            passwords = [f"/run/secrets/{secret}" for secret in router["secrets"]]
            self.assert_right(router["command"], passwords)

    def test_routers_get_the_time_that_they_take_to_end(self):
        settings = done(HEDDLE, "serve", "--help").stdout
        drain_s = int(re.search(r"drain_s = (\d+)", settings).group(1))
        for router in self.routers.values():
            self.assertGreaterEqual(int(router["stop_grace_period"].removesuffix("s")), drain_s + END_MARGIN_S)

    def test_servers_are_set_as_heddle_needs_them(self):
        self.assertEqual(len(self.servers), 3)
        ids = set()
        for server in self.servers.values():
            options = dict((word.removeprefix("--").split("=") + [""])[:2] for word in server["command"])
            ids.add(options.pop("server-id"))
            self.assertEqual(set(options), SERVER_OPTIONS)
            self.assertEqual(options["init-rpl-role"], "SLAVE")
            if shutil.which("mariadbd"):
                found = done("mariadbd", "--no-defaults", "--user=nobody", *server["command"], "--verbose", "--help")
                self.assertEqual(found.returncode, 0, found.stdout[-500:])
        self.assertEqual(len(ids), 3)

    def test_accounts_have_the_grants_that_the_program_prints(self):
        script = text("packaging/compose/accounts.sh").replace("\\`", "`")
        self.assertEqual(re.findall(r"^GRANT.*$", script, re.MULTILINE), grants("essential", "clone"))
        # A password with all that quotes could break.
        self.inside("/password", "a'b\\c\"d")
        shell = f"""docker_process_sql() {{ cat; }}
            docker_sql_escape_string_literal() {{ local e=${{1//\\\\/\\\\\\\\}}; echo "${{e//\\'/\\\\\\'}}"; }}
            . <(sed 's,/run/secrets/heddle_password,{self.folder}/password,' {ROOT}/packaging/compose/accounts.sh)"""
        found = subprocess.run(["bash", "-euc", shell], capture_output=True, text=True, check=True)
        self.assertIn("IDENTIFIED BY 'a\\'b\\\\c\"d';", found.stdout)

    def test_its_parts_are_there(self):
        version = done(HEDDLE, "--version").stdout.split()[1]
        doors = set()
        for name, service in self.file["services"].items():
            for volume in service["volumes"]:
                source = volume.split(":")[0]
                there = os.path.exists(os.path.join(ROOT, source)) if source.startswith("./") else source in self.file["volumes"]
                self.assertTrue(there, f"{name}: {volume}")
            for secret in service.get("secrets", []):
                self.assertIn(secret, self.file["secrets"])
            for port in service.get("ports", []):
                self.assertTrue(port.startswith("127.0.0.1:"), "no port is open to other machines by default")
                self.assertNotIn(port.rsplit(":", 1)[0], doors)
                doors.add(port.rsplit(":", 1)[0])
            if name in self.routers:
                self.assertEqual(service["image"], f"heddle:{version}")


class Kubernetes(Deployment):
    def setUp(self):
        super().setUp()
        self.objects = {}
        for path in sorted(glob.glob(os.path.join(ROOT, "packaging/kubernetes/*.yaml"))):
            for one in yaml.safe_load_all(text(path)):
                self.objects[one["kind"], one["metadata"]["name"]] = one
        self.routers = self.objects["StatefulSet", "heddle"]["spec"]
        self.pod = self.routers["template"]["spec"]
        [self.container] = self.pod["containers"]
        self.settings = self.objects["ConfigMap", "heddle"]["data"]["heddle.toml"]

    def test_the_program_takes_the_settings(self):
        passwords = [value for name, value in tomllib.loads(self.settings).items() if name.endswith("_password_file")]
        here = self.settings
        for path in passwords:
            here = here.replace(f'"{path}"', f'"{self.inside(path, "secret")}"')
        self.inside("/etc/heddle/heddle.toml", here)
        names = {"POD_NAME": "heddle-0", "POD_NAMESPACE": "default"}
        self.assertEqual({one["name"] for one in self.container["env"]}, set(names))
        arguments = [re.sub(r"\$\((\w+)\)", lambda name: names[name.group(1)], word) for word in self.container["args"]]
        self.assert_right(arguments, [])
        self.assertIn("peer_url=http://heddle-0.heddle-routers.default.svc:6080", arguments)

    def test_a_pod_gets_the_time_that_a_router_takes_to_end(self):
        settings = tomllib.loads(self.settings)
        takes_s = settings["drain_ready_ms"] / 1000 + settings["drain_s"]
        self.assertGreaterEqual(self.pod["terminationGracePeriodSeconds"], takes_s + END_MARGIN_S)
        probe = self.container["readinessProbe"]
        notices_s = probe["periodSeconds"] * probe["failureThreshold"]
        self.assertGreater(settings["drain_ready_ms"] / 1000, notices_s)

    def test_probes_ask_what_the_router_answers(self):
        asked = {name: probe["httpGet"] for name, probe in self.container.items() if name.endswith("Probe")}
        self.assertEqual(asked, {"startupProbe": {"path": "/healthz", "port": "http"},
                                 "livenessProbe": {"path": "/healthz", "port": "http"},
                                 "readinessProbe": {"path": "/readyz", "port": "http"}})

    def test_a_router_may_do_little(self):
        pod, container = self.pod["securityContext"], self.container["securityContext"]
        self.assertTrue(pod["runAsNonRoot"] and pod["runAsUser"] == 65534)
        self.assertEqual(pod["seccompProfile"], {"type": "RuntimeDefault"})
        self.assertEqual(container, {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                     "capabilities": {"drop": ["ALL"]}})
        self.assertFalse(self.pod["automountServiceAccountToken"])

    def test_its_parts_find_each_other(self):
        labels = self.routers["template"]["metadata"]["labels"]
        selectors = [self.routers["selector"]["matchLabels"]]
        selectors.append(self.objects["PodDisruptionBudget", "heddle"]["spec"]["selector"]["matchLabels"])
        ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        for kind, name in self.objects:
            if kind == "Service":
                spec = self.objects[kind, name]["spec"]
                selectors.append(spec["selector"])
                self.assertLessEqual({port["targetPort"] for port in spec["ports"]}, set(ports))
        self.assertEqual(selectors, [labels] * len(selectors))
        listens = {name: int(tomllib.loads(self.settings)[f"{name}_listen"].split(":")[1]) for name in ports}
        self.assertEqual(listens, ports)
        self.assertTrue(self.objects["Service", self.routers["serviceName"]]["spec"]["publishNotReadyAddresses"])
        mounts = {mount["name"]: mount["mountPath"] for mount in self.container["volumeMounts"]}
        volumes = {one["name"] for one in self.pod["volumes"]}
        volumes |= {one["metadata"]["name"] for one in self.routers["volumeClaimTemplates"]}
        self.assertEqual(set(mounts), volumes)
        for path in tomllib.loads(self.settings)["state_dir"], tomllib.loads(self.settings)["admin_password_file"]:
            self.assertTrue(any(path.startswith(mount + "/") for mount in mounts.values()), path)
        self.assertEqual(self.container["image"], "heddle:" + done(HEDDLE, "--version").stdout.split()[1])


if __name__ == "__main__":
    unittest.main()
