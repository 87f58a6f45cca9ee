//! The file of the embedded store: its tables, and what goes wrong with it.

use std::path::Path;

use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
    WriteTransaction,
};

use crate::{
    Change, Compare, Entry, Error, LeaseId, Listing, Outcome, Transaction, Update, private,
};

/// Key -> (revision, JSON text).
const ENTRIES: TableDefinition<&str, (u64, &str)> = TableDefinition::new("entries");

/// Key -> the lease it goes with, for keys that have one.
const LEASED: TableDefinition<&str, u64> = TableDefinition::new("leased");

/// Numbers of the store itself: `revision`, `format`.
const NUMBERS: TableDefinition<&str, u64> = TableDefinition::new("numbers");

/// The layout of the tables above; raised when an older Heddle could not read them.
const FORMAT: u64 = 1;

/// redb's page cache. A farm's state is some kilobytes.
const CACHE_BYTES: usize = 1 << 20;

/// A failure of redb, before it is told which file and operation it was.
pub(super) struct Failure(pub(super) redb::Error);

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.into())
    }
}

impl Failure {
    pub(super) fn describe(self, operation: &'static str, path: &Path) -> Error {
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

pub(super) fn open_file(path: &Path) -> Result<Database, Error> {
    private::open(path).map_err(|error| Error::file("open", path.to_owned(), error))?;
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

/// Makes the tables in a new file, and deletes the keys whose leases ended with the process that held
/// them; gives the newest revision.
pub(super) fn prepare(file: &Database) -> Result<u64, Failure> {
    let transaction = file.begin_write()?;
    {
        transaction.open_table(ENTRIES)?;
        transaction.open_table(LEASED)?;
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
    }
    transaction.commit()?;
    delete_leased(file, None)?;
    let numbers = file.begin_read()?.open_table(NUMBERS)?;
    let revision = numbers.get("revision")?;
    Ok(revision.map_or(0, |revision| revision.value()))
}

pub(super) fn read_one(file: &Database, key: &str) -> Result<Option<Entry>, Failure> {
    let transaction = file.begin_read()?;
    let entries = transaction.open_table(ENTRIES)?;
    let leased = transaction.open_table(LEASED)?;
    let Some(found) = entries.get(key)? else {
        return Ok(None);
    };
    Ok(Some(entry(key, found.value(), &leased)?))
}

fn entry(
    key: &str,
    (revision, value): (u64, &str),
    leased: &impl ReadableTable<&'static str, u64>,
) -> Result<Entry, Failure> {
    Ok(Entry {
        key: key.to_owned(),
        value: value.to_owned(),
        revision,
        lease: leased.get(key)?.map(|lease| LeaseId(lease.value())),
    })
}

pub(super) fn read_prefix(file: &Database, prefix: &str) -> Result<Listing, Failure> {
    let transaction = file.begin_read()?;
    let table = transaction.open_table(ENTRIES)?;
    let leased = transaction.open_table(LEASED)?;
    let mut entries = Vec::new();
    for row in table.range(prefix..)? {
        let (key, value) = row?;
        if !key.value().starts_with(prefix) {
            break;
        }
        entries.push(entry(key.value(), value.value(), &leased)?);
    }
    let numbers = transaction.open_table(NUMBERS)?;
    let revision = numbers
        .get("revision")?
        .map_or(0, |revision| revision.value());
    Ok(Listing { entries, revision })
}

pub(super) fn write(file: &Database, wanted: &Transaction) -> Result<Outcome, Failure> {
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
        let revision = next_revision(&transaction)?;
        let mut leased = transaction.open_table(LEASED)?;
        for change in &wanted.changes {
            match change {
                Change::Put { key, value, lease } => {
                    entries.insert(key.as_str(), (revision, value.as_str()))?;
                    match lease {
                        Some(lease) => leased.insert(key.as_str(), lease.0)?,
                        None => leased.remove(key.as_str())?,
                    };
                }
                Change::Delete { key } => {
                    entries.remove(key.as_str())?;
                    leased.remove(key.as_str())?;
                }
            }
        }
        revision
    };
    transaction.commit()?;
    Ok(Outcome::Applied(revision))
}

fn next_revision(transaction: &WriteTransaction) -> Result<u64, Failure> {
    let mut numbers = transaction.open_table(NUMBERS)?;
    let newest = numbers.get("revision")?;
    let revision = newest.map_or(0, |revision| revision.value()) + 1;
    numbers.insert("revision", revision)?;
    Ok(revision)
}

/// Deletes the keys that go with a lease, or with any; `None` when there is no such key.
pub(super) fn delete_leased(
    file: &Database,
    lease: Option<LeaseId>,
) -> Result<Option<Update>, Failure> {
    let transaction = file.begin_write()?;
    let update = {
        let mut entries = transaction.open_table(ENTRIES)?;
        let mut leased = transaction.open_table(LEASED)?;
        let mut changes = Vec::new();
        for row in leased.iter()? {
            let (key, owner) = row?;
            if lease.is_none_or(|lease| lease.0 == owner.value()) {
                let key = key.value().to_owned();
                changes.push(Change::Delete { key });
            }
        }
        if changes.is_empty() {
            return Ok(None);
        }
        for change in &changes {
            entries.remove(change.key())?;
            leased.remove(change.key())?;
        }
        Update {
            revision: next_revision(&transaction)?,
            changes,
        }
    };
    transaction.commit()?;
    Ok(Some(update))
}

/// Makes the next revision greater than this one; gives the newest that there is then.
pub(super) fn raise(file: &Database, above: u64) -> Result<u64, Failure> {
    let transaction = file.begin_write()?;
    let newest = {
        let mut numbers = transaction.open_table(NUMBERS)?;
        let newest = numbers.get("revision")?.map_or(0, |newest| newest.value());
        let newest = newest.max(above);
        numbers.insert("revision", newest)?;
        newest
    };
    transaction.commit()?;
    Ok(newest)
}
