//! Writers whose rows show whether every change came once: a table that is `d.t (id BIGINT PRIMARY KEY, v INT)`.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use crate::{Client, holds_within};

/// How long a writer tries to connect before it gives the test up.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection as soon as there is one; `None` where `stop` is set before.
///
/// Between two tries it pauses. Writers that try without a pause take the CPU from the servers that are to come back.
///
/// # Panics
/// When there is none for minutes.
pub fn connect_unless(
    stop: &AtomicBool,
    mut connect: impl FnMut() -> Option<Client>,
) -> Option<Client> {
    let mut client = None;
    let ended = holds_within(PATIENCE, || {
        client = connect();
        client.is_some() || stop.load(Relaxed)
    });
    assert!(ended, "nobody lets a writer in for {PATIENCE:?}");
    client
}

/// Inserts a row and makes it grow, until `stop` is set; `done` counts what was acknowledged. After an error, which leaves
/// open whether its statement took effect, the next row is begun on another connection.
pub fn grow_rows(farm: SocketAddr, writer: i64, stop: &AtomicBool, done: &AtomicUsize) {
    let mut client = None;
    let mut number = 0;
    while !stop.load(Relaxed) {
        let Some(open) = client.as_mut() else {
            client = connect_unless(stop, || Client::connect(farm, "root", "").ok());
            continue;
        };
        let id = writer * 1_000_000 + number / 3;
        let sql = match number % 3 {
            0 => format!("INSERT INTO d.t VALUES ({id}, 0)"),
            _ => format!("UPDATE d.t SET v = v + 1 WHERE id = {id}"),
        };
        match open.query(&sql) {
            Ok(_) => {
                number += 1;
                done.fetch_add(1, Relaxed);
            }
            Err(_) => {
                number += 3 - number % 3;
                client = None;
            }
        }
    }
}
