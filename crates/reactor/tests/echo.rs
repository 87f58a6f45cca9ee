//! The seam on both kernel interfaces: echo, timeouts, a close from outside, spread over cores.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;

use reactor::{Acceptor, Inbox, Io, Reactor, Sock, listen};

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

async fn serve(mut inbox: Inbox<TcpStream>) {
    while let Some(stream) = inbox.next().await {
        reactor::spawn(echo(Sock::adopt(stream).expect("a fresh socket"))).detach();
    }
}

fn round_trip(io: Io) {
    let reactor = Reactor::start(2, io, |_, inbox| serve(inbox)).expect("cores start");
    let dealer = reactor.dealer();
    let listener = listen(LOOPBACK).expect("a free port");
    let mut acceptor = Acceptor::start(listener, move |s, _| {
        dealer.deal(s);
    })
    .expect("a thread");
    let mut clients: Vec<TcpStream> = (0..8)
        .map(|_| TcpStream::connect(acceptor.address()).expect("accepts"))
        .collect();
    for (i, client) in clients.iter_mut().enumerate() {
        // More than the socket buffers hold at once, so that sends are partial.
        let message = vec![i as u8; 3_000_000];
        let copy = message.clone();
        let mut writer = client.try_clone().expect("a second handle");
        let thread = std::thread::spawn(move || writer.write_all(&copy).expect("sends"));
        let mut back = vec![0; message.len()];
        client.read_exact(&mut back).expect("echoes");
        thread.join().expect("the writer ends");
        assert!(back == message);
    }
    drop(clients);
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
    let error = listen(address).expect_err("the port is taken");
    let text = error.to_string();
    assert!(
        text.contains(&address.to_string()) && text.contains("another process"),
        "{text}"
    );
}

#[test]
fn two_acceptors_of_one_socket_take_turns_and_lose_nobody() {
    let listener = listen(LOOPBACK).expect("a free port");
    let (told, taken) = std::sync::mpsc::channel();
    let start = |name: &'static str, listener| {
        let told = told.clone();
        let take = move |stream: TcpStream, _| drop(told.send((name, stream)));
        Acceptor::start(listener, take).expect("a thread")
    };
    let mut old = start("old", listener);
    let address = old.address();
    let connect = || TcpStream::connect(address).expect("nobody is refused");
    let by_whom = || taken.recv_timeout(PATIENCE).expect("taken").0;
    let _client = connect();
    assert_eq!(by_whom(), "old");

    // Between the two nobody accepts; who comes then is the new one's.
    let shared = old.listener().expect("a second handle");
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
