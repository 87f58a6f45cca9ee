//! What a command names of shard maps: a map, a shard, a table, found in the declarations.
//!
//! Pure. Each refusal says where to look.

use std::fmt::Display;

use catalog::command::{Arguments, CommandError};
use catalog::record::{Declared, ShardRecord, TableRecord};

/// The map of that number or name.
pub(crate) fn find_map(declared: &Declared, given: &str) -> Result<u32, CommandError> {
    let by_number = given
        .parse()
        .ok()
        .filter(|id| declared.maps.contains_key(id));
    let mut maps = declared.maps.iter();
    let mut by_name = || maps.find(|(_, map)| map.name == given && !given.is_empty());
    by_number
        .or_else(|| by_name().map(|(id, _)| *id))
        .ok_or_else(|| no_map(given))
}

/// «There is no such map», with where to look.
pub(crate) fn no_map(given: impl Display) -> CommandError {
    CommandError::Refused(format!(
        "there is no shard map {given}; `sharding list_definitions` lists them, `sharding \
         create_definition` makes one"
    ))
}

/// The declared table of that name.
pub(crate) fn find_table<'a>(
    declared: &'a Declared,
    args: &Arguments,
) -> Result<&'a TableRecord, CommandError> {
    let name = table_name(args)?;
    declared.tables.get(&name).ok_or_else(|| {
        CommandError::Refused(format!(
            "table {}.{} is on no shard map; `sharding list_tables` lists those that are",
            name.0, name.1
        ))
    })
}

/// The table of that name, be it made or not.
pub(crate) fn find_named<'a>(
    declared: &'a Declared,
    args: &Arguments,
) -> Result<&'a TableRecord, CommandError> {
    let expected = declared.expected.get(&table_name(args)?);
    find_table(declared, args).or_else(|error| expected.ok_or(error))
}

/// Database and table of `table_name`; names between backticks may have points.
pub(crate) fn table_name(args: &Arguments) -> Result<(String, String), CommandError> {
    let given = args.text("table_name");
    let bad = || args.bad("table_name", given, "DATABASE.TABLE");
    let (database, rest) = part(given).ok_or_else(bad)?;
    let rest = rest.strip_prefix('.').ok_or_else(bad)?;
    let (table, rest) = part(rest).ok_or_else(bad)?;
    if !rest.is_empty() || database.is_empty() || table.is_empty() {
        return Err(bad());
    }
    Ok((database, table))
}

/// One name and what follows it.
fn part(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('`') else {
        let end = text.find('.').unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let (name, rest) = quoted.split_once('`')?;
    Some((name.to_owned(), rest))
}

/// The shard that a call names.
pub(crate) fn find_shard<'a>(
    declared: &'a Declared,
    args: &Arguments,
) -> Result<(u32, &'a ShardRecord), CommandError> {
    let given = args.text("shard_id");
    let id: Option<u32> = given.parse().ok();
    let found = id.and_then(|id| Some((id, declared.shards.get(&id)?)));
    found.ok_or_else(|| {
        CommandError::Refused(format!(
            "there is no shard {given}; `sharding list_shards` lists them"
        ))
    })
}

#[cfg(test)]
mod tests {
    use farm::shard::ShardKind;

    use super::*;
    use catalog::command::Call;
    use catalog::record::MapRecord;

    fn of_table(name: &str) -> Arguments {
        let call = Call::new("sharding", "remove_table", &[name]);
        Arguments::resolve(call.spec().expect("in the table"), &call).expect("an argument")
    }

    #[test]
    fn names_between_backticks_may_have_points() {
        let read = |text: &str| table_name(&of_table(text)).map_err(|error| error.to_string());
        let both = |database: &str, table: &str| Ok((database.to_owned(), table.to_owned()));
        assert_eq!(read("shop.orders"), both("shop", "orders"));
        assert_eq!(read("`a.b`.`c`"), both("a.b", "c"));
        assert_eq!(read("a.`b.c`"), both("a", "b.c"));
        for bad in ["orders", "shop.", ".orders", "a.b.c", "`a.b", "``.b"] {
            let error = read(bad).expect_err(bad);
            assert!(error.contains("DATABASE.TABLE"), "{error}");
        }
    }

    #[test]
    fn a_map_is_found_by_its_number_before_its_name() {
        let mut declared = Declared::default();
        for (id, name) in [(1, ""), (2, "by_user")] {
            let map = MapRecord {
                kind: ShardKind::Hash,
                global_group: "g".to_owned(),
                name: name.to_owned(),
            };
            declared.maps.insert(id, map);
        }
        assert_eq!(find_map(&declared, "1"), Ok(1));
        assert_eq!(find_map(&declared, "by_user"), Ok(2));
        for unknown in ["3", "", "by_users"] {
            let error = find_map(&declared, unknown).expect_err(unknown);
            assert!(error.to_string().contains("list_definitions"), "{error}");
        }
    }

    #[test]
    fn a_table_may_be_named_before_it_is_made() {
        let record = TableRecord {
            database: "shop".to_owned(),
            table: "later".to_owned(),
            map: 1,
            key: None,
        };
        let mut declared = Declared::default();
        let name = ("shop".to_owned(), "later".to_owned());
        declared.expected.insert(name, record.clone());
        let args = of_table("shop.later");
        assert_eq!(find_named(&declared, &args), Ok(&record));
        let error = find_table(&declared, &args).expect_err("not made yet");
        assert!(error.to_string().contains("list_tables"), "{error}");
    }
}
