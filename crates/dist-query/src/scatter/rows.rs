//! Rows of several servers become the client's result: appended as they come, or merged.

use execute::client::end::End;
use execute::client::sink::ReplySink;
use execute::execution::statement_run::StatementRun;
use execute::session::{self, Session};
use execute::transaction::state::Transaction;
use execute::variables::session_variables::SessionVariables;
use farm::ClientError;
use mysql_wire::result::TextRow;
use planner::Merging;
use planner::merge::{Merge, Next, Odd, Plan, Row};

use super::feed::Event;
use super::feeds::Feeds;
use super::result_writer::ResultWriter;

/// So much is collected before it is sent.
pub(super) const PIECE_BYTES: usize = 16_384;

/// Why a statement on several servers failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// This part was refused.
    Refused(usize),
    /// This part's connection broke.
    Lost(usize),
    /// What the servers say does not fit together.
    Odd(String),
    /// All went well, but it was not committed, or nobody knows.
    Uncommitted(ClientError, String),
    /// Heddle itself refused what the client sent for it.
    Unfit(ClientError, String),
    /// A list is too long to be merged, and the client has nothing yet.
    TooLong,
}

impl From<Odd> for Trouble {
    fn from(odd: Odd) -> Trouble {
        Trouble::Odd(odd.0)
    }
}

impl From<mysql_wire::Malformed> for Trouble {
    fn from(malformed: mysql_wire::Malformed) -> Trouble {
        Trouble::Odd(malformed.to_string())
    }
}

impl Feeds {
    /// What went wrong with the parts so far.
    pub fn trouble(&self) -> Option<Trouble> {
        let at = self.failed()?;
        Some(match self.all[at].lost {
            true => Trouble::Lost(at),
            false => Trouble::Refused(at),
        })
    }
}

/// Rows that a write returns: each part's in its turns, then what is left of them; of copies of the
/// same rows, one.
pub(super) async fn returned(
    session: &mut Session,
    feeds: &mut Feeds,
    turns: &[usize],
    same: bool,
    result_writer: &mut ResultWriter,
) -> Result<Result<(), Trouble>, End> {
    feeds.begin().await;
    if let Some(trouble) = feeds.trouble() {
        return Ok(Err(trouble));
    }
    // Where MariaDB sees that no row can be meant, DELETE … RETURNING says OK and shows no columns.
    if feeds.all.iter().all(|feed| feed.columns.is_empty() && feed.is_done()) {
        return Ok(Ok(()));
    }
    if let Err(trouble) = begin_rows(
        &session.variables,
        &session.transaction,
        feeds,
        &Merging::default(),
        result_writer,
    ) {
        return Ok(Err(trouble));
    }
    let turns = turns.iter().filter(|_| !same).map(|at| (*at, false));
    let rest = (0..feeds.all.len()).map(|at| (at, true));
    for (at, all) in turns.chain(rest) {
        loop {
            let row = match feeds.row_of(at).await {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(trouble) => return Ok(Err(trouble)),
            };
            if same && at > 0 {
                continue;
            }
            let values: Vec<Option<&[u8]>> = row.iter().map(Option::as_deref).collect();
            if let Err(odd) = result_writer.row(&values) {
                return Ok(Err(odd.into()));
            }
            if result_writer.out.len() >= PIECE_BYTES {
                feeds.nudge().await;
                flush(&mut session.client, &mut session.run, result_writer).await?;
            }
            if !all {
                break;
            }
        }
    }
    Ok(Ok(()))
}

/// Sends the client the rows of all parts, but not what ends them. `Err` inside says what went
/// wrong; the client then has what the sheet counts.
pub(crate) async fn scatter_rows(
    client: &mut impl ReplySink,
    variables: &SessionVariables,
    transaction: &Transaction,
    run: &mut StatementRun,
    feeds: &mut Feeds,
    merging: &Merging,
    result_writer: &mut ResultWriter,
) -> Result<Result<(), Trouble>, End> {
    feeds.begin().await;
    if let Some(trouble) = feeds.trouble() {
        return Ok(Err(trouble));
    }
    let plan = match begin_rows(variables, transaction, feeds, merging, result_writer) {
        Ok(plan) => plan,
        Err(trouble) => return Ok(Err(trouble)),
    };
    match plan.order.is_empty() && plan.aggregates.is_empty() {
        true => append(client, run, feeds, &plan, result_writer).await,
        false => merge_rows(client, run, feeds, plan, result_writer).await,
    }
}

/// Rows in order, or groups.
async fn merge_rows(
    client: &mut impl ReplySink,
    run: &mut StatementRun,
    feeds: &mut Feeds,
    plan: Plan,
    result_writer: &mut ResultWriter,
) -> Result<Result<(), Trouble>, End> {
    let mut merge = Merge::new(plan, feeds.all.len());
    loop {
        let next = match merge.step() {
            Ok(next) => next,
            Err(odd) => return Ok(Err(odd.into())),
        };
        match next {
            Next::End => return Ok(Ok(())),
            Next::TooLong => return Ok(Err(Trouble::TooLong)),
            Next::Row(row) => {
                let values: Vec<Option<&[u8]>> = row.iter().map(Option::as_deref).collect();
                if let Err(odd) = result_writer.row(&values) {
                    return Ok(Err(odd.into()));
                }
                if result_writer.out.len() >= PIECE_BYTES {
                    feeds.nudge().await;
                    flush(client, run, result_writer).await?;
                }
            }
            Next::Needs(at) => {
                let taken = match feeds.row_of(at).await {
                    Ok(row) => merge.take(at, row),
                    Err(trouble) => return Ok(Err(trouble)),
                };
                if let Err(odd) = taken {
                    return Ok(Err(odd.into()));
                }
            }
        }
    }
}

/// Writes the definitions; gives the merge.
fn begin_rows(
    variables: &SessionVariables,
    transaction: &Transaction,
    feeds: &Feeds,
    merging: &Merging,
    result_writer: &mut ResultWriter,
) -> Result<Plan, Trouble> {
    let first = feeds.all.first();
    let first = first.ok_or_else(|| Trouble::Odd("no server was asked".to_owned()))?;
    let columns = first.columns.len();
    if feeds.all.iter().any(|feed| feed.columns.len() != columns) {
        return Err(Trouble::Odd("the servers answer with different columns".to_owned()));
    }
    let plan = merging.plan(columns).filter(|plan| plan.visible > 0);
    let plan = plan.ok_or_else(|| Trouble::Odd("columns are missing".to_owned()))?;
    let shown = &first.columns[..plan.visible];
    result_writer.begin(
        shown,
        first.capabilities(),
        session::status_now(variables, transaction),
    )?;
    Ok(plan)
}

/// Rows in any order: whoever has some is heard.
async fn append(
    client: &mut impl ReplySink,
    run: &mut StatementRun,
    feeds: &mut Feeds,
    plan: &Plan,
    result_writer: &mut ResultWriter,
) -> Result<Result<(), Trouble>, End> {
    let (mut skip, mut left) = (plan.offset, plan.limit.unwrap_or(u64::MAX));
    loop {
        for at in 0..feeds.all.len() {
            while left > 0 {
                let feed = &mut feeds.all[at];
                match feed.step() {
                    Event::Row if skip > 0 => skip -= 1,
                    Event::Row => {
                        let whole = feed.columns.len() == result_writer.columns();
                        if let Err(odd) = result_writer.text_row(feed.row(), whole) {
                            return Ok(Err(odd.into()));
                        }
                        left -= 1;
                    }
                    Event::Columns => {}
                    Event::Wait | Event::End => break,
                }
                if result_writer.out.len() >= PIECE_BYTES {
                    feeds.nudge().await;
                    flush(client, run, result_writer).await?;
                }
            }
        }
        if let Some(trouble) = feeds.trouble() {
            return Ok(Err(trouble));
        }
        if left == 0 || feeds.all.iter().all(|feed| feed.is_done()) {
            return Ok(Ok(()));
        }
        feeds.any().await;
    }
}

/// Sends what was collected.
pub(crate) async fn flush(
    client: &mut impl ReplySink,
    run: &mut StatementRun,
    result_writer: &mut ResultWriter,
) -> Result<(), End> {
    let out = std::mem::take(&mut result_writer.out);
    let bytes = out.len();
    if bytes == 0 {
        return Ok(());
    }
    run.profile.sent(bytes);
    let (sent, mut out) = client.send(out, 0..bytes).await;
    out.clear();
    result_writer.out = out;
    sent.map_err(|_| End::Gone)
}

impl Feeds {
    /// The next row of a part; `None` at its end.
    pub async fn row_of(&mut self, at: usize) -> Result<Option<Row>, Trouble> {
        loop {
            match self.all[at].step() {
                Event::Row => {
                    let values = TextRow::new(self.all[at].row());
                    let row: Result<Row, mysql_wire::Malformed> =
                        values.map(|value| value.map(|value| value.map(<[u8]>::to_vec))).collect();
                    return Ok(Some(row?));
                }
                Event::End => {
                    return match self.trouble() {
                        Some(trouble) => Err(trouble),
                        None => Ok(None),
                    };
                }
                Event::Columns => {}
                Event::Wait => self.of(at).await,
            }
        }
    }
}
