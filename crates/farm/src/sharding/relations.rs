//! Names of tables as numbers, and what stands between them and what is read or changed by them.
//!
//! Names are told apart by their last part alone, in lower case: two tables of one name are one.

use std::collections::{HashMap, HashSet};

/// The number of a table's name; `None` where servers may fold its letters in another way.
pub fn table_number(name: &[u8]) -> Option<u64> {
    if !name.is_ascii() {
        return None;
    }
    let mut number = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name {
        number = (number ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3);
    }
    Some(number)
}

/// What stands between the names of tables and what is read or changed by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relations {
    /// Names that are not, or not everywhere, tables with rows of their own: views and the like.
    pub indirect: HashSet<u64>,
    /// For each table those that its changes may change without a word in the binlog.
    pub cascades: HashMap<u64, Vec<u64>>,
}

impl Relations {
    /// The table and all that its changes may change.
    pub fn changed_with(&self, table: u64) -> HashSet<u64> {
        let mut all = HashSet::from([table]);
        let mut next = vec![table];
        while let Some(table) = next.pop() {
            let children = self.cascades.get(&table).into_iter().flatten();
            next.extend(children.filter(|child| all.insert(**child)));
        }
        all
    }
}
