//! How statements over several groups are answered: what is fetched, in which order, what leaves rows out
//! of it, and what runs on the scratch server.
//!
//! `testdata/gathered.txt` has statements behind `> ` and, indented, their answers; behind `mysql> ` those
//! that a farm of MySQL is asked.
//! `HEDDLE_WRITE_GOLDEN=1 cargo test -p planner` writes the answers anew; read what has changed.

use std::fmt::Write as _;
use std::sync::Arc;

use farm::sharding::{Column, Placement, TableSchema};
use farm::{Sharding, samples};
use planner::{Answer, Asked, Finish, Scratch, answer};
use sqltext::{Dialect, Mode};

pub(crate) const MODE: Mode = Mode::new(Dialect::MariaDb, 101_100);
const MYSQL: Mode = Mode::new(Dialect::MySql, 80_000);

/// A table: its shard key, empty for a global one; its columns, those of its primary key with a star.
const TABLES: [(&str, &str, &str); 8] = [
    (
        "lineitem",
        "l_orderkey",
        "*l_orderkey int(11)|*l_linenumber int(11)|l_partkey int(11)|l_suppkey int(11)|\
         l_quantity decimal(15,2)|l_extendedprice decimal(15,2)|l_discount decimal(15,2)|\
         l_shipdate date|l_commitdate date|l_receiptdate date|l_shipmode char(10)",
    ),
    (
        "orders",
        "o_orderkey",
        "*o_orderkey int(11)|o_custkey int(11)|o_orderdate date|o_orderpriority char(15)|\
         o_totalprice decimal(15,2)|o_comment varchar(79)",
    ),
    (
        "customer",
        "c_custkey",
        "*c_custkey int(11)|c_name varchar(25)|c_nationkey int(11)|c_phone char(15)|\
         c_acctbal decimal(15,2)|c_mktsegment char(10)|c_flags int(11)",
    ),
    (
        "part",
        "p_partkey",
        "*p_partkey int(11)|p_name varchar(55)|p_brand char(10)|p_type varchar(25)|p_size int(11)|\
         p_container char(10)",
    ),
    (
        "partsupp",
        "ps_partkey",
        "*ps_partkey int(11)|*ps_suppkey int(11)|ps_availqty int(11)|ps_supplycost decimal(15,2)",
    ),
    (
        "supplier",
        "",
        "*s_suppkey int(11)|s_name char(25)|s_nationkey int(11)|s_comment varchar(101)",
    ),
    (
        "nation",
        "",
        "*n_nationkey int(11)|n_name char(25)|n_regionkey int(11)",
    ),
    ("region", "", "*r_regionkey int(11)|r_name char(25)"),
];

/// Views, by name, columns and body.
const VIEWS: [(&str, &str, &str); 1] = [(
    "revenue",
    "supplier_no int(11)|total_revenue decimal(65,4)",
    "select `tpch`.`lineitem`.`l_suppkey` AS `supplier_no`,sum(`tpch`.`lineitem`.`l_extendedprice` * \
     (1 - `tpch`.`lineitem`.`l_discount`)) AS `total_revenue` from `tpch`.`lineitem` where \
     `tpch`.`lineitem`.`l_shipdate` >= '1996-01-01' and `tpch`.`lineitem`.`l_shipdate` < \
     ('1996-01-01' + interval 3 month) group by `tpch`.`lineitem`.`l_suppkey`",
)];

fn columns(text: &str) -> (Vec<Column>, Vec<u16>) {
    let (mut columns, mut primary) = (Vec::new(), Vec::new());
    for (at, column) in (0u16..).zip(text.split('|')) {
        let (name, full_type) = column.split_once(' ').expect("a name and a type");
        if name.starts_with('*') {
            primary.push(at);
        }
        let data_type = full_type.split('(').next().expect("a type");
        let text = data_type.ends_with("char");
        columns.push(Column {
            collation: text.then(|| "utf8mb4_general_ci".into()),
            nullable: !name.starts_with('*'),
            ..samples::column(name.trim_start_matches('*'), full_type)
        });
    }
    (columns, primary)
}

pub(crate) fn farm() -> Sharding {
    let map = samples::slot_map(1, &["g1", "g2", "g3"]);
    let mut sharding = Sharding::new(1, vec![map]);
    for (table, key, text) in TABLES {
        let (columns, primary) = columns(text);
        let placement = match key {
            "" => Placement::Global { map: 1 },
            key => samples::sharded("tpch", table, key, 1),
        };
        sharding.declare("tpch", table, placement);
        let schema = TableSchema {
            columns,
            primary,
            ..TableSchema::default()
        };
        sharding.describe("tpch", table, Arc::new(schema));
    }
    for (view, text, body) in VIEWS {
        let schema = TableSchema {
            columns: columns(text).0,
            view: true,
            body: Some(body.into()),
            ..TableSchema::default()
        };
        sharding.describe("tpch", view, Arc::new(schema));
    }
    planner::views::see(&mut sharding);
    sharding
}

fn shown(answer: &Answer) -> String {
    let mut shown = format!("{:?}", answer.tier).to_lowercase();
    for reason in &answer.reasons {
        let _ = write!(shown, ": {reason}");
    }
    match &answer.finish {
        Finish::Merge(_) => {
            let _ = write!(shown, "\n{}", line(&answer.fragments[0].text));
        }
        Finish::Scratch(scratch) => gathered(answer, scratch, &mut shown),
    }
    shown
}

fn gathered(answer: &Answer, scratch: &Scratch, shown: &mut String) {
    for &at in &scratch.order {
        let (fragment, reduced) = (&answer.fragments[at], &scratch.reduced[at]);
        let there: Vec<String> = reduced
            .by
            .iter()
            .filter_map(|it| it.there.clone())
            .collect();
        let text = reduced.text(&fragment.text, &there);
        let _ = write!(shown, "\n{}: {}", scratch.tables[at].name, line(&text));
        for one in &reduced.by {
            let by = &scratch.tables[one.by].name;
            let _ = write!(shown, "\n  {} in {by}.{}", one.to, one.from);
        }
        let keys = scratch.tables[at]
            .create
            .split(", ")
            .filter(|it| it.contains("KEY ("));
        for key in keys {
            let key = key.split(") ENGINE").next().expect("a key");
            let _ = write!(shown, "\n  {key}");
        }
    }
    let _ = write!(shown, "\n{}", line(&scratch.text));
}

/// The farm of [`farm`], as those see it who have statements planned.
pub(crate) struct Tpch {
    sharding: Sharding,
    home: Arc<str>,
}

impl Tpch {
    pub(crate) fn new() -> Tpch {
        Tpch {
            sharding: farm(),
            home: "g1".into(),
        }
    }

    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked {
            sharding: &self.sharding,
            home: &self.home,
            database: "tpch",
            mode: &MODE,
            scratch: "s",
            changing: None,
        }
    }
}

fn line(text: &str) -> String {
    text.replace('\n', " ")
}

/// The file as it should be.
fn play(scenarios: &str) -> String {
    let tpch = Tpch::new();
    let asked = tpch.asked();
    let mut out = String::new();
    for given in scenarios.lines().filter(|it| !it.starts_with("    ")) {
        let _ = writeln!(out, "{given}");
        let (text, mode) = match given.strip_prefix("mysql> ") {
            Some(text) => (Some(text), &MYSQL),
            None => (given.strip_prefix("> "), &MODE),
        };
        if let Some(text) = text {
            let answer = match answer(text, &Asked { mode, ..asked }) {
                Ok(answer) => shown(&answer),
                Err(why) => format!("{why:?}"),
            };
            for line in answer.lines() {
                let _ = writeln!(out, "    {line}");
            }
        }
    }
    out
}

#[test]
fn statements_are_answered_as_written_down() {
    super::is_as_written_down("gathered.txt", play);
}
