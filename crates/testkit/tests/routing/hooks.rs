//! Rules whose decision somebody else makes: hooks that answer, that hang, and that talk nonsense.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use routing::rules::{Actions, Fallback, Hook};
use testkit::Stage;
use testkit::ports::free_port;
use testkit::rules::{first, on, publish, rule, ruled, value};

const WHO: &str = "SELECT name FROM stage.who";

/// A hook on this machine that gives each request the answer of the moment; `None` never answers.
struct Hooked {
    port: u16,
    answer: Arc<Mutex<Option<String>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Hooked {
    fn start() -> Hooked {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let hooked = Hooked {
            port: listener.local_addr().expect("bound").port(),
            answer: Arc::default(),
            requests: Arc::default(),
        };
        let (answer, requests) = (hooked.answer.clone(), hooked.requests.clone());
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                requests.lock().expect("whole").push(request(&mut stream));
                match &*answer.lock().expect("whole") {
                    Some(answer) => {
                        // The asker may have gone.
                        let _ = stream.write_all(answer.as_bytes());
                    }
                    None => silent.push(stream),
                }
            }
        });
        hooked
    }

    fn says(&self, body: &str) {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json";
        let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        *self.answer.lock().expect("whole") = Some(answer);
    }

    fn hook(&self, fallback: Fallback) -> Hook {
        Hook {
            url: format!("http://127.0.0.1:{}/decide", self.port),
            host: "127.0.0.1".to_owned(),
            port: self.port,
            path: "/decide".to_owned(),
            timeout_ms: 10_000,
            fallback,
            cache_ms: 0,
            sends_text: true,
        }
    }

    fn asked(&self) -> usize {
        self.requests.lock().expect("whole").len()
    }
}

/// Reads one request, head and body.
fn request(stream: &mut std::net::TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("Content-Length: ").nth(1).expect("a length");
            let length = length.lines().next().expect("a line");
            if body.len() >= length.parse().expect("a number") {
                return text;
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return text,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

fn asking(hook: Hook) -> Actions {
    Actions {
        hook: Some(Arc::new(hook)),
        ..Actions::default()
    }
}

#[test]
fn hooks_decide() {
    let Some(stage) = Stage::shared() else { return };
    let hooked = Hooked::start();
    let ask = asking(hooked.hook(Fallback::Refuse));
    let (door, book) = ruled(&stage, vec![rule(on("stage.who"), ask)]);
    let mut client = door.client_in("stage");
    hooked.says(r#"{"server": "server-0"}"#);
    assert_eq!(client.value(WHO), "primary");
    assert_eq!(value(&mut client, WHO), "primary");
    hooked.says(r#"{"servers": ["server-1"], "level": "session"}"#);
    assert_eq!(client.value(WHO), "replica");
    hooked.says(r#"{"level": "strong"}"#);
    assert_eq!(client.value(WHO), "primary");
    hooked.says("{}");
    assert_eq!(client.value(WHO), "replica");
    hooked.says(r#"{"refuse": "not today"}"#);
    assert_eq!(client.error(WHO), 1148);
    let last = hooked
        .requests
        .lock()
        .expect("whole")
        .last()
        .cloned()
        .expect("one");
    let body = last.split_once("\r\n\r\n").expect("a body").1;
    let told: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert!(last.starts_with("POST /decide HTTP/1.0\r\n"), "{last}");
    assert_eq!(told["user"], "root");
    assert_eq!(told["database"], "stage");
    assert_eq!(told["text"], WHO);
    assert_eq!(told["class"], "read");
    assert_eq!(told["last_used"], "server-1");
    assert_eq!(told["in_transaction"], false);
    assert_eq!(told["servers"][0]["name"], "server-0");
    assert_eq!(told["servers"][1]["role"], "replica");
    // Remembered decisions are not asked for again; one of another shape is.
    let remembers = Hook {
        cache_ms: 3_600_000,
        sends_text: false,
        ..hooked.hook(Fallback::Refuse)
    };
    publish(&book, vec![rule(on("stage.who"), asking(remembers))]);
    hooked.says(r#"{"server": "server-0"}"#);
    let before = hooked.asked();
    for number in 0..5 {
        let sql = format!("{WHO} WHERE 1 < {}", number + 2);
        assert_eq!(client.value(&sql), "primary");
    }
    assert_eq!(hooked.asked(), before + 1);
    assert_eq!(door.counter("hooks_remembered"), 4);
    assert_eq!(client.value(WHO), "primary");
    assert_eq!(hooked.asked(), before + 2);
}

#[test]
fn hooks_that_do_not_decide_are_done_without() {
    let Some(stage) = Stage::shared() else { return };
    let hooked = Hooked::start();
    let (door, book) = ruled(&stage, Vec::new());
    let mut client = door.client();
    let mut nobody = hooked.hook(Fallback::Route);
    nobody.port = free_port();
    let hang = |fallback| Hook {
        timeout_ms: 50,
        ..hooked.hook(fallback)
    };
    let silent = None;
    let answers = [
        silent,
        Some("HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n{}".to_owned()),
        Some("HTTP/1.1 200 OK\r\n\r\nnonsense".to_owned()),
        Some("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"server\": \"nobody\"}".to_owned()),
        Some(String::new()),
    ];
    let mut failed = 0;
    for answer in answers {
        *hooked.answer.lock().expect("whole") = answer;
        for (fallback, outcome) in [
            (Fallback::Route, "replica"),
            (Fallback::Primary, "primary"),
            (Fallback::Refuse, "1105"),
        ] {
            publish(&book, vec![rule(on("stage.who"), asking(hang(fallback)))]);
            let got = match client.query(WHO) {
                Ok(replies) => first(&replies),
                Err(error) => error.number().to_string(),
            };
            failed += 1;
            assert_eq!(got, outcome);
            assert_eq!(door.counter("hooks_failed"), failed);
        }
    }
    publish(&book, vec![rule(on("stage.who"), asking(nobody))]);
    assert_eq!(client.value(WHO), "replica");
    assert_eq!(door.counter("hooks_failed"), failed + 1);
    assert_eq!(client.value("SELECT 1"), "1");
    client.quit();
    door.wait_unused();
}
