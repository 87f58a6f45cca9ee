//! The doors of the data plane as one: SQL, and the key-value door where it is wanted. They share the
//! cores and the count of clients, so they rest, resume and end together.

pub(crate) mod fabric;
pub(crate) mod listeners;
pub(crate) mod rows;
pub(crate) mod tls;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use kv::Kv;
use reactor::{Address, Dealer, Listener};
use session::{Message, Visit};

use crate::failure::Failure;
use crate::settings::{Listens, Settings};

/// The open doors.
pub struct Doors {
    pub sql: door_sql::Door,
    pub kv: Option<door_kv::Door>,
    /// Where Fabric's clients CALL, if the settings want that.
    pub fabric: Option<door_fabric::MysqlDoor>,
}

impl Doors {
    /// Opens the key-value door on the cores of the SQL door, if the settings want it; `given` are its
    /// listening sockets where there are any already.
    ///
    /// # Errors
    /// Its address cannot be had; the SQL door is closed again.
    pub fn open(
        settings: &Settings,
        sql: door_sql::Door,
        given: Vec<Listener>,
    ) -> Result<Doors, Failure> {
        keep_clean(&sql.dealer(), own(settings));
        let listens = &settings.kv_listen.0;
        if given.is_empty() && *listens == Listens::default() {
            return Ok(Doors {
                sql,
                kv: None,
                fabric: None,
            });
        }
        let listeners = listeners::open(given, listens, settings);
        let opened = listeners.and_then(|listeners| {
            door_kv::start(door_kv::Options {
                listeners,
                dealer: sql.dealer(),
                shared: sql.shared(),
                settings: kv_settings(settings),
            })
        });
        match opened {
            Ok(kv) => Ok(Doors {
                sql,
                kv: Some(kv),
                fabric: None,
            }),
            Err(error) => {
                sql.drain(Duration::ZERO);
                Err(Failure::new(format!(
                    "cannot serve memcached clients on {listens}: {error}; choose another address \
                     (kv_listen, --kv)"
                )))
            }
        }
    }

    /// Where MySQL clients connect.
    pub fn sql_places(&self) -> Listens {
        places(self.sql.addresses())
    }

    /// Where memcached clients connect.
    pub fn kv_places(&self) -> Listens {
        let of_door = |door| places(door_kv::Door::addresses(door));
        self.kv.as_ref().map_or_else(Listens::default, of_door)
    }

    /// The line that says that all doors serve. Tools read it: the TCP addresses come first, and
    /// Unix sockets behind them.
    pub fn ready(&self, http: SocketAddr) -> String {
        let (sql, kv) = (self.sql_places(), self.kv_places());
        let mut line = format!(
            "ready sql={} kv={} http={http}",
            shown(sql.tcp),
            shown(kv.tcp)
        );
        for (door, socket) in [("sql", sql.socket), ("kv", kv.socket)] {
            if let Some(path) = socket {
                line.push_str(&format!(" {door}_socket={}", path.display()));
            }
        }
        line
    }

    /// The listening sockets by the names of their doors, to be given to another process.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn listeners(&self) -> io::Result<Vec<(&'static str, OwnedFd)>> {
        let mut all = Vec::new();
        all.extend(self.sql.sockets()?.into_iter().map(|it| ("sql", it)));
        if let Some(kv) = &self.kv {
            all.extend(kv.sockets()?.into_iter().map(|it| ("kv", it)));
        }
        if let Some(fabric) = &self.fabric {
            all.push(("fabric-mysql", fabric.listener()?.into()));
        }
        Ok(all)
    }

    /// Take no more clients, and serve those that are there.
    pub fn rest(&self) {
        self.sql.rest();
        if let Some(kv) = &self.kv {
            kv.rest();
        }
        if let Some(fabric) = &self.fabric {
            fabric.serve(false);
        }
    }

    /// What commits that which key-value clients had acknowledged before its commit.
    pub fn early_commit(&self) -> Option<door_kv::EarlyCommit> {
        self.kv.as_ref().map(door_kv::Door::early_commit)
    }

    /// Take clients again.
    pub fn resume(&self) {
        self.sql.resume();
        if let Some(kv) = &self.kv {
            kv.resume();
        }
        if let Some(fabric) = &self.fabric {
            fabric.serve(true);
        }
    }

    /// Close, let everybody finish for at most `limit`, and end the cores. Blocks.
    pub fn drain(self, limit: Duration) {
        drop(self.fabric);
        // It holds a way to the cores, which end when nobody has one.
        if let Some(kv) = self.kv {
            kv.close();
        }
        self.sql.drain(limit);
    }
}

/// An address, or nothing to listen on.
pub fn shown(address: Option<SocketAddr>) -> String {
    address.map_or("-".to_owned(), |address| address.to_string())
}

fn places<'a>(addresses: impl Iterator<Item = &'a Address>) -> Listens {
    let mut places = Listens::default();
    for address in addresses {
        match address {
            Address::Tcp(address) => places.tcp = Some(*address),
            Address::Socket(path) => places.socket = Some(path.clone()),
        }
    }
    places
}

/// The account that containers' statements run by.
pub fn own(settings: &Settings) -> session::Own {
    let password = &settings.admin_password;
    let password = (!password.is_empty()).then(|| session::Secret::new(password.as_bytes()));
    session::Own {
        user: Arc::from(settings.admin_user.as_str()),
        password,
    }
}

/// What expires in containers is deleted, whatever clients there are. Every router has containers.
fn keep_clean(dealer: &Dealer<Message>, own: session::Own) {
    let visit = Visit::new(move |core| {
        if let Some(kv) = Kv::on(&core, &own) {
            kv.keep_clean();
        }
    });
    dealer.send(0, Message::Visit(visit));
}

fn kv_settings(settings: &Settings) -> door_kv::Settings {
    door_kv::Settings {
        auth: settings.kv_auth.0,
        sticky: settings.kv_sticky.0,
        delimiter: settings.kv_delimiter.clone(),
        value_bytes_max: usize::try_from(settings.kv_value_bytes_max).unwrap_or(usize::MAX),
        own: own(settings),
    }
}
