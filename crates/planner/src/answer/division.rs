//! How the rows of a table are divided among the groups of an answer.
//!
//! Invariants: rows of equal keys are for the same group, which is that of the shard of their key: rows of a sharded
//! table with that key lie there. A row is for one group at most.
//!
//! Must not know: how a table came to be divided, and what carries its rows.

use std::sync::Arc;

use farm::shard::KeyType;
use farm::sharding::Mapped;
use routing::shard::{Literal, Nowhere, locate, stored};

/// By the shards of which map, and by which column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// The place of the column in a row.
    pub column: usize,
    /// Its name; for people.
    pub name: Arc<str>,
    pub key: KeyType,
    /// What is right while this map is in force.
    pub mapped: Arc<Mapped>,
    /// Those that answer. The first one also gets the rows whose key is of no shard.
    pub groups: Vec<Arc<str>>,
}

/// Whom a row is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    /// The group at this place.
    To(usize),
    /// A group that does not answer: the row cannot matter.
    Nowhere,
    /// That is not known, or its shard is disabled.
    Unknown,
}

impl Division {
    /// Whom a row is for, by its key as the text protocol has it.
    pub fn goes(&self, key: Option<&[u8]>) -> Goes {
        let map = &self.mapped.map;
        // Equal to nothing: where it lies does not matter, as long as one group has it.
        let Some(key) = key else {
            return Goes::To(0);
        };
        let Some(key) = stored(Literal::Text(key), self.key) else {
            return Goes::Unknown;
        };
        match locate(map, &key) {
            Ok(shard) => {
                let own = &map.shard(shard).group;
                let place = self.groups.iter().position(|group| group == own);
                place.map_or(Goes::Nowhere, Goes::To)
            }
            // No sharded table has it, and others that are divided have it at the same group.
            Err(Nowhere::OutOfRange) => Goes::To(0),
            Err(Nowhere::Disabled { .. }) => Goes::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farm::samples;

    #[test]
    fn rows_go_where_their_keys_lie() {
        let mut map = samples::range_map(7, &[("g1", 0), ("g2", 100), ("g3", 200), ("g4", 300)]);
        map.shards[3].enabled = false;
        let division = Division {
            column: 0,
            name: "k".into(),
            key: KeyType::Integer,
            mapped: Arc::new(Mapped::new(map)),
            groups: vec!["g2".into(), "g1".into()],
        };
        let goes = |key: &str| division.goes(Some(key.as_bytes()));
        assert_eq!((goes("5"), goes("00099")), (Goes::To(1), Goes::To(1)));
        assert_eq!(goes("100"), Goes::To(0));
        // No group that answers can have an equal.
        assert_eq!(goes("200"), Goes::Nowhere);
        assert_eq!(goes("300"), Goes::Unknown);
        // Rows without an equal are for one group.
        assert_eq!(
            (division.goes(None), goes("-1")),
            (Goes::To(0), Goes::To(0))
        );
        assert_eq!((goes("1.5"), goes("x")), (Goes::Unknown, Goes::Unknown));
    }
}
