//! A file that another process has: what is known of it, and its return.

use std::sync::Arc;

use super::file::{open_file, prepare, read_prefix};
use super::{Embedded, File, Inner, lock};
use crate::{Answer, Entry, Listing};

impl Embedded {
    /// Closes the file, so that another process can open it. Until [`Embedded::reclaim`] nothing can be
    /// written ([`Error::Lent`]), and what is read is what the file held, or what that process has
    /// [told](Embedded::learn) since.
    pub fn lend(&self) -> Answer<'_, ()> {
        self.blocking(|inner| {
            let told = inner.with_file("read", |file| read_prefix(file, ""))?;
            *lock(&inner.file) = File::Lent(Arc::new(told));
            Ok(())
        })
    }

    /// Takes over what the process that has the file tells of it. Nothing changes for one that has the
    /// file itself.
    pub fn learn(&self, told: Listing) {
        let revision = told.revision;
        let mut file = lock(&self.inner.file);
        if !matches!(*file, File::Lent(_)) {
            return;
        }
        *file = File::Lent(Arc::new(told));
        self.inner.begin_anew(revision);
    }

    /// Opens a lent file again. Watches get a gap if it was changed meanwhile.
    pub fn reclaim(&self) -> Answer<'_, ()> {
        self.blocking(|inner| {
            let mut slot = lock(&inner.file);
            if !matches!(*slot, File::Lent(_)) {
                return Ok(());
            }
            let file = open_file(&inner.path)?;
            let revision =
                prepare(&file).map_err(|failure| failure.describe("prepare", &inner.path))?;
            lock(&inner.leases).end_all();
            *slot = File::Open(file);
            inner.begin_anew(revision);
            Ok(())
        })
    }
}

impl Inner {
    /// What is known of the file, while another process has it.
    pub(super) fn told(&self) -> Option<Arc<Listing>> {
        match &*lock(&self.file) {
            File::Lent(told) => Some(Arc::clone(told)),
            _ => None,
        }
    }

    /// What happened before this revision is not known. The caller has the file's lock.
    fn begin_anew(&self, revision: u64) {
        let mut history = lock(&self.history);
        history.updates.clear();
        history.floor = revision;
        drop(history);
        self.newest.send_replace(revision);
    }
}

pub(super) fn find(told: &Listing, key: &str) -> Option<Entry> {
    told.entries.iter().find(|entry| entry.key == key).cloned()
}

pub(super) fn list(told: &Listing, prefix: &str) -> Listing {
    let wanted = |entry: &&Entry| entry.key.starts_with(prefix);
    Listing {
        entries: told.entries.iter().filter(wanted).cloned().collect(),
        revision: told.revision,
    }
}
