//! The state store of a single router: one redb file.
//!
//! Every transaction is synced to disk before it is answered. File work runs on tokio's blocking
//! threads, so that a slow disk delays no probe. After an I/O error redb refuses to go on with an
//! open file; it is opened again for the next request, so a disk that was full heals by itself.
//!
//! Lock order: the file, then the history.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
};
use tokio::sync::watch;

use crate::{
    Answer, Change, Compare, Entry, Error, Listing, Outcome, Store, Transaction, Update, Watch,
};

/// The name of the file in the directory of [`Embedded::open`].
const FILE_NAME: &str = "state.redb";

/// Key -> (revision, JSON text).
const ENTRIES: TableDefinition<&str, (u64, &str)> = TableDefinition::new("entries");

/// Numbers of the store itself: `revision`, `format`.
const NUMBERS: TableDefinition<&str, u64> = TableDefinition::new("numbers");

/// The layout of the tables above; raised when an older Heddle could not read them.
const FORMAT: u64 = 1;

/// Updates kept for watches that lag behind; whoever is further behind gets a gap.
const UPDATES_MAX: usize = 1024;

/// redb's page cache. A farm's state is some kilobytes.
const CACHE_BYTES: usize = 1 << 20;

/// A state store in the file `state.redb` of a directory.
pub struct Embedded {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    /// `None` after an I/O error, until the next request opens the file again.
    file: Mutex<Option<Database>>,
    history: Mutex<History>,
    /// The newest revision; watches wait for it to move.
    newest: watch::Sender<u64>,
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
        let revision = check_format(&file).map_err(|failure| failure.describe("prepare", &path))?;
        let (newest, _) = watch::channel(revision);
        let history = Mutex::new(History {
            updates: VecDeque::new(),
            floor: revision,
        });
        Ok(Embedded {
            inner: Arc::new(Inner {
                path,
                file: Mutex::new(Some(file)),
                history,
                newest,
            }),
        })
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
        self.blocking(move |inner| inner.with_file("read", |file| read_one(file, &key)))
    }

    fn scan(&self, prefix: &str) -> Answer<'_, Listing> {
        let prefix = prefix.to_owned();
        self.blocking(move |inner| inner.with_file("read", |file| read_prefix(file, &prefix)))
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
}

impl Inner {
    /// Lends the open file. A failure of the file closes it; the next request opens it anew.
    fn with_file<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Database) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        let mut slot = lock(&self.file);
        let file = match slot.take() {
            Some(file) => file,
            None => open_file(&self.path)?,
        };
        let result = work(&file);
        match result {
            Ok(value) => {
                *slot = Some(file);
                Ok(value)
            }
            Err(failure) => Err(failure.describe(operation, &self.path)),
        }
    }

    fn commit(&self, transaction: Transaction) -> Result<Outcome, Error> {
        let mut keys = BTreeSet::new();
        if let Some(twice) = transaction
            .changes
            .iter()
            .find(|change| !keys.insert(change.key()))
        {
            return Err(Error::KeyTwice(twice.key().to_owned()));
        }
        self.with_file("write", |file| {
            let outcome = write(file, &transaction)?;
            // Still under the file's lock, so the history is in the order of the revisions.
            if let Outcome::Applied(revision) = outcome {
                self.remember(Update {
                    revision,
                    changes: transaction.changes,
                });
            }
            Ok(outcome)
        })
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

/// A failure of redb, before it is told which file and operation it was.
struct Failure(redb::Error);

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.into())
    }
}

impl Failure {
    fn describe(self, operation: &'static str, path: &Path) -> Error {
        let path = path.to_owned();
        match self.0 {
            redb::Error::Io(source) => Error::file(operation, path, source),
            redb::Error::DatabaseAlreadyOpen => Error::Locked(path),
            redb::Error::Corrupted(reason) => Error::Damaged { path, reason },
            other @ (redb::Error::UpgradeRequired(_) | redb::Error::TableTypeMismatch { .. }) => {
                Error::Format {
                    path,
                    reason: other.to_string(),
                }
            }
            other => Error::Damaged {
                path,
                reason: other.to_string(),
            },
        }
    }
}

fn open_file(path: &Path) -> Result<Database, Error> {
    match Database::builder().set_cache_size(CACHE_BYTES).create(path) {
        Ok(file) => Ok(file),
        // redb says this of a file that it did not write.
        Err(DatabaseError::Storage(StorageError::Io(error)))
            if error.kind() == std::io::ErrorKind::InvalidData =>
        {
            Err(Error::Damaged {
                path: path.to_owned(),
                reason: error.to_string(),
            })
        }
        Err(error) => Err(Failure::from(error).describe("open", path)),
    }
}

/// Makes the tables in a new file; gives the newest revision.
fn check_format(file: &Database) -> Result<u64, Failure> {
    let transaction = file.begin_write()?;
    let revision = {
        transaction.open_table(ENTRIES)?;
        let mut numbers = transaction.open_table(NUMBERS)?;
        let format = numbers.get("format")?.map(|format| format.value());
        match format {
            None => drop(numbers.insert("format", FORMAT)?),
            Some(FORMAT) => {}
            Some(newer) => {
                return Err(Failure(redb::Error::UpgradeRequired(
                    u8::try_from(newer).unwrap_or(u8::MAX),
                )));
            }
        }
        numbers
            .get("revision")?
            .map_or(0, |revision| revision.value())
    };
    transaction.commit()?;
    Ok(revision)
}

fn read_one(file: &Database, key: &str) -> Result<Option<Entry>, Failure> {
    let entries = file.begin_read()?.open_table(ENTRIES)?;
    let found = entries.get(key)?;
    Ok(found.map(|value| {
        let (revision, value) = value.value();
        Entry {
            key: key.to_owned(),
            value: value.to_owned(),
            revision,
        }
    }))
}

fn read_prefix(file: &Database, prefix: &str) -> Result<Listing, Failure> {
    let transaction = file.begin_read()?;
    let table = transaction.open_table(ENTRIES)?;
    let mut entries = Vec::new();
    for row in table.range(prefix..)? {
        let (key, value) = row?;
        if !key.value().starts_with(prefix) {
            break;
        }
        let (revision, value) = value.value();
        entries.push(Entry {
            key: key.value().to_owned(),
            value: value.to_owned(),
            revision,
        });
    }
    let numbers = transaction.open_table(NUMBERS)?;
    let revision = numbers
        .get("revision")?
        .map_or(0, |revision| revision.value());
    Ok(Listing { entries, revision })
}

fn write(file: &Database, wanted: &Transaction) -> Result<Outcome, Failure> {
    let transaction = file.begin_write()?;
    let revision = {
        let mut entries = transaction.open_table(ENTRIES)?;
        for compare in &wanted.compares {
            let (key, expected) = match compare {
                Compare::Absent(key) => (key, None),
                Compare::Revision(key, revision) => (key, Some(*revision)),
            };
            let found = entries.get(key.as_str())?.map(|value| value.value().0);
            if found != expected {
                return Ok(Outcome::Stale);
            }
        }
        let mut numbers = transaction.open_table(NUMBERS)?;
        let revision = numbers
            .get("revision")?
            .map_or(0, |revision| revision.value())
            + 1;
        numbers.insert("revision", revision)?;
        for change in &wanted.changes {
            match change {
                Change::Put { key, value } => {
                    entries.insert(key.as_str(), (revision, value.as_str()))?;
                }
                Change::Delete { key } => {
                    entries.remove(key.as_str())?;
                }
            }
        }
        revision
    };
    transaction.commit()?;
    Ok(Outcome::Applied(revision))
}

/// Takes a lock whose data stays whole even if a holder panicked: every holder replaces it in one
/// step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &tempfile::TempDir) -> Embedded {
        Embedded::open(dir.path()).expect("a new file")
    }

    #[tokio::test]
    async fn suite() {
        let dir = tempfile::tempdir().expect("a directory");
        crate::suite::run(&open(&dir)).await;
    }

    #[tokio::test]
    async fn state_outlives_the_process() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(&dir);
        let done = store
            .commit(Transaction::new().put("/farm/id", "\"f\""))
            .await;
        let Ok(Outcome::Applied(revision)) = done else {
            panic!("{done:?}")
        };
        drop(store);

        let store = open(&dir);
        let entry = store
            .get("/farm/id")
            .await
            .expect("readable")
            .expect("kept");
        assert_eq!((entry.value.as_str(), entry.revision), ("\"f\"", revision));
        // Revisions go on from where they were; a watch from before the restart has a gap.
        let mut watch = store.watch("/", revision - 1).await.expect("a watch");
        assert!(matches!(watch.next().await, Err(Error::Gap)));
        let next = store
            .commit(Transaction::new().put("/a", "1"))
            .await
            .expect("written");
        assert_eq!(next, Outcome::Applied(revision + 1));
    }

    #[tokio::test]
    async fn a_watch_that_lags_too_far_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(&dir);
        let mut watch = store.watch("/", 0).await.expect("a watch");
        for revision in 1..=UPDATES_MAX as u64 + 1 {
            store.inner.remember(Update {
                revision,
                changes: vec![Change::Delete {
                    key: "/x".to_owned(),
                }],
            });
        }
        assert!(matches!(watch.next().await, Err(Error::Gap)));
    }

    #[test]
    fn a_second_process_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let _first = open(&dir);
        let error = Embedded::open(dir.path())
            .err()
            .expect("locked")
            .to_string();
        assert!(
            error.contains("in use by another process; stop the other heddle"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_directory_and_a_foreign_file_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let error = Embedded::open(&dir.path().join("none"))
            .err()
            .expect("refused")
            .to_string();
        assert!(
            error.contains("none/state.redb") && error.contains("make the directory"),
            "{error}"
        );

        std::fs::write(
            dir.path().join(FILE_NAME),
            "not a database, but long enough to be read",
        )
        .expect("written");
        let error = Embedded::open(dir.path())
            .err()
            .expect("refused")
            .to_string();
        assert!(error.contains("is damaged"), "{error}");
    }

    #[test]
    fn a_full_disk_is_named_with_its_cure() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let failure = Failure(redb::Error::Io(full));
        let error = failure
            .describe("write", Path::new("/data/state.redb"))
            .to_string();
        assert!(
            error.contains("write /data/state.redb") && error.contains("free some"),
            "{error}"
        );
    }
}
