//! Statements whose rows were not logged: which of them may be run at the target, and why others may not.
//!
//! Invariant: a statement runs where it finds what it found, or not at all; what a text does not show (triggers,
//! functions, other rows of the target) an operator has to vouch for, by `--statements`.

use changes::apply::{Run, Transaction, definition, names, objection};

use super::super::Ended;
use super::super::workers::of_server;
use super::{OWN, Session};

impl Session<'_> {
    /// The statement, if it is to be run; `None` for one that is about nothing that is wanted.
    pub(super) async fn statement(
        &mut self,
        of: &Transaction,
        run: Box<Run>,
    ) -> Result<Option<Box<Run>>, Ended> {
        let (_, is_wanted) = definition(&run.sql, &run.database, &self.flags.database);
        let gtid = of.gtid.clone().unwrap_or_default();
        if OWN.contains(&&*run.database) || self.flags.pass.contains(&gtid) {
            return Ok(None);
        }
        if !is_wanted {
            self.report.left_out(&of.group, &gtid, &run.sql);
            return Ok(None);
        }
        if let Some(why) = self.conditions() {
            return Err(refused(of, &run.sql, why));
        }
        if let Some(why) = objection(&run) {
            return Err(refused(of, &run.sql, &why));
        }
        if self.without_rollback.is_none() {
            let asked = self.control.without_rollback().await;
            self.without_rollback = Some(asked.map_err(of_server)?);
        }
        let names = names(&run.sql);
        let mut tables = self.without_rollback.iter().flatten();
        if let Some(table) = tables.find(|it| names.contains(it)) {
            let why = format!("the target's table {table} knows no rollback");
            return Err(refused(of, &run.sql, &why));
        }
        Ok(Some(run))
    }

    /// Why no statement may be run.
    fn conditions(&self) -> Option<&'static str> {
        let is_read = self.progress.complete.len() >= self.groups || !self.flags.snapshot;
        if !self.flags.statements {
            return Some(
                "its rows were not logged, and what it depends on may be otherwise at the target; where that has the \
                 same tables, triggers and functions, apply with --statements",
            );
        }
        if self.groups > 1 {
            return Some("the target's tables have the rows of other groups, too");
        }
        if !self.flags.table.is_empty() {
            return Some("it may read and change tables besides those of --table");
        }
        (!is_read).then_some("the rows that were there are not all read yet")
    }
}

/// Says which statement is not run, why, and what to do.
pub(super) fn refused(of: &Transaction, sql: &str, why: &str) -> Ended {
    let gtid = of.gtid.as_deref().unwrap_or_default();
    Ended::Fatal(format!(
        "group {}, {gtid}: {sql} is not run at the target: {why}. Set binlog_format=ROW on every server of the group; \
         carry this one out there yourself, and apply on with --pass {gtid}",
        of.group
    ))
}

/// True for a statement that makes a temporary table.
pub(super) fn is_temporary(sql: &str) -> bool {
    let names = names(sql);
    let table = names.iter().position(|word| word == "TABLE").unwrap_or(0);
    let is = |word: &str, names: &[String]| names.iter().any(|it| it == word);
    is("CREATE", &names[..table.min(1)]) && is("TEMPORARY", &names[..table])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_tables_are_known() {
        assert!(is_temporary("CREATE TEMPORARY TABLE t (a INT)"));
        assert!(is_temporary("create or replace temporary table t (a INT)"));
        assert!(!is_temporary("CREATE TABLE t (temporary INT)"));
        assert!(!is_temporary("DROP TEMPORARY TABLE t"));
    }
}
