//! The seam on both kernel interfaces: echo, timeouts, a close from outside, spread over cores.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use reactor::{
    Acceptor, Address, CoreAcceptor, Inbox, Io, Listener, Reactor, Sock, Stream, Watcher, listen,
};

async fn echo(sock: Sock) {
    let mut buffer = Vec::with_capacity(4096);
    loop {
        buffer.clear();
        let (received, filled) = sock.recv(buffer).await;
        let Ok(bytes @ 1..) = received else { return };
        let (sent, back) = sock.send(filled, 0..bytes).await;
        if sent.is_err() {
            return;
        }
        buffer = back;
    }
}

/// For what must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Any port of loopback.
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

async fn serve<S: Into<Stream>>(mut inbox: Inbox<S>) {
    while let Some(stream) = inbox.next().await {
        reactor::spawn(echo(Sock::adopt(stream).expect("a fresh socket"))).detach();
    }
}

/// A listener on any port of loopback.
fn on_loopback() -> Listener {
    listen(&LOOPBACK.into(), 0).expect("a free port")
}

/// A client of either kind, and one more handle of it.
type Client = (Box<dyn Read>, Box<dyn Write + Send>);

fn by_tcp(address: SocketAddr) -> Client {
    let stream = TcpStream::connect(address).expect("accepts");
    let writer = stream.try_clone().expect("a second handle");
    (Box::new(stream), Box::new(writer))
}

fn by_socket(path: &Path) -> Client {
    let stream = UnixStream::connect(path).expect("accepts");
    let writer = stream.try_clone().expect("a second handle");
    (Box::new(stream), Box::new(writer))
}

fn round_trip(io: Io) {
    let reactor = Reactor::start(2, io, |_, inbox| serve(inbox)).expect("cores start");
    let dealer = reactor.dealer();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let socket = listen(&Address::Socket(path.clone()), 0o777).expect("a free path");
    let mut acceptor = Acceptor::start(vec![on_loopback(), socket], move |s, _| {
        dealer.deal(s);
    })
    .expect("a thread");
    let address = acceptor.tcp().expect("it listens on loopback");
    let clients = (0..8).map(|number| match number % 2 {
        0 => by_tcp(address),
        _ => by_socket(&path),
    });
    let clients: Vec<Client> = clients.collect();
    for (i, (mut client, mut writer)) in clients.into_iter().enumerate() {
        // More than the socket buffers hold at once, so that sends are partial.
        let message = vec![i as u8; 3_000_000];
        let copy = message.clone();
        let thread = std::thread::spawn(move || writer.write_all(&copy).expect("sends"));
        let mut back = vec![0; message.len()];
        client.read_exact(&mut back).expect("echoes");
        thread.join().expect("the writer ends");
        assert!(back == message);
    }
    acceptor.stop();
    drop(acceptor);
    reactor.join();
}

#[test]
fn echoes_on_epoll() {
    round_trip(Io::Epoll);
}

#[test]
fn echoes_on_the_best_interface() {
    round_trip(Io::Auto);
}

#[test]
fn a_closer_ends_a_pending_receive_and_a_timeout_drops_one() {
    for io in [Io::Epoll, Io::Auto] {
        let (tell, told) = channel();
        let reactor = Reactor::start(1, io, move |_, mut inbox: Inbox<TcpStream>| {
            let tell = tell.clone();
            async move {
                let stream = inbox.next().await.expect("one socket");
                let sock = Sock::adopt(stream).expect("a fresh socket");
                assert!(sock.is_quiet());
                let closer = sock.closer();
                reactor::spawn(async move {
                    reactor::sleep(Duration::from_millis(5)).await;
                    closer.close();
                })
                .detach();
                let (received, buffer) = sock.recv(Vec::with_capacity(16)).await;
                tell.send(matches!(received, Ok(0)))
                    .expect("the test listens");
                drop(buffer);
                let stream = inbox.next().await.expect("another socket");
                let sock = Sock::adopt(stream).expect("a fresh socket");
                let limit = Duration::from_millis(5);
                let late = reactor::timeout(limit, sock.recv(Vec::with_capacity(16))).await;
                tell.send(late.is_none()).expect("the test listens");
            }
        })
        .expect("a core starts");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        for _ in 0..2 {
            let client = TcpStream::connect(address).expect("accepts");
            let (stream, _) = listener.accept().expect("connects");
            assert!(reactor.send(0, stream));
            assert!(told.recv().expect("an answer"), "{io:?}");
            drop(client);
        }
        reactor.join();
    }
}

#[test]
fn a_port_in_use_is_named_with_its_cure() {
    let first = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = first.local_addr().expect("bound");
    let error = listen(&address.into(), 0).expect_err("the port is taken");
    let text = error.to_string();
    assert!(
        text.contains(&address.to_string()) && text.contains("another process"),
        "{text}"
    );
}

#[test]
fn two_acceptors_of_one_socket_take_turns_and_lose_nobody() {
    let listener = on_loopback();
    let (told, taken) = std::sync::mpsc::channel();
    let start = |name: &'static str, listener| {
        let told = told.clone();
        let take = move |stream: Stream, _| drop(told.send((name, stream)));
        Acceptor::start(vec![listener], take).expect("a thread")
    };
    let mut old = start("old", listener);
    let address = old.tcp().expect("bound");
    let connect = || TcpStream::connect(address).expect("nobody is refused");
    let by_whom = || taken.recv_timeout(PATIENCE).expect("taken").0;
    let _client = connect();
    assert_eq!(by_whom(), "old");

    // Between the two nobody accepts; who comes then is the new one's.
    let shared = old.sockets().expect("a second handle").remove(0);
    let shared = Listener::take(shared).expect("it listens");
    old.rest();
    let _client = connect();
    let new = start("new", shared);
    assert_eq!(by_whom(), "new");

    // The new one goes, and what it had left is the old one's.
    new.rest();
    let _client = connect();
    drop(new);
    assert!(taken.try_recv().is_err(), "one that rests takes nobody");
    old.resume();
    assert_eq!(by_whom(), "old");

    // Who had connected before the end is taken before it.
    let clients: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
    old.stop();
    for _ in clients {
        assert_eq!(by_whom(), "old");
    }
    drop(old);
    assert!(TcpStream::connect(address).is_err(), "closed");
}

/// Two cores that take their clients themselves, and what they took: by whom, on which core.
type OnCores = (CoreAcceptor, Reactor<Watcher>);

fn on_cores(
    io: Io,
    listener: Listener,
    take: impl FnMut(Stream, usize) + Send + 'static,
) -> OnCores {
    let reactor = Reactor::start(2, io, |_, mut inbox: Inbox<Watcher>| async move {
        while let Some(watcher) = inbox.next().await {
            reactor::spawn(watcher.run()).detach();
        }
    })
    .expect("cores start");
    let mut take = take;
    let take = move |stream, _, core| take(stream, core);
    let acceptor = CoreAcceptor::new(vec![listener], take).expect("it listens");
    for core in 0..2 {
        assert!(reactor.send(core, acceptor.watcher(core)));
    }
    (acceptor, reactor)
}

#[test]
fn cores_take_their_clients_themselves_and_rest_when_they_are_told() {
    for io in [Io::Epoll, Io::Auto] {
        let (told, taken) = std::sync::mpsc::channel();
        let start = |name: &'static str, listener| {
            let told = told.clone();
            on_cores(io, listener, move |stream, core| {
                assert!(
                    std::thread::current()
                        .name()
                        .is_some_and(|it| it.starts_with("core-"))
                        || core == 0
                );
                drop(told.send((name, stream)));
            })
        };
        let (old, old_cores) = start("old", on_loopback());
        let address = old.tcp().expect("bound");
        let connect = || TcpStream::connect(address).expect("nobody is refused");
        let by_whom = || taken.recv_timeout(PATIENCE).expect("taken").0;
        let burst: Vec<TcpStream> = (0..50).map(|_| connect()).collect();
        for _ in burst {
            assert_eq!(by_whom(), "old");
        }

        // Between the two nobody accepts; who comes then is the new one's.
        let shared = old.sockets().expect("a second handle").remove(0);
        let shared = Listener::take(shared).expect("it listens");
        old.rest();
        let _client = connect();
        assert!(taken.try_recv().is_err(), "one that rests takes nobody");
        let (new, new_cores) = start("new", shared);
        assert_eq!(by_whom(), "new");
        for _ in 0..20 {
            let _client = connect();
            assert_eq!(by_whom(), "new", "the old one is not woken in its place");
        }

        // The new one goes, and what it had left is the old one's.
        new.rest();
        let _client = connect();
        drop(new);
        new_cores.join();
        old.resume();
        assert_eq!(by_whom(), "old");
        drop(old);
        assert!(TcpStream::connect(address).is_err(), "closed");
        old_cores.join();
    }
}

#[test]
fn the_socket_file_of_a_dead_process_is_replaced_and_that_of_a_live_one_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let address = Address::Socket(path.clone());
    // What a process leaves that ends without a word.
    drop(UnixListener::bind(&path).expect("bound"));
    assert!(path.exists());
    let first = listen(&address, 0o640).expect("nobody listens there");
    let mode = fs::metadata(&path).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o640);
    let refused = listen(&address, 0o777).expect_err("somebody listens there");
    assert!(refused.to_string().contains("another process"), "{refused}");
    // One that has the same socket keeps the file.
    let shared = first.socket().expect("a second handle");
    drop(first);
    assert!(path.exists());
    drop(Listener::take(shared).expect("it listens"));
    assert!(!path.exists());
    // What is no socket is not touched.
    fs::write(&path, "precious").expect("written");
    let refused = listen(&address, 0o777).expect_err("it is a file");
    assert!(refused.to_string().contains("no socket"), "{refused}");
    assert_eq!(fs::read_to_string(&path).expect("kept"), "precious");
    let nowhere = Address::Socket(directory.path().join("no/socket"));
    let refused = listen(&nowhere, 0o777).expect_err("no directory");
    assert!(
        refused.to_string().contains("make the directory"),
        "{refused}"
    );
}
