//! What stands between the names of tables and what is read or changed by them: views, foreign keys.

use std::collections::HashMap;

use farm::relations::{Relations, table_number};

use crate::error::Error;
use crate::link::{Link, text_at};

const OPERATION: &str = "look for views and foreign keys";

/// Names that are not, or not everywhere, tables that keep their rows themselves. An engine that is not
/// known may keep them in other tables, as MERGE does, or elsewhere.
const INDIRECT: &str = "SELECT TABLE_NAME FROM information_schema.TABLES \
     WHERE TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema', 'mysql', 'sys') \
     AND (ENGINE IS NULL OR TABLE_TYPE NOT IN ('BASE TABLE', 'SYSTEM VERSIONED') \
     OR ENGINE NOT IN ('InnoDB', 'MyISAM', 'Aria', 'MEMORY', 'ROCKSDB', 'ARCHIVE', 'CSV'))";

/// Rows of the first table may change with those of the second, and no binlog tells it.
const CASCADES: &str = "SELECT TABLE_NAME, REFERENCED_TABLE_NAME \
     FROM information_schema.REFERENTIAL_CONSTRAINTS \
     WHERE UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION') \
     OR DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION')";

/// The relations of a server's tables, as they are now. A name that has no number is in no read of
/// which anybody knows the tables.
///
/// # Errors
/// The server cannot be asked.
pub async fn relations(link: &mut Link, timeout_ms: u64) -> Result<Relations, Error> {
    let mut relations = Relations::default();
    for row in link.rows(OPERATION, INDIRECT, timeout_ms).await? {
        let name = text_at(&row, 0).unwrap_or_default();
        relations.indirect.extend(table_number(name.as_bytes()));
    }
    let mut cascades: HashMap<u64, Vec<u64>> = HashMap::new();
    for row in link.rows(OPERATION, CASCADES, timeout_ms).await? {
        let number = |at| table_number(text_at(&row, at).unwrap_or_default().as_bytes());
        // The changes of a table without a number count for all.
        if let (Some(child), Some(parent)) = (number(0), number(1)) {
            cascades.entry(parent).or_default().push(child);
        }
    }
    relations.cascades = cascades;
    Ok(relations)
}
