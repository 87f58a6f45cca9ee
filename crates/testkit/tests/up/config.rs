//! The farm's configuration as an operator has it: written, compared, gone back to, and in force at
//! once, over every door.

use serde_json::Value;
use testkit::farm::heddle;
use testkit::{Client, Farm};

/// What a command prints.
fn said(farm: &Farm, words: &[&str]) -> String {
    let output = farm.command(words);
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{words:?}: {out}{err}");
    out.into_owned()
}

/// What a command complains of, and its exit code.
fn refused(farm: &Farm, words: &[&str]) -> (String, i32) {
    let output = farm.command(words);
    assert!(!output.status.success(), "{words:?} is refused");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (text, output.status.code().unwrap_or_default())
}

fn kinds(rows: &[Value], kind: &str) -> Vec<String> {
    let of_kind = rows.iter().filter(|row| row["kind"] == kind);
    let text = |row: &Value| row["what"].as_str().unwrap_or_default().to_owned();
    of_kind.map(text).collect()
}

fn version(rows: &[Value]) -> u64 {
    rows[0]["version"].as_u64().expect("a version was written")
}

/// A document in a file of the farm, as `--file` takes it.
fn filed(farm: &Farm, text: &str) -> String {
    let file = farm.dir().join("farm.toml");
    std::fs::write(&file, text).expect("written");
    format!("--file={}", file.display())
}

/// The latest version.
fn latest(farm: &Farm) -> u64 {
    let history = farm.json(&["config", "history"]);
    history[0]["version"].as_u64().expect("a number")
}

#[test]
fn a_document_is_written_compared_and_gone_back_to() {
    let Some(farm) = Farm::start(&["--replicas", "2"]) else {
        return;
    };
    let mut client = farm.client();
    // Each command on the farm has made a version already.
    let begun = farm.json(&["config", "history"]);
    let added = |row: &Value| {
        let comment = row["comment"].as_str();
        comment.is_some_and(|it| it.starts_with("group add g1")) && row["by"] == "heddle up"
    };
    assert!(begun.iter().any(added), "{begun:?}");
    let first = latest(&farm);
    let document = said(&farm, &["config", "show"]);
    for part in [
        &format!("version = {first}\n"),
        "[group.g1.server.g1-2]\nweight = 1.0\n",
    ] {
        assert!(document.contains(part), "{document}");
    }
    let from = filed(&farm, &wished(&document));
    it_is_in_force_at_once(&farm, &mut client, &from, first);
    the_slower_one_is_told(&farm, &from, first);
    going_back_holds_at_once(&farm, &mut client, first);
}

/// A level, a limit, a rule and a weight, with a comment.
fn wished(document: &str) -> String {
    let more = "\n\n# Why: the report.\n[settings]\nconsistency = \"strong\"\nclients_max = 3\n\n\
                [[rule]]\nname = \"closed\"\ntable = \"shop.%\"\nrefuse = \"closed\"\n";
    let server = "[group.g1.server.g1-2]\n";
    document.replacen("\n\n", more, 1).replace(
        &format!("{server}weight = 1.0"),
        &format!("{server}weight = 3"),
    )
}

fn it_is_in_force_at_once(farm: &Farm, client: &mut Client, from: &str, first: u64) {
    let primary = farm.member("g1-1").client().value("SELECT @@server_id");
    let checked = farm.json(&["config", "set", from, "--check"]);
    assert_eq!(kinds(&checked, "changed").len(), 2, "{checked:?}");
    assert_eq!(checked[0]["version"], Value::Null);
    assert_eq!(client.value("SELECT @@heddle_consistency"), "client");
    let written = farm.json(&["config", "set", from, "--comment=the report"]);
    let second = version(&written);
    assert_eq!(second, first + 1);
    assert_eq!(
        kinds(&written, "changed")[1],
        "server g1-2: weight 1 becomes 3"
    );
    assert_eq!(client.value("SELECT @@heddle_consistency"), "strong");
    assert_eq!(client.value("SELECT @@server_id"), primary);
    assert_eq!(client.error("SELECT * FROM shop.t"), 1148);
    let (_two, _three) = (farm.client(), farm.client());
    let fourth = Client::connect(farm.sql, "root", "");
    assert!(fourth.is_err(), "there are three");
    let servers = farm.json(&["group", "lookup_servers", "g1"]);
    assert!(
        servers.iter().any(|row| row["weight"] == 3.0),
        "{servers:?}"
    );
    let document = said(farm, &["config", "show"]);
    assert!(document.contains("# Why: the report.\n[settings]"));
    let rules = farm.json(&["config", "rules"]);
    let place = rules[0]["place"].as_str().expect("a place");
    assert!(place.starts_with(&format!("version {second}:")), "{place}");
    let settings = farm.json(&["config", "settings"]);
    let level = settings.iter().find(|row| row["name"] == "consistency");
    assert_eq!(
        level.expect("a setting")["from"],
        format!("version {second}")
    );
}

fn the_slower_one_is_told(farm: &Farm, from: &str, first: u64) {
    let second = first + 1;
    let (error, code) = refused(farm, &["config", "set", from]);
    for part in [
        format!("version {second} was written meanwhile by "),
        format!("config diff {first} {second}"),
    ] {
        assert!(error.contains(&part) && code == 1, "{error}");
    }
    let difference = said(farm, &["config", "diff"]);
    for part in [
        format!("--- version {first} "),
        "+consistency = \"strong\"\n".to_owned(),
        "-weight = 1.0\n+weight = 3.0\n".to_owned(),
    ] {
        assert!(difference.contains(&part), "{difference}");
    }
}

fn going_back_holds_at_once(farm: &Farm, client: &mut Client, first: u64) {
    let rows = client.rows(&format!("HEDDLE CONFIG ROLLBACK {first}"));
    assert_eq!(rows[0][0], Some((first + 2).to_string()), "{rows:?}");
    assert_eq!(client.value("SELECT @@heddle_consistency"), "client");
    assert_ne!(client.error("SELECT * FROM shop.t"), 1148);
    assert!(Client::connect(farm.sql, "root", "").is_ok());
    let servers = farm.json(&["group", "lookup_servers", "g1"]);
    assert!(
        servers.iter().all(|row| row["weight"] == 1.0),
        "{servers:?}"
    );
    let same = said(farm, &["config", "diff", &first.to_string()]);
    assert_eq!(same, "(nothing)\n");
    let history = farm.json(&["config", "history"]);
    assert_eq!(history[0]["comment"], format!("back to version {first}"));
    assert_eq!(history[0]["by"], "root@127.0.0.1");
    assert_eq!(history[0]["state"], "in force");
    assert_eq!(history[1]["comment"], "the report");
    let rows = client.rows("HEDDLE CONFIG SHOW");
    let shown = rows[0][0].as_deref();
    assert!(shown.is_some_and(|text| text.contains("[group.g1]")));
}

#[test]
fn one_setting_is_changed_by_its_name() {
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.client();
    client.rows("HEDDLE CONFIG SET '--setting=max_lag_ms=77' '--comment=why'");
    assert_eq!(client.value("SELECT @@heddle_max_lag_ms"), "77");
    client.rows("HEDDLE CONFIG SET '--unset=max_lag_ms'");
    assert_eq!(client.value("SELECT @@heddle_max_lag_ms"), "10000");
    farm.json(&["config", "set", "--setting=hedge_ms=3"]);
    let again = farm.json(&["config", "set", "--setting=hedge_ms=3"]);
    assert_eq!(again[0]["version"], Value::Null);
    assert_eq!(again[0]["kind"], "unchanged");
}

#[test]
fn groups_follow_a_document_and_a_rollback_says_what_it_leaves_alone() {
    let Some(farm) = Farm::start(&["--replicas", "2"]) else {
        return;
    };
    let before = latest(&farm);
    // A spare, a mode and a description by document; the primary cannot be a spare.
    let document = said(&farm, &["config", "show"]);
    let [first, second] = ["g1-1", "g1-2"].map(|name| format!("[group.g1.server.{name}]\n"));
    let wished = document
        .replace(
            &second,
            &format!("{second}spare = true\nmode = \"OFFLINE\"\n"),
        )
        .replace("description = \"\"", "description = \"the shop\"");
    let wrong = wished.replace(&first, &format!("{first}spare = true\n"));
    let (error, code) = refused(&farm, &["config", "set", &filed(&farm, &wrong)]);
    let part = "server g1-1: spare = true cannot be while it is the primary";
    assert!(error.contains(part) && error.contains("line "), "{error}");
    assert_eq!(code, 2);
    let written = farm.json(&["config", "set", &filed(&farm, &wished)]);
    assert_eq!(kinds(&written, "changed").len(), 3, "{written:?}");
    let servers = farm.json(&["group", "lookup_servers", "g1"]);
    let spare = servers.iter().find(|row| row["status"] == "SPARE");
    assert_eq!(spare.expect("a spare")["mode"], "OFFLINE");

    // The primary changes and a server leaves: going back changes neither, and says so.
    farm.promote("g1", Some("g1-3"));
    said(&farm, &["group", "remove", "g1", "g1-2"]);
    let back = farm.json(&["config", "rollback", &before.to_string()]);
    let left = kinds(&back, "left alone").join("\n");
    for part in [
        "group g1 has no server g1-2",
        "g1-3 stays the primary of group g1, which was g1-1",
    ] {
        assert!(left.contains(part), "{left}");
    }
    let changed = kinds(&back, "changed");
    assert_eq!(changed, ["group g1 is described as \"\""], "{back:?}");
    let servers = farm.json(&["group", "lookup_servers", "g1"]);
    assert_eq!(servers.len(), 2, "{servers:?}");
    let leads = servers.iter().find(|row| row["status"] == "PRIMARY");
    let address = format!("127.0.0.1:{}", farm.member("g1-3").port);
    assert_eq!(leads.expect("a primary")["address"], address);
}

#[test]
fn wrong_documents_are_refused_whole() {
    let Some(farm) = Farm::start(&["--replicas", "1"]) else {
        return;
    };
    let before = farm.json(&["config", "history"]).len();
    let file = farm.dir().join("farm.toml");
    let from = format!("--file={}", file.display());
    std::fs::write(
        &file,
        "[settings]\nmax_lag_ms = 1\nthreads = 3\nhedge = 1\n[group.g9]\n[group.g1.server.x]\n",
    )
    .expect("written");
    let (error, code) = refused(&farm, &["config", "set", &from]);
    assert_eq!(code, 2, "{error}");
    for part in [
        "line 3: threads is each router's own: it depends on the machine",
        "line 4: there is no setting `hedge`",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    std::fs::write(&file, "[group.g9]\n[group.g1.server.x]\n").expect("written");
    let (error, _) = refused(&farm, &["config", "set", &from]);
    assert!(
        error.contains("line 1: group g9 is not in the farm"),
        "{error}"
    );
    assert!(
        error.contains("line 2: group g1 has no server x"),
        "{error}"
    );
    std::fs::write(&file, "format = 2\n").expect("written");
    let (error, _) = refused(&farm, &["config", "set", &from]);
    assert!(
        error.contains("line 1: a newer Heddle wrote this document"),
        "{error}"
    );
    let (error, code) = refused(&farm, &["config", "rollback", "4711"]);
    assert!(
        error.contains("there is no version 4711") && code == 1,
        "{error}"
    );
    let (error, code) = refused(&farm, &["config", "set"]);
    assert!(error.contains("--file=PATH") && code == 2, "{error}");
    let (error, _) = refused(&farm, &["config", "set", "--file=/nowhere/x"]);
    assert!(error.contains("cannot read /nowhere/x"), "{error}");
    let (error, _) = refused(&farm, &["config", "diff", "one"]);
    assert!(error.contains("the number of a version"), "{error}");
    assert_eq!(farm.json(&["config", "history"]).len(), before);
    // PROCESS lets see the farm, and neither its configuration nor change it.
    let mut client = farm.client();
    client.run("CREATE USER looker@'%' IDENTIFIED BY 'x'");
    client.run("CREATE USER stranger@'%' IDENTIFIED BY 'x'");
    client.run("GRANT PROCESS ON *.* TO looker@'%'");
    let mut looker = Client::connect(farm.sql, "looker", "x").expect("a login");
    assert!(!looker.rows("HEDDLE GROUP LOOKUP_GROUPS").is_empty());
    assert_eq!(looker.error("HEDDLE CONFIG HISTORY"), 1227);
    assert_eq!(looker.error("HEDDLE CONFIG ROLLBACK 1"), 1227);
    let mut stranger = Client::connect(farm.sql, "stranger", "x").expect("a login");
    assert!(!stranger.rows("HEDDLE MANAGE PING").is_empty());
    assert_eq!(stranger.error("HEDDLE GROUP LOOKUP_GROUPS"), 1227);
    assert_eq!(
        stranger.error("HEDDLE SERVER LOOKUP_UUID 10.0.0.1:3306"),
        1227
    );
}

#[test]
fn a_router_does_not_start_under_a_document_of_a_newer_heddle() {
    let home = tempfile::tempdir().expect("a directory");
    let state = home.path().join("state");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let write = |key: &str, value: &str| {
        let store = meta::Embedded::open(&state).expect("a store");
        let put = meta::Transaction::new().put(key, value);
        runtime
            .block_on(meta::Store::commit(&store, put))
            .expect("written");
    };
    std::fs::create_dir_all(&state).expect("made");
    write("/format", "1");
    write("/farm/id", "\"a farm\"");
    write("/config/current", "7");
    let newer = r#"{"format": 2, "heddle": "9.1.0", "version": 7, "layers": []}"#;
    write("/config/version/0000000007", newer);
    let file = home.path().join("heddle.toml");
    let settings = format!(
        "sql_listen = \"127.0.0.1:0\"\nhttp_listen = \"127.0.0.1:0\"\nstate_dir = {:?}\n",
        state.display().to_string()
    );
    std::fs::write(&file, settings).expect("written");
    let start = || {
        let output = std::process::Command::new(heddle())
            .args(["serve", "--config"])
            .arg(&file)
            .output()
            .expect("the program can be run");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let error = start();
    assert!(
        error.contains("a newer Heddle wrote (Heddle 9.1.0, format 2;"),
        "{error}"
    );
    let unknown = serde_json::json!({
        "format": 1, "heddle": "9.0.0", "version": 7, "at_ms": 1, "by": "ann", "comment": "",
        "text": "[settings]\nlayers = 3\n", "groups": {},
    });
    write("/config/version/0000000007", &unknown.to_string());
    let error = start();
    assert!(
        error.contains("version 7 of the farm's configuration cannot be followed here"),
        "{error}"
    );
    assert!(
        error.contains("Heddle 9.0.0 wrote") && error.contains("`layers`"),
        "{error}"
    );
}
