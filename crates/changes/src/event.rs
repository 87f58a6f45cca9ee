//! What a decoder tells of a binlog.

use crate::context::Context;
use crate::gtid::Gtid;
use crate::rows::Rows;

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

/// Statements that touch no table that others see: those that sessions leave behind.
pub fn is_harmless(text: &[u8]) -> bool {
    let begins =
        |with: &[u8]| text.len() >= with.len() && text[..with.len()].eq_ignore_ascii_case(with);
    begins(b"DROP TEMPORARY TABLE")
        || begins(b"DROP /*!40005 TEMPORARY */ TABLE")
        || begins(b"CREATE TEMPORARY TABLE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_temporary_tables_are_nobody_elses() {
        assert!(is_harmless(
            b"DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `a`"
        ));
        assert!(!is_harmless(b"DROP TABLE a") && !is_harmless(b"TRUNCATE t"));
    }
}
