//! A control plane and its HTTP door, running for as long as a test wants.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use control::{Control, Credentials, NoSessions, SessionInfo, Sessions};
use door_http::{Door, Metrics, Settings};
use farm::{Kill, Killed};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Both of them; ended by [`Running::end`].
pub struct Running {
    door: Door,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    /// Starts them.
    pub fn start(control: &Arc<Control>, door: Door) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        let running = Arc::clone(control).run(async {
            let _ = stopped.await;
        });
        door.serve(true);
        Running {
            door,
            stop,
            task: tokio::spawn(running),
        }
    }

    /// Ends the door, then the control plane.
    pub async fn end(self) {
        self.door.close().await;
        self.stop.send(()).expect("it waits for this");
        self.task.await.expect("no panic");
    }
}

/// The address of most clients.
pub const HERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);

/// A control plane on the test's own runtime, and its door.
pub struct House {
    pub address: SocketAddr,
    pub control: Arc<Control>,
    pub running: Running,
    _dir: tempfile::TempDir,
}

impl House {
    pub async fn open(
        sessions: Arc<dyn Sessions>,
        metrics: Vec<Arc<dyn Metrics>>,
        tune: impl FnOnce(&mut Settings),
    ) -> House {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Arc::new(meta::Embedded::open(dir.path()).expect("a store"));
        let empty = farm::Snapshot::empty("", Instant::now());
        let published = Arc::new(farm::Published::from_pointee(empty));
        let settings = control::Settings::new(credentials());
        let opened = Control::open(store, published, sessions, settings);
        let control = opened.await.expect("a farm");
        let mut settings = Settings::new(SocketAddr::from(([127, 0, 0, 1], 0)), "secret");
        tune(&mut settings);
        let asked = Arc::clone(&control);
        let door = Door::open(settings, asked, Arc::default(), metrics, Arc::new(NoRows));
        let door = door.expect("a free port");
        House {
            address: door.address(),
            running: Running::start(&control, door),
            control,
            _dir: dir,
        }
    }

    /// A connection from this address of the loopback network.
    pub async fn client_of(&self, ip: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((IpAddr::V4(ip), 0).into()).expect("loopback");
        socket.connect(self.address).await.expect("it is open")
    }

    /// Connects and sends this, and reads nothing.
    pub async fn send(&self, ip: Ipv4Addr, text: &str) -> TcpStream {
        let mut stream = self.client_of(ip).await;
        stream.write_all(text.as_bytes()).await.expect("sent");
        stream
    }

    /// Sends a whole request, and reads nothing.
    pub async fn ask(&self, ip: Ipv4Addr, path: &str) -> TcpStream {
        let text = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer secret\r\n\r\n"
        );
        self.send(ip, &text).await
    }
}

/// Those of servers that a test never reaches.
pub fn credentials() -> Credentials {
    Credentials {
        user: "root".to_owned(),
        password: String::new(),
        replication_user: "root".to_owned(),
        replication_password: String::new(),
        tls: control::LinkTls::Off,
    }
}

/// What lists sessions in place of the cores.
pub trait List: Send + Sync {
    fn list(&self) -> Vec<SessionInfo>;
}

/// A data plane that lists sessions, and does nothing else.
pub struct Lists<T>(pub Arc<T>);

impl<T: List> Sessions for Lists<T> {
    fn list(&self) -> Vec<SessionInfo> {
        self.0.list()
    }

    fn kill(&self, kill: &Kill) -> Killed {
        NoSessions.kill(kill)
    }

    fn turned(&self) {
        NoSessions.turned();
    }

    fn units_of_work_before(&self, epoch: u64) -> Option<usize> {
        NoSessions.units_of_work_before(epoch)
    }

    fn placed(&self, slot: u8) {
        NoSessions.placed(slot);
    }

    fn counted(&self) -> Vec<(&'static str, u64)> {
        NoSessions.counted()
    }
}

/// Where there are no containers.
#[allow(dead_code, reason = "not every test has rows")]
pub struct NoRows;

impl door_http::Rows for NoRows {
    fn ask(
        &self,
        _: door_http::Wanted,
    ) -> std::pin::Pin<Box<dyn Future<Output = door_http::Told> + Send>> {
        Box::pin(std::future::ready(door_http::Told::NoContainer))
    }
}
