//! The farm of the tests of views: a map of two ranges, keys below 100 on g1, the others on g2.
//!
//! `v` is sharded by `a`, `w` by `k`; `g` is on both groups and `s` on g1 only.

use std::sync::Arc;

use farm::sharding::{Placement, TableSchema};
use farm::{Sharding, samples};
use planner::place::{Asked, Literals, Plan, Spot, Statement, Whose, misplaced, plan};
use sqltext::{Class, Dialect, Mode, Scan};

pub const MODE: Mode = Mode::new(Dialect::MariaDb, 101_100);

/// Views of each kind, by name, columns and body. The first ones are like tables.
pub const VIEWS: [(&str, &[&str], &str); 18] = [
    (
        "rows_of_w",
        &["k", "a", "b"],
        "select k AS k, a AS a, b AS b from db.w where db.w.b > 0",
    ),
    ("no_key", &["b"], "select db.w.b AS b from db.w"),
    (
        "pairs",
        &["k", "c"],
        "select w.k AS k, v.b AS c from (db.w join db.v on(w.k = v.a))",
    ),
    (
        "padded",
        &["k", "c"],
        "select w.k AS k, v.b AS c from (db.w left join db.v on(w.k = v.a))",
    ),
    (
        "among",
        &["k"],
        "select w.k AS k from db.w where w.k in (select v.a from db.v where v.b > 1)",
    ),
    (
        "of_view",
        &["key"],
        "select r.k AS `key` from db.rows_of_w r",
    ),
    (
        "twice",
        &["k", "other"],
        "select w.k AS k, w.k AS other from db.w",
    ),
    ("globals", &["n"], "select count(0) AS n from db.g"),
    (
        "alone",
        &["n"],
        "select count(0) AS n from db.s join db.g on(g.x = s.x)",
    ),
    (
        "groups",
        &["a", "c"],
        "select w.a AS a, count(0) AS c from db.w group by w.a",
    ),
    ("total", &["c"], "select count(0) AS c from db.w"),
    ("differ", &["b"], "select distinct w.b AS b from db.w"),
    (
        "united",
        &["k"],
        "select w.k AS k from db.w union all select v.a AS a from db.v",
    ),
    (
        "joined",
        &["k", "a"],
        "select w.k AS k, v.a AS a from (db.w join db.v on(w.a = v.a))",
    ),
    (
        "ranked",
        &["k", "n"],
        "select w.k AS k, rank() over (order by w.b) AS n from db.w",
    ),
    (
        "first",
        &["k"],
        "select w.k AS k from db.w order by w.k limit 3",
    ),
    (
        "given",
        &["k"],
        "with c as (select w.k AS k from db.w) select c.k AS k from c",
    ),
    ("of_total", &["c"], "select t.c AS c from db.total t"),
];

/// The farm whose second range is on this group.
pub fn farm_on(second: &str) -> Sharding {
    let map = samples::range_map(1, &[("g1", 0), (second, 100)]);
    let mut sharding = Sharding::new(1, vec![map]);
    for (table, column) in [("v", "a"), ("w", "k")] {
        sharding.declare("db", table, samples::sharded("db", table, column, 1));
    }
    sharding.declare("db", "g", Placement::Global { map: 1 });
    let column = |name: &&str| samples::column(name, "int(11)");
    let schema = |names: &[&str], body: Option<&str>| {
        Arc::new(TableSchema {
            columns: names.iter().map(column).collect(),
            primary: if body.is_none() { vec![0] } else { Vec::new() },
            view: body.is_some(),
            body: body.map(Into::into),
            ..TableSchema::default()
        })
    };
    sharding.describe("db", "v", schema(&["a", "b"], None));
    sharding.describe("db", "w", schema(&["k", "a", "b"], None));
    sharding.describe("db", "g", schema(&["x", "y"], None));
    sharding.describe("db", "s", schema(&["x", "y"], None));
    for (name, columns, body) in VIEWS {
        sharding.describe("db", name, schema(columns, Some(body)));
    }
    planner::views::see(&mut sharding);
    sharding
}

pub fn home() -> Arc<str> {
    "g1".into()
}

fn plan_of(text: &str, sharding: &Sharding) -> Plan {
    let mut scan = Scan::new();
    scan.read(text.as_bytes(), &MODE);
    let asked = Asked {
        sharding,
        home: &home(),
        database: "db",
        mode: &MODE,
        writes: scan.class == Class::Write,
        locks: scan.facts.contains(sqltext::Facts::LOCKING_READ),
    };
    plan(text.as_bytes(), &asked)
}

/// Where a statement goes. What goes to one group is looked at twice.
pub fn spot(text: &str, sharding: &Sharding) -> Spot {
    let spot = with_statement(text, |it| plan_of(text, sharding).spot(it, sharding));
    if let Spot::Group(group) = &spot {
        assert_eq!(is_misplaced(text, group, sharding), None, "{text}: {group}");
    }
    spot
}

/// What a second opinion says of a statement that would go to this group.
pub fn is_misplaced(text: &str, group: &str, sharding: &Sharding) -> Option<String> {
    let whose = Whose {
        sharding,
        home: &home(),
        database: "db",
    };
    with_statement(text, |it| misplaced(it, whose, group))
}

fn with_statement<T>(text: &str, of: impl FnOnce(&Statement<'_>) -> T) -> T {
    let slots = sqltext::slots(text.as_bytes(), &MODE);
    let spans: Vec<_> = slots.iter().map(|slot| slot.span).collect();
    let literals = Literals {
        text: text.as_bytes(),
        spans: &spans,
        mode: &MODE,
        utf8: true,
    };
    of(&Statement {
        text: text.as_bytes(),
        mode: &MODE,
        values: &literals,
        zero_is_value: false,
    })
}
