//! Connections to the target on which transactions are carried out at the same time.

use std::sync::{Arc, Mutex, PoisonError};

use changes::apply::Transaction;
use engine::target::{Carried, Refusal, Tables, Target};
use engine::{Error, Login};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{Ended, later};

/// The connections.
pub(super) struct Workers {
    login: Login,
    name: String,
    epoch: u64,
    timeout_ms: u64,
    free: Arc<Semaphore>,
    idle: Mutex<Vec<Target>>,
}

/// A connection while a transaction uses it.
struct Lent {
    target: Target,
    _place: OwnedSemaphorePermit,
}

impl Workers {
    pub(super) fn new(
        login: &Login,
        name: &str,
        epoch: u64,
        count: u32,
        timeout_ms: u64,
    ) -> Workers {
        Workers {
            login: login.clone(),
            name: name.to_owned(),
            epoch,
            timeout_ms,
            free: Arc::new(Semaphore::new(count as usize)),
            idle: Mutex::default(),
        }
    }

    async fn take(&self) -> Result<Lent, Ended> {
        let place = Arc::clone(&self.free).acquire_owned().await;
        let place = place.map_err(|_| later("the connections are closed"))?;
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let target = match idle {
            Some(target) => target,
            None => {
                let opened = Target::open(&self.login, &self.name, self.epoch, self.timeout_ms);
                opened.await.map_err(of_server)?
            }
        };
        Ok(Lent {
            target,
            _place: place,
        })
    }

    fn give(&self, lent: Lent) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(lent.target);
    }

    /// Carries a transaction out when all up to `waits_for` are done; gives what was found otherwise than the stream
    /// says.
    pub(super) async fn carry(
        &self,
        transaction: Transaction,
        (number, waits_for): (u64, u64),
        tables: Arc<Tables>,
        mut low: watch::Receiver<u64>,
    ) -> Result<Vec<String>, Ended> {
        reach(&mut low, waits_for).await?;
        let mut lent = self.take().await?;
        let carried = lent.target.carry(&transaction, number, &tables).await;
        let carried = carried.map_err(refused)?;
        self.give(lent);
        if let Carried::Done(found) = carried {
            return Ok(found);
        }
        // Without a connection: those before it need them.
        reach(&mut low, number - 1).await?;
        let mut lent = self.take().await?;
        let found = lent.target.carry_alone(&transaction, number, &tables).await;
        let found = found.map_err(refused)?;
        self.give(lent);
        Ok(found)
    }
}

async fn reach(low: &mut watch::Receiver<u64>, number: u64) -> Result<(), Ended> {
    let reached = low.wait_for(|low| *low >= number).await;
    reached.map(drop).map_err(|_| later("the applier ends"))
}

pub(super) fn refused(refusal: Refusal) -> Ended {
    match refusal {
        Refusal::Server(error) => of_server(error),
        Refusal::Row(text) => Ended::Fatal(text),
    }
}

/// A server that is away may come back.
pub(super) fn of_server(error: Error) -> Ended {
    match &error {
        Error::Lost { .. } | Error::Timeout { .. } => Ended::Later(error.to_string()),
        Error::Connect { nobody_listens, .. } if *nobody_listens => Ended::Later(error.to_string()),
        _ => Ended::Fatal(error.to_string()),
    }
}
