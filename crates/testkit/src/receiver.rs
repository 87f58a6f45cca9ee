//! A program that is posted to: it keeps what comes, and answers as it is told.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// One request.
#[derive(Clone, Debug)]
pub struct Posted {
    /// Names in small letters.
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
    /// The answer to it.
    pub status: u16,
}

impl Posted {
    /// The events of the body.
    ///
    /// # Panics
    /// When a line is no JSON.
    pub fn events(&self) -> Vec<Value> {
        let lines = self.body.split(|&byte| byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        let parse = |line| serde_json::from_slice(line).expect("a line of JSON");
        lines.map(parse).collect()
    }
}

/// What a request is answered: a status; none breaks the connection off behind the request.
type Judge = dyn Fn(&Posted) -> Option<u16> + Send + Sync;

/// Listens until it is dropped.
pub struct Receiver {
    pub address: SocketAddr,
    all: Arc<Mutex<Vec<Posted>>>,
    is_over: Arc<AtomicBool>,
}

impl Receiver {
    /// Listens on a port of its own.
    ///
    /// # Panics
    /// When there is none.
    pub fn start(judge: impl Fn(&Posted) -> Option<u16> + Send + Sync + 'static) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let all = Arc::<Mutex<Vec<Posted>>>::default();
        let is_over = Arc::<AtomicBool>::default();
        let judge: Arc<Judge> = Arc::new(judge);
        let (kept, over) = (Arc::clone(&all), Arc::clone(&is_over));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let (judge, kept) = (Arc::clone(&judge), Arc::clone(&kept));
                let stream = stream.expect("a client");
                std::thread::spawn(move || while serve(&stream, &*judge, &kept).is_some() {});
            }
        });
        Receiver {
            address,
            all,
            is_over,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// What has come.
    ///
    /// # Panics
    /// When a judge has panicked.
    pub fn all(&self) -> Vec<Posted> {
        self.all.lock().expect("nobody panicked").clone()
    }

    /// Forgets what has come.
    ///
    /// # Panics
    /// When a judge has panicked.
    pub fn forget(&self) {
        self.all.lock().expect("nobody panicked").clear();
    }

    /// The events of the requests that were answered well.
    pub fn events(&self) -> Vec<Value> {
        let all = self.all();
        let taken = all.iter().filter(|posted| posted.status == 200);
        taken.flat_map(Posted::events).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the listener.
        drop(TcpStream::connect(self.address));
    }
}

/// One request; `None` at the end of the connection.
fn serve(stream: &TcpStream, judge: &Judge, kept: &Mutex<Vec<Posted>>) -> Option<()> {
    let mut from = BufReader::new(stream);
    let mut headers = HashMap::new();
    let mut line = String::new();
    from.read_line(&mut line).ok().filter(|read| *read > 0)?;
    loop {
        line.clear();
        from.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else {
            break;
        };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    let mut posted = Posted {
        headers,
        body,
        status: 0,
    };
    let status = judge(&posted);
    posted.status = status.unwrap_or(200);
    kept.lock().expect("nobody panicked").push(posted);
    let answer = format!("HTTP/1.1 {} Said\r\nContent-Length: 3\r\n\r\nwhy", status?);
    (&*stream).write_all(answer.as_bytes()).ok()
}
