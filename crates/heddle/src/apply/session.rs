//! One reading of the stream: from where the target has it until something breaks.

mod statements;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use changes::apply::{Change, Definition, Order, Transaction, claims, definition};
use changes::replication::{Applier, Stopped, carry};
use engine::Login;
use engine::target::{DATABASE, Defining, Progress, Target, TargetTable, Ties};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Interval;

use super::flags::Apply;
use super::report::Report;
use super::source::{Lines, groups};
use super::subscription::Subscription;
use super::workers::{self, Workers, of_server};
use super::{Ended, TIMEOUT_MS};
use statements::{is_temporary, refused};

/// Transactions that are under way or wait for others.
const WINDOW: usize = 256;

/// Of their lines.
const WINDOW_BYTES: usize = 256 << 20;

/// Up to where everything is done is written down so often.
const CHECKPOINT: Duration = Duration::from_millis(500);

/// In front of the name of a transaction whose definition has begun, and perhaps ended.
const BEGUN: &str = "?";

/// Databases that are nobody's business: the farm's own, and the applier's.
const OWN: [&str; 2] = ["heddle", DATABASE];

/// What a transaction under way ends with: its number, its bytes, its rows, and what was found.
type Done = (u64, usize, usize, Result<Vec<String>, Ended>);

pub(super) struct Session<'a> {
    flags: &'a Apply,
    report: &'a mut Report,
    control: Target,
    workers: Arc<Workers>,
    progress: Progress,
    groups: usize,
    subscription: Option<Subscription>,
    order: Order,
    low: watch::Sender<u64>,
    /// By the number of a transaction the token behind it.
    tokens: BTreeMap<u64, String>,
    /// Transactions of earlier appliers that came again, by their numbers.
    passed: Vec<(u64, (String, String))>,
    tables: HashMap<(String, String), TargetTable>,
    ties: Option<Ties>,
    /// Tables that know no rollback, in upper case, as far as they were asked for.
    without_rollback: Option<Vec<String>>,
    under_way: JoinSet<Done>,
    /// What ended and was not looked at.
    ended: Vec<Result<Done, JoinError>>,
    tick: Interval,
    /// A checkpoint is.
    is_due: bool,
    bytes: usize,
}

/// Applies until something breaks.
pub(super) async fn run(
    flags: &Apply,
    http: &str,
    login: &Login,
    report: &mut Report,
) -> Result<(), Ended> {
    let control = Target::open(login, &flags.name, 0, TIMEOUT_MS).await;
    let mut control = control.map_err(of_server)?;
    let progress = control.take_over().await.map_err(of_server)?;
    let groups = groups(flags, http).await?;
    let subscription = Subscription::open(flags, http).await?;
    let begun = subscription.as_ref().map(|(_, token)| token.clone());
    let workers = Workers::new(
        login,
        &flags.name,
        progress.epoch,
        flags.workers,
        TIMEOUT_MS,
    );
    let mut session = Session {
        flags,
        report,
        control,
        workers: Arc::new(workers),
        progress,
        groups,
        subscription: subscription.map(|(it, _)| it),
        order: Order::default(),
        low: watch::channel(0).0,
        tokens: BTreeMap::new(),
        passed: Vec::new(),
        tables: HashMap::new(),
        ties: None,
        without_rollback: None,
        under_way: JoinSet::new(),
        ended: Vec::new(),
        tick: tokio::time::interval(CHECKPOINT),
        is_due: false,
        bytes: 0,
    };
    // A target without a token goes on where its farm's subscription is, unless it has to read all rows.
    let begun = begun.filter(|_| !flags.snapshot);
    let from = session.reached().or(begun.as_deref());
    let mut lines = Lines::open(flags, http, from).await?;
    session
        .report
        .begins(http, session.progress.token.is_some());
    carry(&mut lines, &mut session)
        .await
        .map_err(|it| match it {
            Stopped::Line(text) | Stopped::Over(text) => Ended::Fatal(text),
            Stopped::Transport(ended) | Stopped::Applier(ended) => ended,
        })
}

impl Applier for Session<'_> {
    type Error = Ended;

    fn reached(&self) -> Option<&str> {
        self.progress.token.as_deref()
    }

    async fn apply(&mut self, transaction: Transaction) -> Result<(), Ended> {
        self.begin(transaction).await
    }

    async fn alive(&mut self, token: String) -> Result<(), Ended> {
        self.tokens.insert(self.order.last(), token);
        Ok(())
    }

    async fn complete(&mut self, group: String, token: String) -> Result<(), Ended> {
        self.wait_for_all().await?;
        self.report.complete(&group);
        self.progress.complete.push(group);
        self.tokens.insert(self.order.last(), token);
        self.checkpoint().await
    }

    fn has_room(&self) -> bool {
        self.under_way.len() < WINDOW && self.bytes < WINDOW_BYTES
    }

    async fn due(&mut self) {
        tokio::select! {
            Some(done) = self.under_way.join_next() => self.ended.push(done),
            _ = self.tick.tick() => self.is_due = true,
        }
    }

    async fn go_on(&mut self) -> Result<(), Ended> {
        for done in std::mem::take(&mut self.ended) {
            self.end(done)?;
        }
        if std::mem::take(&mut self.is_due) {
            self.checkpoint().await?;
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Ended> {
        self.wait_for_all().await?;
        self.checkpoint().await
    }
}

impl Session<'_> {
    async fn begin(&mut self, mut transaction: Transaction) -> Result<(), Ended> {
        transaction.changes.retain(|change| match change {
            Change::Row(row) => row.table.database != DATABASE,
            _ => true,
        });
        let token = std::mem::take(&mut transaction.token);
        // The rows of one group alone come and go.
        if transaction.is_move && self.groups > 1 {
            self.may_pass_move(&transaction)?;
            self.tokens.insert(self.order.last(), token);
            return Ok(());
        }
        let name = transaction.gtid.clone();
        let name = name.map(|gtid| (transaction.group.clone(), gtid));
        if let Some(name) = name.filter(|name| self.progress.done.contains(name)) {
            let (number, _) = self.order.give(&Default::default(), false);
            self.tokens.insert(number, token);
            self.passed.push((number, name));
            return self.end(Ok((number, 0, 0, Ok(Vec::new()))));
        }
        if transaction.is_alone() {
            return self.alone(transaction, token).await;
        }
        self.look_at_tables(&transaction).await?;
        if self.ties.is_none() {
            self.ties = Some(self.control.ties().await.map_err(of_server)?);
        }
        let (tables, none) = (&self.tables, (TargetTable::default(), Ties::new()));
        let ties = self.ties.as_ref().unwrap_or(&none.1);
        let claims = claims(&transaction, |row| {
            let table = tables.get(&(row.table.database.clone(), row.table.name.clone()));
            table.unwrap_or(&none.0).identities(row, ties)
        });
        let places = self.order.give(&claims, false);
        self.tokens.insert(places.0, token);
        self.bytes += transaction.bytes;
        let of = self.tables_of(&transaction);
        let (workers, low) = (Arc::clone(&self.workers), self.low.subscribe());
        let (bytes, rows) = (transaction.bytes, transaction.changes.len());
        self.under_way.spawn(async move {
            let carried = workers.carry(transaction, places, of, low).await;
            (places.0, bytes, rows, carried)
        });
        Ok(())
    }

    /// Rows that change their group stay what they are at the target, where they have one place. That is known
    /// where what the two groups tell of a row has an order, and the row was not read on its way.
    fn may_pass_move(&self, transaction: &Transaction) -> Result<(), Ended> {
        let is_read = !self.flags.snapshot || self.progress.complete.len() >= self.groups;
        let gtid = transaction.gtid.as_deref().unwrap_or_default();
        let cure = match (&self.flags.order, is_read) {
            (Some(_), true) if self.flags.group.is_empty() => return Ok(()),
            (Some(_), false) => {
                "wait for the end of the move (job list), and begin anew under another --name"
            }
            _ => "begin anew with --order global, of all groups, under another --name",
        };
        Err(Ended::Fatal(format!(
            "group {} tells of rows that move between groups ({gtid}), and nothing here says which group's changes of \
             them come last; {cure}",
            transaction.group
        )))
    }

    /// Carries out what nothing may run beside, and writes down that it is done.
    async fn alone(&mut self, mut transaction: Transaction, token: String) -> Result<(), Ended> {
        self.wait_for_all().await?;
        self.checkpoint().await?;
        let (number, _) = self.order.give(&Default::default(), true);
        let rows = transaction.changes.len();
        let is_read = transaction.gtid.is_none();
        let changes = std::mem::take(&mut transaction.changes);
        let mut of_rows = transaction;
        for change in changes {
            match change {
                Change::Row(_) => of_rows.changes.push(change),
                Change::Statement(run) => {
                    let run = self.statement(&of_rows, run).await?;
                    of_rows.changes.extend(run.map(Change::Statement));
                }
                Change::Made { database, sql } => {
                    self.control
                        .make(&database, &sql)
                        .await
                        .map_err(of_server)?;
                    self.forget_tables();
                }
                Change::Definition {
                    database,
                    sql,
                    context,
                } => {
                    let defining = Defining {
                        database: &database,
                        sql: &sql,
                        context: &context,
                    };
                    self.define(&of_rows, number, defining).await?;
                }
            }
        }
        if !of_rows.changes.is_empty() {
            self.look_at_tables(&of_rows).await?;
            let tables = self.tables_of(&of_rows);
            if is_read {
                let carried = self.control.carry_read(&of_rows, &tables).await;
                carried.map_err(workers::refused)?;
            } else {
                let carried = self.control.carry_alone(&of_rows, number, &tables).await;
                self.report.found(&carried.map_err(workers::refused)?);
            }
        }
        self.tokens.insert(number, token);
        self.end(Ok((number, 0, rows, Ok(Vec::new()))))?;
        self.checkpoint().await
    }

    async fn define(
        &mut self,
        of: &Transaction,
        number: u64,
        defining: Defining<'_>,
    ) -> Result<(), Ended> {
        let Defining { database, sql, .. } = defining;
        let gtid = of.gtid.clone().unwrap_or_default();
        let (kind, is_wanted) = definition(sql, database, &self.flags.database);
        let own = OWN.map(str::to_owned);
        let is_own = definition(sql, "", &own).1 || OWN.contains(&database);
        if !is_wanted || is_own || self.flags.pass.contains(&gtid) {
            return Ok(());
        }
        if self.flags.statements && is_temporary(sql) {
            return Err(refused(
                of,
                sql,
                "a temporary table is gone when the applier begins anew",
            ));
        }
        match kind {
            Definition::Acts | Definition::OfServer => {
                self.report.left_out(&of.group, &gtid, sql);
                return Ok(());
            }
            Definition::Empties if self.groups > 1 => {
                return Err(Ended::Fatal(format!(
                    "group {} tells {sql} ({gtid}), and other groups may have rows in the same table of the target; \
                     wait until every group has run it, carry it out there yourself, and apply on with --pass {gtid} \
                     for each group's GTID of it",
                    of.group
                )));
            }
            Definition::Empties | Definition::Apply => {}
        }
        let begun = (of.group.clone(), format!("{BEGUN}{gtid}"));
        let may_be_done = self.progress.done.contains(&begun);
        if may_be_done {
            self.passed.push((number, begun));
        } else {
            let marked = self.control.mark(&begun.0, &begun.1, number).await;
            marked.map_err(of_server)?;
        }
        let defined = self.control.define(defining, true, may_be_done).await;
        if !defined.map_err(of_server)? && !may_be_done && self.groups == 1 {
            let what = format!(
                "group {}, {gtid}: the target had it already: {sql}",
                of.group
            );
            self.report.found(&[what]);
        }
        self.forget_tables();
        Ok(())
    }

    fn forget_tables(&mut self) {
        self.tables.clear();
        self.ties = None;
        self.without_rollback = None;
    }

    /// Reads how the tables of a transaction are made at the target.
    async fn look_at_tables(&mut self, transaction: &Transaction) -> Result<(), Ended> {
        let rows = transaction
            .changes
            .iter()
            .filter_map(|change| match change {
                Change::Row(row) => Some((row.table.database.clone(), row.table.name.clone())),
                _ => None,
            });
        let names: HashSet<(String, String)> = rows.collect();
        for name in names {
            if self.tables.contains_key(&name) {
                continue;
            }
            let table = self.control.table(&name.0, &name.1).await;
            let table = table.map_err(of_server)?.ok_or_else(|| {
                Ended::Fatal(format!(
                    "the target has no table {}.{}; make it there, or begin with --snapshot under another --name",
                    name.0, name.1
                ))
            })?;
            if let Some(objection) = &table.objection {
                return Err(Ended::Fatal(objection.clone()));
            }
            self.tables.insert(name, table);
        }
        Ok(())
    }

    fn tables_of(&self, transaction: &Transaction) -> Arc<HashMap<(String, String), TargetTable>> {
        let rows = transaction
            .changes
            .iter()
            .filter_map(|change| match change {
                Change::Row(row) => {
                    let name = (row.table.database.clone(), row.table.name.clone());
                    let table = self.tables.get(&name)?.clone();
                    Some((name, table))
                }
                _ => None,
            });
        Arc::new(rows.collect())
    }

    fn end(&mut self, done: Result<Done, JoinError>) -> Result<(), Ended> {
        let done = done.map_err(|error| {
            Ended::Fatal(format!(
                "a transaction's task ended: {error}; please report it"
            ))
        });
        let (number, bytes, rows, found) = done?;
        let found = found?;
        self.bytes -= bytes;
        self.report.applied(rows);
        // What is read for the first time is found otherwise by nature.
        if self.progress.complete.len() >= self.groups || !self.flags.snapshot {
            self.report.found(&found);
        }
        let low = self.order.end(number);
        self.low.send_replace(low);
        Ok(())
    }

    /// Waits until everything is done.
    async fn wait_for_all(&mut self) -> Result<(), Ended> {
        while let Some(done) = self.under_way.join_next().await {
            self.end(done)?;
        }
        Ok(())
    }

    /// Writes down up to where everything is done.
    async fn checkpoint(&mut self) -> Result<(), Ended> {
        self.report.speak();
        let low = self.order.low();
        let reached = self.tokens.range(..=low).next_back();
        let Some((_, token)) = reached else {
            return Ok(());
        };
        let token = token.clone();
        let is_passed = |(number, _): &(u64, _)| *number <= low;
        let passed: Vec<_> = self.passed.extract_if(.., |it| is_passed(it)).collect();
        let names: Vec<_> = passed.into_iter().map(|(_, name)| name).collect();
        let complete = &self.progress.complete;
        let written = self.control.checkpoint(&token, complete, low, &names).await;
        written.map_err(of_server)?;
        if let Some(subscription) = &self.subscription {
            subscription.reach(&token);
        }
        for name in &names {
            self.progress.done.remove(name);
        }
        self.tokens.retain(|number, _| *number > low);
        Ok(())
    }
}
