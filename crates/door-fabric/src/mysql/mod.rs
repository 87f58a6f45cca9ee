//! MySQL-RPC: Fabric's commands as CALLs of any MySQL client, on a thread of their own.

mod conversation;
mod result;
mod statement;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::door::Door;
use conversation::Conversation;

/// The process is out of file descriptors: so long until it is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// Calls that run may end within so long after the last client was taken.
const DRAIN: Duration = Duration::from_secs(3);

/// The MySQL door, from [`MysqlDoor::open`] to its drop.
pub struct MysqlDoor {
    listener: TcpListener,
    address: SocketAddr,
    wish: watch::Sender<Wish>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the door's thread is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Rest,
    Serve,
    End,
}

impl MysqlDoor {
    /// Starts the thread, which takes clients at once, so many at a time.
    ///
    /// # Errors
    /// The process is out of threads or file descriptors.
    pub fn open(
        listener: TcpListener,
        door: Arc<Door>,
        clients_max: usize,
    ) -> io::Result<MysqlDoor> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (wish, wished) = watch::channel(Wish::Serve);
        let heard = listener.try_clone()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new().name("fabric".to_owned());
        let thread =
            thread.spawn(move || runtime.block_on(live(heard, door, clients_max, wished)))?;
        Ok(MysqlDoor {
            listener,
            address,
            wish,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The listening socket, to be given to another process.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn listener(&self) -> io::Result<TcpListener> {
        self.listener.try_clone()
    }

    /// Takes no more clients, or takes them again.
    pub fn serve(&self, serves: bool) {
        let wanted = match serves {
            true => Wish::Serve,
            false => Wish::Rest,
        };
        self.wish.send_if_modified(|wish| {
            let news = *wish != Wish::End && *wish != wanted;
            if news {
                *wish = wanted;
            }
            news
        });
    }
}

impl Drop for MysqlDoor {
    fn drop(&mut self) {
        self.wish.send_replace(Wish::End);
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // What a panic there said stands in the log; a drop has nobody to tell.
            let _ = thread.join();
        }
    }
}

/// The thread's life.
async fn live(
    listener: TcpListener,
    door: Arc<Door>,
    clients_max: usize,
    mut wish: watch::Receiver<Wish>,
) {
    let places = Arc::new(Semaphore::new(clients_max));
    let mut clients = JoinSet::new();
    let mut number = 0u32;
    loop {
        let now = *wish.borrow_and_update();
        match now {
            Wish::End => break,
            Wish::Rest => {
                // An error means that the door is gone; its drop has said so before.
                let _ = wish.changed().await;
                continue;
            }
            Wish::Serve => {}
        }
        let socket = listener
            .try_clone()
            .and_then(tokio::net::TcpListener::from_std);
        let Ok(socket) = socket else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        loop {
            let accepted = tokio::select! {
                _ = wish.changed() => break,
                Some(_) = clients.join_next() => continue,
                accepted = socket.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            // One too many is closed: nothing has been said to it yet.
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                tracing::warn!("the Fabric door has all its clients; raise fabric_connections_max");
                continue;
            };
            // Answers are written whole; nothing is to wait for a second packet.
            let _ = stream.set_nodelay(true);
            number = number.wrapping_add(1);
            let door = Arc::clone(&door);
            let mut wished = wish.clone();
            let over = async move {
                // An error means that the door is gone: the end as well.
                let _ = wished.wait_for(|wish| *wish == Wish::End).await;
            };
            clients.spawn(async move {
                // An error is the client's: it left, was too slow, or speaks another protocol.
                let _ = Conversation::hold(door, stream, number, over).await;
                drop(place);
            });
        }
    }
    let ended = async { while clients.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(DRAIN, ended).await;
}
