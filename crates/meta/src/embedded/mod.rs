//! The state store of a single router: one redb file.
//!
//! Every transaction is synced to disk before it is answered. File work runs on tokio's blocking
//! threads, so that a slow disk delays no probe. After an I/O error redb refuses to go on with an
//! open file; it is opened again for the next request, so a disk that was full heals by itself.
//!
//! Leases live in memory, each watched by a task that ends it in time; their keys are marked in the
//! file, so that the next process deletes what this one did not.
//!
//! A file may be lent to another process, and be taken back ([`Embedded::lend`]).
//!
//! Lock order: the file, then the leases, then the history.

mod file;
mod leases;
mod lent;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redb::Database;
use tokio::sync::watch;

use self::file::{Failure, open_file, prepare, read_one, read_prefix, write};
use self::leases::Leases;
use crate::{
    Answer, Change, Entry, Error, Lease, LeaseId, Listing, Outcome, Store, Transaction, Update,
    Watch,
};

/// The name of the file in the directory of [`Embedded::open`].
const FILE_NAME: &str = "state.redb";

/// Updates kept for watches that lag behind; whoever is further behind gets a gap.
const UPDATES_MAX: usize = 1024;

/// A state store in the file `state.redb` of a directory.
pub struct Embedded {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    file: Mutex<File>,
    leases: Mutex<Leases>,
    history: Mutex<History>,
    /// The newest revision; watches wait for it to move.
    newest: watch::Sender<u64>,
}

enum File {
    Open(Database),
    /// After an I/O error, until the next request opens it again.
    Closed,
    /// Another process may have it; what that one tells of it.
    Lent(Arc<Listing>),
}

/// The updates since the store was opened, bounded.
struct History {
    updates: VecDeque<Update>,
    /// Updates up to this revision are not, or no longer, in the history.
    floor: u64,
}

impl Embedded {
    /// Opens the file, or makes it. The directory must exist. The file is locked until the store and
    /// all its watches are dropped.
    pub fn open(dir: &Path) -> Result<Embedded, Error> {
        let path = dir.join(FILE_NAME);
        let file = open_file(&path)?;
        let revision = prepare(&file).map_err(|failure| failure.describe("prepare", &path))?;
        let (newest, _) = watch::channel(revision);
        let history = Mutex::new(History {
            updates: VecDeque::new(),
            floor: revision,
        });
        Ok(Embedded {
            inner: Arc::new(Inner {
                path,
                file: Mutex::new(File::Open(file)),
                leases: Mutex::default(),
                history,
                newest,
            }),
        })
    }

    /// Makes all later revisions greater than this one. For stores that nobody uses: a farm that
    /// moves.
    pub async fn raise_revisions(&self, above: u64) -> Result<(), Error> {
        self.blocking(move |inner| {
            inner.with_file("write", |open| {
                let newest = file::raise(open, above)?;
                lock(&inner.history).floor = newest;
                inner.newest.send_replace(newest);
                Ok(())
            })
        })
        .await
    }

    /// Whether the directory has such a file.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(FILE_NAME).exists()
    }

    /// Runs file work on a blocking thread. It ends even when the future is dropped.
    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'_, T> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            // The task fails only if it panicked or the runtime ended before it began.
            tokio::task::spawn_blocking(move || work(&inner))
                .await
                .unwrap_or(Err(Error::Closed))
        })
    }
}

impl Store for Embedded {
    fn get(&self, key: &str) -> Answer<'_, Option<Entry>> {
        let key = key.to_owned();
        self.blocking(move |inner| match inner.told() {
            Some(told) => Ok(lent::find(&told, &key)),
            None => inner.with_file("read", |file| read_one(file, &key)),
        })
    }

    fn scan(&self, prefix: &str) -> Answer<'_, Listing> {
        let prefix = prefix.to_owned();
        self.blocking(move |inner| match inner.told() {
            Some(told) => Ok(lent::list(&told, &prefix)),
            None => inner.with_file("read", |file| read_prefix(file, &prefix)),
        })
    }

    fn commit(&self, transaction: Transaction) -> Answer<'_, Outcome> {
        self.blocking(move |inner| inner.commit(transaction))
    }

    fn watch(&self, prefix: &str, after: u64) -> Answer<'_, Box<dyn Watch>> {
        let watch = EmbeddedWatch {
            inner: Arc::clone(&self.inner),
            prefix: prefix.to_owned(),
            after,
            newest: self.inner.newest.subscribe(),
        };
        Box::pin(async move { Ok(Box::new(watch) as Box<dyn Watch>) })
    }

    fn embedded(&self) -> Option<&Embedded> {
        Some(self)
    }

    fn lease(&self, ttl: Duration) -> Answer<'_, Box<dyn Lease>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move { Ok(leases::grant(inner, ttl)) })
    }
}

impl Inner {
    /// Lends the open file. A failure of the file closes it; the next request opens it anew.
    fn with_file<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Database) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        let mut slot = lock(&self.file);
        let file = match std::mem::replace(&mut *slot, File::Closed) {
            File::Open(file) => file,
            File::Closed => open_file(&self.path)?,
            lent @ File::Lent(_) => {
                *slot = lent;
                return Err(Error::Lent);
            }
        };
        let result = work(&file);
        match result {
            Ok(value) => {
                *slot = File::Open(file);
                Ok(value)
            }
            Err(failure) => Err(failure.describe(operation, &self.path)),
        }
    }

    fn commit(&self, transaction: Transaction) -> Result<Outcome, Error> {
        if let Some(twice) = transaction.key_twice() {
            return Err(Error::KeyTwice(twice.to_owned()));
        }
        let leases = transaction.changes.iter().filter_map(Change::lease);
        let leases: Vec<LeaseId> = leases.collect();
        self.with_file("write", |file| {
            // A lease that ends after this look deletes its keys after this transaction, since that
            // takes the file too.
            if !lock(&self.leases).all_live(&leases) {
                return Ok(Err(Error::LeaseLost));
            }
            let outcome = write(file, &transaction)?;
            // Still under the file's lock, so the history is in the order of the revisions.
            if let Outcome::Applied(revision) = outcome {
                self.remember(Update {
                    revision,
                    changes: transaction.changes,
                });
            }
            Ok(Ok(outcome))
        })?
    }

    fn remember(&self, update: Update) {
        let revision = update.revision;
        let mut history = lock(&self.history);
        history.updates.push_back(update);
        if history.updates.len() > UPDATES_MAX {
            let dropped = history.updates.pop_front();
            history.floor = dropped.map_or(history.floor, |update| update.revision);
        }
        drop(history);
        self.newest.send_replace(revision);
    }

    /// The first update after `after` that touches the prefix; otherwise how far has been looked.
    fn update_after(&self, after: u64, prefix: &str) -> Result<Result<Update, u64>, Error> {
        let history = lock(&self.history);
        if after < history.floor {
            return Err(Error::Gap);
        }
        for update in history
            .updates
            .iter()
            .filter(|update| update.revision > after)
        {
            let touches = |change: &&Change| change.key().starts_with(prefix);
            let changes: Vec<Change> = update.changes.iter().filter(touches).cloned().collect();
            if !changes.is_empty() {
                return Ok(Ok(Update {
                    revision: update.revision,
                    changes,
                }));
            }
        }
        Ok(Err(history
            .updates
            .back()
            .map_or(after, |update| update.revision.max(after))))
    }
}

struct EmbeddedWatch {
    inner: Arc<Inner>,
    prefix: String,
    after: u64,
    newest: watch::Receiver<u64>,
}

impl Watch for EmbeddedWatch {
    fn next(&mut self) -> Answer<'_, Update> {
        Box::pin(async move {
            loop {
                // Marked as seen before the look, so that an update in between wakes the wait below.
                self.newest.borrow_and_update();
                match self.inner.update_after(self.after, &self.prefix)? {
                    Ok(update) => {
                        self.after = update.revision;
                        return Ok(update);
                    }
                    Err(looked_up_to) => self.after = looked_up_to,
                }
                // The sender lives in `inner`, which this watch holds.
                self.newest.changed().await.map_err(|_| Error::Closed)?;
            }
        })
    }
}

/// Takes a lock whose data stays whole even if a holder panicked: every holder replaces it in one
/// step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
