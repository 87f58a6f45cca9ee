"""MySQL's InnoDB memcached plugin as a peer in the comparison of key-value doors.

It keeps rows in a table, as the door does, so that what only memory can do is no difference between the two.
What it does otherwise than memcached and the door is listed here with the reason; anything else is told.
"""

import os
import shutil
import socket
import subprocess
import tempfile

from processes import Failed, end, free_ports, wait_for
from tools import Missing

# Where the server that `HEDDLE_MYSQLD` does not name may be: unpacked once by the tests.
UNPACKED = os.path.join(os.environ.get("HEDDLE_CACHE", os.path.expanduser("~/.cache/heddle")), "releases")

# The plugin reads its containers when it starts.
TABLES = """
CREATE DATABASE innodb_memcache;
CREATE TABLE innodb_memcache.cache_policies (policy_name VARCHAR(40) PRIMARY KEY,
 get_policy ENUM('innodb_only', 'cache_only', 'caching', 'disabled') NOT NULL,
 set_policy ENUM('innodb_only', 'cache_only', 'caching', 'disabled') NOT NULL,
 delete_policy ENUM('innodb_only', 'cache_only', 'caching', 'disabled') NOT NULL,
 flush_policy ENUM('innodb_only', 'cache_only', 'caching', 'disabled') NOT NULL) ENGINE=InnoDB;
CREATE TABLE innodb_memcache.containers (name VARCHAR(50) NOT NULL PRIMARY KEY, db_schema VARCHAR(250) NOT NULL,
 db_table VARCHAR(250) NOT NULL, key_columns VARCHAR(250) NOT NULL, value_columns VARCHAR(250),
 flags VARCHAR(250) NOT NULL DEFAULT '0', cas_column VARCHAR(250), expire_time_column VARCHAR(250),
 unique_idx_name_on_key VARCHAR(250) NOT NULL) ENGINE=InnoDB;
CREATE TABLE innodb_memcache.config_options (name VARCHAR(50) NOT NULL PRIMARY KEY, value VARCHAR(50)) ENGINE=InnoDB;
CREATE DATABASE kv;
CREATE TABLE kv.item (k VARCHAR(250) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL PRIMARY KEY, v MEDIUMBLOB,
 flags INT UNSIGNED, cas BIGINT UNSIGNED, expires INT UNSIGNED) ENGINE=InnoDB;
INSERT INTO innodb_memcache.containers VALUES ('default', 'kv', 'item', 'k', 'v', 'flags', 'cas', 'expires', 'PRIMARY');
INSERT INTO innodb_memcache.cache_policies VALUES
 ('cache_policy', 'innodb_only', 'innodb_only', 'innodb_only', 'innodb_only');
INSERT INTO innodb_memcache.config_options VALUES ('separator', '|');
INSERT INTO innodb_memcache.config_options VALUES ('table_map_delimiter', '.');
"""


def server():
    """The `mysqld` of a release that has the plugin, and its directory."""
    named = os.environ.get("HEDDLE_MYSQLD")
    found = [named] if named else []
    for name in sorted(os.listdir(UNPACKED)) if os.path.isdir(UNPACKED) else []:
        found.append(os.path.join(UNPACKED, name, name, "bin", "mysqld"))
    for path in found:
        base = os.path.dirname(os.path.dirname(os.path.realpath(path)))
        plugins = os.path.join(base, "lib", "plugin")
        if os.path.isfile(path) and os.path.isfile(os.path.join(plugins, "libmemcached.so")):
            return os.path.realpath(path), base, plugins
    raise Missing("no MySQL with the memcached plugin: HEDDLE_MYSQLD names none")


class Plugin:
    """A server with the plugin, in a directory of its own; `address` is where it speaks memcached."""

    def __enter__(self):
        path, base, plugins = server()
        self.folder = tempfile.mkdtemp(prefix="heddle-compat-plugin-")
        self.process = None
        port, sql = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        common = [path, "--no-defaults", f"--basedir={base}", f"--datadir={self.folder}/data",
                  f"--log-error={self.folder}/log"]
        messages = os.path.join(base, "share", "english")
        common += [f"--lc-messages-dir={base}/share"] if os.path.isdir(messages) else []
        common += ["--user=root"] if os.getuid() == 0 else []
        try:
            with open(f"{self.folder}/tables.sql", "w", encoding="utf-8") as file:
                # An init file has one statement a line.
                file.write("\n".join(" ".join(one.split()) + ";" for one in TABLES.split(";") if one.strip()))
            made = [*common, "--initialize-insecure", f"--init-file={self.folder}/tables.sql"]
            if subprocess.run(made, check=False).returncode != 0:
                raise Failed(f"the server with the plugin makes no data: {self.told()}")
            option = f"-l127.0.0.1 -p{port}" + (" -u root" if os.getuid() == 0 else "")
            started = [*common, f"--port={sql}", "--bind-address=127.0.0.1", f"--socket={self.folder}/s",
                       f"--plugin-dir={plugins}", "--plugin-load-add=daemon_memcached=libmemcached.so",
                       "--loose-mysqlx=OFF", f"--loose-daemon_memcached_option={option}",
                       "--loose-daemon_memcached_w_batch_size=1", "--loose-daemon_memcached_r_batch_size=1"]
            self.process = subprocess.Popen(started, start_new_session=True)
            wait_for(lambda: self.process.poll() is not None or self._listens(), 60, "the plugin does not listen")
            if self.process.poll() is not None:
                raise Failed(f"the server with the plugin does not start: {self.told()}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def told(self):
        """The last line of its log."""
        with open(f"{self.folder}/log", encoding="utf-8", errors="replace") as file:
            return (file.read().strip().splitlines() or ["nothing"])[-1]

    def _listens(self):
        host, port = self.address.split(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def __exit__(self, *exception):
        if self.process:
            end(self.process, 30)
        shutil.rmtree(self.folder, ignore_errors=True)
