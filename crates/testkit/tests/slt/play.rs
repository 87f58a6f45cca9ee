//! Plays files to one server and, through Heddle, to a farm of three shards, and compares the answers.

use std::collections::HashMap;
use std::path::Path;

use farm::Engine;
use sqltext::{Dialect, Mode};
use testkit::client::{Client, Failure, Login, Reply, Rows};
use testkit::{Farm, Release, Server};

use crate::corpus::{Order, Step, order_of};
use crate::expect;
use crate::outcome::{Care, Outcome, difference, told};
use crate::script::{Kind, Query, Record, Script, Sort, What};
use crate::tables::{MAP, Tables};

const GROUPS: [&str; 3] = ["g1", "g2", "g3"];

/// The database in which a file runs.
const DATABASE: &str = "slt";

/// The error by which a farm says that it does not do something over several groups.
const NOT_OVER_GROUPS: u16 = 1235;

/// The first MySQL with invisible columns; MariaDB has had them longer than any that is tested.
const INVISIBLE_SINCE: u32 = 80_023;

/// What is compared.
#[derive(Clone, Copy)]
pub struct Choice {
    /// Also with what the file expects, which in SQLite's corpus is SQLite's answer.
    pub expected: bool,
    /// Queries are prepared, too.
    pub prepared: bool,
    pub care: Care,
    /// Every so many queries only; statements are always played.
    pub every: usize,
}

/// What a file gave.
#[derive(Default)]
pub struct Findings {
    pub statements: usize,
    pub queries: usize,
    /// Of both, those that the farm does not do over several groups. The one server did not get them.
    pub refused: Vec<String>,
    /// In rows, numbers of rows, errors.
    pub differences: Vec<String>,
    /// In the columns' names and types alone.
    pub columns: Vec<String>,
}

/// The one server and the farm.
pub struct Pair {
    one: Server,
    farm: Farm,
    mode: Mode,
    names: &'static [&'static str],
    /// The servers know invisible columns.
    hides: bool,
}

impl Pair {
    /// `None` where the servers cannot be had.
    pub fn start(release: Release) -> Option<Pair> {
        let settings = [("max_connections", "200")];
        let one = Server::start_with(release, &settings)?;
        let mut flags = vec!["--groups", "3", "--replicas", "0"];
        flags.extend(release.xa_flags());
        let farm = Farm::start_on(release, &flags)?;
        for words in [
            &["create_definition", "SLOTS", GROUPS[0], MAP],
            &["add_shard", MAP, &GROUPS.join(","), "ENABLED"],
        ] {
            let output = farm.command(&[&["sharding"], &words[..]].concat());
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "sharding {words:?}: {said}");
        }
        let (dialect, names): (_, &[&str]) = match one.engine() {
            Engine::MariaDb => (Dialect::MariaDb, &["mysql", "mariadb"]),
            Engine::MySql => (Dialect::MySql, &["mysql"]),
        };
        let version = number_of(one.version());
        let mode = Mode::new(dialect, version);
        let hides = version >= INVISIBLE_SINCE;
        Some(Pair {
            one,
            farm,
            mode,
            names,
            hides,
        })
    }

    /// Plays a file in a new database.
    pub fn play(&mut self, script: &Script, choice: &Choice) -> Findings {
        for mut client in [self.one.client(), self.farm.client()] {
            client.run(&format!("DROP DATABASE IF EXISTS {DATABASE}"));
            client.run(&format!("CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4"));
        }
        let hides = self.hides;
        let mut player = Player {
            clients: self.clients(),
            pair: self,
            path: &script.path,
            choice,
            tables: Tables::new(hides),
            labels: HashMap::new(),
            seen: 0,
            findings: Findings::default(),
        };
        for record in &script.records {
            if !record.is_for(player.pair.names) {
                continue;
            }
            match &record.what {
                What::Statement { text, succeeds } => player.statement(record, text, *succeeds),
                What::Query(query) => player.query(record, query),
                What::Halt => break,
            }
        }
        player.end(script.records.last().map_or(0, |record| record.line));
        player.findings
    }

    fn clients(&self) -> [Client; 2] {
        [self.one.address(), self.farm.sql].map(|address| {
            let login = Login {
                database: Some(DATABASE),
                ..Login::default()
            };
            Client::login(address, &login).expect("root has no password")
        })
    }
}

/// One file's run.
struct Player<'a> {
    pair: &'a Pair,
    path: &'a Path,
    choice: &'a Choice,
    /// Of the one server and of the farm.
    clients: [Client; 2],
    tables: Tables,
    /// The one server's answer to the first query of each label.
    labels: HashMap<String, String>,
    /// Queries so far, played or not.
    seen: usize,
    findings: Findings,
}

impl Player<'_> {
    fn statement(&mut self, record: &Record, text: &str, succeeds: bool) {
        self.findings.statements += 1;
        let text = self.tables.adapted(text, &self.pair.mode);
        let step = Step::plain(record.line, &text);
        let Some(here) = self.both(&step, false) else {
            return;
        };
        if self.choice.expected && here.is_ok() != succeeds {
            let expected = if succeeds { "succeed" } else { "fail" };
            self.differs(&step, &format!("expected to {expected}: {}", told(&here)));
        }
    }

    fn query(&mut self, record: &Record, query: &Query) {
        self.seen += 1;
        if !self.seen.is_multiple_of(self.choice.every) {
            return;
        }
        self.findings.queries += 1;
        let mut step = Step::plain(record.line, &query.text);
        step.order = match query.sort {
            Sort::No => order_of(&query.text),
            Sort::Rows | Sort::Values => Order::Free,
        };
        let kinds = query.kinds.iter().enumerate();
        let reals = kinds.filter(|&(_, &kind)| kind == Kind::Real);
        step.about = reals.map(|(at, _)| at).collect();
        let here = self.both(&step, false);
        if self.choice.prepared {
            self.both(&step, true);
        }
        if !self.choice.expected {
            return;
        }
        let Some(here) = here else {
            return;
        };
        match here.as_deref() {
            Ok([Reply::Rows(rows)]) => {
                let unlike = self.unlike(query, rows);
                if let Some(what) = expect::difference(query, rows).or(unlike) {
                    self.differs(&step, &format!("one server\n{what}"));
                }
            }
            _ => self.differs(&step, &format!("rows expected: {}", told(&here))),
        }
    }

    /// What differs from an earlier query of the same label.
    fn unlike(&mut self, query: &Query, rows: &Rows) -> Option<String> {
        let label = query.label.clone()?;
        let given = expect::written(query, rows).join(" | ");
        let first = self
            .labels
            .entry(label.clone())
            .or_insert_with(|| given.clone());
        (*first != given).then(|| format!("first of {label}: {first}\n   given: {given}"))
    }

    /// What is left in the tables.
    fn end(&mut self, line: usize) {
        for table in self.tables.names() {
            let step = Step::plain(line, &format!("SELECT * FROM {table}"));
            self.both(&step, false);
        }
    }

    /// Runs it on both sides and compares; gives the one server's answer. The farm is first: what it
    /// refuses shall not have happened on the one server.
    fn both(&mut self, step: &Step, prepared: bool) -> Option<Outcome> {
        let [one, farm] = &mut self.clients;
        let there = run(farm, &step.text, prepared);
        if matches!(&there, Err(failure) if failure.number() == NOT_OVER_GROUPS) {
            let refused = self.told(step, &told(&there));
            self.findings.refused.push(refused);
            return None;
        }
        let here = run(one, &step.text, prepared);
        let lost = |outcome: &Outcome| !matches!(outcome, Ok(_) | Err(Failure::Server { .. }));
        let broken = lost(&here) || lost(&there);
        let care = self.choice.care;
        let answer = match (&here, &there) {
            (Ok(rows), Ok(others)) => {
                difference(step, care, &here, &Ok(with_columns_of(rows, others)))
            }
            _ => difference(step, care, &here, &there),
        };
        let in_columns = answer.is_none();
        if let Some(what) = answer.or_else(|| difference(step, care, &here, &there)) {
            let way = if prepared { "prepared: " } else { "" };
            let how = if broken {
                String::new()
            } else {
                explained(farm, &step.text)
            };
            let whole = self.told(step, &format!("{way}{what}{how}"));
            match in_columns {
                true => self.findings.columns.push(whole),
                false => self.findings.differences.push(whole),
            }
        }
        if broken {
            // What follows finds new connections, so that one fault is told once.
            self.clients = self.pair.clients();
        }
        Some(here)
    }

    fn differs(&mut self, step: &Step, what: &str) {
        let whole = self.told(step, what);
        self.findings.differences.push(whole);
    }

    fn told(&self, step: &Step, what: &str) -> String {
        format!(
            "{}:{}\n{}\n{what}",
            self.path.display(),
            step.line,
            step.text
        )
    }
}

/// The farm's answer with the one server's columns, where there are as many.
fn with_columns_of(here: &[Reply], there: &[Reply]) -> Vec<Reply> {
    let mut there = there.to_vec();
    for pair in here.iter().zip(&mut there) {
        if let (Reply::Rows(here), Reply::Rows(there)) = pair
            && here.columns.len() == there.columns.len()
        {
            there.columns.clone_from(&here.columns);
        }
    }
    there
}

/// How the farm goes about it, for the reader of a difference.
fn explained(farm: &mut Client, text: &str) -> String {
    match farm.query(format!("HEDDLE EXPLAIN {text}")).as_deref() {
        Ok([Reply::Rows(rows)]) => {
            let rows = rows.text().into_iter();
            let told = rows.map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" | "));
            told.fold(String::new(), |all, row| all + "\n  " + &row)
        }
        _ => String::new(),
    }
}

/// `10.11.6-MariaDB` as 101106.
fn number_of(version: &str) -> u32 {
    let parts = version.split(['.', '-']).take(3);
    parts.fold(0, |number, part| {
        number * 100 + part.parse::<u32>().unwrap_or_default()
    })
}

fn run(client: &mut Client, text: &str, prepared: bool) -> Outcome {
    let replies = match prepared {
        false => client.query(text)?,
        true => {
            let statement = client.prepare(text)?;
            let replies = client.execute(&statement, &[]);
            client.close(statement)?;
            replies?
        }
    };
    Ok(replies.into_iter().map(without_ids).collect())
}

/// A farm numbers rows in other steps than one server, and no file can see it.
fn without_ids(reply: Reply) -> Reply {
    match reply {
        Reply::Done(mut done) => {
            done.last_insert_id = 0;
            Reply::Done(done)
        }
        rows => rows,
    }
}
