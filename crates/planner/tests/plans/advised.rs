//! What placing tables otherwise would save: cures for single statements, and proposals for a farm.
//!
//! `testdata/advised.txt` has lines that change what is known (`farm placed` or `farm fresh`, `size TABLE ROWS
//! BYTES`, `call CALLS BYTES_READ TEXT`), and lines that ask: `> TEXT` for cures, `advise` for proposals. The
//! indented lines are the answers. `HEDDLE_WRITE_GOLDEN=1 cargo test -p planner` writes them anew; read what
//! has changed.

use std::fmt::Write as _;
use std::sync::Arc;

use farm::{Sharding, samples};
use planner::Asked;
use planner::advise::{Counted, Size, Sizes, Work, advise, candidates, helps};

use super::gathered::{MODE, farm};

/// The same tables, of which none has a place.
fn fresh() -> Sharding {
    let mut fresh = Sharding::new(1, vec![samples::slot_map(1, &["g1", "g2", "g3"])]);
    for (database, table, schema) in farm().described() {
        fresh.describe(database, table, Arc::clone(schema));
    }
    fresh
}

struct Scene {
    sharding: Sharding,
    fresh: bool,
    sizes: Sizes,
    statements: Vec<Counted>,
}

impl Scene {
    fn new(kind: &str) -> Scene {
        Scene {
            sharding: match kind {
                "fresh" => fresh(),
                _ => farm(),
            },
            fresh: kind == "fresh",
            sizes: Sizes::new(),
            statements: Vec::new(),
        }
    }

    fn size(&mut self, text: &str) {
        let mut words = text.split(' ');
        let table = words.next().expect("a table").to_owned();
        let mut number = || words.next().expect("a number").parse().expect("a number");
        let (rows, bytes) = (number(), number());
        self.sizes
            .insert(("tpch".to_owned(), table), Size { rows, bytes });
    }

    fn call(&mut self, text: &str) {
        let mut words = text.splitn(3, ' ');
        let mut number = || words.next().expect("a number").parse().expect("a number");
        let (calls, bytes_read) = (number(), number());
        self.statements.push(Counted {
            text: words.next().expect("a statement").to_owned(),
            database: "tpch".to_owned(),
            calls,
            bytes_read,
            rows_read: bytes_read / 100,
            rows_changed: 0,
        });
    }

    fn cures(&self, text: &str) -> String {
        let asked = Asked {
            sharding: &self.sharding,
            home: &"g1".into(),
            database: "tpch",
            mode: &MODE,
            scratch: "s",
            changing: None,
        };
        let all = candidates(text, &asked);
        let helping = all.iter().filter(|cure| helps(text, &asked, cure));
        let mut shown = String::new();
        for cure in helping {
            let changes: Vec<String> = cure.changes.iter().map(ToString::to_string).collect();
            let _ = writeln!(shown, "    {}", changes.join(" and "));
        }
        shown
    }

    fn proposals(&self) -> String {
        let work = Work {
            sharding: &self.sharding,
            home: &"g1".into(),
            map: 1,
            mode: &MODE,
            sizes: &self.sizes,
            statements: &self.statements,
            fresh: self.fresh,
        };
        let mut shown = String::new();
        for it in advise(&work) {
            let changes: Vec<String> = it.changes.iter().map(ToString::to_string).collect();
            let _ = writeln!(
                shown,
                "    {}: {} bytes, {} rows, {} calls of {} statements",
                changes.join(" and "),
                it.bytes_saved,
                it.rows_saved,
                it.calls,
                it.statements
            );
        }
        shown
    }
}

fn play(golden: &str) -> String {
    let mut scene = Scene::new("placed");
    let mut played = String::new();
    for line in golden.lines().filter(|line| !line.starts_with("    ")) {
        let _ = writeln!(played, "{line}");
        match line.split_once(' ') {
            Some(("farm", kind)) => scene = Scene::new(kind),
            Some(("size", text)) => scene.size(text),
            Some(("call", text)) => scene.call(text),
            Some((">", text)) => played += &scene.cures(text),
            _ if line == "advise" => played += &scene.proposals(),
            _ => {}
        }
    }
    played
}

#[test]
fn advice_is_as_written_down() {
    super::is_as_written_down("advised.txt", play);
}
