//! Plans of LOAD DATA, and files cut by them.

use std::sync::Arc;

use farm::sharding::{Column, Placement, TableSchema};
use farm::{Sharding, samples};
use sqltext::{Dialect, Mode};

use super::{Cutter, LoadPlan, Loading, Next, load};

fn column(name: &str, full_type: &str) -> Column {
    Column {
        auto_increment: name == "id",
        ..samples::column(name, full_type)
    }
}

/// `d.t` has its keys `k` below 100 on g1, below 200 on g2, and above on g3, which is disabled; `d.all`
/// is global; both give ids.
fn sharding() -> Sharding {
    let mut map = samples::range_map(1, &[("g1", 0), ("g2", 100), ("g3", 200)]);
    map.shards[2].enabled = false;
    let mut sharding = Sharding::new(1, vec![map]);
    sharding.declare("d", "t", samples::sharded("d", "t", "k", 1));
    sharding.declare("d", "all", Placement::Global { map: 1 });
    let schema = Arc::new(TableSchema {
        columns: vec![
            column("id", "bigint"),
            column("k", "int"),
            column("s", "varchar(9)"),
        ],
        primary: vec![0],
        ..TableSchema::default()
    });
    sharding.describe("d", "t", Arc::clone(&schema));
    sharding.describe("d", "all", schema);
    sharding
}

fn plan(text: &str) -> Result<Option<LoadPlan>, String> {
    let sharding = sharding();
    let asked = Loading {
        sharding: &sharding,
        home: &"g1".into(),
        database: "d",
        mode: &Mode::new(Dialect::MariaDb, 101_100),
        zero_is_value: false,
        strict: true,
    };
    load(text.as_bytes(), &asked).map_err(|refusal| refusal.error.text(&[&refusal.detail]))
}

/// What each group gets of a file, and what stopped it. Ids begin at 1000.
fn cut(clauses: &str, file: &str) -> (Vec<String>, Option<String>) {
    let text =
        format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE t FIELDS TERMINATED BY ',' {clauses}");
    let plan = plan(&text).expect("a plan").expect("for several groups");
    let mut cutter = Cutter::new(&plan, "utf8mb4").expect("utf8").expect("cut");
    let mut parts = vec![Vec::new(); plan.groups.len()];
    let mut pieces = file.as_bytes().chunks(7);
    let stopped = loop {
        match cutter.step() {
            Ok(Next::More) => match pieces.next() {
                Some(piece) => cutter.room().extend_from_slice(piece),
                None => cutter.end(),
            },
            Ok(Next::Ids) => cutter.ids = 1000..1002,
            Ok(Next::Row(Some(group))) => cutter.write(&mut parts[group]),
            Ok(Next::Row(None)) => parts.iter_mut().for_each(|part| cutter.write(part)),
            Ok(Next::End) => break None,
            Err(refusal) => break Some(refusal.error.text(&[&refusal.detail])),
        }
    };
    let shown = |part: Vec<u8>| String::from_utf8(part).expect("text");
    (parts.into_iter().map(shown).collect(), stopped)
}

#[test]
fn rows_go_by_their_keys() {
    let (parts, stopped) = cut(
        "IGNORE 1 LINES",
        "id,k,s\n7,1,a\n8,100,b\n9, 2,c\\\nd\n10,199,e",
    );
    assert_eq!(stopped, None);
    assert_eq!(
        parts,
        ["id,k,s\n7,1,a\n9, 2,c\\\nd\n", "id,k,s\n8,100,b\n10,199,e"]
    );
}

#[test]
fn rows_that_want_an_id_get_one() {
    let (parts, _) = cut("", "\\N,1,a\n,100,b\n9,2,c\nx,3,\n");
    assert_eq!(parts, ["1000,1,a\n9,2,c\n1000,3,\n", "1001,100,b\n"]);
    let (parts, _) = cut("(k, s)", "1,a\n100,b\n");
    assert_eq!(parts, ["1000,1,a\n", "1001,100,b\n"]);
    let text = "LOAD DATA LOCAL INFILE 'f' INTO TABLE d.t (k, @s) SET s = UPPER(@s)";
    let plan = plan(text).expect("a plan").expect("for several groups");
    let sent = String::from_utf8_lossy(&plan.text).into_owned();
    assert_eq!(sent, text.replace("(k,", "(`id`, k,"));
    let text = "LOAD DATA LOCAL INFILE 'f' REPLACE INTO TABLE d.all LINES STARTING BY '>'";
    let plan = self::plan(text)
        .expect("a plan")
        .expect("for several groups");
    assert!(plan.same && plan.cuts() && plan.groups.len() == 3);
}

#[test]
fn the_key_may_come_by_a_variable() {
    let (parts, stopped) = cut("(@K, id, s) SET k = @k", "1,7,a\n100,8,b\n");
    assert_eq!(
        (parts, stopped),
        (vec!["1,7,a\n".to_owned(), "100,8,b\n".to_owned()], None)
    );
}

#[test]
fn rows_without_a_place_are_refused() {
    for (file, why) in [
        ("7,1,a\n8,\\N,b\n", "in row 2 of the file"),
        ("7\n", "in row 1 of the file"),
        ("7,x,\n", "k: x, in row 1"),
        ("7,99999999999,\n", "k: 99999999999"),
        ("7,-1,\n", "no shard has the key -1"),
        ("7,200,\n", "shard 3 is disabled"),
        ("7,1,a\n8", "in row 2 of the file"),
    ] {
        let (_, stopped) = cut("", file);
        let stopped = stopped.expect(file);
        assert!(stopped.contains(why), "{file}: {stopped}");
    }
}

#[test]
fn statements_that_cannot_be_cut_are_refused() {
    for (text, why) in [
        ("LOAD DATA INFILE 'f' INTO TABLE t", "use LOAD DATA LOCAL"),
        (
            "LOAD DATA LOCAL INFILE 'f' INTO TABLE t (id, k) SET s = (SELECT COUNT(*) FROM t x)",
            "SET reads rows that other groups may have",
        ),
        (
            "LOAD DATA LOCAL INFILE 'f' INTO TABLE t (id, s)",
            "no value is given to the shard key k",
        ),
        (
            "LOAD DATA LOCAL INFILE 'f' INTO TABLE t (id, @k) SET k = @k + 1",
            "is computed by SET",
        ),
        (
            "LOAD DATA LOCAL INFILE 'f' INTO TABLE t FIELDS TERMINATED BY ''",
            "FIELDS TERMINATED BY",
        ),
        (
            "LOAD DATA LOCAL INFILE 'f' INTO TABLE `all` (id, k) SET s = UUID()",
            "not be the same",
        ),
        (
            "LOAD DATA LOCAL INFILE 'f' INTO TABLE t FIELDS TERMINATED BY '1'",
            "are digits",
        ),
    ] {
        let refused = plan(text).expect_err(text);
        assert!(refused.contains(why), "{text}: {refused}");
    }
    let other = "LOAD DATA LOCAL INFILE 'f' INTO TABLE other";
    assert!(matches!(plan(other), Ok(None)));
    let text = "LOAD DATA LOCAL INFILE 'f' INTO TABLE t";
    let plan = plan(text).expect("a plan").expect("for several groups");
    assert!(Cutter::new(&plan, "sjis").is_err());
}
