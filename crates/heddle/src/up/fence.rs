//! The fence of `heddle up`: whoever guards a server kills it, and starts it again read-only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control::fence::Fencing;
use control::{Fence, FenceTarget, Fenced};
use tokio::sync::{mpsc, oneshot};

/// Orders that may wait for one guard.
const ORDERS_MAX: usize = 8;

/// What a guard is asked for.
pub enum Order {
    /// Answered when the server's process has ended.
    Kill(oneshot::Sender<()>),
    /// The files that arrived for the server become its data. Answered when it runs on them, or on the
    /// old ones again.
    Exchange(oneshot::Sender<Result<(), String>>),
}

/// The guards' ears, by the port of their server.
#[derive(Clone, Debug, Default)]
pub struct Guards(Arc<Mutex<BTreeMap<u16, Ear>>>);

#[derive(Debug)]
struct Ear {
    orders: mpsc::Sender<Order>,
    /// False while the server has no process, or one that starts: it is read-only then.
    runs: bool,
}

impl Guards {
    /// A guard begins to listen.
    pub fn listen(&self, port: u16) -> mpsc::Receiver<Order> {
        let (orders, receiver) = mpsc::channel(ORDERS_MAX);
        self.lock().insert(port, Ear { orders, runs: true });
        receiver
    }

    /// The server's process ended, or its new one answers.
    pub fn runs(&self, port: u16, runs: bool) {
        if let Some(ear) = self.lock().get_mut(&port) {
            ear.runs = runs;
        }
    }

    /// Gives a guard something to do.
    ///
    /// # Errors
    /// The server has no guard.
    pub async fn order(&self, port: u16, order: Order) -> Result<(), String> {
        let orders = self.lock().get(&port).map(|ear| ear.orders.clone());
        let gone = || format!("the server on port {port} has no guard");
        let orders = orders.ok_or_else(gone)?;
        orders.send(order).await.map_err(|_| gone())
    }

    /// A panic elsewhere does not make the ears wrong.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, Ear>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fence for Guards {
    fn fence(&self, target: FenceTarget) -> Fencing {
        let guard = {
            let ears = self.lock();
            let ear = ears.get(&target.port);
            ear.map(|ear| (ear.runs, ear.orders.clone()))
        };
        Box::pin(async move {
            let Some((runs, orders)) = guard else {
                return Fenced::NoMeans;
            };
            if !runs {
                return Fenced::Surely;
            }
            let (killed, is_killed) = oneshot::channel();
            if orders.send(Order::Kill(killed)).await.is_ok() && is_killed.await.is_ok() {
                Fenced::Surely
            } else {
                Fenced::Failed("its guard has gone".to_owned())
            }
        })
    }
}
