//! A watch that goes on: across lost connections, frozen members and elections, without a gap.
//!
//! It knows the revision that it delivered last and begins after it on whichever member answers.
//! Only when etcd has compacted what lies between, or was put back to an older state, is it told as
//! a gap. A member that stops answering is noticed by asking it, when nothing came for a while, how
//! far it is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::api::messages::{
    EventType, RangeRequest, WatchCreateRequest, WatchResponse, prefix_end,
};
use super::api::{Failure, WatchStream};
use super::failure::{self, Verdict};
use super::{Inner, PATIENCE, lease_of, revision_of, value};
use crate::{Answer, Change, Error, Update, Watch};

/// After this long without a word the member is asked for one.
const QUIET: Duration = Duration::from_millis(500);

/// A member that is asked and says nothing for this long is given up.
const DEAF: Duration = Duration::from_secs(1);

/// For the first answer of a new watch.
const OPEN: Duration = Duration::from_secs(1);

/// After all members failed to open the watch.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct EtcdWatch {
    inner: Arc<Inner>,
    prefix: String,
    /// The newest revision that was received.
    after: u64,
    received: VecDeque<Update>,
    open: Option<Open>,
    /// Tries to open the watch since it was last open.
    failures: usize,
}

struct Open {
    stream: WatchStream,
    member: usize,
    /// When the member has been silent for too long: it is asked then, or given up.
    patience: Instant,
    asked: bool,
}

impl EtcdWatch {
    pub(super) fn new(inner: Arc<Inner>, prefix: &str, after: u64) -> EtcdWatch {
        EtcdWatch {
            prefix: inner.full(prefix),
            inner,
            after,
            received: VecDeque::new(),
            open: None,
            failures: 0,
        }
    }

    /// Opens the watch on the next member in turn; `None` when that one cannot.
    async fn reopen(&mut self) -> Result<Option<Open>, Error> {
        let members = &self.inner.members;
        if self.failures > 0 && self.failures.is_multiple_of(members.count()) {
            sleep(PAUSE).await;
        }
        let member = (members.preferred() + self.failures) % members.count();
        // Counted first, so that a future which is dropped half-way does not try the same for ever.
        self.failures += 1;
        match timeout(OPEN, self.open_at(member)).await {
            Ok(opened) => opened,
            Err(_) => {
                members.forget(member, OPEN).await;
                Ok(None)
            }
        }
    }

    async fn open_at(&self, member: usize) -> Result<Option<Open>, Error> {
        if self.after < self.inner.base {
            // Of the store that the farm came from.
            return Err(Error::Gap);
        }
        let members = &self.inner.members;
        let client = match members.open(member).await {
            Ok(client) => client,
            Err(missed) => return missed.map(|_| None),
        };
        let create = WatchCreateRequest {
            key: self.prefix.clone().into(),
            range_end: prefix_end(self.prefix.as_bytes()),
            start_revision: self.inner.raw(self.after.saturating_add(1)),
        };
        let mut stream = match client.watch(create).await {
            Ok(stream) => stream,
            Err(error) => return self.give_up(member, &error).await.map(|()| None),
        };
        let first = match stream.message().await {
            Ok(Some(first)) => first,
            Ok(None) => return Ok(None),
            Err(error) => return self.give_up(member, &error).await.map(|()| None),
        };
        self.check_cancelled(&first)?;
        let reached = self.inner.revision(revision_of(first.header.as_ref()));
        if reached < self.after {
            self.check_put_back().await?;
        }
        Ok((!first.canceled).then(|| Open {
            stream,
            member,
            patience: Instant::now() + QUIET,
            asked: false,
        }))
    }

    /// What the error of a watch means; `Ok` when another member, or a new connection, may do.
    async fn give_up(&self, member: usize, error: &Failure) -> Result<(), Error> {
        match failure::judge(error) {
            Verdict::Refused(error) => Err(error),
            Verdict::Reconnect(_) => {
                self.inner.members.forget(member, Duration::ZERO).await;
                Ok(())
            }
            Verdict::Elsewhere(_) => Ok(()),
        }
    }

    fn check_cancelled(&self, response: &WatchResponse) -> Result<(), Error> {
        if response.compact_revision > 0 {
            return Err(Error::Gap);
        }
        if response.canceled && response.cancel_reason.contains("permission denied") {
            return Err(Error::Credentials("permission denied".to_owned()));
        }
        Ok(())
    }

    /// A member that is behind catches up. A cluster that is behind was restored from a copy, and
    /// what this watch has seen never happened.
    async fn check_put_back(&self) -> Result<(), Error> {
        let key = self.prefix.as_str();
        let read = self.inner.members.ask(PATIENCE, |client| async move {
            client.range(RangeRequest::key(key)).await
        });
        let newest = revision_of(read.await?.header.as_ref());
        if self.inner.revision(newest) < self.after {
            return Err(Error::Gap);
        }
        Ok(())
    }

    /// Takes a response apart: one update per revision.
    fn take(&mut self, response: &WatchResponse) -> Result<(), Error> {
        self.check_cancelled(response)?;
        for event in &response.events {
            let Some(found) = &event.kv else { continue };
            let revision = self.inner.revision(found.mod_revision);
            let key = self.inner.own(&found.key)?.to_owned();
            let change = match event.r#type() {
                EventType::Delete => Change::Delete { key },
                EventType::Put => Change::Put {
                    key,
                    value: value(found)?,
                    lease: lease_of(found),
                },
            };
            match self.received.back_mut() {
                Some(last) if last.revision == revision => last.changes.push(change),
                _ => self.received.push_back(Update {
                    revision,
                    changes: vec![change],
                }),
            }
        }
        if let Some(last) = self.received.back() {
            self.after = last.revision;
        }
        Ok(())
    }
}

impl Open {
    /// The next response; `None` when the watch must be opened anew.
    async fn hear(&mut self) -> Option<Result<WatchResponse, Failure>> {
        loop {
            match timeout_at(self.patience, self.stream.message()).await {
                Ok(Ok(Some(response))) => {
                    self.patience = Instant::now() + QUIET;
                    self.asked = false;
                    return Some(Ok(response));
                }
                Ok(Ok(None)) => return None,
                Ok(Err(error)) => return Some(Err(error)),
                Err(_) if self.asked => return None,
                Err(_) => {
                    // From now, since nobody may have listened for longer than a member may be quiet.
                    self.patience = Instant::now() + DEAF;
                    self.asked = true;
                    if !self.stream.request_progress().await {
                        return None;
                    }
                }
            }
        }
    }
}

impl Watch for EtcdWatch {
    fn next(&mut self) -> Answer<'_, Update> {
        Box::pin(async move {
            loop {
                if let Some(update) = self.received.pop_front() {
                    return Ok(update);
                }
                let Some(open) = &mut self.open else {
                    self.open = self.reopen().await?;
                    continue;
                };
                let member = open.member;
                match open.hear().await {
                    Some(Ok(response)) => {
                        self.failures = 0;
                        self.take(&response)?;
                        if response.canceled {
                            self.open = None;
                        }
                    }
                    Some(Err(error)) => {
                        self.open = None;
                        self.failures += 1;
                        self.give_up(member, &error).await?;
                    }
                    None => {
                        self.open = None;
                        self.failures += 1;
                        self.inner.members.forget(member, QUIET + DEAF).await;
                    }
                }
            }
        })
    }
}
