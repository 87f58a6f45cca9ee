//! The HTTP door apart from the control plane: what holds the one up does not hold the other.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::running::{HERE, House, List, Lists};
use catalog::Call;
use control::SessionInfo;
use door_http::{Family, Metrics};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// What hangs would do so for ever; a test that failed ends by this.
const PATIENCE: Duration = Duration::from_secs(60);

/// Something that hangs until the test lets it go, and says that it does.
struct Hanging {
    begun: Mutex<Sender<()>>,
    go: Mutex<Receiver<()>>,
    ended: Arc<AtomicBool>,
}

/// The other ends of it.
struct Held {
    begun: Receiver<()>,
    go: Sender<()>,
    ended: Arc<AtomicBool>,
}

fn hanging() -> (Arc<Hanging>, Held) {
    let (begin, begun) = channel();
    let (go, gone) = channel();
    let ended = Arc::<AtomicBool>::default();
    let hanging = Hanging {
        begun: Mutex::new(begin),
        go: Mutex::new(gone),
        ended: Arc::clone(&ended),
    };
    (Arc::new(hanging), Held { begun, go, ended })
}

impl Hanging {
    fn hang(&self) {
        // A test that has ended looks at nothing any more.
        let _ = self.begun.lock().expect("no panic").send(());
        let _ = self.go.lock().expect("no panic").recv_timeout(PATIENCE);
        self.ended.store(true, Relaxed);
    }
}

impl Held {
    /// Waits beside the runtime until it hangs.
    async fn hangs(self) -> Held {
        let wait = move || {
            self.begun.recv_timeout(PATIENCE).expect("somebody asked");
            self
        };
        tokio::task::spawn_blocking(wait).await.expect("no panic")
    }

    /// Lets it go.
    fn go_on(&self) {
        // What hung until it lost its patience has kept the test waiting.
        assert!(!self.ended.swap(false, Relaxed), "it hangs no more");
        self.go.send(()).expect("it hangs");
    }
}

impl Metrics for Hanging {
    fn families(&self) -> Vec<Family> {
        self.hang();
        Vec::new()
    }
}

/// Cores that do not answer.
impl List for Hanging {
    fn list(&self) -> Vec<SessionInfo> {
        self.hang();
        vec![SessionInfo::default()]
    }
}

impl House {
    /// The control plane carries a command out.
    async fn is_governed(&self) {
        let ping = Call::new("manage", "ping", &[]);
        let commander = self.control.commander();
        let answer = tokio::time::timeout(PATIENCE / 2, commander.execute(ping));
        let table = answer.await.expect("in time").expect("an answer");
        assert_eq!(table.rows.len(), 1);
    }
}

async fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test]
async fn a_request_that_hangs_does_not_keep_the_control_plane() {
    let (metrics, held) = hanging();
    let house = House::open(Arc::new(control::NoSessions), vec![metrics], |_| {}).await;
    let scrape = house.ask(HERE, "/metrics").await;
    let held = held.hangs().await;
    house.is_governed().await;
    held.go_on();
    assert!(answer(scrape).await.starts_with("HTTP/1.1 200"));
    house.running.end().await;
}

#[tokio::test]
async fn cores_that_do_not_answer_a_list_keep_neither_the_control_plane_nor_the_door() {
    let (cores, held) = hanging();
    let house = House::open(Arc::new(Lists(cores)), Vec::new(), |_| {}).await;
    let list = house.ask(HERE, "/v1/session/list").await;
    let held = held.hangs().await;
    house.is_governed().await;
    let healthy = answer(house.ask(HERE, "/healthz").await).await;
    assert!(healthy.ends_with("ok\n"), "{healthy}");
    held.go_on();
    let list = answer(list).await;
    assert!(list.contains(r#""door":"""#), "{list}");
    house.running.end().await;
}
