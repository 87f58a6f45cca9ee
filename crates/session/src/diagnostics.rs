//! FOUND_ROWS(), ROW_COUNT(), SHOW WARNINGS and their kin, when the connection of the statement
//! before is no longer the session's.
//!
//! What a reply said of itself is kept here; the rest the connection was asked when it left
//! ([`crate::aside`]). Numbers are put into the text of the question. Only GET DIAGNOSTICS cannot be
//! answered from memory where there was something to report.

use backend::{Connection, Lease, Residue, Warning};
use farm::error;
use mysql_wire::command::Command;
use mysql_wire::relay::Outcome;
use mysql_wire::result::ColumnKind;
use mysql_wire::status::Status;
use sqltext::{Ask, Class, Dialect, Facts, ShowDiagnostics, Verb};

use crate::end::End;
use crate::exec::{Job, Shape};
use crate::session::Session;

/// Leaves no warnings on either engine: it has a table, though an empty one.
const FORGET_WARNINGS: &[u8] = b"SELECT 1 FROM (SELECT 1) one LIMIT 0";

/// What is known of the session's last statement.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    row_count: i64,
    /// `None`: only the connection knows.
    found_rows: Option<u64>,
    /// There were warnings or an error.
    any: bool,
    /// The rows of SHOW WARNINGS, once they have been asked for.
    rows: Option<Box<[Warning]>>,
}

impl Default for Diagnostics {
    fn default() -> Diagnostics {
        Diagnostics {
            row_count: 0,
            found_rows: Some(0),
            any: false,
            rows: None,
        }
    }
}

impl Diagnostics {
    /// Takes note of a reply.
    pub fn note(&mut self, shape: &Shape, outcome: &Outcome, dialect: Dialect) {
        let failed = outcome.error.is_some();
        if failed || !only_asks(shape, dialect) {
            self.any = failed || outcome.warnings > 0;
            self.rows = None;
        }
        let query = matches!(shape.verb, Verb::Select | Verb::Values | Verb::Table);
        self.row_count = match failed || outcome.has_rows {
            true => -1,
            false => i64::try_from(outcome.affected_rows).unwrap_or(i64::MAX),
        };
        if outcome.prepared.is_none() && !failed {
            self.note_found(shape, outcome, query);
        }
    }

    fn note_found(&mut self, shape: &Shape, outcome: &Outcome, query: bool) {
        let several = Facts::MULTIPLE | Facts::COMPOUND | Facts::FOUND_ROWS_SET;
        let cursor = outcome
            .status
            .is_some_and(|status| status.contains(Status::CURSOR_EXISTS));
        let asks = shape.verb == Verb::Show && shape.facts.contains(Facts::WARNINGS);
        if shape.facts.intersects(several) || shape.class == Class::Call || cursor {
            self.found_rows = None;
        } else if query && !outcome.has_rows {
            // SELECT … INTO.
            self.found_rows = Some(outcome.affected_rows);
        } else if query || (shape.verb == Verb::Show && !asks) {
            self.found_rows = Some(outcome.rows);
        } else if !keeps_found_rows(shape) {
            self.found_rows = None;
        }
    }

    /// Takes up what the connection said of it.
    pub fn learn(&mut self, residue: &mut Residue) {
        if let Some(rows) = residue.warnings.take() {
            self.rows = Some(rows.into());
        }
        self.found_rows = self.found_rows.or(residue.found_rows);
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
    fn value(&self, ask: Ask) -> Option<String> {
        let count = |errors: bool| {
            let rows = self.rows.as_deref().filter(|_| self.any);
            if self.any && rows.is_none() {
                return None;
            }
            let rows = rows.unwrap_or_default().iter();
            let count = rows.filter(|row| !errors || row.level == b"Error").count();
            Some(format!("NULLIF({count}|0,-1)"))
        };
        match ask {
            Ask::FoundRows => Some(format!("CAST(({}|0) AS SIGNED)", self.found_rows?)),
            Ask::RowCount => Some(format!("CAST((({})|0) AS SIGNED)", self.row_count)),
            Ask::WarningCount => count(false),
            Ask::ErrorCount => count(true),
            Ask::ConnectionId | Ask::PseudoThreadId => None,
        }
    }
}

/// To ask about warnings does not end them, but in MySQL a SELECT does.
fn only_asks(shape: &Shape, dialect: Dialect) -> bool {
    let ends = shape.verb == Verb::Select && dialect == Dialect::MySql;
    shape.facts.contains(Facts::WARNINGS) && !ends
}

/// Statements that leave FOUND_ROWS() as it was, on both engines.
fn keeps_found_rows(shape: &Shape) -> bool {
    matches!(shape.class, Class::Set | Class::Use | Class::Transaction)
        || (shape.class == Class::Show && matches!(shape.verb, Verb::Other | Verb::Show))
}

impl Session {
    /// True when the connection cannot answer a question about the session's last statement. Even
    /// the right one cannot when that left no warnings: MariaDB keeps older ones, maybe another
    /// session's, over statements without tables.
    pub(crate) fn must_recall(&self, connection: &Connection, shape: &Shape) -> bool {
        let nothing = shape.facts.contains(Facts::WARNINGS)
            && shape.verb != Verb::GetDiagnostics
            && !self.diagnostics.any;
        nothing || !self.still_knows(connection)
    }

    /// Makes a connection say what the last statement left when that was nothing. False when
    /// there was something, or when other values are asked for too.
    pub(crate) async fn leave_nothing(&self, lease: &mut Lease, shape: &Shape) -> bool {
        let numbers = Facts::FOUND_ROWS | Facts::ROW_COUNT;
        !self.handle.killed.get()
            && shape.facts.contains(Facts::WARNINGS)
            && !self.diagnostics.any
            && !shape.facts.intersects(numbers)
            && lease
                .connection_mut()
                .run(&[(Command::Query, FORGET_WARNINGS)])
                .await
                .is_ok()
    }

    /// Runs a statement that asks for diagnostics whose connection is gone.
    pub(crate) async fn recall(&mut self, mut shape: Shape, job: Job) -> Result<(), End> {
        let text = self.text(job);
        let rows = self.diagnostics.rows.as_deref();
        if let (Job::Frame(_), Some(show), Some(rows)) =
            (job, sqltext::show_diagnostics(text, &self.mode), rows)
        {
            let rows = chosen(rows, &show);
            return self.say_diagnostics(&show, rows).await;
        }
        let mut all = true;
        let value = |ask| {
            let value = self.diagnostics.value(ask);
            all &= value.is_some() || matches!(ask, Ask::ConnectionId | Ask::PseudoThreadId);
            value
        };
        let text = sqltext::replace(text, &self.mode, value);
        let before = match only_asks(&shape, self.mode.dialect) {
            true => (self.diagnostics.any, self.diagnostics.rows.take()),
            false => (false, None),
        };
        shape.facts -= Facts::FOUND_ROWS | Facts::ROW_COUNT | Facts::WARNINGS;
        let done = self.run_recalled(shape, job, text.filter(|_| all)).await;
        if before.0 && !self.diagnostics.any {
            (self.diagnostics.any, self.diagnostics.rows) = before;
        }
        done
    }

    /// Runs a statement with another text.
    async fn run_recalled(
        &mut self,
        shape: Shape,
        job: Job,
        text: Option<Vec<u8>>,
    ) -> Result<(), End> {
        match (text, job) {
            (Some(text), Job::Frame(_)) if !self.client.is_split() => {
                self.client.replace_text(&text);
                Box::pin(self.run_command(shape, job)).await
            }
            (Some(text), Job::Execute(id)) => {
                let own = self.exchange_text(id, text.into());
                let done = Box::pin(self.run_command(shape, job)).await;
                if let Some(own) = own {
                    self.exchange_text(id, own);
                }
                done
            }
            _ => {
                let details = ["the diagnostics"];
                self.client.error(&error::DIAGNOSTICS_GONE, &details).await
            }
        }
    }

    async fn say_diagnostics(
        &mut self,
        show: &ShowDiagnostics,
        rows: Vec<Warning>,
    ) -> Result<(), End> {
        let status = self.status_now();
        if show.count {
            let name = match show.errors {
                true => "@@session.error_count",
                false => "@@session.warning_count",
            };
            return self.client.number(name, rows.len() as u64, status).await;
        }
        let columns = [
            ("Level", ColumnKind::VarString),
            ("Code", ColumnKind::Long),
            ("Message", ColumnKind::VarString),
        ];
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| vec![Some(row.level), Some(row.code), Some(row.message)])
            .collect();
        self.client.typed_rows(&columns, &rows, status).await
    }
}

/// The rows that a SHOW wants.
fn chosen(rows: &[Warning], show: &ShowDiagnostics) -> Vec<Warning> {
    let wanted = rows
        .iter()
        .filter(|row| !show.errors || row.level == b"Error");
    let (offset, count) = match show.count {
        true => (0, usize::MAX),
        false => (
            usize::try_from(show.offset).unwrap_or(usize::MAX),
            usize::try_from(show.rows).unwrap_or(usize::MAX),
        ),
    };
    wanted.skip(offset).take(count).cloned().collect()
}
