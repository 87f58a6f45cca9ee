//! FOUND_ROWS(), ROW_COUNT(), SHOW WARNINGS and their kin, when the connection of the statement
//! before is no longer the session's.
//!
//! What a reply said of itself is kept here; the rest the connection was asked when it left
//! ([`crate::connections::parked`]). Numbers are put into the text of the question. Only GET DIAGNOSTICS cannot be
//! answered from memory where there was something to report.

pub mod answers;

use backend::{Residue, Warnings};
use mysql_wire::relay::Outcome;
use mysql_wire::status::Status;
use sqltext::{Ask, Class, Dialect, Facts, Verb};

use crate::execution::exec::Shape;

/// What is known of the session's last statement.
#[derive(Debug)]
pub struct Diagnostics {
    row_count: i64,
    /// `None`: only the connection knows.
    found_rows: Option<u64>,
    /// There were warnings or an error.
    pub any: bool,
    /// As the reply counted them; the server keeps `max_error_count` of them.
    warnings: u16,
    /// The rows of SHOW WARNINGS, once they have been asked for.
    pub rows: Option<Box<Warnings>>,
}

impl Default for Diagnostics {
    fn default() -> Diagnostics {
        Diagnostics {
            row_count: 0,
            found_rows: Some(0),
            any: false,
            warnings: 0,
            rows: None,
        }
    }
}

impl Diagnostics {
    /// Takes note of a reply.
    pub fn note(&mut self, shape: &Shape, outcome: &Outcome, dialect: Dialect) {
        let failed = outcome.error.is_some();
        if outcome.prepared.is_some() && !failed {
            // To prepare a statement is not to run it, but what it warns of is news.
            if outcome.warnings > 0 || dialect == Dialect::MySql {
                self.any = outcome.warnings > 0;
                self.warnings = outcome.warnings;
                self.rows = None;
            }
            return;
        }
        if failed || !only_asks(shape, dialect) {
            self.any = failed || outcome.warnings > 0;
            self.warnings = outcome.warnings;
            self.rows = None;
        }
        let query = matches!(shape.verb, Verb::Select | Verb::Values | Verb::Table);
        self.row_count = match failed || outcome.has_rows {
            true => -1,
            false => i64::try_from(outcome.affected_rows).unwrap_or(i64::MAX),
        };
        if !failed {
            self.note_found(shape, outcome, query);
        }
    }

    /// Takes note of the reply to a statement that may have used no table: on MariaDB such a one leaves
    /// the warnings before it, unless it has some itself.
    pub(crate) fn note_without_tables(
        &mut self,
        shape: &Shape,
        outcome: &Outcome,
        dialect: Dialect,
    ) {
        let leaves =
            dialect == Dialect::MariaDb && outcome.error.is_none() && outcome.warnings == 0;
        let before = leaves.then(|| (self.any, self.warnings, self.rows.take()));
        self.note(shape, outcome, dialect);
        if let Some((any, warnings, rows)) = before {
            (self.any, self.warnings, self.rows) = (any, warnings, rows);
        }
    }

    fn note_found(&mut self, shape: &Shape, outcome: &Outcome, query: bool) {
        let several = Facts::MULTIPLE | Facts::COMPOUND | Facts::FOUND_ROWS_SET;
        let cursor = outcome.status.is_some_and(|status| status.contains(Status::CURSOR_EXISTS));
        let asks = matches!(shape.verb, Verb::Show) && shape.facts.contains(Facts::WARNINGS);
        if shape.facts.intersects(several) || shape.class == Class::Call || cursor {
            self.found_rows = None;
        } else if query && !outcome.has_rows {
            // SELECT … INTO.
            self.found_rows = Some(outcome.affected_rows);
        } else if query || (matches!(shape.verb, Verb::Show) && !asks) {
            self.found_rows = Some(outcome.rows);
        } else if !keeps_found_rows(shape) {
            self.found_rows = None;
        }
    }

    /// Takes up what the connection said of it.
    pub fn learn(&mut self, residue: &mut Residue) {
        if let Some(rows) = residue.warnings.take() {
            self.rows = Some(Box::new(rows));
        }
        self.found_rows = self.found_rows.or(residue.found_rows);
    }

    /// The warnings are known here.
    fn told(&self) -> bool {
        self.any && self.rows.is_some()
    }

    /// The connection has warnings that nobody else knows.
    pub fn unasked(&self) -> bool {
        self.any && self.rows.is_none()
    }

    /// The connection has a value of FOUND_ROWS() that nobody else knows.
    pub fn counted(&self, shape: &Shape) -> bool {
        self.found_rows.is_none() && shape.facts.contains(Facts::FOUND_ROWS_SET)
    }

    /// The expression for a question, of the type that the servers' own answer has.
    pub fn value(&self, ask: Ask) -> Option<String> {
        let count = |errors: bool| {
            let rows = self.rows.as_deref().filter(|_| self.any);
            if self.any && rows.is_none() {
                return None;
            }
            let rows = rows.map_or(&[][..], |all| &all.rows).iter();
            let kept = rows.filter(|row| !errors || row.level == b"Error").count();
            let count = if errors {
                kept
            } else {
                kept.max(self.warnings.into())
            };
            Some(format!("NULLIF({count}|0,-1)"))
        };
        match ask {
            Ask::FoundRows => Some(format!("CAST(({}|0) AS SIGNED)", self.found_rows?)),
            Ask::RowCount => Some(format!("CAST((({})|0) AS SIGNED)", self.row_count)),
            Ask::WarningCount => count(false),
            Ask::ErrorCount => count(true),
            Ask::ConnectionId | Ask::PseudoThreadId | Ask::Socket => None,
        }
    }
}

/// To ask about warnings does not end them, but in MySQL a SELECT does.
pub fn only_asks(shape: &Shape, dialect: Dialect) -> bool {
    let ends = matches!(shape.verb, Verb::Select) && dialect == Dialect::MySql;
    shape.facts.contains(Facts::WARNINGS) && !ends
}

/// Statements that leave FOUND_ROWS() as it was, on both engines.
fn keeps_found_rows(shape: &Shape) -> bool {
    matches!(shape.class, Class::Set | Class::Use | Class::Transaction)
        || (shape.class == Class::Show && matches!(shape.verb, Verb::Other | Verb::Show))
}
