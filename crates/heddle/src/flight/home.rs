//! Where rings and dumps are.
//!
//! Dumps are in `trace` in the state directory. Rings are in memory where there is a file system in memory: a page of a
//! file on a disk may be held while the disk writes it, and with it the core that has a step to write. `trace/live` leads
//! there. Each process has a directory of its own, with a file that it keeps locked.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crc32fast::hash;
use meta::private;

/// In the state directory.
const TRACE: &str = "trace";

/// Leads to the rings.
const LIVE: &str = "live";

/// The file that a process keeps locked while it writes rings.
const LOCK: &str = "lock";

/// What is made before it is locked has this end.
const NEW: &str = "new";

/// A file system in memory that everybody may write to.
const MEMORY: &str = "/dev/shm";

/// The places of one state directory.
pub struct Home {
    pub dumps: PathBuf,
    /// Directories of processes.
    rings: PathBuf,
}

/// Rings that a process left.
pub struct Left {
    pub path: PathBuf,
    /// Held while they are looked at.
    _lock: File,
}

impl Home {
    /// Of a router with this state directory, which is there.
    pub fn of(state: &Path) -> Home {
        let dumps = state.join(TRACE);
        let own = dumps.join("rings");
        let rings = in_memory(state)
            .filter(|rings| is_ours(rings))
            .unwrap_or(own);
        Home { dumps, rings }
    }

    /// A directory for the rings of this process, and its lock.
    pub fn begin(&self) -> io::Result<(PathBuf, File)> {
        private::create_dir(&self.rings)?;
        let live = self.dumps.join(LIVE);
        if fs::read_link(&live).ok().as_ref() != Some(&self.rings) {
            let _ = fs::remove_file(&live);
            symlink(&self.rings, &live)?;
        }
        // A process may be started anew with the number of one before.
        let name = format!("{}-{}", std::process::id(), reactor::since_origin_us());
        let (path, new) = (
            self.rings.join(&name),
            self.rings.join(name).with_extension(NEW),
        );
        private::create_dir(&new)?;
        let lock = private::create(&new.join(LOCK))?;
        lock.try_lock().map_err(io::Error::from)?;
        fs::rename(&new, &path)?;
        Ok((path, lock))
    }

    /// What processes left that have ended.
    pub fn left(&self) -> Vec<Left> {
        left(&self.rings)
    }
}

/// What processes left in this directory of rings that have ended, the oldest first.
fn left(rings: &Path) -> Vec<Left> {
    let directories = directories(rings).into_iter();
    let free = directories.filter_map(|path| {
        let lock = File::open(path.join(LOCK)).ok()?;
        match lock.try_lock() {
            Ok(()) => Some(Left { path, _lock: lock }),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
        }
    });
    free.collect()
}

/// The files that tell what a router did: of a state directory, its directory of dumps, or one of rings. First what a
/// process left that ended without notice, else the newest dump, else what the router that runs has written.
///
/// # Errors
/// The directory cannot be read, or has nothing of this.
pub fn newest(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let trace = dir.join(TRACE);
    let under_data = dir.join("state").join(TRACE);
    let places = [under_data, trace].into_iter().find(|place| place.is_dir());
    let place = places.unwrap_or_else(|| dir.to_owned());
    let live = place.join(LIVE);
    let rings = if live.is_dir() { live } else { place.clone() };
    if let Some(last) = left(&rings).last() {
        return of_process(&last.path);
    }
    if let Some(dump) = files(&place, super::DUMP)?.pop() {
        return Ok(vec![dump]);
    }
    match directories(&rings).last() {
        Some(process) => of_process(process),
        None => of_process(&place),
    }
}

fn of_process(path: &Path) -> io::Result<Vec<PathBuf>> {
    let rings = files(path, super::RING)?;
    if rings.is_empty() {
        return Err(io::Error::other("there is neither a dump nor a ring in it"));
    }
    let names = Some(path.join(super::NAMES)).filter(|names| names.is_file());
    Ok(names.into_iter().chain(rings).collect())
}

/// The files of a directory whose names end so, by name.
pub fn files(dir: &Path, end: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == end) && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Directories of processes, the oldest first.
fn directories(rings: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(rings).into_iter().flatten().flatten();
    let made = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    let mut found: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && path.extension().is_none())
        .map(|path| (made(&path), path))
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The directory in memory for this state directory.
fn in_memory(state: &Path) -> Option<PathBuf> {
    let state = state.canonicalize().ok()?;
    let of = hash(state.as_os_str().as_encoded_bytes());
    let user = rustix::process::geteuid().as_raw();
    let path = Path::new(MEMORY).join(format!("heddle-{user}-{of:08x}"));
    private::create_dir(&path).ok()?;
    Some(path)
}

/// Everybody may make directories there; nobody else may have made this one, or may look into it.
fn is_ours(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
}
