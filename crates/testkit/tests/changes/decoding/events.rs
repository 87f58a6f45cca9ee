//! `heddle binlog dump --raw`: what comes out is a binlog to the servers' own programs and to Heddle; `--from` of files;
//! what a log says of itself.

use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::server::Server;
use testkit::{Client, Release, on_both_engines};

use crate::dump::{dump, events, text};

use super::{present_file, shown};

/// The events of a file or a server, written to a file.
fn raw(words: &[&str], to: &Path) {
    let output = dump(&[words, &["--raw"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    std::fs::write(to, output.stdout).expect("a file");
}

/// What a program shows of rows.
fn rows_of(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with("###"));
    lines.map(str::to_owned).collect()
}

/// The rows that Heddle tells, by their transactions.
fn told(of: &str, more: &[&str]) -> Vec<Value> {
    let all = events(&text(&dump(&[&[of], more].concat())));
    let mut rows: Vec<Value> = all.into_iter().filter(|it| it["event"] == "row").collect();
    // Events that a file has, and a server sends to those who ask for them.
    rows.iter_mut()
        .for_each(|row| drop(row.as_object_mut().map(|it| it.remove("sql"))));
    rows
}

fn change(client: &mut Client) {
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(2000))");
    client.run("INSERT INTO d.t VALUES (1, 'one'), (2, NULL)");
    client.run("FLUSH BINARY LOGS");
    client.run("UPDATE d.t SET v = REPEAT('x', 1500) WHERE id = 2");
    client.run("INSERT INTO d.t SELECT id + 10, REPEAT('y', 1500) FROM d.t");
    client.run("DELETE FROM d.t WHERE id = 1");
}

fn raw_events_are_a_binlog(release: Release) {
    // With the latter a whole transaction is one event.
    let settings = [
        ("binlog_row_metadata", "FULL"),
        ("loose_log_bin_compress", "ON"),
        ("loose_binlog_transaction_compression", "ON"),
    ];
    let Some(server) = Server::start_with(release, &settings) else {
        return;
    };
    let mut client = server.client();
    change(&mut client);
    let last = present_file(&mut client);
    let path = last.display().to_string();
    let address = server.address().to_string();
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("copy");
    let copied = copy.display().to_string();

    raw(&[&path], &copy);
    let same = std::fs::read(&copy).expect("a file") == std::fs::read(&last).expect("a file");
    assert!(same, "a file is what it is");
    let of_file = told(&path, &[]);
    assert!(of_file.len() > 3, "{of_file:#?}");

    raw(&[&address], &copy);
    let of_server = told(&address, &[]);
    assert!(of_server.len() > of_file.len() && of_server.ends_with(&of_file));
    assert_eq!(told(&copied, &[]), of_server);
    let theirs = shown(release, &["--verify-binlog-checksum"], &copied);
    if let Some(theirs) = &theirs {
        let whole: Vec<String> = files(&mut client)
            .iter()
            .filter_map(|file| shown(release, &[], file))
            .flat_map(|text| rows_of(&text))
            .collect();
        assert_eq!(rows_of(theirs), whole);
    }

    // Behind the update.
    let gtid = of_file[0]["gtid"].as_str().expect("a GTID");
    let from = match gtid.split_once(':') {
        Some((source, number)) => format!("{source}:1-{number}"),
        None => gtid.to_owned(),
    };
    let rest: Vec<Value> = of_file
        .iter()
        .filter(|row| row["gtid"] != gtid)
        .cloned()
        .collect();
    assert_eq!(rest.len() + 1, of_file.len());
    for of in [&path, &address] {
        assert_eq!(told(of, &["--from", &from]), rest, "{of}");
        raw(&[of, "--from", &from], &copy);
        assert_eq!(told(&copied, &[]), rest, "{of}");
        if let Some(theirs) = shown(release, &[], &copied) {
            assert!(
                rows_of(&theirs)
                    .iter()
                    .any(|line| line.contains("DELETE FROM"))
            );
        }
    }
    let refused = dump(&[&path, "--from", "nonsense"]);
    assert_eq!(refused.status.code(), Some(2));
}

fn files(client: &mut Client) -> Vec<String> {
    let data = PathBuf::from(client.value("SELECT @@datadir"));
    let names = client.rows("SHOW BINARY LOGS");
    let names = names.iter().filter_map(|row| row[0].clone());
    names
        .map(|name| data.join(name).display().to_string())
        .collect()
}

fn a_log_says_what_it_is(release: Release) {
    let Some(server) = Server::start(release) else {
        return;
    };
    let mut client = server.client();
    client.run("CREATE DATABASE d");
    let gtids = match release {
        Release::Installed => client.value("SELECT @@gtid_binlog_pos"),
        _ => client.value("SELECT @@gtid_executed").replace('\n', ""),
    };
    client.run("FLUSH BINARY LOGS");
    client.run("CREATE DATABASE e");
    let files = files(&mut client);
    let [.., before, last] = &files[..] else {
        panic!("{files:?}");
    };
    let name = Path::new(last).file_name().and_then(|it| it.to_str());
    let name = name.expect("a name");
    let all = events(&text(&dump(&[before])));
    let rotate = all.last().expect("an event");
    assert_eq!(
        (&rotate["event"], &rotate["file"]),
        (&"rotate".into(), &name.into())
    );
    let all = events(&text(&dump(&[last])));
    assert_eq!(
        (&all[0]["event"], &all[0]["gtids"]),
        (&"before".into(), &gtids.clone().into())
    );
    let statements = text(&dump(&[last, "--sql"]));
    assert!(
        statements.starts_with(&format!("-- transactions of earlier files: {gtids}\n")),
        "{statements}"
    );
    let of_server = events(&text(&dump(&[&server.address().to_string()])));
    assert!(of_server.contains(rotate), "{of_server:#?}");
}

on_both_engines!(raw_events_are_a_binlog, a_log_says_what_it_is);
