//! The members of the cluster: one connection each, and a request that finds the one that answers.
//!
//! Requests go to the member that answered last. Where that one fails the next is asked at once;
//! where it is silent, the next is asked beside it, and the first answer wins. So a member that is
//! frozen or cut off costs a quarter of a second once.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Access;
use super::api::messages::RangeRequest;
use super::api::{Client, Failure, Options, Tls};
use super::failure::{self, Verdict};
use crate::Error;

/// A member that has not answered for this long is no longer the only one asked.
const SILENCE: Duration = Duration::from_millis(250);

/// Between two tries once every member has failed.
const PAUSE: Duration = Duration::from_millis(100);

/// After this a try is over, and its connection is made anew: it may be one whose other end forgot it.
const TRY: Duration = Duration::from_secs(2);

const CONNECT: Duration = Duration::from_secs(1);

/// A connection that fails is made anew, with the certificates as they are then, if it is older than
/// this; the channel repairs younger ones by itself.
const WORTH_A_REBUILD: Duration = Duration::from_secs(5);

/// Of the transport, for members that vanish without a word. etcd closes connections that ask more
/// often than every five seconds.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3));

pub(super) struct Members {
    access: Access,
    clients: Vec<Mutex<Option<Connected>>>,
    /// The member that answered last.
    preferred: AtomicUsize,
    /// The cluster that answered first: all must be of one.
    cluster: OnceLock<u64>,
}

struct Connected {
    client: Client,
    since: Instant,
}

/// Why a try has no answer.
enum Missed {
    Failure(Failure),
    Error(Error),
    TooLate,
}

impl Members {
    pub(super) fn new(access: Access) -> Result<Members, Error> {
        if access.urls.is_empty() {
            return Err(failure::other("`etcd` names no URL"));
        }
        Ok(Members {
            clients: access.urls.iter().map(|_| Mutex::default()).collect(),
            access,
            preferred: AtomicUsize::new(0),
            cluster: OnceLock::new(),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.clients.len()
    }

    /// The member that requests go to first.
    pub(super) fn preferred(&self) -> usize {
        self.preferred.load(Ordering::Relaxed)
    }

    pub(super) fn url(&self, member: usize) -> &str {
        &self.access.urls[member]
    }

    /// Asks until a member answers, or refuses what all would refuse, or the time is over. `work` may
    /// run several times, also side by side.
    pub(super) async fn ask<T, W, F>(&self, limit: Duration, work: W) -> Result<T, Error>
    where
        W: Fn(Client) -> F,
        F: Future<Output = Result<T, Failure>>,
    {
        let deadline = Instant::now() + limit;
        let mut tries = FuturesUnordered::new();
        let mut running = BTreeSet::new();
        let mut member = self.preferred();
        let mut failures = 0;
        let mut last = String::from("no member answers in time");
        let mut patience = Instant::now();
        loop {
            let idle = tries.is_empty();
            if idle || (Instant::now() >= patience && tries.len() < self.count()) {
                while running.contains(&member) {
                    member = (member + 1) % self.count();
                }
                running.insert(member);
                let pause = if failures < self.count() {
                    Duration::ZERO
                } else {
                    PAUSE
                };
                tries.push(self.attempt(member, pause, &work));
                patience = Instant::now() + SILENCE;
            }
            let alone = tries.len() == self.count();
            tokio::select! {
                Some((tried, result)) = tries.next() => {
                    running.remove(&tried);
                    match result {
                        Ok(answer) => {
                            self.preferred.store(tried, Ordering::Relaxed);
                            return Ok(answer);
                        }
                        Err(missed) => last = self.missed(tried, missed).await?,
                    }
                    failures += 1;
                    member = (tried + 1) % self.count();
                    patience = Instant::now();
                }
                () = sleep_until(patience), if !alone => {}
                () = sleep_until(deadline) => return Err(self.unreachable(&last)),
            }
        }
    }

    async fn attempt<T, W, F>(
        &self,
        member: usize,
        pause: Duration,
        work: &W,
    ) -> (usize, Result<T, Missed>)
    where
        W: Fn(Client) -> F,
        F: Future<Output = Result<T, Failure>>,
    {
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let tried = async {
            let client = self.client(member).await?;
            work(client).await.map_err(Missed::Failure)
        };
        let result = timeout(TRY, tried).await;
        (member, result.unwrap_or(Err(Missed::TooLate)))
    }

    /// What the try of one member failed by, unless it is the answer of all.
    async fn missed(&self, member: usize, missed: Missed) -> Result<String, Error> {
        let url = self.url(member);
        match missed {
            Missed::Error(error) => Err(error),
            Missed::TooLate => {
                self.forget(member, Duration::ZERO).await;
                Ok(format!("no answer from {url}"))
            }
            Missed::Failure(failure) => match failure::judge(&failure) {
                Verdict::Refused(error) => Err(error),
                Verdict::Reconnect(reason) => {
                    self.forget(member, Duration::ZERO).await;
                    Ok(format!("{url}: {reason}"))
                }
                Verdict::Elsewhere(reason) => {
                    self.forget(member, WORTH_A_REBUILD).await;
                    Ok(format!("{url}: {reason}"))
                }
            },
        }
    }

    pub(super) fn unreachable(&self, reason: &str) -> Error {
        Error::Unreachable {
            urls: self.access.urls.join(","),
            reason: reason.to_owned(),
            cure: failure::cure(reason),
        }
    }

    /// The next request to this member makes a new connection, if this one is older than `age`.
    pub(super) async fn forget(&self, member: usize, age: Duration) {
        // Whoever holds the lock makes a new connection already.
        if let Ok(mut slot) = self.clients[member].try_lock()
            && slot.as_ref().is_some_and(|one| one.since.elapsed() >= age)
        {
            *slot = None;
        }
    }

    /// One member's client, for who deals with its errors alone; `Err` as a reason.
    pub(super) async fn open(&self, member: usize) -> Result<Client, Result<String, Error>> {
        match self.client(member).await {
            Ok(client) => Ok(client),
            Err(missed) => Err(self.missed(member, missed).await),
        }
    }

    async fn client(&self, member: usize) -> Result<Client, Missed> {
        let mut slot = self.clients[member].lock().await;
        if let Some(connected) = &*slot {
            return Ok(connected.client.clone());
        }
        let url = self.url(member);
        let options = self.options(url).map_err(Missed::Error)?;
        let client = Client::connect(options).await.map_err(Missed::Failure)?;
        // This member's own view suffices to tell which cluster it is of.
        let request = RangeRequest {
            serializable: true,
            keys_only: true,
            ..RangeRequest::key(format!("{}/format", self.access.prefix))
        };
        let answer = client.range(request).await.map_err(Missed::Failure)?;
        let cluster = answer.header.map_or(0, |header| header.cluster_id);
        if *self.cluster.get_or_init(|| cluster) != cluster {
            return Err(Missed::Error(Error::OtherCluster(url.to_owned())));
        }
        *slot = Some(Connected {
            client: client.clone(),
            since: Instant::now(),
        });
        Ok(client)
    }

    fn options<'a>(&'a self, url: &'a str) -> Result<Options<'a>, Error> {
        let account = self.access.account.as_ref();
        Ok(Options {
            url,
            connect_timeout: CONNECT,
            keep_alive: KEEP_ALIVE,
            tls: self.tls(url)?,
            account: account.map(|(name, password)| (&**name, &**password)),
        })
    }

    fn tls(&self, url: &str) -> Result<Option<Tls>, Error> {
        if !url.starts_with("https://") {
            return Ok(None);
        }
        let authority = self.access.authority.as_deref().map(read).transpose()?;
        let identity = match &self.access.identity {
            None => None,
            Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
        };
        Ok(Some(Tls {
            authority,
            identity,
        }))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::File {
        operation: "read",
        path: path.to_owned(),
        source,
        cure: "check `etcd_ca`, `etcd_certificate` and `etcd_key`",
    })
}
