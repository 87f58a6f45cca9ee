//! Where a farm's state is: `heddle serve` on etcd, what it refuses to start with, and a farm that
//! moves from the state file to etcd and back.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use testkit::etcd::{Etcd, Options};
use testkit::farm::{Farm, heddle};
use testkit::ports::free_port;

/// Runs the program in a directory with an empty settings file.
fn run(dir: &Path, words: &[&str]) -> Output {
    let config = dir.join("heddle.toml");
    if !config.exists() {
        std::fs::write(&config, "").expect("written");
    }
    // One that starts where it should not is ended.
    let mut command = Command::new("timeout");
    command.arg("60").arg(heddle()).args(words);
    command.current_dir(dir).stdin(Stdio::null());
    command.output().expect("the program can be run")
}

/// The one line on stderr of a start that must fail with this status.
fn refused(dir: &Path, words: &[&str], status: i32) -> String {
    let sql = format!("sql_listen=127.0.0.1:{}", free_port());
    let http = format!("http_listen=127.0.0.1:{}", free_port());
    let addresses = ["--set", &sql, "--set", &http];
    let output = run(dir, &[&["serve"], words, &addresses].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(told, "", "nothing is half started");
    said
}

fn succeeds(dir: &Path, words: &[&str]) -> String {
    let output = run(dir, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn groups(farm: &Farm) -> Vec<String> {
    let rows = farm.json(&["group", "lookup_groups"]);
    let names = rows.iter().map(|row| row["group_id"].as_str());
    names.flatten().map(str::to_owned).collect()
}

#[test]
fn a_farm_moves_to_etcd_and_back() {
    let Some(etcd) = Etcd::start(1) else {
        return;
    };
    let urls = etcd.urls();
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path();
    let mut farm = Farm::serve(&[]);
    for group in ["g1", "g2"] {
        farm.json(&["group", "create", group]);
    }
    let state = format!("state_dir={}", farm.dir().display());
    let to = |store: &str| {
        let to = format!("--to={store}");
        run(
            dir,
            &["meta", "move", &to, "--etcd", &urls, "--set", &state],
        )
    };
    let busy = String::from_utf8_lossy(&to("etcd").stderr).into_owned();
    assert!(busy.contains("in use by another process"), "{busy}");
    let exported = farm.command(&["meta", "export", "--json"]);
    let export = dir.join("farm.json");
    std::fs::write(&export, &exported.stdout).expect("written");
    farm.stop();
    let moved = to("etcd");
    let said = String::from_utf8_lossy(&moved.stdout).into_owned();
    assert!(
        moved.status.success(),
        "{}",
        String::from_utf8_lossy(&moved.stderr)
    );
    assert!(said.contains("next: set etcd in heddle.toml"), "{said}");

    // The state file is left, and says so; etcd has the farm.
    let left = refused(dir, &["--set", &state], 1);
    assert!(left.contains("it was moved to etcd"), "{left}");
    let mut routers: Vec<Farm> = (0..2)
        .map(|_| Farm::serve(&[&format!("etcd={urls}")]))
        .collect();
    assert_eq!(groups(&routers[0]), ["g1", "g2"]);
    routers[0].json(&["group", "create", "g3"]);
    let busy = String::from_utf8_lossy(&to("embedded").stderr).into_owned();
    assert!(busy.contains("stop them all"), "{busy}");
    for router in &mut routers {
        router.stop();
    }
    let back = to("embedded");
    assert!(
        back.status.success(),
        "{}",
        String::from_utf8_lossy(&back.stderr)
    );
    farm.start_again();
    assert_eq!(groups(&farm), ["g1", "g2", "g3"]);
    let left = refused(dir, &["--etcd", &urls], 1);
    assert!(left.contains("it was moved to the state file"), "{left}");

    // The older export can be put over either.
    let file = export.display().to_string();
    succeeds(dir, &["meta", "import", &file, "--etcd", &urls]);
    let again = Farm::serve(&[&format!("etcd={urls}")]);
    assert_eq!(groups(&again), ["g1", "g2"]);
}

#[test]
fn what_a_router_must_not_start_with_is_one_line() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path();
    let closed = format!("http://127.0.0.1:{}", free_port());
    let said = refused(dir, &["--etcd", &closed], 1);
    assert!(
        said.contains(&format!("cannot reach etcd at {closed}")),
        "{said}"
    );
    let said = refused(dir, &["--etcd", "10.0.0.1:2379"], 2);
    assert!(said.contains("write for example http://"), "{said}");
    let said = refused(dir, &["--etcd", "https://10.0.0.1:2379"], 1);
    assert!(said.contains("set etcd_ca"), "{said}");
    let Some(etcd) = Etcd::start_with(Options {
        root_password: Some("secret".to_owned()),
        quota_bytes: Some(1 << 20),
        ..Options::default()
    }) else {
        return;
    };
    let urls = etcd.urls();
    let with = |prefix: &str, password: &str| {
        [
            "--etcd".to_owned(),
            urls.clone(),
            "--set".to_owned(),
            format!("etcd_prefix={prefix}"),
            "--set".to_owned(),
            "etcd_user=root".to_owned(),
            "--set".to_owned(),
            format!("etcd_password={password}"),
        ]
    };
    let refused_with = |prefix: &str, password: &str| {
        let words = with(prefix, password);
        refused(dir, &words.each_ref().map(String::as_str), 1)
    };
    let said = refused_with("/heddle", "wrong");
    assert!(said.contains("etcd refuses these credentials"), "{said}");

    let put = |key: &str, value: &str| etcd.ctl(&["put", key, value]).expect("written");
    put("/newer/format", "2");
    let said = refused_with("/newer", "secret");
    assert!(said.contains("written by a newer Heddle"), "{said}");
    put("/registry/pods/a", "x");
    let said = refused_with("/registry", "secret");
    assert!(said.contains("/pods/a"), "{said}");
    std::fs::create_dir_all(dir.join("heddle-state")).expect("made");
    let own = dir.join("heddle-state/farm-id");
    std::fs::write(&own, "mine\n").expect("written");
    let closed = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&own, closed).expect("its owner may");
    put("/theirs/farm/id", "\"theirs\"");
    let said = refused_with("/theirs", "secret");
    assert!(said.contains("belongs to the farm mine"), "{said}");
    let said = refused_with("/nobody", "secret");
    assert!(said.contains("holds no farm"), "{said}");
    std::fs::remove_file(&own).expect("removed");
    let text = "x".repeat(100 << 10);
    let full = std::iter::repeat_with(|| etcd.ctl(&["put", "/big", &text])).find_map(Result::err);
    assert!(full.is_some_and(|error| error.contains("space exceeded")));
    let said = refused_with("/full", "secret");
    assert!(said.contains("etcd is full"), "{said}");
}
