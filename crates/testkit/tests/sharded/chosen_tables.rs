//! Shards that a client chooses, by tables that are not made yet, for all servers of a group, and while they are
//! disabled; for each kind of map.

use testkit::Farm;

use crate::choices::{Case, NOT_SHARDED, WAYS, chosen, group, number};

/// ER_NO_SUCH_TABLE.
const NO_TABLE: u16 = 1146;

/// The error of a shard that is disabled.
const DISABLED: u16 = 1105;

/// The name of a table stands for its map from the moment at which the table was put there.
pub(super) fn are_chosen_before_they_are_made(farm: &Farm, case: &Case) {
    let later = case.later();
    for key in case.keys {
        let home = case.group_of(farm, key);
        for way in WAYS {
            let mut client = farm.client();
            let answer = chosen(&mut client, way, &later, key, "SELECT 1");
            assert!(answer.is_ok(), "{}, {way:?}, {key}: {answer:?}", case.kind);
            assert_eq!(group(&mut client), home, "{}, {way:?}, {key}", case.kind);
            let text = format!("SELECT COUNT(*) FROM {later}");
            let answer = chosen(&mut farm.client(), way, &later, key, &text);
            assert_eq!(number(answer), NO_TABLE, "{}, {way:?}, {key}", case.kind);
        }
    }
    // Whoever chooses a shard and then makes the table makes it everywhere, as its map says.
    let mut client = farm.client();
    let create = format!(
        "CREATE TABLE {later} (k {} NOT NULL PRIMARY KEY)",
        case.column
    );
    chosen(&mut client, WAYS[0], &later, case.keys[0], &create).expect("it is made");
    for member in farm.members() {
        assert_eq!(
            member
                .client()
                .value(&format!("SELECT COUNT(*) FROM {later}")),
            "0"
        );
    }
    let placed = farm.json(&["sharding", "lookup_table", &later]);
    assert_eq!(placed[0]["column_name"], "k");
    let key = case.keys[0];
    let text = format!("SELECT COUNT(*) FROM {later}");
    chosen(&mut client, WAYS[0], &later, key, &text).expect("it is there");
    assert_eq!(group(&mut client), case.group_of(farm, key));
    farm.client().run(&format!("DROP TABLE {later}"));
}

/// `/*ms=all*/` asks the servers of the shard that was chosen.
pub(super) fn all_servers_of_a_shard_are_asked(farm: &Farm, case: &Case) {
    let table = format!("{}.t", case.name());
    for key in case.keys {
        let home = case.group_of(farm, key);
        let text = format!(
            "/*ms=all*/ /*heddle shard_table={table} shard_key=\"{key}\"*/ SELECT @@port FROM {table} LIMIT 1"
        );
        let mut client = farm.client();
        let port = client.value(&text);
        let member = farm.primary(&home);
        assert_eq!(port, member.client().value("SELECT @@port"), "{key}");
        assert_eq!(group(&mut client), home);
    }
    let all = farm
        .client()
        .query(format!("/*ms=all*/ SELECT COUNT(*) FROM {table}"));
    assert_eq!(number(all), NOT_SHARDED, "the rows are on two groups");
}

/// A key of a shard that is disabled is refused in every way, and found again afterwards.
pub(super) fn disabled_shards_are_told(farm: &Farm, case: &Case) {
    let (name, key) = (case.name(), case.keys[0]);
    let home = case.group_of(farm, key);
    let shards = farm.json(&["sharding", "list_shards", &name]);
    let shard = shards
        .iter()
        .find(|shard| shard["group_id"] == home.as_str());
    let id = shard.expect("a shard there")["shard_id"].to_string();
    let (table, text) = (
        format!("{name}.t"),
        format!("SELECT COUNT(*) FROM {name}.t"),
    );
    farm.json(&["sharding", "disable_shard", &id]);
    for way in WAYS {
        let answer = chosen(&mut farm.client(), way, &table, key, &text);
        assert_eq!(number(answer), DISABLED, "{}, {way:?}", case.kind);
    }
    farm.json(&["sharding", "enable_shard", &id]);
    for way in WAYS {
        let answer = chosen(&mut farm.client(), way, &table, key, &text);
        assert!(answer.is_ok(), "{}, {way:?}: {answer:?}", case.kind);
    }
}
