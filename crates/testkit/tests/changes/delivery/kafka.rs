//! A real broker of Apache Kafka, from the jars of Maven Central, and its own clients to read it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use testkit::certificates::Pair;
use testkit::ports::free_port;
use testkit::{skip, wait_until};

const READY: Duration = Duration::from_secs(180);

/// A record: its partition, key, the id in its header, and the event.
pub type Record = (i32, String, String, Value);

/// A running broker; killed when dropped.
pub struct Kafka {
    class_path: String,
    pub port: u16,
    /// Where clients log in, inside TLS.
    pub secure_port: u16,
    dir: TempDir,
    child: Child,
}

/// The account that a guarded broker has.
pub const USER: &str = "heddle";
pub const PASSWORD: &str = "kafka-s3cret";

/// What a broker has whose clients log in: its certificate, and the authority of its clients'.
pub struct Guard<'a> {
    pub own: &'a Pair,
    pub authority: &'a Path,
}

impl Guard<'_> {
    /// The settings of a listener at this port; the file with certificate and key is written to `dir`.
    fn settings(&self, dir: &Path, port: u16) -> String {
        let read = |path: &Path| std::fs::read_to_string(path).expect("a file");
        let both = dir.join("server.pem");
        let text = read(&self.own.key) + &read(&self.own.certificate);
        std::fs::write(&both, text).expect("it is written");
        let module = "org.apache.kafka.common.security";
        let scram = format!("{module}.scram.ScramLoginModule required;");
        format!(
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL\n\
             sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
             ssl.keystore.type=PEM\nssl.keystore.location={}\nssl.truststore.type=PEM\n\
             ssl.truststore.location={}\n\
             listener.name.sasl_ssl.ssl.client.auth=required\n\
             listener.name.sasl_ssl.plain.sasl.jaas.config={module}.plain.PlainLoginModule required \
             username=\"x\" password=\"x\" user_{USER}=\"{PASSWORD}\";\n\
             listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={scram}\n\
             listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram}\n\
             listeners=PLAINTEXT://127.0.0.1:PLAIN,SASL_SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:CONTROLLER\n",
            both.display(),
            self.authority.display()
        )
    }
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/compat/java-kafka")
}

/// The jars; says why there are none. Tests run side by side, and one of them has Maven write their list.
fn class_path() -> Option<String> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    FOUND.get_or_init(find_class_path).clone()
}

fn find_class_path() -> Option<String> {
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
        Kafka::start_with(None)
    }

    /// One whose clients log in at another port, too.
    pub fn start_guarded(guard: &Guard<'_>) -> Option<Kafka> {
        Kafka::start_with(Some(guard))
    }

    fn start_with(guard: Option<&Guard<'_>>) -> Option<Kafka> {
        let class_path = class_path()?;
        let dir = tempfile::tempdir().expect("a directory");
        let (port, controller, secure_port) = (free_port(), free_port(), free_port());
        let data = dir.path().join("data");
        let listeners = match guard {
            Some(guard) => guard.settings(dir.path(), secure_port),
            None => "listeners=PLAINTEXT://127.0.0.1:PLAIN,CONTROLLER://127.0.0.1:CONTROLLER\n"
                .to_owned(),
        };
        let listeners = listeners
            .replace(":PLAIN,", &format!(":{port},"))
            .replace(":CONTROLLER\n", &format!(":{controller}\n"));
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             {listeners}controller.listener.names=CONTROLLER\nlog.dirs={}\nauto.create.topics.enable=true\n\
             offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\n",
            data.display()
        );
        std::fs::write(dir.path().join("properties"), text).expect("it is written");
        let properties = dir.path().join("properties").display().to_string();
        let mut format = vec!["format", "-t", "TGhlZGRsZWhlZGRsZWhlZA", "-c", &properties];
        let accounts = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
            .map(|it| format!("{it}=[name={USER},password={PASSWORD}]"));
        if guard.is_some() {
            format.extend(accounts.iter().flat_map(|it| ["--add-scram", it.as_str()]));
        }
        let formatted = java(&class_path, "kafka.tools.StorageTool", &format).output();
        let formatted = formatted.expect("Java is where Maven is");
        let said = String::from_utf8_lossy(&formatted.stderr);
        assert!(formatted.status.success(), "{said}");
        let child = java(&class_path, "kafka.Kafka", &[&properties]).spawn();
        let kafka = Kafka {
            class_path,
            port,
            secure_port,
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
