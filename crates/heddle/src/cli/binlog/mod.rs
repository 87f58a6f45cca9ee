//! `heddle binlog dump`: a binlog's transactions, of a file or of a server, as lines of JSON or as statements.

mod settings;

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use changes::{
    Block, Decoder, End, Ended, Event, Load, LogFile, Part, Parts, Statement, Teller, Told,
    Transactions, Wanted, Xid, sql,
};
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
        teller: Teller::new("", wanted.clone()),
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
    let mut log = LogFile::open(BufReader::new(file)).map_err(|error| failed(0, &error))?;
    let nothing = Position::empty(log.engine());
    let mut decoder = Decoder::new(log.engine(), nothing.clone());
    let mut gathering = gathering(nothing);
    while !printer.is_closed {
        let at = log.at();
        let Some(raw) = log.read_event().map_err(|error| failed(at, &error))? else {
            return Ok(());
        };
        let told = decoder.take(raw).map_err(|error| failed(at, &error))?;
        for event in told.into_iter().chain(decoder.due()) {
            let (position, place) = (decoder.position().clone(), decoder.place());
            let ended = take(&mut gathering, event, &position, place, decoder.time_s());
            printer.print(ended).map_err(|error| failed(at, &error))?;
        }
    }
    Ok(())
}

fn of_server(
    place: (&str, u16),
    flags: &BinlogDump,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let login = login::login(place, &flags.user, flags.password_file.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(read_server(&login, flags, printer))
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
    let until = heartbeat::position(&mut link, TIMEOUT_MS).await;
    let until = until.map_err(Failure::new)?;
    drop(link);
    let reader = Reader::with_sources(login, &from, HEARTBEAT_MS, TIMEOUT_MS).await;
    let mut reader = reader.map_err(Failure::new)?;
    let mut gathering = gathering(from);
    while !printer.is_closed && !reader.position().covers(&until) {
        let event = reader.next().await.map_err(Failure::new)?;
        if matches!(event, Event::Alive) {
            break;
        }
        let (position, place) = (reader.position().clone(), reader.place());
        let ended = take(&mut gathering, event, &position, place, reader.time_s());
        printer.print(ended).map_err(Failure::new)?;
    }
    Ok(())
}

/// Gathers all transactions whose end is there.
fn gathering(told: Position) -> Transactions {
    Transactions::new(told, Default::default(), TRANSACTION_BYTES_MAX)
}

/// What ended, with the name of a branch whose preparation is not there.
fn take(
    gathering: &mut Transactions,
    event: Event,
    position: &Position,
    place: (&str, u64),
    time_s: u32,
) -> Result<Option<Ended>, Option<Xid>> {
    let xid = match &event {
        Event::End(End::BranchCommitted(xid)) => Some(xid.clone()),
        _ => None,
    };
    let taken = gathering.take(event, position, place, time_s);
    taken.map_err(|_| xid)
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
    /// Nobody reads it any more.
    is_closed: bool,
}

impl Printer<'_> {
    fn print(&mut self, ended: Result<Option<Ended>, Option<Xid>>) -> Result<(), String> {
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
            .begin(&ended.gtid, ended.time_s, ended.xid.as_ref(), None);
        let mut told = Vec::new();
        for part in parts(ended) {
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
