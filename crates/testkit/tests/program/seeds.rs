//! Samples of the systems that Heddle succeeds, as their documentation has them: `test/compat/seeds`.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::coherence::cache;
use testkit::{Farm, skip, wait_until};

const SOON: Duration = Duration::from_secs(60);

fn seeds() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../test/compat/seeds")
}

/// PHP with an extension; says why the test is skipped where there is none.
fn has_php(module: &str, package: &str) -> bool {
    let modules = Command::new("php").arg("-m").output();
    let modules = modules.map(|output| String::from_utf8_lossy(&output.stdout).to_lowercase());
    let missing = match &modules {
        Err(_) => "php",
        Ok(list) if !list.lines().any(|line| line == module) => package,
        Ok(_) => return true,
    };
    skip(&format!("{missing} is not installed"));
    false
}

fn has_mysqli() -> bool {
    has_php("mysqli", "php-mysql")
}

#[track_caller]
fn runs(farm: &Farm, sample: &str) {
    runs_with(farm, sample, Vec::new());
}

/// The same with more variables of the environment.
#[track_caller]
fn runs_with(farm: &Farm, sample: &str, more: Vec<(&str, String)>) {
    let output = Command::new("php")
        .arg(seeds().join(sample))
        .env("HOST", farm.sql.ip().to_string())
        .env("PORT", farm.sql.port().to_string())
        .env("FABRIC", farm.fabric.to_string())
        .env("KV", farm.kv.to_string())
        .envs(more)
        .output()
        .expect("php runs");
    assert!(
        output.status.success() && output.stdout.ends_with(b"done\n"),
        "{sample}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A map of two ranges, and its table, which nobody has made yet.
fn farm_of_the_quick_start() -> Option<Farm> {
    let farm = Farm::start(&["--groups", "3", "--replicas", "0"])?;
    farm.client().run("CREATE DATABASE test");
    farm.json(&["sharding", "create_definition", "RANGE", "g1"]);
    let shards = ["sharding", "add_shard", "1", "g2/30001,g3/1", "ENABLED"];
    farm.json(&shards);
    farm.json(&["sharding", "add_table", "1", "test.fabrictest", "id"]);
    Some(farm)
}

#[test]
fn samples_of_fabric_and_mysqlnd_ms_run() {
    if !has_mysqli() {
        return;
    }
    let Some(farm) = farm_of_the_quick_start() else {
        return;
    };
    runs(&farm, "fabric_quickstart.php");
    // Each shard has its row, and the global group has the definition alone.
    for member in farm.members() {
        let rows = match member.group.as_str() {
            "g1" => "0",
            _ => "1",
        };
        let count = member
            .client()
            .value("SELECT COUNT(*) FROM test.fabrictest");
        assert_eq!(count, rows, "{}", member.group);
    }
    runs(&farm, "fabric_rpc.php");
    if has_php("curl", "php-curl") && has_php("simplexml", "php-xml") {
        runs(&farm, "fabric_curl.php");
    }
    runs(&farm, "async_shards.php");
    runs(&farm, "mysqlnd_ms.php");
}

/// The callback of the filter `user`; ended when dropped.
struct Callback {
    process: Child,
    address: SocketAddr,
}

impl Callback {
    fn start() -> Callback {
        let address = SocketAddr::from(([127, 0, 0, 1], testkit::ports::free_port()));
        let process = Command::new("php")
            .args(["-S", &address.to_string()])
            .arg(seeds().join("pick_server.php"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("php runs");
        let callback = Callback { process, address };
        wait_until(SOON, "the callback is served", || {
            TcpStream::connect(address).is_ok()
        });
        callback
    }

    /// The filters as rules, with its address.
    fn write_rules(&self, to: &Path) {
        let rules = std::fs::read_to_string(seeds().join("filters.toml")).expect("the file");
        let rules = rules.replace("CALLBACK", &self.address.to_string());
        std::fs::write(to, rules).expect("a temporary directory takes files");
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Tables for the samples, on a primary and two replicas that have their rows.
fn farm_of_replicas(rules: &Path) -> Option<Farm> {
    let rules = format!("rules_file={}", rules.display());
    let farm = Farm::start(&["--replicas", "2", "--set", &rules])?;
    let mut client = farm.client();
    client.run("CREATE DATABASE test");
    for table in ["plain", "reports", "picked"] {
        client.run(&format!("CREATE TABLE test.{table} (id INT PRIMARY KEY)"));
        client.run(&format!("INSERT INTO test.{table} VALUES (1)"));
    }
    client.run("CREATE TABLE test.jobs (id INT PRIMARY KEY, state VARCHAR(20))");
    client.run(
        "CREATE TABLE test.mapped (id INT PRIMARY KEY, f1 VARCHAR(20), f2 VARCHAR(20), f3 VARCHAR(20))",
    );
    client.run(
        "INSERT INTO test.mapped VALUES (1, 'Hello', 'World', '!'), (2, 'Lady', 'and', 'tramp')",
    );
    for member in farm.members() {
        wait_until(SOON, "the rows", || {
            let mut direct = member.client();
            let there = direct.query("SELECT id FROM test.mapped WHERE id = 2");
            there.is_ok() && direct.value("SELECT COUNT(*) FROM test.mapped") == "2"
        });
    }
    Some(farm)
}

#[test]
fn samples_of_filters_and_of_libraries_run() {
    if !has_mysqli() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let rules = dir.path().join("rules.toml");
    let callback = Callback::start();
    callback.write_rules(&rules);
    let Some(farm) = farm_of_replicas(&rules) else {
        return;
    };
    let address = |name: &str| format!("127.0.0.1:{}", farm.member(name).port);
    let replicas = format!("{} {}", address("g1-2"), address("g1-3"));
    let primary = address("g1-1");
    runs_with(
        &farm,
        "filters.php",
        vec![("PRIMARY", primary), ("REPLICAS", replicas)],
    );
    if has_php("memcached", "php-memcached") {
        farm.make_container(
            "mapped --table=test.mapped --key=id --values=f1,f2,f3 --cache_bytes=1000000",
        );
        wait_until(SOON, "the cache is open", || {
            cache(&farm, "mapped")["state"] == "open"
        });
        runs(&farm, "memcache.php");
    }
    match Path::new("/usr/share/php/Doctrine/DBAL/autoload.php").exists() {
        true => runs(&farm, "doctrine.php"),
        false => skip(&"php-doctrine-dbal is not installed"),
    }
}
