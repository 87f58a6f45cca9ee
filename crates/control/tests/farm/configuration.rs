//! The farm's configuration over several control planes on one store: everybody follows, one of two
//! operators wins, and what a newer release wrote is not followed by halves.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::plane::{PATIENCE, Plane};
use catalog::configuration::{Groups, Wrong};
use control::configuration::{Documents, Draft, ShownSetting};
use meta::{Embedded, Store, Transaction};
use serde_json::Value;
use testkit::wait_until;

/// Documents of one line: a number, which is how many probes have to fail. It remembers what was put in
/// force.
#[derive(Debug, Default)]
struct OneNumber(Mutex<Vec<(u64, String)>>);

impl OneNumber {
    fn last(&self) -> (u64, String) {
        let all = self.0.lock().expect("nobody panicked");
        all.last().cloned().unwrap_or_default()
    }
}

fn number(text: &str) -> Result<u32, Vec<Wrong>> {
    let line = text.lines().next().unwrap_or("2");
    line.parse()
        .map_err(|_| vec![(1, format!("{line} is no number"))])
}

impl Documents for OneNumber {
    fn read(&self, document: &str) -> Result<Draft, Vec<Wrong>> {
        number(document)?;
        Ok(Draft {
            text: document.to_owned(),
            ..Draft::default()
        })
    }

    fn show(&self, _head: Option<(u64, &str)>, text: &str, _groups: &Groups) -> String {
        text.to_owned()
    }

    fn assign(&self, _text: &str, _name: &str, _value: Option<&str>) -> Result<String, String> {
        Err("there are no settings".to_owned())
    }

    fn apply(
        &self,
        version: u64,
        text: &str,
        settings: &mut control::Settings,
    ) -> Result<(), Vec<Wrong>> {
        settings.observation.probe_failures = number(text)?;
        let mut all = self.0.lock().expect("nobody panicked");
        all.push((version, text.to_owned()));
        Ok(())
    }

    fn settings(&self) -> Vec<ShownSetting> {
        Vec::new()
    }
}

fn start(store: &Arc<Embedded>, dir: &Path) -> (Plane, Arc<OneNumber>) {
    let documents = Arc::new(OneNumber::default());
    let known = Arc::clone(&documents);
    let store: Arc<dyn Store> = Arc::<Embedded>::clone(store);
    let plane = Plane::start_on(async move { store }, dir, |settings| {
        settings.documents = known;
    });
    (plane, documents)
}

fn versions(plane: &Plane) -> Vec<u64> {
    let rows = plane.rows(&["config", "history", "1000"]);
    let rows = rows.as_array().expect("rows").iter();
    rows.filter_map(|row| row["version"].as_u64()).collect()
}

#[test]
fn everybody_follows_and_one_of_two_operators_wins() {
    const ROUNDS: u64 = 20;
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Embedded::open(dir.path()).expect("a store"));
    let routers = [start(&store, dir.path()), start(&store, dir.path())];
    routers[0].0.rows(&["config", "set", "3\n"]);
    for (_, documents) in &routers {
        wait_until(PATIENCE, "it is in force", || {
            documents.last() == (1, "3\n".to_owned())
        });
    }
    // Both write again and again, each from the version that it sees.
    let won: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let writers = routers.iter().enumerate().map(|(at, (plane, documents))| {
            scope.spawn(move || {
                let mut won = Vec::new();
                for round in 0..ROUNDS {
                    let text = format!("{}\n", 100 + at as u64 * ROUNDS + round);
                    let from = format!("--from={}", documents.last().0);
                    match plane.call(&["config", "set", &text, &from]) {
                        Ok(rows) => won.push(rows[0]["version"].as_u64().expect("written")),
                        Err(error) => {
                            let error = error.to_string();
                            assert!(
                                error.contains("was written meanwhile by somebody"),
                                "{error}"
                            );
                        }
                    }
                }
                won
            })
        });
        let writers: Vec<_> = writers.collect();
        let joined = writers.into_iter().map(|writer| writer.join());
        joined.map(|won| won.expect("it did not panic")).collect()
    });
    let all: BTreeSet<u64> = won.iter().flatten().copied().collect();
    assert_eq!(
        all.len(),
        won[0].len() + won[1].len(),
        "no version was written twice"
    );
    let last = 1 + all.len() as u64;
    assert_eq!(all, (2..=last).collect(), "and none is missing");
    assert_eq!(
        versions(&routers[0].0),
        (1..=last).rev().collect::<Vec<_>>()
    );
    wait_until(PATIENCE, "both follow the last one", || {
        routers
            .iter()
            .all(|(_, documents)| documents.last().0 == last)
    });
    assert_eq!(routers[0].1.last(), routers[1].1.last());
}

#[test]
fn commands_on_groups_do_not_fail_because_somebody_changes_the_document() {
    const GROUPS: usize = 15;
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Embedded::open(dir.path()).expect("a store"));
    let routers = [start(&store, dir.path()), start(&store, dir.path())];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..GROUPS {
                let _ = routers[1]
                    .0
                    .call(&["config", "set", &format!("{}\n", 10 + round)]);
            }
        });
        for group in 0..GROUPS {
            routers[0]
                .0
                .rows(&["group", "create", &format!("g{group}")]);
        }
    });
    let rows = routers[0].0.rows(&["config", "history", "1000"]);
    let comments = rows.as_array().expect("rows").iter();
    let made = comments.filter(|row| {
        let comment = row["comment"].as_str().unwrap_or_default();
        comment.starts_with("group create g")
    });
    assert_eq!(made.count(), GROUPS);
    // The last text is still there, whoever wrote last.
    let before = routers[0].1.last().1;
    routers[0].0.rows(&["group", "create", "last"]);
    assert_eq!(
        routers[0].0.rows(&["config", "show"])[0]["document"],
        Value::from(before)
    );
    // What changes nothing makes no version.
    let count = versions(&routers[0].0).len();
    routers[0].0.rows(&["group", "create", "last"]);
    assert_eq!(versions(&routers[0].0).len(), count);
}

#[test]
fn a_running_router_keeps_what_it_has_when_a_newer_one_writes() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Embedded::open(dir.path()).expect("a store"));
    let (plane, documents) = start(&store, dir.path());
    plane.rows(&["config", "set", "5\n"]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let write = |version: u64, value: &str| {
        let put = Transaction::new()
            .put("/config/current", &version.to_string())
            .put(&format!("/config/version/{version:010}"), value);
        runtime.block_on(store.commit(put)).expect("written");
    };
    write(2, r#"{"format": 2, "heddle": "9.1.0", "layers": []}"#);
    let is_refused = || plane.event_kinds().contains(&"config_refused");
    wait_until(PATIENCE, "it is refused", is_refused);
    assert_eq!(documents.last(), (1, "5\n".to_owned()));
    let error = plane.error(&["config", "set", "6\n"]);
    assert!(error.contains("Heddle 9.1.0, format 2"), "{error}");
    let error = plane.error(&["config", "show"]);
    assert!(error.contains("Heddle 9.1.0"), "{error}");
    // The farm itself can be worked on.
    plane.rows(&["group", "create", "g"]);
    assert_eq!(versions(&plane), [1]);

    // One that can be read and not be followed is shown, and another text mends it.
    let odd = serde_json::json!({
        "format": 1, "heddle": "9.0.0", "version": 3, "at_ms": 1, "by": "ann", "comment": "new",
        "text": "seven\n", "groups": {},
    });
    write(3, &odd.to_string());
    wait_until(PATIENCE, "it is refused as well", || {
        let rows = plane.rows(&["config", "history"]);
        rows[0]["state"] == "not followed by this router"
    });
    assert_eq!(documents.last(), (1, "5\n".to_owned()));
    assert_eq!(plane.rows(&["config", "show"])[0]["document"], "seven\n");
    plane.rows(&["config", "set", "7\n"]);
    assert_eq!(documents.last(), (4, "7\n".to_owned()));
    let rows = plane.rows(&["config", "history"]);
    assert_eq!(rows[0]["state"], "in force");
    plane.rows(&["config", "rollback", "1"]);
    assert_eq!(documents.last(), (5, "5\n".to_owned()));
    let error = plane.error(&["config", "rollback", "3"]);
    assert!(error.contains("seven is no number"), "{error}");
}
