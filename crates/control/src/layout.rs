//! Whether a store holds a farm that this version may serve, and how a farm goes from one store to
//! another.
//!
//! `/format` is the version of the layout of the keys; `/moved` stands in a store whose farm lives in
//! another one now, or whose farm is only half written by an import.

use std::collections::BTreeMap;

use meta::{Store, Transaction};
use serde_json::{Value, json};

use crate::leadership::presence::ROUTER;
use catalog::Error;
use catalog::record::FARM_ID;

/// The layout of the keys that this version writes and reads.
const FORMAT: u64 = 1;

const FORMAT_KEY: &str = "/format";
const MOVED_KEY: &str = "/moved";

/// The row of an export that is no key: the revision of the store.
const REVISION_ROW: &str = "revision";

/// What one transaction of a copy may hold: etcd takes 128 changes and 1.5 MB.
const CHANGES_MAX: usize = 100;
const BYTES_MAX: usize = 512 << 10;

/// The id of the farm that the store holds; `None` of an empty store. Marks the layout where it is
/// not marked yet.
///
/// # Errors
/// The store cannot be read, was written by a newer version, holds something else, or its farm was
/// moved away.
pub async fn check_layout(store: &dyn Store) -> Result<Option<String>, Error> {
    let format = store.get(FORMAT_KEY).await?.map(|entry| entry.value);
    match format.as_deref().map(str::parse::<u64>) {
        Some(Ok(FORMAT)) => {}
        Some(Ok(newer)) if newer > FORMAT => return Err(Error::NewerLayout(newer)),
        Some(_) => return Err(Error::Foreign(FORMAT_KEY.to_owned())),
        None => mark(store).await?,
    }
    if let Some(moved) = store.get(MOVED_KEY).await? {
        let text = serde_json::from_str(&moved.value).unwrap_or(moved.value);
        return Err(Error::Moved(text));
    }
    farm_id(store).await
}

/// The id of the farm in the store, whatever else is in it.
///
/// # Errors
/// The store cannot be read, or the id is no text.
pub async fn farm_id(store: &dyn Store) -> Result<Option<String>, Error> {
    let Some(entry) = store.get(FARM_ID).await? else {
        return Ok(None);
    };
    let id = serde_json::from_str(&entry.value);
    Ok(Some(id.map_err(|_| Error::Foreign(FARM_ID.to_owned()))?))
}

async fn mark(store: &dyn Store) -> Result<(), Error> {
    // A farm of before the mark has an id.
    if store.get(FARM_ID).await?.is_none() {
        let found = store.scan("/").await?.entries;
        // Another router may begin the same farm in this moment.
        let ours = |key: &str| {
            ["/farm/", FORMAT_KEY]
                .iter()
                .any(|own| key.starts_with(own))
        };
        if let Some(foreign) = found.iter().find(|entry| !ours(&entry.key)) {
            return Err(Error::Foreign(foreign.key.clone()));
        }
    }
    let marked = Transaction::new()
        .when_absent(FORMAT_KEY)
        .put(FORMAT_KEY, &FORMAT.to_string());
    store.commit(marked).await?;
    Ok(())
}

/// Everything that a store holds of a farm and of no router's life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub entries: BTreeMap<String, String>,
    /// The store's newest revision; those of the store that takes the farm in must go on above it.
    pub revision: u64,
}

impl Contents {
    /// Reads a store at one revision.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn read(store: &dyn Store) -> Result<Contents, Error> {
        let listing = store.scan("/").await?;
        let lasting = listing.entries.into_iter();
        let lasting = lasting.filter(|entry| entry.lease.is_none() && entry.key != MOVED_KEY);
        Ok(Contents {
            entries: lasting.map(|entry| (entry.key, entry.value)).collect(),
            revision: listing.revision,
        })
    }

    /// The id of its farm.
    pub fn farm_id(&self) -> Option<String> {
        let id = self.entries.get(FARM_ID)?;
        serde_json::from_str(id).ok()
    }

    /// The rows of an export: `key` and `value`, the revision first.
    pub fn rows(&self) -> impl Iterator<Item = (&str, String)> {
        let revision = [(REVISION_ROW, self.revision.to_string())];
        let entries = self.entries.iter();
        let entries = entries.map(|(key, value)| (key.as_str(), value.clone()));
        revision.into_iter().chain(entries)
    }

    /// Reads an export: a JSON array of objects with `key` and `value`.
    ///
    /// # Errors
    /// The text is none, for people.
    pub fn parse(text: &str) -> Result<Contents, String> {
        let rows: Vec<BTreeMap<String, Value>> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut contents = Contents::default();
        for (number, row) in (1..).zip(&rows) {
            let text = |name: &str| row.get(name).and_then(Value::as_str);
            let (Some(key), Some(value)) = (text("key"), text("value")) else {
                return Err(format!("row {number} has no key and value"));
            };
            if key == REVISION_ROW {
                contents.revision = value.parse().map_err(|_| "a revision is a number")?;
            } else if !key.starts_with('/') {
                return Err(format!("row {number}: {key:?} is no key"));
            } else {
                contents.entries.insert(key.to_owned(), value.to_owned());
            }
        }
        if contents.revision == 0 || contents.farm_id().is_none() {
            return Err("it lacks the revision or the farm's id".to_owned());
        }
        Ok(contents)
    }

    /// Makes these the contents of a store that is empty or holds the same farm. While it is half
    /// done no router serves from the store; who repeats it completes it.
    ///
    /// # Errors
    /// The store holds another farm or something else, routers use it, or it cannot be written.
    pub async fn write(&self, store: &dyn Store) -> Result<(), Error> {
        match check_layout(store).await {
            Ok(_) | Err(Error::Moved(_)) => {}
            Err(error) => return Err(error),
        }
        let found = store.scan("/").await?.entries;
        check_unused(found.iter().map(|entry| entry.key.as_str()))?;
        match farm_id(store).await? {
            Some(other) if Some(&other) != self.farm_id().as_ref() => {
                return Err(Error::OtherFarm(other));
            }
            _ => {}
        }
        let begun = "an import was begun and not finished; repeat it";
        let mut batch = Transaction::new().put(MOVED_KEY, &json!(begun).to_string());
        let mut bytes = 0;
        let surplus = found.iter().map(|entry| entry.key.as_str());
        let surplus = surplus.filter(|&key| key != MOVED_KEY && !self.entries.contains_key(key));
        let puts = self
            .entries
            .iter()
            .map(|(key, value)| (key.as_str(), Some(value)));
        for (key, value) in surplus.map(|key| (key, None)).chain(puts) {
            let size = key.len() + value.map_or(0, String::len);
            if batch.changes.len() >= CHANGES_MAX || bytes + size > BYTES_MAX {
                store.commit(std::mem::take(&mut batch)).await?;
                bytes = 0;
            }
            bytes += size;
            batch = match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        store.commit(batch).await?;
        store.commit(Transaction::new().delete(MOVED_KEY)).await?;
        Ok(())
    }
}

/// No router may live while the farm is copied.
fn check_unused<'a>(mut keys: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    match keys.find(|key| key.starts_with(ROUTER)) {
        Some(_) => Err(Error::InUse),
        None => Ok(()),
    }
}

/// Reads a farm that is about to leave a store.
///
/// # Errors
/// There is none, it may not be served from there, or routers use the store.
pub async fn read_to_leave(store: &dyn Store) -> Result<Contents, Error> {
    if check_layout(store).await?.is_none() {
        return Err(Error::NoFarm);
    }
    let routers = store.scan(ROUTER).await?.entries;
    check_unused(routers.iter().map(|entry| entry.key.as_str()))?;
    Contents::read(store).await
}

/// Marks a store whose farm has left it, so that no router serves the old state. The text says where
/// the farm is.
///
/// # Errors
/// The store cannot be written.
pub async fn seal(store: &dyn Store, whither: &str) -> Result<(), Error> {
    let mark = Transaction::new().put(MOVED_KEY, &json!(whither).to_string());
    store.commit(mark).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_farm_goes_from_store_to_store() {
        let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let [from, to] = dirs
            .each_ref()
            .map(|dir| meta::Embedded::open(dir.path()).expect("a store"));
        let absent = read_to_leave(&from).await.expect_err("nothing there");
        assert!(matches!(absent, Error::NoFarm));
        let lease = from.lease(std::time::Duration::from_secs(3600)).await;
        let lease = lease.expect("a lease");
        let large = "x".repeat(BYTES_MAX / 2 + 1);
        let many = (0..250).fold(Transaction::new(), |many, number| {
            many.put(&format!("/server/{number:03}"), "{}")
        });
        let farm = many
            .put(FARM_ID, "\"f\"")
            .put("/config/1", &large)
            .put("/config/2", &large)
            .put_leased("/router/001", "{}", lease.id());
        from.commit(farm).await.expect("written");
        let busy = read_to_leave(&from).await.expect_err("a router lives");
        assert!(matches!(busy, Error::InUse));
        lease.revoke().await.expect("revoked");

        let contents = read_to_leave(&from).await.expect("readable");
        assert_eq!(contents.entries.len(), 254, "with the format");
        let rows = contents
            .rows()
            .map(|(key, value)| json!({"key": key, "value": value}));
        let exported = Value::from(rows.collect::<Vec<_>>()).to_string();
        assert_eq!(Contents::parse(&exported), Ok(contents.clone()));
        let old = Transaction::new().put("/server/old", "{}");
        to.commit(old.put(FARM_ID, "\"f\"")).await.expect("written");
        contents.write(&to).await.expect("copied");
        let copied = Contents::read(&to).await.expect("readable");
        assert_eq!(copied.entries, contents.entries);
        seal(&from, "it was moved to etcd").await.expect("sealed");
        let sealed = check_layout(&from).await.expect_err("sealed").to_string();
        assert!(sealed.contains("it was moved to etcd"), "{sealed}");
        // And back, over what was sealed; but not over another farm.
        contents.write(&from).await.expect("copied back");
        check_layout(&from)
            .await
            .expect("it is served from here again");
        let other = Transaction::new().put(FARM_ID, "\"g\"");
        from.commit(other).await.expect("written");
        let refused = contents.write(&from).await.expect_err("another farm");
        assert!(matches!(refused, Error::OtherFarm(id) if id == "g"));
    }

    #[test]
    fn an_import_is_checked() {
        for (text, words) in [
            ("{", "line 1"),
            ("[{\"key\": \"/a\"}]", "row 1"),
            ("[{\"key\": \"a\", \"value\": \"1\"}]", "is no key"),
            ("[{\"key\": \"/a\", \"value\": \"1\"}]", "the farm's id"),
        ] {
            let error = Contents::parse(text).expect_err(text);
            assert!(error.contains(words), "{error}");
        }
    }

    async fn check(keys: &[(&str, &str)]) -> Result<Option<String>, Error> {
        let dir = tempfile::tempdir().expect("a directory");
        let store = meta::Embedded::open(dir.path()).expect("a store");
        for (key, value) in keys {
            let put = Transaction::new().put(key, value);
            store.commit(put).await.expect("written");
        }
        let checked = check_layout(&store).await;
        if checked.is_ok() {
            let format = store.get(FORMAT_KEY).await.expect("readable");
            assert_eq!(format.expect("marked").value, "1");
        }
        checked
    }

    #[tokio::test]
    async fn a_store_is_empty_or_holds_a_farm_of_this_layout() {
        assert_eq!(check(&[]).await.expect("empty"), None);
        let id = ("/farm/id", "\"f\"");
        for keys in [&[id][..], &[id, ("/format", "1")]] {
            assert_eq!(check(keys).await.expect("a farm").as_deref(), Some("f"));
        }
    }

    #[tokio::test]
    async fn what_this_version_must_not_touch_is_refused() {
        let refused = |error: Result<_, Error>| error.expect_err("refused").to_string();
        let newer = refused(check(&[("/format", "2"), ("/other", "{}")]).await);
        assert!(newer.contains("written by a newer Heddle"), "{newer}");
        let foreign = refused(check(&[("/registry/pods/a", "x")]).await);
        assert!(foreign.contains("/registry/pods/a"), "{foreign}");
        let foreign = refused(check(&[("/format", "wide")]).await);
        assert!(foreign.contains("/format"), "{foreign}");
        let moved = refused(check(&[("/farm/id", "\"f\""), ("/moved", "\"to etcd\"")]).await);
        assert!(moved.contains("to etcd"), "{moved}");
    }
}
