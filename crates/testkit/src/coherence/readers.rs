//! Those who read all keys, again and again.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use super::keys::Kv;
use super::{KEYS, Proof, Reader};
use crate::client::{Client, Failure, Reply, Statement, Value};
use crate::failover::verdict::text;

/// Keys of one `get`, and gets at a time.
const AT_ONCE: usize = 100;

impl Proof {
    /// Reads through memcached, all keys at a time.
    pub(super) fn read_keys(&self, name: &str, address: SocketAddr, container: &str) {
        let bounded = container == "fast";
        let reader = Reader { name, bounded };
        let names: Vec<String> = (0..KEYS).map(|key| key.to_string()).collect();
        let gets = names.chunks(AT_ONCE);
        let gets: Vec<String> = gets
            .map(|keys| format!("get {}\r\n", keys.join(" ")))
            .collect();
        let (asked, gets) = (gets.len(), gets.concat());
        while !self.is_over() {
            let Ok(mut kv) = Kv::connect(address) else {
                continue;
            };
            let mut seen = vec![0; KEYS];
            let mut read = || -> std::io::Result<()> {
                kv.get(&format!("@@{container}"))?;
                while !self.is_over() {
                    let began = Instant::now();
                    kv.say(gets.as_bytes())?;
                    let mut count = 0;
                    for _ in 0..asked {
                        let before = count;
                        let whole = kv.items(|key, value| {
                            let key = std::str::from_utf8(key).ok();
                            let key = key.and_then(|key| key.parse::<usize>().ok());
                            if let Some(key) = key {
                                self.check(&reader, key, value, began, &mut seen[key]);
                                count += 1;
                            }
                        })?;
                        if whole && count - before < AT_ONCE {
                            self.wrong(format!("{name}: rows were missing in a get"));
                        }
                    }
                    self.reads.fetch_add(count as u64, SeqCst);
                }
                Ok(())
            };
            let _ = read();
        }
    }

    /// Reads through SQL, key by key, as texts and prepared, by integers and texts, with the row cache.
    pub(super) fn read_rows(&self, name: &str, address: SocketAddr) {
        let bounded = true;
        let reader = Reader { name, bounded };
        while !self.is_over() {
            let Ok(mut client) = Client::connect(address, "root", "") else {
                continue;
            };
            let mut seen = vec![0; KEYS];
            let mut read = || -> Result<(), Failure> {
                client.query("SET heddle_row_cache = ON, heddle_consistency = 'eventual'")?;
                let by_id = client.prepare("SELECT v FROM d.t WHERE id = ?")?;
                let by_name = client.prepare("SELECT v FROM d.t WHERE name = ?")?;
                let by_label = client.prepare("SELECT label, v FROM d.t WHERE label = ?")?;
                let mut turn = 0_usize;
                while !self.is_over() {
                    turn += 1;
                    // A key in each form twice, so that the second answer may be a remembered one.
                    let key = turn / 12 * 7 % KEYS;
                    let id = i64::try_from(key).unwrap_or_default();
                    let (name, label) = (format!("n{key}"), format!("l{key}"));
                    let began = Instant::now();
                    let got =
                        match turn % 6 {
                            0 => value(&mut client, key)?,
                            1 => prepared(&mut client, &by_id, Value::Int(id))?,
                            2 => last(
                                client.query(format!("SELECT v FROM d.t WHERE name = '{name}'"))?,
                            ),
                            3 => prepared(&mut client, &by_name, name.as_str().into())?,
                            4 => last(client.query(format!(
                                "SELECT label, v FROM d.t WHERE label = '{label}'"
                            ))?),
                            _ => prepared(&mut client, &by_label, label.as_str().into())?,
                        };
                    self.check(&reader, key, got.as_bytes(), began, &mut seen[key]);
                    self.reads.fetch_add(1, SeqCst);
                }
                Ok(())
            };
            let _ = read();
        }
    }
}

/// The value of a key by a text.
pub(super) fn value(client: &mut Client, key: usize) -> Result<String, Failure> {
    text(client, &format!("SELECT v FROM d.t WHERE id = {key}"))
}

/// The same by a prepared statement.
fn prepared(client: &mut Client, statement: &Statement, key: Value) -> Result<String, Failure> {
    Ok(last(client.execute(statement, &[key])?))
}

/// The last cell of the only row; empty for none.
fn last(replies: Vec<Reply>) -> String {
    let row = match replies.into_iter().next() {
        Some(Reply::Rows(rows)) => rows.text().pop(),
        _ => None,
    };
    row.and_then(|mut row| row.pop())
        .flatten()
        .unwrap_or_default()
}
