//! How long it takes to plan the 22 queries of TPC-H on three groups: anew, with tables that are sent, and again by what is
//! kept of the first time. `make bench-plan` runs it; the bounds are those that it prints.

use std::hint::black_box;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use farm::sharding::{Column, Placement, TableSchema};
use farm::{Sharding, samples};
use planner::{Answer, Asked, Ran, Seen, Sizes, Volume, answer, by_broadcast};
use sqltext::{Dialect, Mode};

const MODE: Mode = Mode::new(Dialect::MariaDb, 101_100);
const TEXTS: &str = include_str!("../../../bench/tpch.sql");

/// What is allowed of the slowest query, and of one that is kept.
const PLANNED_MAX: Duration = Duration::from_millis(5);
const KEPT_MAX: Duration = Duration::from_micros(200);

/// Each is planned so often; the median counts.
const ROUNDS: usize = 31;

/// A table: its shard key, empty for a global one; its columns, those of its primary key with a star.
const TABLES: [(&str, &str, &str); 8] = [
    (
        "lineitem",
        "l_orderkey",
        "*l_orderkey int(11)|l_partkey int(11)|l_suppkey int(11)|*l_linenumber int(11)|l_quantity decimal(15,2)|\
         l_extendedprice decimal(15,2)|l_discount decimal(15,2)|l_tax decimal(15,2)|l_returnflag char(1)|\
         l_linestatus char(1)|l_shipdate date|l_commitdate date|l_receiptdate date|l_shipinstruct char(25)|\
         l_shipmode char(10)|l_comment varchar(44)",
    ),
    (
        "orders",
        "o_orderkey",
        "*o_orderkey int(11)|o_custkey int(11)|o_orderstatus char(1)|o_totalprice decimal(15,2)|o_orderdate date|\
         o_orderpriority char(15)|o_clerk char(15)|o_shippriority int(11)|o_comment varchar(79)",
    ),
    (
        "customer",
        "c_custkey",
        "*c_custkey int(11)|c_name varchar(25)|c_address varchar(40)|c_nationkey int(11)|c_phone char(15)|\
         c_acctbal decimal(15,2)|c_mktsegment char(10)|c_comment varchar(117)",
    ),
    (
        "part",
        "p_partkey",
        "*p_partkey int(11)|p_name varchar(55)|p_mfgr char(25)|p_brand char(10)|p_type varchar(25)|p_size int(11)|\
         p_container char(10)|p_retailprice decimal(15,2)|p_comment varchar(23)",
    ),
    (
        "partsupp",
        "ps_partkey",
        "*ps_partkey int(11)|*ps_suppkey int(11)|ps_availqty int(11)|ps_supplycost decimal(15,2)|ps_comment varchar(199)",
    ),
    (
        "supplier",
        "",
        "*s_suppkey int(11)|s_name char(25)|s_address varchar(40)|s_nationkey int(11)|s_phone char(15)|\
         s_acctbal decimal(15,2)|s_comment varchar(101)",
    ),
    (
        "nation",
        "",
        "*n_nationkey int(11)|n_name char(25)|n_regionkey int(11)|n_comment varchar(152)",
    ),
    (
        "region",
        "",
        "*r_regionkey int(11)|r_name char(25)|r_comment varchar(152)",
    ),
];

/// A view of lines, by supplier.
const VIEW: (&str, &str, &str) = (
    "revenue0",
    "supplier_no int(11)|total_revenue decimal(65,4)",
    "select `tpch`.`lineitem`.`l_suppkey` AS `supplier_no`,sum(`tpch`.`lineitem`.`l_extendedprice` * \
     (1 - `tpch`.`lineitem`.`l_discount`)) AS `total_revenue` from `tpch`.`lineitem` where \
     `tpch`.`lineitem`.`l_shipdate` >= DATE'1996-01-01' and `tpch`.`lineitem`.`l_shipdate` < \
     DATE'1996-01-01' + interval 3 month group by `tpch`.`lineitem`.`l_suppkey`",
);

fn schema(text: &str) -> TableSchema {
    let column = |text: &str| {
        let (name, full_type) = text.split_once(' ').unwrap_or((text, "int(11)"));
        let data_type = full_type.split('(').next().unwrap_or_default();
        let is_text = data_type.ends_with("char");
        Column {
            collation: is_text.then(|| "utf8mb4_general_ci".into()),
            ..samples::column(name.trim_start_matches('*'), full_type)
        }
    };
    let is_key = |(at, text): (u16, &str)| text.starts_with('*').then_some(at);
    TableSchema {
        columns: text.split('|').map(column).collect(),
        primary: (0u16..).zip(text.split('|')).filter_map(is_key).collect(),
        ..TableSchema::default()
    }
}

fn farm() -> Sharding {
    let map = samples::slot_map(1, &["g1", "g2", "g3"]);
    let mut sharding = Sharding::new(1, vec![map]);
    for (table, key, text) in TABLES {
        let placement = match key {
            "" => Placement::Global { map: 1 },
            key => samples::sharded("tpch", table, key, 1),
        };
        sharding.declare("tpch", table, placement);
        sharding.describe("tpch", table, Arc::new(schema(text)));
    }
    let (view, columns, body) = VIEW;
    let schema = TableSchema {
        view: true,
        body: Some(body.into()),
        ..schema(columns)
    };
    sharding.describe("tpch", view, Arc::new(schema));
    planner::views::see(&mut sharding);
    sharding
}

/// The median of how long it takes.
fn median(mut work: impl FnMut()) -> Duration {
    let mut all: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            work();
            began.elapsed()
        })
        .collect();
    all.sort_unstable();
    all[ROUNDS / 2]
}

/// The answer with the tables that are best sent, where each fetch gives as much and a gather very much.
fn sent(text: &str, asked: &Asked<'_>, gathered: &Answer) -> Result<Answer, String> {
    let seen = |bytes: u64| {
        Seen::of(Volume {
            rows: bytes / 8,
            bytes,
        })
    };
    let ran = Ran {
        fetches: vec![seen(1 << 30); gathered.fragments.len()],
        ..Ran::default()
    };
    let unknown = vec![None; gathered.fragments.len()];
    let sizes = Sizes {
        rows: &unknown,
        filtered: false,
        ran: &ran,
        whole: &vec![Some(seen(8192)); gathered.fragments.len()],
        bytes_max: 4 << 20,
    };
    by_broadcast(text, asked, gathered, &sizes)
}

/// A line for who runs this.
fn told(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn main() {
    let (sharding, home) = (farm(), "g1".into());
    let asked = Asked {
        sharding: &sharding,
        home: &home,
        database: "tpch",
        mode: &MODE,
        scratch: "h1_",
        changing: None,
    };
    let lines = TEXTS.lines().filter(|line| !line.starts_with('#'));
    let texts = lines.collect::<Vec<_>>().join("\n");
    let texts = texts
        .split(";\n")
        .map(str::trim)
        .filter(|text| !text.is_empty());
    told("| query | way | planned | with tables that are sent | kept |");
    told("| ---: | --- | ---: | ---: | ---: |");
    let (mut slowest, mut kept_slowest) = (Duration::ZERO, Duration::ZERO);
    for (at, text) in texts.enumerate() {
        let text = text.trim_end_matches(';');
        let planned = match answer(text, &asked) {
            Ok(planned) => planned,
            Err(why) => panic!("query {}: {why:?}", at + 1),
        };
        let plain = median(|| drop(black_box(answer(text, &asked))));
        let choosing = median(|| drop(black_box(sent(text, &asked, &planned))));
        let chosen = sent(text, &asked, &planned);
        let way = match &chosen {
            Ok(_) => "sent".to_owned(),
            Err(_) => format!("{:?}", planned.tier).to_lowercase(),
        };
        let whole = chosen.unwrap_or(planned);
        let kept = median(|| drop(black_box(whole.renamed("h1_", "h2_"))));
        told(&format!(
            "| {} | {way} | {plain:.0?} | {choosing:.0?} | {kept:.1?} |",
            at + 1
        ));
        slowest = slowest.max(plain + choosing);
        kept_slowest = kept_slowest.max(kept);
    }
    told(&format!(
        "\nThe slowest takes {slowest:.1?}, at most {PLANNED_MAX:?}; kept {kept_slowest:.1?}, at most {KEPT_MAX:?}."
    ));
    if slowest > PLANNED_MAX || kept_slowest > KEPT_MAX {
        told("NOT all bounds hold.");
        std::process::exit(1);
    }
}
