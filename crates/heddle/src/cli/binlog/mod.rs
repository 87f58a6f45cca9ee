//! `heddle binlog dump`: a binlog's transactions, of a file or of a server, as lines of JSON or as statements; or its
//! events as they are.

mod flags;
mod notes;
mod raw;
mod settings;

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use changes::replication::{Generator, LogReader};
use changes::{
    Block, Ended, Event, Load, Logged, Note, Part, Parts, Statement, Teller, Told, Transactions,
    UnknownBranch, Wanted, sql,
};
use engine::binlog::{Reader, oldest};
use engine::{Link, Login, heartbeat};
use farm::{Engine, Position};
pub use flags::BinlogDump;
use settings::Session;

use crate::cli::login;
use crate::failure::Failure;

/// For one question to a server.
const TIMEOUT_MS: u64 = 30_000;

/// The server says so often that it has no more.
const HEARTBEAT_MS: u64 = 1000;

/// A server that said so often in a row that it is there has no more. MySQL says it also behind transactions that it leaves
/// out, and goes on.
const SILENT_MAX: u32 = 3;

/// Of a transaction that ends so late that it has to be kept: it is for a machine of the operator's own.
const TRANSACTION_BYTES_MAX: usize = 1 << 30;

/// Prints the transactions.
///
/// # Errors
/// The file or the server cannot be read, or what it says cannot be told.
pub fn run(flags: &BinlogDump) -> Result<(), Failure> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let path = Path::new(&flags.of);
    let of = match (path.exists(), login::place_of(&flags.of)) {
        (true, _) => Of::File(path),
        (false, Some(place)) => Of::Server(place),
        (false, None) => {
            return Err(Failure::usage(format!(
                "{} is no file, and no HOST:PORT of a server",
                flags.of
            )));
        }
    };
    if flags.raw {
        match of {
            Of::File(path) => raw::of_file(path, flags, &mut out)?,
            Of::Server(place) => raw::of_server(place, flags, &mut out)?,
        }
        return out.flush().or_else(of_closed).map_err(Failure::new);
    }
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
        teller: Teller::new("", wanted.clone()),
        wanted,
        is_numbered: false,
        is_closed: false,
    };
    printer.teller.number_columns();
    match of {
        Of::File(path) => of_file(path, flags, &mut printer)?,
        Of::Server(place) => of_server(place, flags, &mut printer)?,
    }
    printer.out.flush().or_else(of_closed).map_err(Failure::new)
}

/// What is read.
enum Of<'a> {
    File(&'a Path),
    Server((&'a str, u16)),
}

/// What `--from` says; everything without it.
fn from(flags: &BinlogDump, engine: Engine) -> Result<Position, Failure> {
    let Some(text) = &flags.from else {
        return Ok(Position::empty(engine));
    };
    let unknown = || Failure::usage(format!("--from {text}: no GTIDs of {}", engine.name()));
    Position::parse(engine, text).ok_or_else(unknown)
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
    let file = File::open(path).map_err(|error| failed(0, &error))?;
    let log = LogReader::open(BufReader::new(file));
    let mut log = log.map_err(|error| failed(0, &error))?.with_notes();
    let told = from(flags, log.engine())?;
    let dumped = runtime()?.block_on(dump(&mut log, told, printer));
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

/// A server's binlog that is to be read, from where, and up to where.
struct Reading {
    reader: Reader,
    from: Position,
    until: Position,
    /// So often in a row the server said that it is there.
    silent: u32,
}

impl Reading {
    /// Nothing comes behind this event that is to be read.
    fn is_last(&mut self, event: &Event) -> bool {
        self.silent = match event {
            Event::Alive => self.silent + 1,
            _ => 0,
        };
        self.silent >= SILENT_MAX || self.is_read()
    }

    fn is_read(&self) -> bool {
        self.reader.position().covers(&self.until)
    }

    async fn begin(login: &Login, flags: &BinlogDump) -> Result<Reading, Failure> {
        let mut link = Link::open(login, TIMEOUT_MS).await.map_err(Failure::new)?;
        let engine = link.version().engine;
        let from = match &flags.from {
            Some(_) => from(flags, engine)?,
            None => oldest(&mut link, TIMEOUT_MS).await.map_err(Failure::new)?,
        };
        let until = heartbeat::position(&mut link, TIMEOUT_MS).await;
        let until = until.map_err(Failure::new)?;
        drop(link);
        let reader = Reader::with_sources(login, &from, HEARTBEAT_MS, TIMEOUT_MS).await;
        Ok(Reading {
            reader: reader.map_err(Failure::new)?,
            from,
            until,
            silent: 0,
        })
    }
}

async fn read_server(
    login: &Login,
    flags: &BinlogDump,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let mut reading = Reading::begin(login, flags).await?;
    reading.reader = reading.reader.with_notes();
    let told = reading.from.clone();
    let dumped = dump(reading, told, printer).await;
    dumped.map_err(Failure::new)
}

/// A generator that says, too, what the log says of itself.
trait Source: Generator {
    fn take_notes(&mut self) -> Vec<Note>;
}

impl<R: Read + Send> Source for &mut LogReader<R> {
    fn take_notes(&mut self) -> Vec<Note> {
        LogReader::take_notes(self)
    }
}

impl Source for Reading {
    fn take_notes(&mut self) -> Vec<Note> {
        self.reader.take_notes()
    }
}

impl Generator for Reading {
    type Error = engine::Error;

    async fn next(&mut self) -> Result<Option<Event>, engine::Error> {
        while !self.is_read() {
            let event = self.reader.next().await?;
            let is_last = self.is_last(&event);
            if !matches!(event, Event::Alive) {
                return Ok(Some(event));
            }
            if is_last {
                break;
            }
        }
        Ok(None)
    }

    fn position(&self) -> &Position {
        self.reader.position()
    }

    fn place(&self) -> (&str, u64) {
        self.reader.place()
    }

    fn logged(&self) -> Logged {
        self.reader.logged()
    }
}

/// Prints the transactions that were not told, and what the log says of itself.
async fn dump(
    mut from: impl Source,
    told: Position,
    printer: &mut Printer<'_>,
) -> Result<(), String> {
    let mut gathering = Transactions::new(told, Default::default(), TRANSACTION_BYTES_MAX);
    while !printer.is_closed {
        let event = from.next().await.map_err(|error| error.to_string())?;
        printer.notes(from.take_notes())?;
        let Some(event) = event else { break };
        let ended = gathering.take(event, from.position(), from.place(), from.logged());
        printer.print(ended)?;
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
    teller: Teller,
    wanted: Wanted,
    /// It was said that columns have no names.
    is_numbered: bool,
    /// Nobody reads it any more.
    is_closed: bool,
}

impl Printer<'_> {
    /// Prints what ended, if anything.
    fn print(&mut self, ended: Result<Option<Ended>, UnknownBranch>) -> Result<(), String> {
        let mut lines: Vec<Vec<u8>> = Vec::new();
        match ended {
            Ok(Some(ended)) => match self.as_sql {
                true => self.statements(&ended, &mut lines)?,
                false => self.events(&ended, &mut lines)?,
            },
            Ok(None) => {}
            // It was prepared in an earlier file.
            Err(_) if self.as_sql => {
                lines.push(b"-- a branch of an earlier file is committed".to_vec());
            }
            Err(_) => lines.push(
                br#"{"event":"gap","error":"a branch of an earlier file is committed"}"#.to_vec(),
            ),
        }
        self.write(lines)
    }

    fn write(&mut self, lines: Vec<Vec<u8>>) -> Result<(), String> {
        for mut line in lines {
            line.push(b'\n');
            match self.out.write_all(&line) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                    self.is_closed = true
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn events(&mut self, ended: &Ended, lines: &mut Vec<Vec<u8>>) -> Result<(), String> {
        self.teller
            .begin(&ended.gtid, ended.logged, ended.xid.as_ref(), None);
        let mut told = Vec::new();
        for part in parts(ended) {
            if let Part::Rows(rows) = part {
                self.say_numbered(rows, lines);
            }
            self.teller.part(part, &mut told)?;
        }
        told.extend(self.teller.end());
        let line = |Told { line, .. }| format!("{{{line}}}").into_bytes();
        lines.extend(told.into_iter().map(line));
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
                    self.say_numbered(rows, lines);
                    own.extend(self.session.of_rows().into_iter().map(ended_line));
                    for change in rows.changes() {
                        own.push(ended_line(sql::statement(rows, &change?)));
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
