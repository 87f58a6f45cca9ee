//! The transactions of a log, and what they say of a lost write. Pure.

use std::collections::HashMap;

use engine::binlog::{self, Written, is_after};
use farm::{Fate, LostWrite, TableRows};

/// Why a log in which a write is not found does not say that it never happened.
const MUTE: &str = "the binary log has changes without their statements (MySQL keeps these with \
                    binlog_rows_query_log_events = ON, MariaDB with binlog_annotate_row_events = ON \
                    and, on replicas, replicate_annotate_row_events = ON)";

/// The transactions of a log, to be found by their write tags.
pub(super) struct Log {
    written: Vec<Written>,
    by_tag: HashMap<String, Vec<usize>>,
}

impl Log {
    pub(super) fn new(written: Vec<Written>) -> Log {
        let mut by_tag: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, one) in written.iter().enumerate() {
            if let Some(tag) = &one.tag {
                by_tag.entry(tag.clone()).or_default().push(at);
            }
        }
        Log { written, by_tag }
    }

    /// What became of a write, and the tables that it touched.
    pub(super) fn fate(&self, lost: &LostWrite) -> (Fate, &[binlog::Touched]) {
        if lost.tag.is_empty() {
            let why = "its statements carried no write tag".to_owned();
            return (Fate::Unknown(why), &[]);
        }
        let later = |one: &&Written| is_after(&one.gtid, &lost.after);
        let marked = self.by_tag.get(&lost.tag).into_iter().flatten();
        let Some(one) = marked.map(|at| &self.written[*at]).find(later) else {
            // Few are mute, and each of many lost writes looks at all.
            let mute = self.written.iter().any(|one| one.mute && later(&one));
            return match mute {
                true => (Fate::Unknown(MUTE.to_owned()), &[]),
                false => (Fate::Lost, &[]),
            };
        };
        let rows = one.tables.iter().map(|touched| TableRows {
            database: touched.database.clone(),
            table: touched.table.clone(),
            inserted: touched.inserted,
            updated: touched.updated,
            deleted: touched.deleted,
            insert_id: None,
        });
        let fate = Fate::Committed {
            gtid: one.gtid.clone(),
            rows: one.counted.then(|| rows.collect()),
        };
        (fate, &one.tables)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::lost;
    use super::*;

    fn written(gtid: &str, tag: Option<&str>) -> Written {
        Written {
            gtid: gtid.to_owned(),
            tables: Vec::new(),
            counted: true,
            tag: tag.map(str::to_owned),
            mute: false,
        }
    }

    fn gtid(fate: Fate) -> Option<String> {
        match fate {
            Fate::Committed { gtid, .. } => Some(gtid),
            _ => None,
        }
    }

    #[test]
    fn a_write_is_the_one_behind_what_its_connection_reported() {
        let log = Log::new(vec![
            written("0-1-5", Some("a")),
            written("0-1-6", Some("b")),
            written("0-1-7", Some("a")),
        ]);
        let fate = |tag: &str, after: &str| log.fate(&lost(tag, after)).0;
        assert_eq!(gtid(fate("a", "0-1-5")).as_deref(), Some("0-1-7"));
        assert_eq!(gtid(fate("b", "")).as_deref(), Some("0-1-6"));
        assert_eq!(fate("a", "0-1-7"), Fate::Lost);
        assert_eq!(fate("c", ""), Fate::Lost);
        assert!(matches!(fate("", ""), Fate::Unknown(_)));
    }

    fn mysql(gtids: &str) -> String {
        gtids.replace('$', "3e11fa47-71ca-11e1-9e33-c80aa9429562")
    }

    /// A connection that writes with one tag and then with another has reported both.
    #[test]
    fn an_earlier_write_of_another_tag_is_not_the_lost_one() {
        let log = Log::new(vec![
            written(&mysql("$:5"), Some("a")),
            written(&mysql("$:tag:1"), Some("a")),
        ]);
        let fate = |after: &str| log.fate(&lost("a", &mysql(after))).0;
        assert_eq!(fate("$:5:tag:1"), Fate::Lost);
        assert_eq!(gtid(fate("$:5")).as_deref(), Some(&*mysql("$:tag:1")));
    }

    #[test]
    fn a_log_that_tells_no_statements_proves_no_absence() {
        let mute = Written {
            mute: true,
            ..written(&mysql("$:8"), None)
        };
        let log = Log::new(vec![written(&mysql("$:7"), Some("a")), mute]);
        let fate = |tag: &str, after: &str| log.fate(&lost(tag, &mysql(after))).0;
        assert_eq!(gtid(fate("a", "$:1-6")).as_deref(), Some(&*mysql("$:7")));
        assert!(matches!(fate("a", "$:1-7"), Fate::Unknown(_)));
        assert_eq!(fate("a", "$:1-8"), Fate::Lost, "it comes before");
    }
}
