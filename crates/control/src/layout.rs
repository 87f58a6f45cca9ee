//! Whether a store holds a farm that this version may serve.
//!
//! `/format` is the version of the layout of the keys; `/moved` stands in a store whose farm lives in
//! another one now, or whose farm is only half written by an import.

use meta::{Store, Transaction};

use crate::error::Error;

/// The layout of the keys that this version writes and reads.
const FORMAT: u64 = 1;

pub(crate) const FORMAT_KEY: &str = "/format";
pub(crate) const MOVED_KEY: &str = "/moved";
const FARM_ID: &str = "/farm/id";

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

#[cfg(test)]
mod tests {
    use super::*;

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
