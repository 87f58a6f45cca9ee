//! Whether files have changed, by a look at them now and then.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Time between two looks.
pub const LOOK: Duration = Duration::from_secs(2);

/// What tells that a file has changed: each has a time and a length, or is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp(Vec<Option<(SystemTime, u64)>>);

impl Stamp {
    /// The stamp of these files as they are now.
    pub fn of<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Stamp {
        let stamp = |path: &PathBuf| {
            let found = fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        Stamp(files.map(stamp).collect())
    }
}
