//! What a decoder tells of a binlog.

use uuid::Uuid;

use crate::code;
use crate::context::Context;
use crate::gtid::Gtid;
use crate::rows::Rows;
use crate::table::Bytes;

/// The name of a branch of a distributed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Xid {
    pub format: i32,
    pub transaction: Vec<u8>,
    pub branch: Vec<u8>,
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Commit,
    /// It changed tables that know no rollback, or nothing.
    RolledBack,
    /// What it did counts only when the branch is committed, by another transaction.
    Prepared(Xid),
    /// What the branch did when it was prepared.
    BranchCommitted(Xid),
    BranchRolledBack(Xid),
}

/// What the log says of a transaction besides what it did. What it does not say is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// When it began, by its server's clock; seconds since 1970.
    pub time_s: u32,
    /// When it was committed first, by that server's clock; microseconds since 1970.
    pub committed_us: Option<u64>,
    /// The number of the client's connection on that server.
    pub connection: Option<u32>,
    /// The number of that server.
    pub server_id: u32,
}

impl Logged {
    /// When it was logged, as finely as the log says it; microseconds since 1970.
    pub(crate) fn micros(&self) -> u64 {
        self.committed_us
            .unwrap_or(u64::from(self.time_s.max(1)) * 1_000_000)
    }
}

impl From<u32> for Logged {
    /// When it began is all that is known.
    fn from(time_s: u32) -> Logged {
        Logged {
            time_s,
            ..Logged::default()
        }
    }
}

/// A statement in the binlog: DDL, or a change whose rows are not told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statement {
    /// The session's current one.
    pub database: String,
    pub text: Vec<u8>,
    pub context: Box<Context>,
    /// Of a LOAD DATA.
    pub load: Option<Load>,
}

/// Where a LOAD DATA has its rows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The number of the file whose blocks stand in front of it.
    pub file: u32,
    /// The place in the text at which another name for the file begins, and where the text goes on behind it.
    pub name: (u32, u32),
    /// 1: IGNORE, 2: REPLACE.
    pub duplicates: u8,
}

/// A piece of a file that a LOAD DATA read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub file: u32,
    pub data: Vec<u8>,
}

/// What comes from a binlog. Every transaction is a `Begin`, what it did, and an `End`.
#[derive(Clone, Debug)]
pub enum Event {
    /// What was begun before and has no end is void: the reader began it anew.
    Begin(Gtid),
    Rows(Rows),
    Statement(Statement),
    Block(Block),
    /// The client's own text of the rows that follow. MySQL tells it where `binlog_rows_query_log_events` is
    /// on, MariaDB those who ask for it.
    Source(Vec<u8>),
    End(End),
    /// The server is there and has no more.
    Alive,
}

/// What stands between transactions and is about the log itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The log goes on in this file.
    Rotate(String),
    /// The server stopped.
    Stop,
    /// The transactions of the files before, in the engine's notation; `None` in a form that is not read here.
    Before(Option<String>),
}

impl Note {
    /// What an event says of the log; `None` of most.
    pub(crate) fn of(kind: u8, data: &[u8]) -> Option<Note> {
        match kind {
            code::ROTATE => Some(Note::Rotate(crate::decoder::file_of(data))),
            code::STOP => Some(Note::Stop),
            code::GTID_LIST => Some(Note::Before(listed(data))),
            code::PREVIOUS_GTIDS => Some(Note::Before(previous(data))),
            _ => None,
        }
    }
}

/// Of MariaDB: for each domain the last transaction of each server.
fn listed(data: &[u8]) -> Option<String> {
    /// The bits above are flags.
    const COUNT: u64 = 0x0FFF_FFFF;
    let mut rest = Bytes(data);
    let count = rest.number(4)? & COUNT;
    let mut all = Vec::new();
    for _ in 0..count {
        let (domain, server, sequence) = (rest.number(4)?, rest.number(4)?, rest.number(8)?);
        all.push(format!("{domain}-{server}-{sequence}"));
    }
    Some(all.join(","))
}

/// Of MySQL: for each source its intervals of numbers. The end of an interval is the number behind its last one. With tags the form is
/// another one, whose count is above what there can be.
fn previous(data: &[u8]) -> Option<String> {
    let mut rest = Bytes(data);
    let mut all = Vec::new();
    for _ in 0..rest.number(8)? {
        let mut one = Uuid::from_slice(rest.take(16)?).ok()?.to_string();
        for _ in 0..rest.number(8)? {
            let (first, behind) = (rest.number(8)?, rest.number(8)?);
            let last = behind.checked_sub(1)?;
            one.push_str(&match first == last {
                true => format!(":{first}"),
                false => format!(":{first}-{last}"),
            });
        }
        all.push(one);
    }
    Some(all.join(","))
}

/// Statements that touch no table that others see: those that sessions leave behind.
pub fn is_harmless(text: &[u8]) -> bool {
    let begins =
        |with: &[u8]| text.len() >= with.len() && text[..with.len()].eq_ignore_ascii_case(with);
    begins(b"DROP TEMPORARY TABLE")
        || begins(b"DROP /*!40005 TEMPORARY */ TABLE")
        || begins(b"CREATE TEMPORARY TABLE")
}

/// Words with which statements begin that change rows; every other statement in a binlog defines something.
/// A SELECT is there for a function that it calls.
const CHANGING: [&str; 9] = [
    "insert", "update", "delete", "replace", "load", "call", "select", "with", "do",
];

/// True for a statement in a binlog that is DDL, or changes accounts.
pub fn defines(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_lowercase();
    let mut rest = text.trim_start();
    // Not a comment that is part of the statement.
    while rest.starts_with("/*") && !rest.starts_with("/*!") && !rest.starts_with("/*m!") {
        rest = rest
            .split_once("*/")
            .map_or("", |(_, rest)| rest.trim_start());
    }
    let word = rest.split(|c: char| !c.is_ascii_alphabetic()).next();
    !CHANGING.contains(&word.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_what_came_before() {
        let mut list = vec![2, 0, 0, 0x10];
        for (domain, server, sequence) in [(0_u32, 1_u32, 7_u64), (3, 2, 1)] {
            list.extend(domain.to_le_bytes());
            list.extend(server.to_le_bytes());
            list.extend(sequence.to_le_bytes());
        }
        let before = |text: &str| Some(Note::Before(Some(text.to_owned())));
        assert_eq!(Note::of(code::GTID_LIST, &list), before("0-1-7,3-2-1"));
        assert_eq!(
            Note::of(code::GTID_LIST, &list[..9]),
            Some(Note::Before(None))
        );
        let numbers =
            |all: &[u64]| -> Vec<u8> { all.iter().flat_map(|it| it.to_le_bytes()).collect() };
        let previous = [numbers(&[1]), vec![0x11; 16], numbers(&[2, 1, 6, 8, 9])].concat();
        let uuid = "11111111-1111-1111-1111-111111111111";
        let kind = code::PREVIOUS_GTIDS;
        assert_eq!(Note::of(kind, &previous), before(&format!("{uuid}:1-5:8")));
        assert_eq!(Note::of(kind, &numbers(&[0])), before(""));
        assert_eq!(Note::of(kind, &previous[..30]), Some(Note::Before(None)));
        assert_eq!(Note::of(code::XID, &list), None);
    }

    #[test]
    fn only_temporary_tables_are_nobody_elses() {
        assert!(is_harmless(
            b"DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `a`"
        ));
        assert!(!is_harmless(b"DROP TABLE a") && !is_harmless(b"TRUNCATE t"));
    }

    #[test]
    fn statements_are_definitions_or_changes_without_rows() {
        assert!(defines(b"CREATE TABLE t (a INT)") && defines(b"/* x */ alter table t"));
        assert!(defines(b"/*!40000 ALTER TABLE t */") && defines(b"GRANT x TO y"));
        assert!(!defines(b"/*heddle:1-2*/ INSERT INTO t VALUES (1)"));
        assert!(!defines(b"LOAD DATA") && !defines(b"update t set a=1"));
        assert!(!defines(b"WITH x AS (SELECT 1) DELETE FROM t") && !defines(b"SELECT d.f()"));
    }
}
