//! The second opinion on what goes to one group.

use planner::place::Spot;

use crate::farm_of_views::{VIEWS, farm_on, is_misplaced, spot};

#[test]
fn a_second_opinion_finds_what_lies_elsewhere() {
    let sharding = farm_on("g2");
    for (text, group, wanted) in [
        ("SELECT * FROM v WHERE a = 1", "g1", None),
        ("SELECT * FROM v WHERE a = 1", "g2", Some("db.v")),
        (
            "SELECT * FROM v WHERE a IN (1, 2 + 3) AND b = 150",
            "g1",
            None,
        ),
        ("SELECT * FROM v WHERE a IN (1, 150)", "g1", Some("db.v")),
        ("SELECT * FROM v WHERE a BETWEEN 100 AND 200", "g2", None),
        ("SELECT * FROM v WHERE a < 100 OR a = 7", "g1", None),
        ("SELECT * FROM v WHERE a = 1 XOR b = 1", "g1", Some("db.v")),
        ("SELECT * FROM v WHERE NOT a = 1", "g1", Some("db.v")),
        (
            "SELECT * FROM v JOIN w ON w.k = v.a WHERE v.a = 1",
            "g1",
            None,
        ),
        (
            "SELECT * FROM v LEFT JOIN w ON w.k = v.a WHERE v.a = 1",
            "g1",
            None,
        ),
        (
            "SELECT * FROM v LEFT JOIN w ON w.k = v.a AND w.k = 1",
            "g1",
            Some("db.v"),
        ),
        (
            "SELECT * FROM v RIGHT JOIN w USING (k) WHERE w.k = 1",
            "g1",
            Some("db.v"),
        ),
        (
            "SELECT * FROM v WHERE a = 1 AND b IN (SELECT b FROM w)",
            "g1",
            Some("db.w"),
        ),
        (
            "SELECT * FROM v WHERE a = 1 AND a IN (SELECT k FROM w)",
            "g1",
            None,
        ),
        (
            "SELECT * FROM v WHERE a = 1 AND a IN (SELECT k FROM w LIMIT 3)",
            "g1",
            Some("db.w"),
        ),
        ("SELECT * FROM v, s WHERE a = 150", "g2", Some("db.s")),
        ("SELECT * FROM v, g WHERE a = 150", "g2", None),
    ] {
        assert_eq!(
            is_misplaced(text, group, &sharding).as_deref(),
            wanted,
            "{text} on {group}"
        );
    }
}

#[test]
fn a_second_opinion_looks_through_views() {
    let sharding = farm_on("g2");
    for (text, group, wanted) in [
        ("SELECT * FROM v, total WHERE a = 1", "g1", Some("db.w")),
        (
            "SELECT * FROM v, rows_of_w r WHERE a = 1 AND r.k = v.a",
            "g1",
            None,
        ),
        (
            "SELECT * FROM v, rows_of_w r WHERE a = 1",
            "g1",
            Some("db.w"),
        ),
        ("SELECT * FROM of_view WHERE `key` = 1", "g1", None),
        ("SELECT * FROM groups WHERE a = 1", "g1", Some("db.w")),
        ("SELECT * FROM joined WHERE k = 1", "g1", Some("db.v")),
        (
            "UPDATE v SET b = (SELECT COUNT(*) FROM w) WHERE a = 1",
            "g1",
            Some("db.w"),
        ),
        (
            "DELETE FROM v WHERE a = 1 ORDER BY (SELECT COUNT(*) FROM w)",
            "g1",
            Some("db.w"),
        ),
        ("INSERT INTO v VALUES (1, 2)", "g1", None),
        (
            "INSERT INTO v VALUES (1, (SELECT COUNT(*) FROM w))",
            "g1",
            Some("db.w"),
        ),
        (
            "INSERT INTO s SELECT * FROM v WHERE a = 150",
            "g2",
            Some("db.s"),
        ),
        ("SELECT ^ FROM total", "g1", Some("db.w")),
    ] {
        assert_eq!(
            is_misplaced(text, group, &sharding).as_deref(),
            wanted,
            "{text} on {group}"
        );
    }
}

/// Every view in every place where a table may stand, beside tables whose keys are bound or are not:
/// what goes to one group has nothing that matters elsewhere.
#[test]
fn what_goes_to_one_group_is_bound_to_it() {
    let sharding = farm_on("g2");
    let places = [
        "SELECT * FROM @",
        "SELECT * FROM v, @ WHERE #",
        "SELECT * FROM v JOIN @ ON # WHERE v.b > 1",
        "SELECT * FROM v LEFT JOIN @ ON x.% = v.a WHERE #",
        "SELECT * FROM v RIGHT JOIN @ ON x.% = v.a AND #",
        "SELECT * FROM @ LEFT JOIN v ON v.a = x.% WHERE #",
        "SELECT * FROM @ LEFT JOIN v ON # WHERE x.% = 1",
        "SELECT * FROM v JOIN w ON w.k = v.a JOIN @ ON x.% = w.k WHERE #",
        "SELECT (SELECT COUNT(*) FROM @ WHERE x.% = v.a), b FROM v WHERE #",
        "SELECT (SELECT COUNT(*) FROM @), b FROM v WHERE #",
        "SELECT b FROM v WHERE # AND a IN (SELECT x.% FROM @)",
        "SELECT b FROM v WHERE # AND a NOT IN (SELECT x.% FROM @ WHERE x.% = 1)",
        "SELECT b FROM v WHERE # AND EXISTS (SELECT 1 FROM @ WHERE x.% = v.a)",
        "SELECT b, COUNT(*) FROM v WHERE # GROUP BY b HAVING COUNT(*) > (SELECT COUNT(*) FROM @)",
        "WITH c AS (SELECT * FROM @) SELECT * FROM c, v WHERE #",
        "WITH c AS (SELECT x.% AS q FROM @ WHERE x.% = 1) SELECT * FROM c JOIN v ON v.a = c.q WHERE #",
        "SELECT * FROM (SELECT x.% AS q FROM @) d JOIN v ON v.a = d.q WHERE #",
        "SELECT b FROM v WHERE # UNION SELECT x.% FROM @ WHERE x.% IN (1, 2)",
        "UPDATE v SET b = (SELECT COUNT(*) FROM @) WHERE #",
        "UPDATE v JOIN @ ON x.% = v.a SET v.b = 1 WHERE #",
        "DELETE FROM v WHERE # AND b IN (SELECT x.% FROM @ WHERE x.% = 3)",
        "DELETE v FROM v LEFT JOIN @ ON x.% = v.a WHERE #",
        "INSERT INTO v SELECT 1, COUNT(*) FROM @ WHERE x.% = 1",
        "INSERT INTO s SELECT x.%, 2 FROM @, v WHERE #",
        "REPLACE INTO v VALUES (1, (SELECT COUNT(*) FROM @ WHERE x.% = 1))",
    ];
    let conditions = [
        "v.a = 1",
        "v.a IN (2, 2)",
        "v.a = 150 AND v.b = 2",
        "v.a = NULL",
        "v.b = 1",
    ];
    let tables = [("v", "a"), ("w", "k"), ("g", "x"), ("s", "x")];
    let views = VIEWS.iter().map(|(name, columns, _)| (*name, columns[0]));
    let (mut all, mut alone) = (0, 0);
    for (name, column) in tables.into_iter().chain(views) {
        for place in places {
            for condition in conditions {
                let text = place.replace('@', &format!("{name} x"));
                let text = text
                    .replace('%', &format!("`{column}`"))
                    .replace('#', condition);
                all += 1;
                alone += usize::from(matches!(spot(&text, &sharding), Spot::Group(_)));
            }
        }
    }
    assert!(alone > 400 && alone < all, "{alone} of {all}");
}
