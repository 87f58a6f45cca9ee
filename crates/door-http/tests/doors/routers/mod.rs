//! Routers of one farm for tests: control plane and HTTP door each, over one store, on a farm without servers.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catalog::Call;
use catalog::Secret;
use control::peers::{Question, Way};
use control::{Control, Leads, Peer, Roster, SessionInfo, Sessions, Settings};
use door_http::{Door, HttpPeers};
use farm::{Kill, Killed, Victim};

use crate::running::{NoRows, Running, credentials};

/// Of one question, whose answer a busy machine may be long in giving.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Of a question that nobody answers.
pub const SILENCE: Duration = Duration::from_millis(300);

/// A data plane that remembers.
#[derive(Default)]
pub struct Clients {
    /// Ids of sessions, with their users.
    pub now: Mutex<Vec<(u32, &'static str)>>,
    pub slots: Mutex<Vec<u8>>,
}

impl Sessions for Clients {
    fn units_of_work_before(&self, _epoch: u64) -> Option<usize> {
        Some(0)
    }

    fn list(&self) -> Vec<SessionInfo> {
        let now = self.now.lock().expect("no panic");
        let session = |&(id, user): &(u32, &str)| SessionInfo {
            id,
            user: user.to_owned(),
            running: Some((1, id & 0xFF)),
            ..SessionInfo::default()
        };
        now.iter().map(session).collect()
    }

    fn kill(&self, kill: &Kill) -> Killed {
        let mut now = self.now.lock().expect("no panic");
        let meant = |(id, user): &(u32, &str)| match &kill.victim {
            Victim::Session(victim) => victim == id,
            Victim::User { user: victim, .. } => victim == user,
        };
        let foreign = |(_, user): &&(u32, &str)| kill.only.as_ref().is_some_and(|it| it != user);
        if let Some(&(id, _)) = now.iter().filter(|it| meant(it)).find(foreign) {
            return Killed::Foreign(id);
        }
        let before = now.len();
        now.retain(|it| !meant(it));
        Killed::Sessions(u32::try_from(before - now.len()).expect("few"))
    }

    fn turned(&self) {}

    fn counted(&self) -> Vec<(&'static str, u64)> {
        vec![("logins", self.list().len() as u64), ("other", 7)]
    }

    fn placed(&self, slot: u8) {
        self.slots.lock().expect("no panic").push(slot);
    }
}

/// One router: control plane and HTTP door.
pub struct House {
    pub peer: Peer,
    pub store: Arc<dyn meta::Store>,
    pub clients: Arc<Clients>,
    pub control: Arc<Control>,
    running: Running,
}

pub async fn house(slot: u8, store: Arc<dyn meta::Store>) -> House {
    house_of(slot, store, |_, _| {}).await
}

/// The same with other settings, which are told the address of the HTTP door.
pub async fn house_of(
    slot: u8,
    store: Arc<dyn meta::Store>,
    tune: impl FnOnce(&mut Settings, SocketAddr),
) -> House {
    let empty = farm::Snapshot::empty("", Instant::now());
    let published = Arc::new(farm::Published::from_pointee(empty));
    let mut settings = Settings::new(credentials());
    settings.peers.transport = Arc::new(HttpPeers);
    settings.peers.peer_timeout_ms = u64::try_from(LIMIT.as_millis()).expect("a minute");
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    // Let go before the door takes it.
    let free = std::net::TcpListener::bind(listen).and_then(|it| it.local_addr());
    let listen = free.expect("a free port");
    tune(&mut settings, listen);
    let clients = Arc::new(Clients::default());
    let sessions = Arc::clone(&clients) as Arc<dyn Sessions>;
    let control = Control::open(Arc::clone(&store), published, sessions, settings)
        .await
        .expect("a farm");
    let settings = door_http::Settings::new(listen, "");
    let opened = Door::open(
        settings,
        Arc::clone(&control),
        Arc::default(),
        Vec::new(),
        Arc::new(NoRows),
    );
    let door = opened.expect("a free port");
    let peer = peer(slot, door.address());
    let running = Running::start(&control, door);
    House {
        peer,
        store,
        clients,
        control,
        running,
    }
}

pub fn peer(slot: u8, http: SocketAddr) -> Peer {
    Peer {
        slot,
        id: format!("life-{slot}"),
        name: format!("r{slot}"),
        http: http.to_string(),
        version: "0.1.0".to_owned(),
        tls: true,
    }
}

impl House {
    /// As this router asks.
    pub fn way(&self) -> Way {
        let mutual = self.control.mutual().expect("a certificate");
        Way::Tls(Arc::clone(&mutual.client))
    }

    /// This router knows of these others, and that one of them leads, or itself.
    pub fn knows(&self, others: &[&Peer], leads: Leads) {
        self.control.set_roster(Roster {
            own: self.peer.clone(),
            others: others.iter().map(|&peer| Arc::new(peer.clone())).collect(),
            leads,
        });
    }

    pub async fn end(self) {
        self.running.end().await;
    }
}

/// Two routers over one store; the second one leads.
pub async fn two() -> (House, House, tempfile::TempDir) {
    two_of(|_, _| {}).await
}

/// The same, the first with other settings.
pub async fn two_of(
    tune: impl FnOnce(&mut Settings, SocketAddr),
) -> (House, House, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn meta::Store> = Arc::new(meta::Embedded::open(dir.path()).expect("a store"));
    let (one, two) = tokio::join!(house_of(1, Arc::clone(&store), tune), house(2, store));
    one.knows(&[&two.peer], Leads::Slot(2));
    two.knows(&[&one.peer], Leads::Here);
    (one, two, dir)
}

pub fn question(peer: &Peer, way: Way) -> Question {
    Question {
        peer: peer.clone(),
        way,
        call: Call::new("manage", "ping", &[]),
        limit: LIMIT,
    }
}

/// As an older release asks.
pub fn in_clear(secret: &str) -> Way {
    Way::InClear(Secret::new(secret))
}
