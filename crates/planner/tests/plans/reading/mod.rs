//! A text through everything that reads statements: where it goes, how it is answered by several groups,
//! and how it is rewritten. Tests of depth and the fuzz target share it.

use std::sync::Arc;

use farm::sharding::TableSchema;
use farm::{Sharding, samples};
use planner::place::{Asked, Goes, plan};
use sqltext::{Dialect, Mode};

pub const MODE: Mode = Mode::new(Dialect::MariaDb, 101_100);

/// A table `t` with the shard key `id` on two groups.
fn farm() -> Sharding {
    let map = samples::range_map(1, &[("g1", i128::from(i64::MIN)), ("g2", 100)]);
    let mut sharding = Sharding::new(1, vec![map]);
    sharding.declare("d", "t", samples::sharded("d", "t", "id", 1));
    let column = |name| samples::column(name, "int(11)");
    let schema = TableSchema {
        columns: ["id", "v"].map(column).to_vec(),
        primary: vec![0],
        ..TableSchema::default()
    };
    sharding.describe("d", "t", Arc::new(schema));
    sharding
}

/// Reads a text in every way that there is; whether the parser took it.
pub fn read(text: &str) -> bool {
    let sharding = farm();
    let home: Arc<str> = "g1".into();
    let writes = !text.starts_with("SELECT");
    let asked = Asked {
        sharding: &sharding,
        home: &home,
        database: "d",
        mode: &MODE,
        writes,
        locks: false,
    };
    let planned = plan(text.as_bytes(), &asked);
    let is_read = !matches!(planned.goes, Goes::Unread(_));
    let asked = planner::Asked {
        sharding: &sharding,
        home: &home,
        database: "d",
        mode: &MODE,
        scratch: "scratch",
        changing: None,
    };
    match writes {
        true => drop(planner::by_keys(text, &asked, true)),
        false => {
            drop(planner::answer(text, &asked));
            // They read as the others do; what is longer takes an unoptimised test its time.
            if text.len() < 100_000 {
                drop(planner::to_change(text, &asked));
                drop(planner::session_values(text, &MODE));
            }
        }
    }
    is_read
}
