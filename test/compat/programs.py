"""The programs: which driver each uses, how it is started, what is known to differ and why."""

import os
import re
import subprocess

from tools import HERE, Go, Java, Missing, Node, Python, Rust, program, unpacked

PYTHON, NODE, JAVA, GO, RUST = Python(), Node(), Java(), Go(), Rust()
GO_ORM, RUST_ORM = Go("go-orm"), Rust("rust-orm", "compat-orm")


class Program:
    """`prepare` installs what is missing and gives the command and the driver's version, or raises
    Missing. `tls` says whether the driver is built with it; `known` names steps that differ through Heddle, each with the reason."""

    def __init__(self, name, driver, prepare, quick=False, known=None, known_mysql=None, tls=True):
        self.name = name
        self.driver = driver
        self.prepare = prepare
        self.quick = quick
        self.known = known or {}
        self.known_mysql = known_mysql or {}
        self.tls = tls


def python(script, *packages, arguments=()):
    def prepare():
        interpreter = PYTHON.need(*packages)
        command = [interpreter, "-W", "ignore", os.path.join(HERE, "python", script), *arguments]
        return command, PYTHON.version(packages[0])
    return prepare


def php(script, extension):
    def prepare():
        interpreter = program("php", "php-cli")
        modules = subprocess.run([interpreter, "-m"], capture_output=True, text=True).stdout.split()
        if extension not in modules:
            raise Missing(f"PHP has no {extension}: apt-get install php-mysql")
        version = subprocess.run([interpreter, "-r", "echo PHP_VERSION;"], capture_output=True, text=True).stdout
        options = ["-d", "mysqli.allow_local_infile=1"]
        return [interpreter, *options, os.path.join(HERE, "php", script)], version
    return prepare


def php_library(script, package, autoload, *extensions):
    """A program over one of the libraries that Debian packages keep on PHP's include path."""
    def prepare():
        if not os.path.exists(os.path.join("/usr/share/php", autoload)):
            raise Missing(f"PHP has no {autoload}: apt-get install {package}")
        command = [php(script, extension)()[0] for extension in extensions][-1]
        text = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True).stdout
        return command, text.split("+")[0].split("-")[0] or "?"
    return prepare


def php_application(script, variable, *packages):
    """A program over an application that Debian has; `variable` tells it the folder of the application's files."""
    def prepare():
        command, _ = php(script, "mysqli")()
        folder, version = unpacked(*packages)
        return ["env", f"{variable}={folder}/usr/share/{packages[0]}", *command], version
    return prepare


def shell(script, *tools):
    def prepare():
        for tool, package in tools:
            program(tool, package)
        text = subprocess.run([tools[0][0], "--version"], capture_output=True, text=True).stdout
        found = re.search(r"(?:Distrib |from )([\d.]+)", text)
        return ["bash", os.path.join(HERE, "shell", script)], found.group(1) if found else "?"
    return prepare


def node(script, package, *others):
    def prepare():
        return [NODE.need(package, *others), os.path.join(HERE, "node", script)], NODE.version(package)
    return prepare


def ruby(script, gem, package):
    def prepare():
        interpreter = program("ruby", "ruby")
        found = subprocess.run([interpreter, "-e", f"gem '{gem}'; print Gem.loaded_specs['{gem}'].version"],
                               capture_output=True, text=True)
        if found.returncode != 0:
            raise Missing(f"Ruby has no {gem}: apt-get install {package}")
        return [interpreter, "-W0", os.path.join(HERE, "ruby", script)], found.stdout
    return prepare


def java(main, artifact):
    def prepare():
        return [program("java", "default-jdk-headless"), "-cp", JAVA.need(), main], JAVA.version(artifact)
    return prepare


def go():
    return [GO.need()], GO.module("github.com/go-sql-driver/mysql")[0]


def go_orm(library, module):
    def prepare():
        return [GO_ORM.need(), library], GO_ORM.module(module)[0]
    return prepare


def perl(module, package):
    def prepare():
        interpreter = program("perl", "perl")
        found = subprocess.run([interpreter, f"-M{module}", "-e", f"print ${module}::VERSION"],
                               capture_output=True, text=True)
        if found.returncode != 0:
            raise Missing(f"Perl has no {module}: apt-get install {package}")
        return [interpreter, os.path.join(HERE, "perl", "dbd.pl"), module], found.stdout
    return prepare


def rust():
    return [RUST.need()], RUST.version("mysql_async")


def rust_orm(library, package=None):
    def prepare():
        if package:
            program("mariadb_config", package)
        return [RUST_ORM.need(), library], RUST_ORM.version(library)
    return prepare


CLIENT = ("mariadb", "mariadb-client")
DUMP = ("mariadb-dump", "mariadb-client")

RSA = "a wrong login without TLS is refused before the client has to ask for the server's key"

PROGRAMS = [
    Program("mysqli", "PHP mysqli", php("mysqli.php", "mysqli"), quick=True),
    Program("mysqli-compressed", "PHP mysqli, compressed", php("compressed.php", "mysqli")),
    Program("pdo", "PHP PDO", php("pdo.php", "pdo_mysql"), quick=True),
    Program("doctrine", "Doctrine DBAL", php_library("doctrine.php", "php-doctrine-dbal", "Doctrine/DBAL/autoload.php", "mysqli", "pdo_mysql"), tls=False),
    Program("eloquent", "Laravel Eloquent", php_library("eloquent.php", "php-illuminate-database", "Illuminate/Database/autoload.php", "pdo_mysql")),
    Program("wordpress", "WordPress", php_application("wordpress.php", "WORDPRESS", "wordpress")),
    Program("mediawiki", "MediaWiki", php_application("mediawiki.php", "MEDIAWIKI", "mediawiki", "mediawiki-classes")),
    Program("client", "mariadb client", shell("client.sh", CLIENT), quick=True),
    Program("dump", "mariadb-dump", shell("dump.sh", DUMP, CLIENT), quick=True),
    Program("pymysql", "PyMySQL", python("pymysql_program.py", "PyMySQL", "cryptography"), quick=True),
    Program("mysqlclient", "mysqlclient", python("mysqlclient_program.py", "mysqlclient")),
    Program("connector-python", "mysql-connector-python",
            python("connector_program.py", "mysql-connector-python", arguments=["pure"])),
    Program("connector-python-c", "mysql-connector-python, C",
            python("connector_program.py", "mysql-connector-python", arguments=["c"])),
    Program("sqlalchemy", "SQLAlchemy", python("sqlalchemy_program.py", "SQLAlchemy", "PyMySQL", "cryptography")),
    Program("django", "Django", python("django_program.py", "Django", "mysqlclient")),
    Program("mysql2", "Node mysql2", node("mysql2.js", "mysql2")),
    Program("mariadb-node", "Node mariadb", node("mariadb.js", "mariadb"),
            known_mysql={"errors": RSA, "reset_and_change_user": "the text holds the connection's id",
                         "pools": "the driver resets nothing on MySQL, so chance says which connection comes"}),
    Program("sequelize", "Sequelize", node("sequelize.js", "sequelize", "mysql2")),
    Program("typeorm", "TypeORM", node("typeorm.js", "typeorm", "mysql2", "reflect-metadata")),
    Program("knex", "Knex", node("knex.js", "knex", "mysql2")),
    Program("ruby-mysql2", "Ruby mysql2", ruby("mysql2.rb", "mysql2", "ruby-mysql2"), tls=False),
    Program("active-record", "Ruby ActiveRecord", ruby("active_record.rb", "activerecord", "ruby-activerecord"), tls=False),
    Program("connector-j", "MySQL Connector/J", java("compat.ConnectorJ", "mysql-connector-j")),
    Program("mariadb-java", "MariaDB Connector/J", java("compat.MariaDb", "mariadb-java-client"),
            known_mysql={"wrong_login": RSA}),
    Program("hibernate", "Hibernate", java("compat.Hibernate", "hibernate-core")),
    Program("spring", "Spring JDBC", java("compat.Spring", "spring-jdbc")),
    Program("jooq", "jOOQ", java("compat.Jooq", "jooq")),
    Program("go", "go-sql-driver/mysql", go),
    Program("rust", "Rust mysql_async", rust, tls=False),
    Program("gorm", "gorm", go_orm("gorm", "gorm.io/gorm")),
    Program("ent", "ent", go_orm("ent", "entgo.io/ent")),
    Program("sqlx", "Rust sqlx", rust_orm("sqlx"), tls=False),
    Program("diesel", "Rust diesel", rust_orm("diesel", "libmariadb-dev"), tls=False),
    Program("dbd-mysql", "Perl DBD::mysql", perl("DBD::mysql", "libdbd-mysql-perl")),
    Program("dbd-mariadb", "Perl DBD::MariaDB", perl("DBD::MariaDB", "libdbd-mariadb-perl")),
]
