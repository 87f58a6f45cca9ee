//! What HEDDLE PROFILE and digests tell of a statement on several groups.

use std::collections::BTreeMap;

use testkit::{Client, Farm};

/// The rows of HEDDLE PROFILE: of each the group, shards, rows, part and rows changed.
fn profile(client: &mut Client) -> Vec<[Option<String>; 5]> {
    let rows = client.rows("HEDDLE PROFILE");
    let cells = |row: &Vec<Option<String>>| [2, 7, 8, 18, 19].map(|at| row[at].clone());
    rows.iter().map(cells).collect()
}

fn number(cell: &Option<String>) -> u64 {
    let cell = cell.as_deref().expect("a number");
    cell.parse().expect("a number")
}

#[test]
fn a_statement_on_several_groups_has_all_its_parts() {
    let Some(farm) = Farm::start(&["--groups", "3", "--replicas", "0"]) else {
        return;
    };
    let mut client = farm.client();
    client.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    client.rows("HEDDLE sharding add_shard shop 'g1,g2,g3' ENABLED");
    client.run("CREATE DATABASE shop");
    client.run("USE shop");
    client.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20)) \
         /*heddle shard_map=shop shard_key=id*/",
    );
    let values: Vec<String> = (0..60).map(|id| format!("({id}, 'n')")).collect();
    client.run(&format!("INSERT INTO orders VALUES {}", values.join(", ")));
    let written = profile(&mut client);
    assert_eq!(written.len(), 4, "{written:?}");
    assert_eq!((number(&written[0][1]), number(&written[0][4])), (3, 60));

    client.rows("SELECT id FROM orders /*route='/all'*/");
    let all = profile(&mut client);
    assert_eq!(all[0][0], None, "no one group has it");
    assert_eq!((number(&all[0][1]), number(&all[0][2])), (3, 60));
    let parts: BTreeMap<_, _> = all[1..]
        .iter()
        .map(|part| (part[0].clone().expect("a group"), number(&part[2])))
        .collect();
    assert_eq!(parts.keys().collect::<Vec<_>>(), ["g1", "g2", "g3"]);
    assert_eq!(parts.values().sum::<u64>(), 60);
    assert_eq!(number(&all[3][3]), 3, "parts have numbers");

    client.rows("SELECT id FROM orders WHERE id = 7");
    let one = profile(&mut client);
    assert_eq!((one.len(), number(&one[0][1])), (1, 1), "{one:?}");

    let rows = farm.json(&["digest", "list", "--limit", "0"]);
    let found = rows.iter().find(|row| row["tag"] == "route=/all");
    let counted = found.expect("it was counted");
    assert_eq!(
        (&counted["group"], &counted["calls"]),
        (&"*".into(), &1.into())
    );
    assert_eq!(counted["rows_sent"], 60);
}
