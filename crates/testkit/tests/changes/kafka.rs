//! A real broker of Apache Kafka, from the jars of Maven Central, and its own clients to read it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use testkit::ports::free_port;
use testkit::{skip, wait_until};

const READY: Duration = Duration::from_secs(180);

/// A record: its partition, key, the id in its header, and the event.
pub type Record = (i32, String, String, Value);

/// A running broker; killed when dropped.
pub struct Kafka {
    class_path: String,
    pub port: u16,
    dir: TempDir,
    child: Child,
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/compat/java-kafka")
}

/// The jars; says why there are none.
fn class_path() -> Option<String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java-kafka");
    std::fs::create_dir_all(&target).expect("a directory");
    let listing = target.join("classpath");
    let built = Command::new("mvn")
        .args(["--batch-mode", "--quiet", "--file"])
        .arg(source().join("pom.xml"))
        .arg("dependency:build-classpath")
        .arg(format!("-Dmdep.outputFile={}", listing.display()))
        .output();
    if !built.is_ok_and(|it| it.status.success()) {
        skip(&"Maven is not here, or cannot have Kafka");
        return None;
    }
    std::fs::read_to_string(&listing).ok()
}

impl Kafka {
    pub fn start() -> Option<Kafka> {
        let class_path = class_path()?;
        let dir = tempfile::tempdir().expect("a directory");
        let (port, controller) = (free_port(), free_port());
        let data = dir.path().join("data");
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             controller.listener.names=CONTROLLER\nlog.dirs={}\nauto.create.topics.enable=false\n\
             offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\n",
            data.display()
        );
        std::fs::write(dir.path().join("properties"), text).expect("it is written");
        let properties = dir.path().join("properties").display().to_string();
        let format = ["format", "-t", "TGhlZGRsZWhlZGRsZWhlZA", "-c", &properties];
        let formatted = java(&class_path, "kafka.tools.StorageTool", &format).output();
        let formatted = formatted.expect("Java is where Maven is");
        let said = String::from_utf8_lossy(&formatted.stderr);
        assert!(formatted.status.success(), "{said}");
        let child = java(&class_path, "kafka.Kafka", &[&properties]).spawn();
        let kafka = Kafka {
            class_path,
            port,
            dir,
            child: child.expect("Java is there"),
        };
        Some(kafka)
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("a killed child ends");
    }

    pub fn start_again(&mut self) {
        let properties = self.dir.path().join("properties").display().to_string();
        let child = java(&self.class_path, "kafka.Kafka", &[&properties]).spawn();
        self.child = child.expect("Java is there");
    }

    fn ask(&self, words: &[&str]) -> Option<String> {
        let program = source().join("Topic.java").display().to_string();
        let asked = java(&self.class_path, &program, words).output().ok()?;
        asked
            .status
            .success()
            .then(|| String::from_utf8_lossy(&asked.stdout).into_owned())
    }

    pub fn make_topic(&self, name: &str, partitions: &str) {
        let at = format!("127.0.0.1:{}", self.port);
        wait_until(READY, "the topic", || {
            self.ask(&["create", &at, name, partitions]).is_some()
        });
    }

    /// What the topic has, each partition in its order.
    pub fn read(&self, name: &str) -> Vec<Record> {
        let at = format!("127.0.0.1:{}", self.port);
        let text = self.ask(&["read", &at, name]).unwrap_or_default();
        let record = |line: &str| {
            let mut words = line.splitn(4, '\t');
            let partition = words.next()?.parse().ok()?;
            let (key, id) = (words.next()?.to_owned(), words.next()?.to_owned());
            Some((
                partition,
                key,
                id,
                serde_json::from_str(words.next()?).ok()?,
            ))
        };
        text.lines().filter_map(record).collect()
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn java(class_path: &str, program: &str, words: &[&str]) -> Command {
    let mut command = Command::new("java");
    command
        .args([
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            class_path,
            program,
        ])
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if program == "kafka.Kafka" {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    command
}
