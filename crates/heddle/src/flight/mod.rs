//! The flight recorder of this process: rings in memory that outlives it, dumps that outlive the rings.
//!
//! Job: give each core and the control plane a ring ([`recorder`] says what stands there), copy the rings into a dump when
//! somebody asks or something goes wrong, and keep what a process left that ended without notice.
//!
//! Invariants: what cannot be recorded keeps no router from serving; no core waits for a file; a process touches the
//! rings of another one only when that one has ended.
//!
//! Must not know: what steps mean.

pub mod home;
mod watch;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use catalog::event::{epoch_ms, when};
use farm::Snapshot;
use meta::private;
use reactor::Dealer;
use recorder::{CONTROL, Notes, Ring, Step, note};
use session::{Message, Visit};

use self::home::Home;
use crate::data_plane::count;
use crate::settings::Settings;

pub use watch::watch;

/// Of older dumps the oldest go.
const DUMPS_MAX: usize = 10;

/// One that panics again and again fills no disk.
const PANICS_APART_MS: u64 = 10_000;

/// The end of a dump's name.
pub const DUMP: &str = "trace";

/// The end of a ring's name.
pub const RING: &str = "ring";

/// In the directory of the rings: the names that go with their numbers.
const NAMES: &str = "names";

/// Dumps of a process that ended without notice.
const CRASH: &str = "crash";

/// For the panic hook, which has nothing else.
static OF_PROCESS: OnceLock<Arc<FlightRecorder>> = OnceLock::new();

/// The rings of this process.
pub struct FlightRecorder {
    /// Records of each ring.
    records: u64,
    /// Where the rings are; locked while this process lives.
    rings: PathBuf,
    _lock: File,
    dumps: PathBuf,
    notes: Mutex<Notes>,
    panicked_ms: AtomicU64,
    has_ended: AtomicBool,
}

/// A dump that was written.
pub struct Dump {
    pub path: PathBuf,
    pub bytes: u64,
}

/// Begins to record, unless the setting says otherwise, and keeps what a process before left. This thread is that of the
/// control plane. What fails is logged, and nothing is recorded then.
pub fn start(settings: &Settings, state: &Path) -> Option<Arc<FlightRecorder>> {
    let home = Home::of(state);
    for dead in home.left() {
        match keep(&dead.path, &home.dumps) {
            Ok(Some(dump)) => tracing::warn!(
                dump = %dump.path.display(),
                "a process before this one ended without notice; `heddle trace show` tells its last steps"
            ),
            Ok(None) => {}
            Err(error) => tracing::warn!("{} is lost: {error}", dead.path.display()),
        }
    }
    if settings.flight_recorder == 0 {
        return None;
    }
    let failed = |error: io::Error| {
        tracing::warn!("nothing is recorded for `heddle trace`: {error}");
    };
    let recorder = FlightRecorder::open(settings.flight_recorder, home)
        .map_err(failed)
        .ok()?;
    let recorder = Arc::new(recorder);
    recorder.begin(CONTROL, reactor::since_origin_us);
    note(0, Step::Started {});
    if OF_PROCESS.set(Arc::clone(&recorder)).is_ok() {
        dump_panics();
    }
    Some(recorder)
}

impl FlightRecorder {
    fn open(records: u64, home: Home) -> io::Result<FlightRecorder> {
        private::create_dir(&home.dumps)?;
        let (rings, lock) = home.begin()?;
        let notes = Notes {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Notes::default()
        };
        Ok(FlightRecorder {
            records,
            rings,
            _lock: lock,
            dumps: home.dumps,
            notes: Mutex::new(notes),
            panicked_ms: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        })
    }

    /// Gives every core its ring. A core takes it between two events.
    pub fn begin_cores(self: &Arc<Self>, dealer: &Dealer<Message>) {
        for core in 0..dealer.cores() {
            let recorder = Arc::clone(self);
            let begin = move |_| recorder.begin(core as u32, reactor::turn_us);
            dealer.send(core, Message::Visit(Visit::new(begin)));
        }
    }

    /// This thread has a ring from now on.
    fn begin(&self, core: u32, clock: fn() -> u64) {
        let name = match core {
            CONTROL => "control".to_owned(),
            core => format!("core-{core}"),
        };
        let path = self.rings.join(name).with_extension(RING);
        let bytes = count(recorder::bytes_of(self.records));
        let mapped = private::create(&path).and_then(|file| reactor::mapped(&file, bytes));
        let words = match mapped {
            Ok(words) => words,
            Err(error) => {
                // Nobody takes it for a ring that was damaged.
                let _ = fs::remove_file(&path);
                return tracing::warn!("{} records nothing: {error}", path.display());
            }
        };
        let ring = Ring {
            core,
            process: std::process::id(),
            origin_us: epoch_ms()
                .saturating_mul(1000)
                .saturating_sub(reactor::since_origin_us()),
        };
        recorder::install(words, ring, clock);
    }

    /// The names of this snapshot go with what is recorded.
    fn name(&self, snapshot: &Snapshot) {
        let mut notes = self.notes();
        for group in &snapshot.groups {
            notes.groups.insert(group.number, group.name.to_string());
            for server in &group.servers {
                let of = (server.address(), group.name.to_string());
                notes.servers.insert(server.id.0, of);
            }
        }
        let section = notes.section();
        drop(notes);
        // Beside a ring, so that they are there after a kill -9.
        if let Err(error) = replace(&self.rings.join(NAMES), &[section]) {
            tracing::debug!("the names of servers are not written: {error}");
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies what all rings hold now into a file, for this cause. Blocks for as long as that takes to write; threads go
    /// on with their rings meanwhile.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn dump(&self, cause: &str) -> io::Result<Dump> {
        let mut notes = self.notes().clone();
        notes.cause = cause.to_owned();
        let mut sections = vec![notes.section()];
        for path in home::files(&self.rings, RING)? {
            sections.push(fs::read(path)?);
        }
        let dump = write(&self.dumps, cause, &sections)?;
        tracing::info!(cause, dump = %dump.path.display(), "the last steps are kept");
        Ok(dump)
    }

    /// The router ends in order: nobody will want to know what came last.
    pub fn end(&self) {
        if !self.has_ended.swap(true, Ordering::SeqCst) {
            // The threads may go on to write: what they have mapped stays until the last of them ends.
            let _ = fs::remove_dir_all(&self.rings);
        }
    }

    fn dump_panic(self: &Arc<Self>) {
        let now_ms = epoch_ms();
        let before_ms = self.panicked_ms.swap(now_ms, Ordering::SeqCst);
        if now_ms.saturating_sub(before_ms) < PANICS_APART_MS {
            return;
        }
        let recorder = Arc::clone(self);
        // The thread that panics may be a core, which has clients to serve.
        let write = move || recorder.dump("panic").map(drop);
        let _ = std::thread::Builder::new()
            .name("trace-dump".to_owned())
            .spawn(write);
    }
}

/// Keeps the last steps whenever a thread panics, before it says so.
fn dump_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        note(0, Step::Panicked {});
        if let Some(recorder) = OF_PROCESS.get() {
            recorder.dump_panic();
        }
        before(panic);
    }));
}

/// Makes a dump of the rings that a process left, and removes them; `None` where there are none.
fn keep(rings: &Path, dumps: &Path) -> io::Result<Option<Dump>> {
    let files = home::files(rings, RING)?;
    let dump = match files.is_empty() {
        true => None,
        false => {
            private::create_dir(dumps)?;
            let notes = Notes {
                cause: CRASH.to_owned(),
                ..Notes::default()
            };
            let mut sections = vec![notes.section()];
            sections.extend(fs::read(rings.join(NAMES)));
            for path in files {
                sections.push(fs::read(path)?);
            }
            Some(write(dumps, CRASH, &sections)?)
        }
    };
    fs::remove_dir_all(rings)?;
    Ok(dump)
}

/// Writes a dump, and removes the oldest of too many.
fn write(dumps: &Path, cause: &str, sections: &[Vec<u8>]) -> io::Result<Dump> {
    let name = format!("{}-{cause}.{DUMP}", when(epoch_ms()).replace(':', ""));
    let path = dumps.join(name);
    replace(&path, sections)?;
    let all = home::files(dumps, DUMP)?;
    for old in all.iter().rev().skip(DUMPS_MAX) {
        let _ = fs::remove_file(old);
    }
    let bytes = sections.iter().map(Vec::len).sum::<usize>() as u64;
    Ok(Dump { path, bytes })
}

/// Nobody finds a part of a file.
fn replace(path: &Path, sections: &[Vec<u8>]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = private::create(&new)?;
    sections
        .iter()
        .try_for_each(|section| file.write_all(section))?;
    fs::rename(&new, path)
}
