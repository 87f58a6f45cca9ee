//! Writers whose rows show whether every change came once: a table that is `d.t (id BIGINT PRIMARY KEY, v INT)`.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use crate::Client;

/// Inserts a row and makes it grow, until `stop` is set; `done` counts what was acknowledged. After an error, which leaves
/// open whether its statement took effect, the next row is begun on another connection.
pub fn grow_rows(farm: SocketAddr, writer: i64, stop: &AtomicBool, done: &AtomicUsize) {
    let mut client = None;
    let mut number = 0;
    while !stop.load(Relaxed) {
        let Some(open) = client.as_mut() else {
            client = Client::connect(farm, "root", "").ok();
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
