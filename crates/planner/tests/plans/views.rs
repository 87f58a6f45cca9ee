//! Statements that read views, and where they go. Whose rows a view shows is not told by the key of
//! another table.

use std::sync::Arc;

use farm::Sharding;
use farm::sharding::TableSchema;
use planner::place::Spot;
use planner::{Catalog, Kind, Tier};

use crate::farm_of_views::{MODE, VIEWS, farm_on, home, spot};

fn farm() -> Sharding {
    farm_on("g2")
}

fn shown(spot: &Spot) -> String {
    match spot {
        Spot::Group(group) => group.to_string(),
        Spot::AnyOf(_) => "any".to_owned(),
        Spot::Read(_) => "read".to_owned(),
        Spot::Select => "select".to_owned(),
        Spot::ByKeys => "by keys".to_owned(),
        Spot::Each(_) => "each".to_owned(),
        Spot::Refused(refusal) => refusal.detail.clone(),
        other => format!("{other:?}"),
    }
}

/// What is asked of the farm in database `db`.
fn asked<'a>(sharding: &'a Sharding, home: &'a Arc<str>) -> planner::Asked<'a> {
    planner::Asked {
        sharding,
        home,
        database: "db",
        mode: &MODE,
        scratch: "h",
        changing: None,
    }
}

fn check(cases: &[(&str, &str)]) {
    let sharding = farm();
    for (text, expected) in cases {
        assert_eq!(shown(&spot(text, &sharding)), *expected, "{text}");
    }
}

#[test]
fn views_are_like_tables_or_are_not() {
    let sharding = farm();
    let home = home();
    let tables = planner::place::Tables {
        sharding: &sharding,
        home: &home,
    };
    let kinds: Vec<String> = VIEWS
        .iter()
        .map(|(name, ..)| match tables.table("db", name) {
            Kind::Sharded(table) => format!("{name}: by {}", table.column),
            Kind::Global { .. } => format!("{name}: global"),
            Kind::Single { group } => format!("{name}: on {group}"),
            Kind::Opaque => name.to_string(),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "rows_of_w: by k",
            "no_key: by ",
            "pairs: by k",
            "padded: by k",
            "among: by k",
            "of_view: by key",
            "twice: by k",
            "globals: global",
            "alone: on g1",
            "groups",
            "total",
            "differ",
            "united",
            "joined",
            "ranked",
            "first",
            "given",
            "of_total",
        ]
    );
}

#[test]
fn another_table_s_key_does_not_say_where_a_view_s_rows_are() {
    check(&[
        (
            "SELECT (SELECT COUNT(*) FROM groups), b FROM v WHERE a = 1",
            "read",
        ),
        ("SELECT groups.* FROM v, groups WHERE v.a = 1", "read"),
        (
            "SELECT b.k FROM v JOIN united b ON v.b = b.k WHERE v.a = 3",
            "read",
        ),
        (
            "SELECT b.k FROM v LEFT JOIN first b ON v.b = b.k WHERE v.a IN (2, 2)",
            "read",
        ),
        ("SELECT b.k FROM ranked b LEFT JOIN v ON v.a = 3", "read"),
        (
            "WITH c AS (SELECT * FROM differ) SELECT * FROM c, v WHERE v.a = 1",
            "read",
        ),
        (
            "SELECT * FROM (SELECT * FROM given) d JOIN v ON v.a = 1",
            "read",
        ),
        (
            "SELECT k FROM united WHERE k NOT IN (SELECT a FROM v WHERE a = 3)",
            "read",
        ),
        (
            "SELECT b FROM v WHERE a = 1 HAVING b > (SELECT c FROM of_total)",
            "read",
        ),
        (
            "SELECT b FROM v WHERE a = 1 ORDER BY (SELECT c FROM total)",
            "read",
        ),
        // A key that no row has does not make a part of a view the whole.
        (
            "SELECT COUNT(*), (SELECT c FROM total) FROM v WHERE a = NULL",
            "read",
        ),
        // Nor does a table of one group.
        ("SELECT * FROM s, total", "read"),
        ("SELECT * FROM g, total", "read"),
        ("SELECT * FROM total", "read"),
    ]);
}

#[test]
fn writes_that_read_views_are_done_in_steps() {
    check(&[
        (
            "UPDATE v SET b = (SELECT COUNT(*) FROM groups) WHERE a = 1",
            "by keys",
        ),
        (
            "UPDATE v SET b = 1 WHERE a IN (2, 2) AND b IN (SELECT b FROM differ)",
            "by keys",
        ),
        (
            "UPDATE v JOIN total ON v.b = total.c SET v.b = 0 WHERE v.a = 1",
            "by keys",
        ),
        (
            "UPDATE v SET b = 1 WHERE b < (SELECT c FROM total)",
            "by keys",
        ),
        ("UPDATE s SET x = (SELECT c FROM total)", "by keys"),
        ("UPDATE g SET x = (SELECT c FROM total)", "by keys"),
        (
            "DELETE FROM v WHERE a = 1 AND b > (SELECT c FROM total)",
            "by keys",
        ),
        (
            "DELETE v FROM v JOIN united u ON u.k = v.b WHERE v.a = 1",
            "by keys",
        ),
        ("DELETE FROM s WHERE x IN (SELECT k FROM united)", "by keys"),
        ("INSERT INTO v SELECT 1, c FROM total", "select"),
        ("INSERT INTO v VALUES (1, (SELECT c FROM total))", "select"),
        ("INSERT INTO s SELECT 1, c FROM total", "select"),
        ("INSERT INTO s VALUES (1, (SELECT c FROM total))", "select"),
        ("REPLACE INTO g SELECT 1, c FROM total", "select"),
    ]);
}

#[test]
fn views_like_tables_go_by_their_keys() {
    check(&[
        ("SELECT * FROM rows_of_w WHERE k = 1", "g1"),
        (
            "SELECT * FROM padded p JOIN v ON v.a = p.k WHERE v.a = 150",
            "g2",
        ),
        (
            "SELECT (SELECT COUNT(*) FROM no_key), b FROM v WHERE a = 1",
            "read",
        ),
        (
            "SELECT * FROM v JOIN of_view o ON o.key = v.a WHERE a = 1",
            "g1",
        ),
        ("SELECT * FROM globals, v WHERE v.a = 150", "g2"),
        ("SELECT * FROM alone, v WHERE v.a = 1", "g1"),
        ("SELECT * FROM alone, v WHERE v.a = 150", "read"),
        ("SELECT * FROM globals", "any"),
        ("SELECT * FROM alone", "g1"),
        (
            "UPDATE v SET b = (SELECT SUM(b) FROM rows_of_w WHERE k = 1) WHERE a = 1",
            "g1",
        ),
        (
            "UPDATE v SET b = (SELECT n FROM globals) WHERE a = 150",
            "g2",
        ),
        (
            "DELETE FROM v WHERE a = 1 AND EXISTS (SELECT 1 FROM pairs o WHERE o.k = v.a)",
            "g1",
        ),
        (
            "UPDATE v SET b = (SELECT SUM(b) FROM no_key) WHERE a = 1",
            "by keys",
        ),
        ("INSERT INTO v VALUES (150, (SELECT n FROM globals))", "g2"),
    ]);
}

/// What a view shows of one table's rows is changed on the groups that have them.
#[test]
fn views_of_one_table_are_changed_like_it() {
    check(&[
        ("UPDATE rows_of_w SET b = 1 WHERE k = 1", "g1"),
        ("UPDATE rows_of_w r SET r.b = r.b + 1 WHERE b > 7", "each"),
        ("UPDATE no_key SET b = 2", "each"),
        ("UPDATE of_view SET `key` = `key`", "each"),
        ("DELETE FROM rows_of_w WHERE k = 150", "g2"),
        ("DELETE FROM among WHERE k IN (1, 150)", "each"),
        ("INSERT INTO rows_of_w VALUES (1, 2, 3)", "g1"),
        ("INSERT INTO rows_of_w (b, k) VALUES (1, 150)", "g2"),
        ("INSERT INTO of_view SET `key` = 150", "g2"),
        ("REPLACE INTO of_view (`key`) VALUES (7)", "g1"),
    ]);
}

#[test]
fn other_views_are_not_changed_over_groups() {
    let into = |view: &str, why: &str| format!("db.{view} is a view {why}: INSERT into its table");
    let many = "of sharded or global tables that is not made of one sharded table's rows";
    let query = into("rows_of_w", "that rows of queries are not put into");
    check(&[
        ("INSERT INTO total SELECT 1", &into("total", many)),
        ("INSERT INTO pairs (k) VALUES (1)", &into("pairs", many)),
        ("INSERT INTO twice VALUES (1, 2)", &into("twice", many)),
        (
            "INSERT INTO no_key VALUES (1)",
            &into("no_key", "that does not show its shard key"),
        ),
        ("INSERT INTO rows_of_w SELECT 1, 2, 3", &query),
        (
            "INSERT INTO rows_of_w VALUES (1, 2, (SELECT MAX(b) FROM v))",
            &query,
        ),
        (
            "INSERT INTO rows_of_w SET k = 1 ON DUPLICATE KEY UPDATE k = 3",
            "ON DUPLICATE KEY UPDATE cannot change the shard key of the row that is there",
        ),
        // The shard key would change, or may.
        ("UPDATE rows_of_w SET k = 2 WHERE k = 1", "by keys"),
        ("UPDATE twice SET other = 2 WHERE k = 1", "by keys"),
        ("UPDATE pairs SET c = 1 WHERE k = 1", "by keys"),
        ("DELETE FROM pairs WHERE k = 1", "by keys"),
        ("UPDATE rows_of_w SET b = (SELECT MAX(b) FROM v)", "by keys"),
        (
            "UPDATE rows_of_w SET b = 1 ORDER BY k LIMIT 1",
            "Limited([\"g1\", \"g2\"])",
        ),
        (
            "UPDATE v JOIN rows_of_w r ON r.k = v.a SET r.b = 1 WHERE v.a = 1",
            "by keys",
        ),
        (
            "UPDATE v JOIN rows_of_w r ON r.k = v.a SET v.b = 1 WHERE v.a = 1",
            "g1",
        ),
        ("UPDATE globals SET n = 1", "by keys"),
        ("UPDATE alone SET n = 1", "g1"),
    ]);
}

/// As long as a map has one group, so has every view.
#[test]
fn on_one_group_views_are_whole() {
    let sharding = farm_on("g1");
    for (name, columns, _) in VIEWS {
        let text = format!(
            "SELECT b, (SELECT MAX(x.`{}`) FROM {name} x) FROM v",
            columns[0]
        );
        assert_eq!(shown(&spot(&text, &sharding)), "g1", "{text}");
    }
    for text in [
        "INSERT INTO rows_of_w VALUES (1, 2, 3)",
        "UPDATE rows_of_w SET b = 1",
    ] {
        assert_eq!(shown(&spot(text, &sharding)), "g1", "{text}");
    }
}

#[test]
fn queries_stand_in_every_clause() {
    check(&[
        (
            "INSERT INTO s (x) VALUES (1) ON DUPLICATE KEY UPDATE y = (SELECT COUNT(*) FROM w)",
            "select",
        ),
        (
            "DELETE FROM v WHERE a = 1 ORDER BY (SELECT COUNT(*) FROM w) LIMIT 1",
            "by keys",
        ),
        (
            "DELETE FROM s RETURNING (SELECT COUNT(*) FROM w)",
            "by keys",
        ),
        (
            "SELECT * FROM v, JSON_TABLE(v.b, '$[*]' COLUMNS (x INT PATH '$')) t WHERE v.a = 1",
            "g1",
        ),
    ]);
}

#[test]
fn names_that_differ_in_case_only_are_told_apart() {
    check(&[
        (
            "SELECT * FROM v t WHERE t.a = 1 AND EXISTS (SELECT 1 FROM v T WHERE t.a = 1)",
            "read",
        ),
        ("SELECT * FROM v T WHERE t.a = 1", "g1"),
    ]);
}

#[test]
fn null_keys_of_outer_joins_tie_nothing() {
    check(&[(
        "SELECT * FROM v x LEFT JOIN v ON v.a = 1 LEFT JOIN w ON w.b = x.b \
             WHERE w.k <=> v.a AND x.a = 1",
        "read",
    )]);
}

/// What each answers with is checked on servers; here, that there is an answer.
#[test]
fn every_view_is_answered() {
    let sharding = farm();
    let home = home();
    let asked = asked(&sharding, &home);
    for (name, ..) in VIEWS {
        let text = format!("SELECT * FROM v, {name}");
        let answer = planner::answer(&text, &asked).map(|answer| answer.tier);
        assert!(
            answer.as_ref().is_ok_and(|tier| *tier != Tier::Pull),
            "{text}: {answer:?}"
        );
        for text in [
            format!("UPDATE v SET b = (SELECT COUNT(*) FROM {name}) WHERE a = 1"),
            format!("DELETE FROM v WHERE b = (SELECT COUNT(*) FROM {name} x)"),
        ] {
            let by_keys = planner::by_keys(&text, &asked, true);
            assert!(by_keys.is_ok(), "{text}: {by_keys:?}");
        }
    }
}

/// MariaDB writes NOT of a view's body as `!`.
#[test]
fn signs_of_views_are_read() {
    let sharding = farm();
    let old = sharding.schema("db", "rows_of_w").expect("it is described");
    for filter in [
        "!(`db`.`w`.`k` in (select `db`.`s`.`x` from `db`.`s`))",
        "!exists(select 1 from `db`.`s` where `db`.`s`.`x` = `db`.`w`.`k` limit 1)",
        "~`db`.`w`.`a` > 5",
    ] {
        let body = format!("select k AS k, a AS a, b AS b from db.w where {filter}");
        let schema = TableSchema {
            body: Some(body.as_str().into()),
            ..(**old).clone()
        };
        let mut sharding = sharding.clone();
        sharding.describe("db", "signs", Arc::new(schema));
        planner::views::see(&mut sharding);
        let home = home();
        let asked = asked(&sharding, &home);
        let answer = planner::answer("SELECT * FROM signs", &asked);
        let tier = answer.map(|answer| answer.tier);
        assert!(
            tier.as_ref().is_ok_and(|tier| *tier != Tier::Pull),
            "{filter}: {tier:?}"
        );
    }
}

/// On one server an assignment finds what those in front of it have set, and a number in ORDER BY is no
/// column.
#[test]
fn what_one_server_would_answer_otherwise_is_refused() {
    let sharding = farm();
    let home = home();
    let asked = asked(&sharding, &home);
    let set = "a value reads a column that is set in front of it";
    let order = "it is ordered by a number, which is no column there";
    for (text, why) in [
        (
            "UPDATE w SET a = 1, b = (SELECT MAX(x) FROM s WHERE y = w.a)",
            set,
        ),
        (
            "UPDATE w SET a = 1, b = (SELECT MAX(x) FROM s WHERE y = A)",
            set,
        ),
        ("UPDATE w SET b = 2, a = b + (SELECT MAX(x) FROM s)", set),
        (
            "UPDATE w JOIN s ON s.x = w.a SET w.b = s.y, w.a = w.b + s.y",
            set,
        ),
        (
            "UPDATE w SET a = (SELECT MAX(x) FROM s) ORDER BY 1 LIMIT 3",
            order,
        ),
        (
            "DELETE FROM w WHERE a = (SELECT MAX(x) FROM s) ORDER BY b, (2)",
            order,
        ),
        // What is set behind it, or in the same place, is as it was.
        (
            "UPDATE w SET b = (SELECT MAX(x) FROM s WHERE y = w.a), a = 1",
            "",
        ),
        ("UPDATE w SET a = (SELECT MAX(x) FROM s WHERE y = w.a)", ""),
        // It is another table's.
        ("UPDATE w SET b = 2, a = (SELECT MAX(v.b) FROM v)", ""),
        ("UPDATE w SET b = 2, a = (SELECT MAX(b) FROM v)", ""),
        (
            "UPDATE w SET b = 2, a = 1 WHERE b = (SELECT MAX(b) FROM v)",
            "",
        ),
        (
            "UPDATE w SET a = (SELECT MAX(x) FROM s), b = a + 1 ORDER BY a LIMIT 3",
            "",
        ),
    ] {
        let by_keys = planner::by_keys(text, &asked, true);
        let said = match by_keys {
            Ok(_) => String::new(),
            Err(why) => format!("{why:?}"),
        };
        assert!(said.contains(why), "{text}: {said}");
        assert_eq!(said.is_empty(), why.is_empty(), "{text}: {said}");
    }
}
