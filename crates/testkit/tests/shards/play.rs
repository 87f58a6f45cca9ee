//! Plays the files of a corpus to two sides at once, and collects what differs.

use std::collections::HashMap;
use std::io::Write as _;

use mysql_wire::status::Status;
use testkit::client::{Client, Failure, Reply, Value};

use crate::contradicts::contradicts_itself;
use crate::corpus::{Corpus, File, Step, Table, created};
use crate::invent;
use crate::outcome::{Care, Outcome, difference, told};
use crate::side::Side;

/// Differences that are shown in full, unless HEDDLE_SHARDS_SHOWN has another number.
const SHOWN: u64 = 40;

/// The choice of made up statements only.
const SEEDS: &str = "seeds";

/// The number of the error by which a farm says that it does not do something over several groups.
const NOT_OVER_GROUPS: u16 = 1235;

/// What was seen.
#[derive(Default)]
pub struct Findings {
    pub statements: usize,
    /// Answered without an error by the one server.
    pub succeeded: usize,
    pub writes: usize,
    /// Statements that a farm said it does not do over several groups, where the corpus allows it.
    pub refused: usize,
    /// Reads in which the one server is wrong, and the farm is not.
    pub contradicted: usize,
    pub differences: Vec<String>,
}

/// Which statements are played, and how closely answers are compared.
pub struct Choice {
    /// `folder`, `folder/file` or `folder/file:line`, or `folder/file:from-to`.
    pub only: Option<String>,
    pub care: Care,
    /// Every so many reads only; writes are always played.
    pub every: usize,
    /// Errors of the one server are told, for who writes the corpus.
    pub errors: bool,
}

impl Choice {
    /// As the environment says: HEDDLE_SHARDS names statements, HEDDLE_SHARDS_ALL=1 compares all.
    pub fn from_environment(every: usize) -> Choice {
        let set = |name: &str| std::env::var_os(name).is_some();
        Choice {
            only: std::env::var("HEDDLE_SHARDS").ok(),
            care: match set("HEDDLE_SHARDS_ALL") {
                true => Care::All,
                false => Care::Usual,
            },
            every,
            errors: set("HEDDLE_SHARDS_ERRORS"),
        }
    }

    /// Statements are made up, too: without a choice, and for the choice `seeds`.
    pub fn invents(&self) -> bool {
        let only = self.only.as_deref();
        only.is_none_or(|only| only.split(':').next() == Some(SEEDS))
    }

    pub fn has_folder(&self, corpus: &Corpus) -> bool {
        let only = self.only.as_deref();
        only.is_none_or(|only| only.split('/').next() == Some(&corpus.name))
    }

    fn has_file(&self, corpus: &Corpus, file: &File) -> bool {
        let Some((_, name)) = self.only.as_deref().and_then(|only| only.split_once('/')) else {
            return self.has_folder(corpus);
        };
        self.has_folder(corpus) && name.split(':').next() == Some(&file.name)
    }

    fn has_step(&self, at: usize, step: &Step) -> bool {
        let line = self.only.as_deref().and_then(|only| only.split_once(':'));
        match line {
            Some((_, lines)) => {
                let (from, to) = lines.split_once('-').unwrap_or((lines, lines));
                let number = |text: &str| text.parse::<usize>().unwrap_or_default();
                (number(from)..=number(to)).contains(&step.line)
            }
            // What FOUND_ROWS() says is of the statement before it: both are played.
            None => {
                !reads(&step.text)
                    || at.is_multiple_of(self.every)
                    || step.text.contains("FOUND_ROWS")
            }
        }
    }
}

/// Plays every file of the corpus that is chosen. Both sides are built and filled by this.
pub fn play(
    corpus: &Corpus,
    choice: &Choice,
    reference: &mut dyn Side,
    subject: &mut dyn Side,
    findings: &mut Findings,
) {
    let mut clean = false;
    for file in &corpus.files {
        if !choice.has_file(corpus, file) {
            continue;
        }
        if !clean {
            reference.fill(corpus, None, None);
            subject.fill(corpus, Some(7), None);
            compare_tables(corpus, &corpus.name, reference, subject, findings);
        }
        clean = file.steps.iter().all(|step| keeps_rows(&step.text));
        Player::new(corpus, file, choice).run(reference, subject, findings);
        if !clean {
            let wrong = subject.verify();
            let place = format!("{}/{}.sql", corpus.name, file.name);
            findings.note(
                wrong
                    .iter()
                    .map(|row| format!("{place}: sharding verify: {row}")),
            );
        }
    }
}

/// Makes the views that made up statements read.
pub fn make_views(
    corpus: &Corpus,
    reference: &mut dyn Side,
    subject: &mut dyn Side,
    findings: &mut Findings,
) {
    let file = File {
        name: "views of seeds".to_owned(),
        steps: invent::definitions(),
    };
    let all = Choice {
        only: None,
        ..Choice::from_environment(1)
    };
    Player::new(corpus, &file, &all).run(reference, subject, findings);
}

/// Plays statements that a seed makes up, all on one state of the tables.
pub fn play_inventions(
    corpus: &Corpus,
    seed: u64,
    numbers: std::ops::Range<usize>,
    reference: &mut dyn Side,
    subject: &mut dyn Side,
    findings: &mut Findings,
) {
    reference.fill(corpus, None, None);
    subject.fill(corpus, Some(seed), None);
    let file = File {
        name: format!("seed {seed}"),
        steps: numbers
            .map(|number| invent::statement(seed, number))
            .collect(),
    };
    let choice = Choice {
        care: Care::Loose,
        ..Choice::from_environment(1)
    };
    Player::new(corpus, &file, &choice).run(reference, subject, findings);
    let wrong = subject.verify();
    findings.note(
        wrong
            .iter()
            .map(|row| format!("seed {seed}: sharding verify: {row}")),
    );
}

/// One file's run.
struct Player<'a> {
    corpus: &'a Corpus,
    file: &'a File,
    choice: &'a Choice,
    /// Those of the schema and those that the file made.
    tables: Vec<Table>,
    /// Of the one server and of the farm, by the session's name.
    clients: HashMap<String, [Client; 2]>,
}

impl<'a> Player<'a> {
    fn new(corpus: &'a Corpus, file: &'a File, choice: &'a Choice) -> Player<'a> {
        Player {
            corpus,
            file,
            choice,
            tables: corpus.tables.clone(),
            clients: HashMap::new(),
        }
    }

    fn run(&mut self, reference: &mut dyn Side, subject: &mut dyn Side, findings: &mut Findings) {
        let engine = crate::engine_of(reference);
        for (at, step) in self.file.steps.iter().enumerate() {
            let elsewhere = step.on.is_some_and(|on| on != engine);
            if elsewhere || !self.choice.has_step(at, step) {
                continue;
            }
            let database = &self.corpus.name;
            let clients = self
                .clients
                .entry(step.session.clone())
                .or_insert_with(|| [reference.client(database), subject.client(database)]);
            let mut said = play_step(step, clients, self.choice.care, findings);
            if said.broken {
                // The next statement finds new connections, so that one fault is told once.
                self.clients.remove(&step.session);
            }
            if self.choice.errors
                && let Some(error) = &said.error
            {
                tell(&format!("{}\n  {error}\n", self.place(step)));
            }
            self.know(step);
            if !reads(&step.text) {
                findings.writes += 1;
                let differ = self.compare(step, reference, subject);
                said.differences.extend(differ);
            }
            let place = self.place(step);
            let whole = |what| format!("{place}\n{}\n{what}", step.text);
            findings.note(said.differences.into_iter().map(whole));
        }
    }

    /// Compares the tables that a write names. Those that differ get their first rows again on both
    /// sides, so that one fault is told once.
    fn compare(
        &mut self,
        step: &Step,
        reference: &mut dyn Side,
        subject: &mut dyn Side,
    ) -> Vec<String> {
        let mut differences = Vec::new();
        let named = |table: &&Table| names(&step.text, &table.name);
        for table in self.tables.iter().filter(named) {
            let Some(difference) = compare_table(&self.corpus.name, table, reference, subject)
            else {
                continue;
            };
            differences.push(difference);
            let open = |client: &Client| client.status.contains(Status::IN_TRANS);
            if !self.clients.values().flatten().any(open) {
                reference.fill(self.corpus, None, Some(&table.name));
                subject.fill(self.corpus, None, Some(&table.name));
            }
        }
        differences
    }

    /// A table that the file makes can be compared from now on, one that it drops no longer.
    fn know(&mut self, step: &Step) {
        let gone = ["DROP TABLE ", "RENAME TABLE "];
        let gone = gone.iter().find_map(|verb| step.text.strip_prefix(verb));
        if let Some(rest) = gone {
            let name = rest.split(' ').next();
            self.tables.retain(|table| Some(&*table.name) != name);
        }
        if let (Some(place), Some(name)) = (step.fresh.clone(), created(&step.text)) {
            let create = step.text.clone();
            self.tables.push(Table {
                name,
                create,
                place,
            });
        }
    }

    fn place(&self, step: &Step) -> String {
        format!("{}/{}.sql:{}", self.corpus.name, self.file.name, step.line)
    }
}

/// Shown as it comes: a run may take long.
pub fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

impl Findings {
    /// Keeps these, and shows the first ones.
    pub fn note(&mut self, differences: impl IntoIterator<Item = String>) {
        let shown = crate::asked("HEDDLE_SHARDS_SHOWN", SHOWN);
        for difference in differences {
            if (self.differences.len() as u64) < shown {
                tell(&format!("\n{difference}\n"));
            }
            self.differences.push(difference);
        }
    }
}

/// What one statement gave.
struct Said {
    differences: Vec<String>,
    /// Of the one server.
    error: Option<String>,
    /// A connection is gone, or not at the end of an answer.
    broken: bool,
}

/// How a farm goes about it, for who looks for the fault; one server does not say.
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

/// As text, and reads once more as a prepared statement.
fn play_step(step: &Step, clients: &mut [Client; 2], care: Care, findings: &mut Findings) -> Said {
    let mut said = Said {
        differences: Vec::new(),
        error: None,
        broken: false,
    };
    let ways: &[bool] = match step.with.is_some() {
        true => &[true],
        false if reads(&step.text) && !step.text.contains(';') => &[false, true],
        false => &[false],
    };
    for &prepared in ways {
        let run = |client: &mut Client| match prepared {
            true => execute(client, step),
            false => client.query(&step.text),
        };
        let [one, farm] = clients;
        let there = run(farm);
        findings.statements += 1;
        if step.may_be_refused && is_refused(&there) {
            findings.refused += 1;
            continue;
        }
        let here = run(one);
        let server_s = |outcome: &Outcome| matches!(outcome, Ok(_) | Err(Failure::Server { .. }));
        if !server_s(&here) || !server_s(&there) {
            said.broken = true;
            said.differences.push(format!(
                "one server: {}\nfarm:       {}",
                told(&here),
                told(&there)
            ));
            break;
        }
        match &here {
            Ok(_) => findings.succeeded += 1,
            Err(_) => said.error = Some(told(&here)),
        }
        if let Some(what) = difference(step, care, &here, &there) {
            let plain = reads(&step.text) && here.is_ok() && there.is_ok();
            let mariadb = one.version.contains("MariaDB");
            let differs = |clients: &mut [Client; 2]| {
                let [here, there] = clients.each_mut().map(run);
                difference(step, care, &here, &there).is_some()
            };
            let tell = |clients: &mut [Client; 2], set: &str| {
                for client in clients {
                    client.run(set);
                }
            };
            if plain && contradicts_itself(&step.text, mariadb, clients, tell, differs) {
                findings.contradicted += 1;
                continue;
            }
            let way = if prepared { "prepared: " } else { "" };
            let how = explained(&mut clients[1], &step.text);
            said.differences.push(format!("{way}{what}{how}"));
        }
    }
    said
}

/// Not done over several groups, with the reason. Nothing of it was done.
fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Failure::Server { number, .. }) if *number == NOT_OVER_GROUPS)
}

fn execute(client: &mut Client, step: &Step) -> Outcome {
    let statement = client.prepare(&step.text)?;
    let values = step.with.as_deref().unwrap_or_default();
    let replies: Result<Vec<Reply>, _> = client.execute(&statement, values);
    client.close(statement)?;
    replies
}

/// True for statements that are played twice and after which nothing needs to be compared.
fn reads(text: &str) -> bool {
    let reading = ["SELECT", "WITH", "(SELECT", "VALUES"];
    let begins = reading.iter().any(|verb| text.starts_with(verb));
    begins && !text.contains(" INTO @") && !text.contains(":=") && !text.contains("; ")
}

/// True for statements that leave the tables as they are.
fn keeps_rows(text: &str) -> bool {
    let others = ["SET ", "SHOW ", "DO ", "TABLES", "DESCRIBE "];
    text.starts_with("SELECT") || reads(text) || others.iter().any(|verb| text.starts_with(verb))
}

/// True when the text has the name as a word of its own.
fn names(text: &str, name: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.match_indices(name).any(|(at, _)| {
        let bytes = text.as_bytes();
        let before = at.checked_sub(1).map(|at| bytes[at]);
        let after = bytes.get(at + name.len());
        !before.is_some_and(word) && !after.is_some_and(|&byte| word(byte))
    })
}

fn compare_tables(
    corpus: &Corpus,
    database: &str,
    reference: &mut dyn Side,
    subject: &mut dyn Side,
    findings: &mut Findings,
) {
    for table in &corpus.tables {
        let differs = compare_table(database, table, reference, subject);
        findings.note(differs.map(|what| format!("first data: {what}")));
    }
}

fn compare_table(
    database: &str,
    table: &Table,
    reference: &mut dyn Side,
    subject: &mut dyn Side,
) -> Option<String> {
    let here = match reference.contents(database, table) {
        Ok(rows) => rows,
        Err(error) => return Some(error),
    };
    let there = match subject.contents(database, table) {
        Ok(rows) => rows,
        Err(error) => return Some(error),
    };
    if here == there {
        return None;
    }
    let more = |a: &[Vec<Value>], b: &[Vec<Value>]| -> String {
        let only = a.iter().filter(|row| !b.contains(row)).take(3);
        only.map(|row| words(row)).collect::<Vec<_>>().join(" and ")
    };
    Some(format!(
        "table {}: {} rows on one server, {} on the farm\n  only on one server: {}\n  only on the farm: {}",
        table.name,
        here.len(),
        there.len(),
        more(&here, &there),
        more(&there, &here)
    ))
}

/// A row for people.
fn words(row: &[Value]) -> String {
    let word = |value: &Value| match value {
        Value::Bytes(bytes) => bytes.escape_ascii().to_string(),
        other => format!("{other:?}"),
    };
    format!("({})", row.iter().map(word).collect::<Vec<_>>().join(", "))
}
