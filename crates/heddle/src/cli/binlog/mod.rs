//! `heddle binlog dump`: a binlog's transactions, of a file or of a server, as lines of JSON or as statements.

mod settings;

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use changes::replication::{Generator, Local, LogReader};
use changes::{Block, Ended, Event, Load, Part, Parts, Statement, Told, Transactions, Wanted, sql};
use engine::binlog::{Reader, oldest};
use engine::{Link, Login, heartbeat};
use farm::Position;
use settings::Session;

use crate::cli::{BinlogDump, login};
use crate::failure::Failure;

/// For one question to a server.
const TIMEOUT_MS: u64 = 30_000;

/// The server says so often that it has no more.
const HEARTBEAT_MS: u64 = 1000;

/// Of a transaction that ends so late that it has to be kept: it is for a machine of the operator's own.
const TRANSACTION_BYTES_MAX: usize = 1 << 30;

/// Prints the transactions.
///
/// # Errors
/// The file or the server cannot be read, or what it says cannot be told.
pub fn run(flags: &BinlogDump) -> Result<(), Failure> {
    let out = BufWriter::new(std::io::stdout().lock());
    let wanted = Wanted {
        databases: flags.database.clone(),
        tables: flags.table.clone(),
        ..Wanted::default()
    };
    let mut printer = Printer {
        out,
        as_sql: flags.sql,
        session: Session::default(),
        loads: flags.local_load.clone().unwrap_or_else(std::env::temp_dir),
        wanted,
        is_closed: false,
    };
    let path = Path::new(&flags.of);
    match (path.exists(), login::place_of(&flags.of)) {
        (true, _) => of_file(path, flags, &mut printer)?,
        (false, Some(place)) => of_server(place, flags, &mut printer)?,
        (false, None) => {
            return Err(Failure::usage(format!(
                "{} is no file, and no HOST:PORT of a server",
                flags.of
            )));
        }
    }
    printer.out.flush().or_else(of_closed).map_err(Failure::new)
}

/// A reader that went away is no error.
fn of_closed(error: std::io::Error) -> std::io::Result<()> {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    }
}

fn of_file(path: &Path, flags: &BinlogDump, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let failed = |at: u64, error: &dyn std::fmt::Display| {
        Failure::new(format!("{}, at byte {at}: {error}", path.display()))
    };
    if flags.from.is_some() {
        return Err(Failure::usage(
            "--from is for servers: a file is read from its beginning",
        ));
    }
    let file = File::open(path).map_err(|error| failed(0, &error))?;
    let log = LogReader::open(BufReader::new(file));
    let mut log = log.map_err(|error| failed(0, &error))?;
    let dumped = runtime()?.block_on(dump(&mut log, printer));
    dumped.map_err(|error| failed(log.at(), &error))
}

fn of_server(
    place: (&str, u16),
    flags: &BinlogDump,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let login = login::login(place, &flags.user, flags.password_file.as_deref())?;
    runtime()?.block_on(read_server(&login, flags, printer))
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))
}

async fn read_server(
    login: &Login,
    flags: &BinlogDump,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let mut link = Link::open(login, TIMEOUT_MS).await.map_err(Failure::new)?;
    let engine = link.version().engine;
    let from = match &flags.from {
        Some(text) => Position::parse(engine, text).ok_or_else(|| {
            Failure::usage(format!("--from {text}: no GTIDs of {}", engine.name()))
        })?,
        None => oldest(&mut link, TIMEOUT_MS).await.map_err(Failure::new)?,
    };
    let end = heartbeat::position(&mut link, TIMEOUT_MS).await;
    let end = end.map_err(Failure::new)?;
    drop(link);
    let reader = Reader::with_sources(login, &from, HEARTBEAT_MS, TIMEOUT_MS).await;
    let reader = reader.map_err(Failure::new)?;
    let dumped = dump(Present { reader, end }, printer).await;
    dumped.map_err(Failure::new)
}

/// A server's binlog as far as it went when the reading began.
struct Present {
    reader: Reader,
    end: Position,
}

impl Generator for Present {
    type Error = engine::Error;

    async fn next(&mut self) -> Result<Option<Event>, engine::Error> {
        if self.reader.position().covers(&self.end) {
            return Ok(None);
        }
        let event = self.reader.next().await?;
        Ok(Some(event).filter(|it| !matches!(it, Event::Alive)))
    }

    fn position(&self) -> &Position {
        self.reader.position()
    }

    fn place(&self) -> (&str, u64) {
        self.reader.place()
    }

    fn time_s(&self) -> u32 {
        self.reader.time_s()
    }
}

/// Prints what a generator tells, in the form that is wanted.
async fn dump(mut from: impl Generator, printer: &mut Printer<'_>) -> Result<(), String> {
    if !printer.as_sql {
        let mut lines = Local::new(from, "", printer.wanted.clone());
        while !printer.is_closed
            && let Some(Told { line, .. }) = lines.told().await?
        {
            printer.write(format!("{{{line}}}").into_bytes())?;
        }
        return Ok(());
    }
    let told = from.position().clone();
    let mut gathering = Transactions::new(told, Default::default(), TRANSACTION_BYTES_MAX);
    while !printer.is_closed
        && let Some(event) = from.next().await.map_err(|error| error.to_string())?
    {
        let ended = gathering.take(event, from.position(), from.place(), from.time_s());
        let mut lines = Vec::new();
        match ended {
            Ok(Some(ended)) => printer.statements(&ended, &mut lines)?,
            Ok(None) => {}
            // It was prepared in an earlier file.
            Err(_) => lines.push(b"-- a branch of an earlier file is committed".to_vec()),
        }
        lines.into_iter().try_for_each(|line| printer.write(line))?;
    }
    Ok(())
}

struct Printer<'a> {
    out: BufWriter<std::io::StdoutLock<'a>>,
    as_sql: bool,
    /// What the session has that runs the statements.
    session: Session,
    /// Where files of LOAD DATA are written.
    loads: PathBuf,
    wanted: Wanted,
    /// Nobody reads it any more.
    is_closed: bool,
}

impl Printer<'_> {
    fn write(&mut self, mut line: Vec<u8>) -> Result<(), String> {
        line.push(b'\n');
        match self.out.write_all(&line) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => self.is_closed = true,
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    fn statements(&mut self, ended: &Ended, lines: &mut Vec<Vec<u8>>) -> Result<(), String> {
        let (mut head, mut own) = (Vec::new(), Vec::<Vec<u8>>::new());
        for part in parts(ended) {
            match part {
                Part::Source(text) => {
                    let text = String::from_utf8_lossy(text);
                    own.extend(text.lines().map(|line| format!("-- {line}").into_bytes()));
                }
                Part::Block(block) => self.keep(block)?,
                Part::Statement(statement) => self.statement(statement, &mut head, &mut own),
                Part::Rows(rows) => {
                    if !self.wanted.has(&rows.table.database, &rows.table.name) {
                        continue;
                    }
                    own.extend(self.session.of_rows().into_iter().map(ended_line));
                    for change in rows.changes() {
                        own.push(ended_line(sql::statement(rows, &change?)?));
                    }
                }
            }
        }
        let is_comment = |line: &Vec<u8>| line.starts_with(b"--");
        if !own.iter().all(is_comment) {
            lines.push(format!("-- {}", ended.gtid).into_bytes());
            lines.extend(head);
            lines.push(b"BEGIN;".to_vec());
            lines.extend(own);
            lines.push(b"COMMIT;".to_vec());
        }
        Ok(())
    }

    /// A statement as it stands in the log, behind what its session had.
    fn statement(
        &mut self,
        statement: &Statement,
        head: &mut Vec<Vec<u8>>,
        own: &mut Vec<Vec<u8>>,
    ) {
        let settings = self.session.of(statement).into_iter();
        // Some of them cannot be changed within a transaction.
        let is_first = own.iter().all(|line| line.starts_with(b"--"));
        let before = if is_first { head } else { &mut *own };
        before.extend(settings.map(|line| match line.starts_with("--") {
            true => line.into_bytes(),
            false => ended_line(line),
        }));
        // Nobody can be in a database that is made, or was dropped.
        let of_database = OF_DATABASES.iter().any(|it| begins(&statement.text, it));
        if !statement.database.is_empty() && !of_database {
            let name = statement.database.replace('`', "``");
            own.push(ended_line(format!("USE `{name}`")));
        }
        let mut text = match &statement.load {
            Some(load) => self.loading(load, &statement.text),
            None => statement.text.clone(),
        };
        text.push(b';');
        own.push(text);
    }

    /// The file of a LOAD DATA.
    fn load_file(&self, file: u32) -> PathBuf {
        self.loads
            .join(format!("SQL_LOAD_HD-{}-{file}", std::process::id()))
    }

    /// Writes a piece of the file of a LOAD DATA that comes.
    fn keep(&self, block: &Block) -> Result<(), String> {
        let path = self.load_file(block.file);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = File::options();
        let mut file = file.create(true).append(true).open(&path).map_err(failed)?;
        file.write_all(&block.data).map_err(failed)
    }

    /// LOAD DATA with the name of the file that was written.
    fn loading(&self, load: &Load, text: &[u8]) -> Vec<u8> {
        const REPLACE: u8 = 2;
        let (begin, end) = (load.name.0 as usize, load.name.1 as usize);
        let path = self.load_file(load.file).display().to_string();
        let path = path.replace('\\', "\\\\").replace('\'', "''");
        let duplicates = if load.duplicates == REPLACE {
            " REPLACE"
        } else {
            ""
        };
        let mut whole = text.get(..begin).unwrap_or_default().to_vec();
        whole.extend(format!(" LOCAL INFILE '{path}'{duplicates} INTO").bytes());
        whole.extend(text.get(end..).unwrap_or_default());
        whole
    }
}

/// A statement with its end.
fn ended_line(statement: String) -> Vec<u8> {
    (statement + ";").into_bytes()
}

const OF_DATABASES: [&str; 4] = [
    "CREATE DATABASE",
    "CREATE SCHEMA",
    "DROP DATABASE",
    "DROP SCHEMA",
];

fn begins(text: &[u8], with: &str) -> bool {
    let begin = text.get(..with.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(with.as_bytes()))
}

/// None is too long here.
fn parts(ended: &Ended) -> &[Part] {
    match &ended.parts {
        Parts::Kept(parts) => parts,
        Parts::Reread { .. } => &[],
    }
}
