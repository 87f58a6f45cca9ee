//! Connections that are open before they are needed: in a change of primary each trip counts.

use super::Links;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::{Error, Link, watch};
use tokio::sync::OwnedMutexGuard;

use crate::leadership::lead::Lead;

/// How often an idle connection is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(1000);

/// A link that answered so lately is lent as it is: one trip less in each step. Longer than
/// [`LOOK_EVERY`], so that an idle one always is.
const FRESH: Duration = Duration::from_millis(1500);

/// A link and the moment at which it answered last.
type Kept = Option<(Link, Instant)>;

type Slot = Arc<tokio::sync::Mutex<Kept>>;

/// One link per server, for whoever has something to do there.
#[derive(Default)]
pub(crate) struct WarmLinks(Mutex<HashMap<u32, Slot>>);

impl WarmLinks {
    fn slot(&self, id: u32) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(id).or_default())
    }
}

/// A link on loan. Dropped without [`Lent::keep`] it is closed, so that nothing which it began takes
/// effect later.
pub(crate) struct Lent {
    slot: OwnedMutexGuard<Kept>,
    link: Link,
}

impl Deref for Lent {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.link
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Lent {
    /// Gives the link back if it can still be used after this outcome.
    pub(crate) fn keep<T>(mut self, outcome: Result<T, Error>) -> Result<T, Error> {
        let usable = !matches!(
            outcome,
            Err(Error::Lost { .. } | Error::Timeout { .. } | Error::Connect { .. })
        );
        if usable && !is_denied(&outcome) {
            self.link.act_for_all();
            *self.slot = Some((self.link, Instant::now()));
        }
        outcome
    }
}

impl Links {
    /// Lends the link that is kept for a server, or a new one. It has answered lately: a server that
    /// was restarted since fails the first step, which is then tried again.
    pub(crate) async fn lend(&self, id: u32) -> Result<Lent, Error> {
        self.lend_from(&self.warm, id).await
    }

    /// The same of other links, for what may take long: in a change of primary nobody waits for it.
    pub(crate) async fn lend_from(&self, links: &WarmLinks, id: u32) -> Result<Lent, Error> {
        let timeout_ms = self.context.settings().observation.probe_timeout_ms;
        self.lend_within(links, id, timeout_ms).await
    }

    /// The same, for who waits so long for the server to answer. A login takes several trips: an overloaded server answers
    /// probes in time and lets in nobody who gives up after the time of one probe, however often he tries.
    pub(crate) async fn lend_within(
        &self,
        links: &WarmLinks,
        id: u32,
        timeout_ms: u64,
    ) -> Result<Lent, Error> {
        let mut slot = links.slot(id).lock_owned().await;
        if let Some((mut link, answered)) = slot.take() {
            if answered.elapsed() < FRESH {
                return Ok(Lent { slot, link });
            }
            match watch::touch(&mut link, timeout_ms).await {
                Ok(_) => return Ok(Lent { slot, link }),
                Err(error @ Error::Timeout { .. }) => return Err(error),
                Err(_) => {}
            }
        }
        let link = self.open_admin(id, timeout_ms).await?;
        Ok(Lent { slot, link })
    }

    /// The same for a step that only the leader may take: the server checks that with each statement.
    pub(crate) async fn lend_to_act(&self, lead: &Lead, id: u32) -> Result<Lent, Error> {
        let mut lent = self.lend(id).await?;
        match self.act(lead, &mut lent).await {
            Ok(()) => Ok(lent),
            Err(error) => lent.keep(Err(error)),
        }
    }

    /// Opens the link of a server before somebody needs it, and looks whether it still works.
    pub(crate) async fn keep_warm(self: Arc<Self>, id: u32) {
        let slot = self.warm.slot(id);
        loop {
            let alive = self
                .context
                .state()
                .seen
                .get(&id)
                .is_some_and(|it| it.health.alive);
            // Whoever holds the link keeps it warm.
            if alive && let Ok(mut kept) = slot.try_lock() {
                match kept.take() {
                    None => {
                        let timeout_ms = self.context.settings().observation.probe_timeout_ms;
                        let link = self.open_admin(id, timeout_ms).await.ok();
                        *kept = link.map(|link| (link, Instant::now()));
                    }
                    Some((mut link, _)) => {
                        let answer = watch::touch(
                            &mut link,
                            self.context.settings().observation.probe_timeout_ms,
                        )
                        .await;
                        *kept = answer.is_ok().then(|| (link, Instant::now()));
                    }
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn open_admin(&self, id: u32, timeout_ms: u64) -> Result<Link, Error> {
        let login = {
            let state = self.context.state();
            let record = state.records.servers.get(&id).map(|kept| &kept.value);
            record.map(|record| self.login(record))
        };
        let login = login.ok_or_else(|| Error::Lost {
            operation: "connect",
            server: format!("with id {id}"),
            reason: "it left the farm".to_owned(),
        })?;
        Link::open(&login, timeout_ms).await
    }
}

/// Whether a refusal is for want of a privilege. A link that was told so may have it after a GRANT only
/// when it begins anew.
fn is_denied<T>(outcome: &Result<T, Error>) -> bool {
    /// Access to a database, a thread of others, a table, a column, a routine, XA RECOVER, in general.
    const DENIED: [u16; 7] = [1044, 1095, 1142, 1143, 1227, 1370, 1401];
    let number = outcome.as_ref().err().and_then(Error::number);
    number.is_some_and(|number| DENIED.contains(&number))
}
