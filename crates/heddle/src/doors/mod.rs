//! The doors of the data plane as one: SQL, and the key-value door where it is wanted. They share the
//! cores and the count of clients, so they rest, resume and end together.

pub(crate) mod fabric;
pub(crate) mod listeners;
pub(crate) mod rows;
pub(crate) mod tls;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use kv::Kv;
use reactor::Dealer;
use session::{Message, Visit};

use crate::failure::Failure;
use crate::settings::Settings;

/// The open doors.
pub struct Doors {
    pub sql: door_sql::Door,
    pub kv: Option<door_kv::Door>,
    /// Where Fabric's clients CALL, if the settings want that.
    pub fabric: Option<door_fabric::MysqlDoor>,
}

impl Doors {
    /// Opens the key-value door on the cores of the SQL door, if the settings want it; `given` is its
    /// listening socket where there is one already.
    ///
    /// # Errors
    /// Its address cannot be had; the SQL door is closed again.
    pub fn open(
        settings: &Settings,
        sql: door_sql::Door,
        given: Option<TcpListener>,
    ) -> Result<Doors, Failure> {
        keep_clean(&sql.dealer(), own(settings));
        let Some(address) = settings.kv_listen.0 else {
            return Ok(Doors {
                sql,
                kv: None,
                fabric: None,
            });
        };
        let listener = given.map_or_else(|| reactor::listen(address), Ok);
        let opened = listener.and_then(|listener| {
            door_kv::start(door_kv::Options {
                listener,
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
                    "cannot serve memcached clients on {address}: {error}; choose another address \
                     (kv_listen, --kv)"
                )))
            }
        }
    }

    /// Where memcached clients connect, as the ready line and farm.json have it.
    pub fn kv_address(&self) -> Option<SocketAddr> {
        self.kv.as_ref().map(door_kv::Door::address)
    }

    /// The listening sockets by the names of their doors, to be given to another process.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn listeners(&self) -> io::Result<Vec<(&'static str, TcpListener)>> {
        let mut all = vec![("sql", self.sql.listener()?)];
        if let Some(kv) = &self.kv {
            all.push(("kv", kv.listener()?));
        }
        if let Some(fabric) = &self.fabric {
            all.push(("fabric-mysql", fabric.listener()?));
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
