//! What can go wrong with a server process; each text says what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// An error with its cure in the text: these reach an operator as one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no {engine} server found in PATH or the usual places: {cure}")]
    BinaryMissing {
        engine: &'static str,
        cure: &'static str,
    },
    #[error("{} is not a {engine} server that can be run: {reason}", path.display())]
    BinaryUnusable {
        path: PathBuf,
        engine: &'static str,
        reason: String,
    },
    #[error("{} has no SQL files to initialise a data directory with (looked in {}): install the whole server package", path.display(), share.display())]
    ShareMissing { path: PathBuf, share: PathBuf },
    #[error("initialising a data directory with {} failed: {reason}", path.display())]
    Initialise { path: PathBuf, reason: String },
    #[error("cannot {operation} {}: {source}", path.display())]
    File {
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "port {port} of server {name} is in use by another program: end that one (`ss -ltnp` shows \
         it), then start again"
    )]
    PortInUse { name: String, port: u16 },
    #[error("server {name} ended while starting ({status}); the end of {}: {tail}", log.display())]
    Ended {
        name: String,
        status: ExitStatus,
        log: PathBuf,
        tail: String,
    },
    #[error("server {name} did not answer within {waited_s} s; the end of {}: {tail}", log.display())]
    Silent {
        name: String,
        waited_s: u64,
        log: PathBuf,
        tail: String,
    },
    #[error("server {name} (pid {pid}) did not end: kill it by hand")]
    Unstoppable { name: String, pid: u32 },
}

impl Error {
    /// MariaDB could not cut its binary log as `init_rpl_role=SLAVE` asks, or not recover by it.
    pub fn is_uncut_log(&self) -> bool {
        matches!(self, Error::Ended { tail, .. } if tail.contains("Can't init tc log"))
    }

    pub(crate) fn file(
        operation: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = path.as_ref().to_owned();
        move |source| Error::File {
            operation,
            path,
            source,
        }
    }
}
