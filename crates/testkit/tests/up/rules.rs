//! Rules in files: what is wrong in them, how a running farm takes up others, and where they show.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output};
use std::time::Duration;

use testkit::farm::heddle;
use testkit::ports::free_port;
use testkit::{Farm, wait_until};

const PATIENCE: Duration = Duration::from_secs(30);

/// What the HTTP door answers.
fn get(http: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(http).expect("the door is open");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {http}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn check(file: &std::path::Path) -> Output {
    Command::new(heddle())
        .args(["serve", "--check", "--config"])
        .arg(file)
        .output()
        .expect("the program can be run")
}

#[test]
fn check_names_the_line_of_a_broken_rule() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("heddle.toml");
    let write = |text: &str| std::fs::write(&file, text).expect("written");
    write("threads = 1\n[[rule]]\nname = \"a\"\nregex = \"a(b\"\n");
    let output = check(&file);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    let place = format!("{}:4: rule: regex: ", file.display());
    assert!(said.contains(&place), "{said}");
    assert!(said.contains("unclosed group"), "{said}");
    // The rules file is read as well, and names stand once over both.
    let rules = home.path().join("rules.toml");
    let settings = format!(
        "rules_file = \"{}\"\n[[rule]]\nname = \"a\"\n",
        rules.display()
    );
    write(&settings);
    std::fs::write(&rules, "\n[[rule]]\nname = \"a\"\n").expect("written");
    let said = String::from_utf8_lossy(&check(&file).stderr).into_owned();
    let place = format!("{}:2: ", rules.display());
    assert!(said.contains(&place) && said.contains("taken"), "{said}");
    std::fs::write(&rules, "\n[[rule]]\nname = \"b\"\n").expect("written");
    assert_eq!(check(&file).status.code(), Some(0));
}

#[test]
fn a_running_farm_takes_up_changed_rules_and_keeps_good_ones() {
    let home = tempfile::tempdir().expect("a directory");
    let rules = home.path().join("rules.toml");
    let write = |text: &str| std::fs::write(&rules, text).expect("written");
    write("[[rule]]\nname = \"closed\"\ntable = \"shop.%\"\nrefuse = \"closed\"\n");
    let set = format!("rules_file={}", rules.display());
    let Some(farm) = Farm::start(&["--replicas", "1", "--set", &set]) else {
        return;
    };
    let mut client = farm.client();
    assert_eq!(client.error("SELECT * FROM shop.t"), 1148);
    let shown = |words: &[&str]| {
        let output = farm.command(words);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let config = shown(&["config", "rules", "--json"]);
    let rows: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!(rows[0]["name"], "closed");
    assert_eq!(rows[0]["place"], format!("{}:1", rules.display()));
    assert_eq!(rows[0]["conditions"], "table=shop.%");
    assert_eq!(rows[0]["actions"], "refuse=closed");
    assert_eq!(rows[0]["matched"], 1);
    let metrics = get(farm.http, "/metrics");
    assert!(
        metrics.contains("heddle_rule_matches_total{rule=\"closed\"} 1"),
        "{metrics}"
    );
    // A file with an error changes nothing, and says so.
    write("[[rule]]\nname = \"closed\"\ntable = \"shop.%\"\nrefuse = \"closed\"\nregex = \"(\"\n");
    wait_until(PATIENCE, "an event with file and line", || {
        let place = format!("{}:5: rule: regex: ", rules.display());
        let events = shown(&["group", "events", "--json"]);
        events.contains("rules_refused") && events.contains(&place)
    });
    assert_eq!(client.error("SELECT * FROM shop.t"), 1148);
    // A good one is in force for sessions that live already; an unknown server is shown.
    write(
        "[[rule]]\nname = \"lost\"\nservers = [\"g1-9\", \"primary\"]\n\
         [[user]]\nname = \"root\"\nconsistency = \"strong\"\n",
    );
    wait_until(PATIENCE, "the new rules", || {
        client.error("SELECT * FROM shop.t") != 1148
    });
    let config = shown(&["config", "rules", "--json"]);
    let rows: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!(rows[0]["unknown_servers"], "g1-9");
    assert!(shown(&["group", "events"]).contains("rules name servers that the farm lacks: lost"));
    assert_eq!(rows[1]["kind"], "user");
    assert_eq!(rows[1]["actions"], "consistency=strong");
    assert_eq!(farm.client().value("SELECT @@heddle_consistency"), "strong");
    assert_eq!(client.value("SELECT 1"), "1");
}

#[test]
fn a_hangup_reads_the_rules_of_a_served_farm_again() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("heddle.toml");
    let [sql, http] = [free_port(), free_port()];
    let settings = format!(
        "sql_listen = \"127.0.0.1:{sql}\"\nhttp_listen = \"127.0.0.1:{http}\"\n\
         metrics_public = \"on\"\nstate_dir = \"{}\"\n[[rule]]\nname = \"a\"\n",
        home.path().join("state").display()
    );
    std::fs::write(&file, settings).expect("written");
    let mut router = Router(
        Command::new(heddle())
            .args(["serve", "--config"])
            .arg(&file)
            .spawn()
            .expect("the program can be run"),
    );
    let http = SocketAddr::from(([127, 0, 0, 1], http));
    wait_until(PATIENCE, "the HTTP door", || {
        TcpStream::connect(http).is_ok()
    });
    let read = || {
        let metrics = get(http, "/metrics");
        let mut lines = metrics.lines();
        let line = lines.find(|line| line.contains("rules_read"));
        line.map_or(0.0, |line| {
            let count = line.rsplit(' ').next().expect("a value");
            count.parse::<f64>().expect("a number")
        })
    };
    assert!(read() < 1.0, "nothing was read again yet");
    for times in 1..=2 {
        let sent = Command::new("kill")
            .args(["-HUP", &router.0.id().to_string()])
            .status();
        assert!(sent.expect("kill can be run").success());
        wait_until(PATIENCE, "another reading", || read() >= f64::from(times));
    }
    assert!(router.0.try_wait().expect("a child can be asked").is_none());
}

/// A router that ends with its test.
struct Router(std::process::Child);

impl Drop for Router {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
