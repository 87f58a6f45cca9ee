//! What can go wrong with a state store, each with its cure.

use std::path::PathBuf;

/// Errors of a [`crate::Store`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the state file {} is in use by another process; stop the other heddle, or give this one a \
         data directory of its own", .0.display()
    )]
    Locked(PathBuf),
    #[error("cannot {operation} {}: {source}; {cure}", path.display())]
    File {
        operation: &'static str,
        path: PathBuf,
        source: std::io::Error,
        cure: &'static str,
    },
    #[error(
        "the state file {} is damaged ({reason}); move it away and restore a copy, or begin a new \
         farm without it", path.display()
    )]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "the state file {} was written by another version of Heddle ({reason}); use that version, \
         or move the file away", path.display()
    )]
    Format { path: PathBuf, reason: String },
    #[error("a transaction names the key {0} twice; this is a fault in Heddle, please report it")]
    KeyTwice(String),
    #[error("updates of the state store were missed; the farm is read again")]
    Gap,
    #[error("the lease has ended, and what it held in the state store is free")]
    LeaseLost,
    #[error("cannot reach etcd at {urls}: {reason}; {cure}")]
    Unreachable {
        urls: String,
        reason: String,
        cure: &'static str,
    },
    #[error(
        "etcd refuses these credentials ({0}); check `etcd_user` and `etcd_password`, and that the \
         account may read and write all keys that begin with `etcd_prefix`"
    )]
    Credentials(String),
    #[error(
        "etcd is full ({0}) and takes no more writes; free space with `etcdctl compact`, `etcdctl \
         defrag` and then `etcdctl alarm disarm`, or raise its --quota-backend-bytes"
    )]
    Full(String),
    #[error("this is too large for etcd ({0}); raise its --max-request-bytes and --max-txn-ops")]
    TooLarge(String),
    #[error(
        "{0} belongs to another etcd cluster than the other URLs; `etcd` must name members of one \
         cluster"
    )]
    OtherCluster(String),
    #[error("etcd says: {0}; look at its log, and at `etcdctl endpoint health`")]
    Etcd(String),
    #[error("the farm's state is with the heddle that takes over from this one; ask that one")]
    Lent,
    #[error("the state store was closed")]
    Closed,
}

impl Error {
    /// An error of the operating system, with what usually mends it.
    pub(crate) fn file(operation: &'static str, path: PathBuf, source: std::io::Error) -> Error {
        use std::io::ErrorKind;
        let cure = match source.kind() {
            ErrorKind::NotFound => "make the directory first, or choose another data directory",
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "give the user who runs heddle the right to write there, or choose another data \
                 directory"
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "the disk is full; free some space and try again"
            }
            _ => "look at the disk and the system log",
        };
        Error::File {
            operation,
            path,
            source,
            cure,
        }
    }
}
