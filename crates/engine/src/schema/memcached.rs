//! Containers as MySQL's InnoDB memcached plugin had them: the rows of `innodb_memcache.containers`, with
//! the options and the policies that stand beside them.

use farm::{Container, Policies, Policy};

use crate::error::Error;
use crate::link::{Link, text_at};

const OPERATION: &str = "read innodb_memcache.containers";

/// Separator and delimiter hold for all of them.
const ROWS: &str = "SELECT name, db_schema, db_table, key_columns, value_columns, flags, cas_column, \
     expire_time_column, (SELECT o.value FROM innodb_memcache.config_options o \
     WHERE o.name = 'separator' LIMIT 1), (SELECT o.value FROM innodb_memcache.config_options o \
     WHERE o.name = 'table_map_delimiter' LIMIT 1), (SELECT o.value FROM innodb_memcache.config_options o \
     WHERE o.name IN ('w_batch_size', 'daemon_memcached_w_batch_size') ORDER BY o.name DESC LIMIT 1) \
     FROM innodb_memcache.containers ORDER BY name";

/// Where in such a row the number of writes of one commit is.
const WRITE_BATCH_AT: usize = 10;

/// The plugin went by the first row, and so does this.
const POLICIES: &str = "SELECT get_policy, set_policy, delete_policy, flush_policy \
     FROM innodb_memcache.cache_policies ORDER BY policy_name LIMIT 1";

/// There is no such table, column or database, or it may not be read.
const NONE: [u16; 5] = [1044, 1049, 1054, 1142, 1146];

/// What a server has of the plugin.
#[derive(Debug, Default)]
pub struct Plugin {
    pub containers: Vec<Container>,
    /// As written, where it is no number: so many writes were to share one commit.
    pub unread_batch: Option<String>,
}

/// The containers of a server that has, or had, the plugin; none of another. A row with a NULL that it
/// must not have is passed over, as by the plugin.
pub async fn plugin(link: &mut Link, timeout_ms: u64) -> Result<Plugin, Error> {
    let rows = match link.rows(OPERATION, ROWS, timeout_ms).await {
        Err(error) if error.number().is_some_and(|number| NONE.contains(&number)) => {
            return Ok(Plugin::default());
        }
        rows => rows?,
    };
    let mut containers: Vec<Container> = rows
        .iter()
        .filter_map(|row| container(std::array::from_fn(|at| text_at(row, at))))
        .collect();
    if containers.is_empty() {
        return Ok(Plugin::default());
    }
    let size = rows.first().and_then(|row| text_at(row, WRITE_BATCH_AT));
    let (w_batch_size, unread_batch) = match size.map(|text| (batch_size(&text), text)) {
        None => (1, None),
        Some((Some(size), _)) => (size, None),
        Some((None, text)) => (1, Some(text)),
    };
    for container in &mut containers {
        container.w_batch_size = w_batch_size;
    }
    let policies = match link.rows(OPERATION, POLICIES, timeout_ms).await {
        Err(error) if error.number().is_some_and(|number| NONE.contains(&number)) => Vec::new(),
        rows => rows?,
    };
    if let Some(row) = policies.first() {
        let word = |at| policy(text_at(row, at).as_deref());
        for container in &mut containers {
            container.policies = Policies {
                get: word(0),
                set: word(1),
                delete: word(2),
            };
            container.flush = word(3) == Policy::Table;
        }
    }
    Ok(Plugin {
        containers,
        unread_batch,
    })
}

/// How many writes are to share one commit; `None` for what is no number.
fn batch_size(text: &str) -> Option<u32> {
    match text.trim() {
        "" => Some(1),
        digits => digits.parse().ok().map(|size: u32| size.max(1)),
    }
}

/// What a policy's word means; one that nobody knows allows nothing.
fn policy(word: Option<&str>) -> Policy {
    match word {
        Some("innodb_only" | "caching") => Policy::Table,
        Some("cache_only") => Policy::Memory,
        _ => Policy::Disabled,
    }
}

fn container(cells: [Option<String>; 10]) -> Option<Container> {
    let [
        name,
        database,
        table,
        key,
        values,
        flags,
        cas,
        expiry,
        separator,
        delimiter,
    ] = cells;
    let (values, key) = (values?, key?);
    let divides = |c: char| c.is_whitespace() || matches!(c, ';' | ',' | '|');
    let values: Vec<&str> = values.split(divides).filter(|v| !v.is_empty()).collect();
    if values.is_empty() {
        return None;
    }
    let mut container = Container::new(&name?, &database?, &table?, key.trim(), &values);
    container.flags = Some(flags?);
    container.cas = Some(cas?);
    container.expiry = Some(expiry?);
    if let Some(separator) = separator.filter(|text| !text.is_empty()) {
        container.separator = separator;
    }
    container.delimiter = delimiter.filter(|text| !text.is_empty());
    Some(container)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: [&str; 10]) -> [Option<String>; 10] {
        cells.map(|cell| (cell != "NULL").then(|| cell.to_owned()))
    }

    #[test]
    fn rows_are_read_as_the_plugin_did() {
        let shipped = [
            "aaa",
            "test",
            "demo_test",
            "c1",
            "c2",
            "c3",
            "c4",
            "c5",
            "|",
            ":",
        ];
        let read = container(row(shipped)).expect("it is whole");
        assert_eq!((&*read.name, &*read.key), ("aaa", "c1"));
        assert_eq!(read.flags.as_deref(), Some("c3"));
        assert_eq!(read.delimiter.as_deref(), Some(":"));
        let mut several = shipped;
        several[4] = "c2,c6; c7|c8";
        several[8] = "NULL";
        let read = container(row(several)).expect("it is whole");
        assert_eq!(
            (read.values.join(" "), &*read.separator),
            ("c2 c6 c7 c8".to_owned(), "|")
        );
        for missing in 0..8 {
            let mut cells = shipped;
            cells[missing] = "NULL";
            assert_eq!(container(row(cells)), None, "{missing}");
        }
    }

    #[test]
    fn sizes_of_batches_are_numbers() {
        let sizes = ["", " 32 ", "0", "1", "many"].map(batch_size);
        assert_eq!(sizes, [Some(1), Some(32), Some(1), Some(1), None]);
    }

    #[test]
    fn policies_are_the_plugins_words() {
        assert_eq!(policy(Some("innodb_only")), Policy::Table);
        assert_eq!(policy(Some("caching")), Policy::Table);
        assert_eq!(policy(Some("cache_only")), Policy::Memory);
        for word in [Some("disabled"), Some("sometimes"), None] {
            assert_eq!(policy(word), Policy::Disabled, "{word:?}");
        }
    }
}
