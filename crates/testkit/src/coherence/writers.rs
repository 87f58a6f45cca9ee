//! Those who write: through SQL at a router, past all routers, through memcached, and by handing a token
//! from one router to another.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::keys::Kv;
use super::readers::value;
use super::{Place, Proof, keys_of};
use crate::client::{Client, Failure};
use crate::failover::verdict::text;
use crate::holds_within;

/// After a write whose outcome is not known: until then it has come to its end, one way or the other.
const UNKNOWN: Duration = Duration::from_millis(500);

/// Between two writes of one who writes often: readers are to have their turns.
const OFTEN: Duration = Duration::from_millis(2);

/// Between two writes to keys that are seldom written.
const SELDOM: Duration = Duration::from_millis(20);

impl Proof {
    /// Lets time pass; less where everything is over.
    fn pause(&self, time: Duration) {
        holds_within(time, || self.is_over());
    }

    /// One acknowledged write by SQL.
    fn write(&self, client: &mut Client, key: usize) -> Result<u64, Failure> {
        let version = self.keys[key].next();
        client.query(format!("UPDATE d.t SET v = '{version}' WHERE id = {key}"))?;
        self.keys[key].acknowledge(version);
        self.writes.fetch_add(1, SeqCst);
        Ok(version)
    }

    /// Writes keys of a way as long as the connection lasts; now and then it reads back what it wrote.
    fn write_way(&self, client: &mut Client, way: usize, pause: Duration) -> Result<(), Failure> {
        for turn in 0_u64.. {
            for key in keys_of(way) {
                if self.is_over() {
                    return Ok(());
                }
                let version = self.write(client, key)?;
                if turn % 2 == 0 {
                    let got = value(client, key)?;
                    self.must_be("its writer by SQL", key, version, &got);
                }
                self.pause(pause);
            }
        }
        Ok(())
    }

    /// Writes keys of a way through a router.
    pub(super) fn write_by_sql(&self, at: SocketAddr, way: usize, seldom: bool) {
        let pause = if seldom { SELDOM } else { OFTEN };
        while !self.is_over() {
            let Ok(mut client) = Client::connect(at, "root", "") else {
                continue;
            };
            let begun = client.query("SET heddle_row_cache = ON").map(drop);
            if begun
                .and_then(|()| self.write_way(&mut client, way, pause))
                .is_err()
            {
                self.pause(UNKNOWN);
            }
        }
    }

    /// Writes keys of a way at the primary, as somebody does who knows of no router, and through one as
    /// soon as that server takes no writes any more.
    pub(super) fn write_past(&self, primary: SocketAddr, at: SocketAddr, way: usize) {
        if let Ok(mut client) = Client::connect(primary, "other", "") {
            let _ = self.write_way(&mut client, way, OFTEN);
        }
        self.pause(UNKNOWN);
        self.write_by_sql(at, way, false);
    }

    /// Sets keys of a way and reads them back.
    pub(super) fn write_by_key(&self, at: SocketAddr, way: usize) {
        while !self.is_over() {
            if let Ok(mut kv) = Kv::connect(at) {
                let _ = self.set_and_get(&mut kv, way);
            }
            self.pause(UNKNOWN);
        }
    }

    fn set_and_get(&self, kv: &mut Kv, way: usize) -> std::io::Result<()> {
        loop {
            for key in keys_of(way) {
                if self.is_over() {
                    return Ok(());
                }
                let (known, name) = (&self.keys[key], format!("@@sure.{key}"));
                let version = known.next();
                if kv.set(&name, &version.to_string())? != "STORED" {
                    self.pause(UNKNOWN);
                    continue;
                }
                known.acknowledge(version);
                self.writes.fetch_add(1, SeqCst);
                let got = kv.get(&name)?;
                self.must_be("its writer by key", key, version, &got.unwrap_or_default());
            }
        }
    }

    /// Writes at one router and reads at the other with the token of the first, back and forth.
    pub(super) fn hand_over(&self, places: &[Place], way: usize) {
        while !self.is_over() {
            let open = |place: &Place| -> Result<Client, Failure> {
                let mut client = Client::connect(place.sql, "root", "")?;
                client.query("SET heddle_row_cache = ON")?;
                Ok(client)
            };
            let clients: Result<Vec<Client>, Failure> = places.iter().map(open).collect();
            if let Ok(mut clients) = clients {
                let _ = self.hand_over_with(&mut clients, way);
            }
            self.pause(UNKNOWN);
        }
    }

    fn hand_over_with(&self, clients: &mut [Client], way: usize) -> Result<(), Failure> {
        for turn in 0_usize.. {
            for key in keys_of(way) {
                if self.is_over() {
                    return Ok(());
                }
                let (from, to) = (turn % clients.len(), (turn + 1) % clients.len());
                // So that there is an old row to be remembered.
                value(&mut clients[to], key)?;
                let version = self.write(&mut clients[from], key)?;
                let token = text(&mut clients[from], "SELECT @@heddle_token")?;
                clients[to].query(format!("SET heddle_token = '{token}'"))?;
                let got = value(&mut clients[to], key)?;
                self.must_be("who has its token", key, version, &got);
                self.handed.fetch_add(1, SeqCst);
            }
        }
        Ok(())
    }

    /// The same through memcached.
    pub(super) fn hand_over_by_key(&self, from: SocketAddr, to: SocketAddr, way: usize) {
        while !self.is_over() {
            if let (Ok(mut from), Ok(mut to)) = (Kv::connect(from), Kv::connect(to)) {
                let _ = self.hand_over_keys(&mut from, &mut to, way);
            }
            self.pause(UNKNOWN);
        }
    }

    fn hand_over_keys(&self, from: &mut Kv, to: &mut Kv, way: usize) -> std::io::Result<()> {
        loop {
            for key in keys_of(way) {
                if self.is_over() {
                    return Ok(());
                }
                let (known, name) = (&self.keys[key], format!("@@sure.{key}"));
                to.get(&name)?;
                let version = known.next();
                let value = version.to_string();
                let length = value.len();
                from.say(format!("ms {name} {length} G\r\n{value}\r\n").as_bytes())?;
                let stored = from.line()?;
                let Some(token) = stored.strip_prefix("HD G") else {
                    if stored == "HD" {
                        known.acknowledge(version);
                    }
                    self.pause(UNKNOWN);
                    continue;
                };
                known.acknowledge(version);
                self.writes.fetch_add(1, SeqCst);
                to.say(format!("mg {name} v G{token}\r\n").as_bytes())?;
                if to.line()?.starts_with("VA ") {
                    self.must_be("who has its token by key", key, version, &to.line()?);
                    self.handed.fetch_add(1, SeqCst);
                }
            }
        }
    }
}
