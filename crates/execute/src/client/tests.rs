//! The client of a session, with a peer that follows a script, and with nobody.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc;

use mysql_wire::status::Status;
use reactor::{Io, Reactor, Sock};

use super::answer::Answers;
use super::heard::Heard;
use super::sink::buffer::{self, CAPABILITIES, now};
use super::*;

const PACKET_BYTES_MAX: usize = 1 << 20;

fn memory() -> Arc<Budget> {
    Arc::new(Budget::new(1 << 20))
}

/// Serves a client at the other end of `script`'s connection: gives what was found out there.
fn scripted<T: Send + 'static, F>(
    serve: impl Fn(Client) -> F + Send + Sync + Clone + 'static,
    script: impl FnOnce(TcpStream),
) -> T
where
    F: Future<Output = T> + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let peer = TcpStream::connect(address).expect("somebody listens");
    let (near, _) = listener.accept().expect("somebody connects");
    let near = Mutex::new(Some(near));
    let (found, finding) = mpsc::channel();
    let core = Reactor::<()>::start(1, Io::Epoll, move |_, _| {
        let near = near.lock().expect("one core").take().expect("one core");
        let (serve, found) = (serve.clone(), found.clone());
        async move {
            let sock = Sock::adopt(near).expect("it is open");
            let mut client = Client::new(Channel::new(sock), PACKET_BYTES_MAX, &memory());
            client.capabilities = CAPABILITIES;
            let _ = found.send(serve(client).await);
        }
    });
    let core = core.expect("a core starts");
    script(peer);
    let found = finding.recv().expect("it came to its end");
    core.join();
    found
}

fn send(peer: &mut TcpStream, bytes: &[u8]) {
    peer.write_all(bytes).expect("the core reads");
}

fn receive(peer: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    peer.read_to_end(&mut all).expect("the core ends");
    all
}

fn query(text: &[u8]) -> Vec<u8> {
    Request::query(text).into_frame()
}

#[test]
fn a_command_is_whole_whatever_pieces_it_comes_in() {
    let read = scripted(
        |mut client: Client| async move {
            client.read(0).await.expect("a command comes");
            client.request.payload().to_vec()
        },
        |mut peer| {
            for piece in query(b"SELECT 1").chunks(3) {
                send(&mut peer, piece);
            }
        },
    );
    assert_eq!(read, b"\x03SELECT 1");
}

#[test]
fn commands_that_come_together_are_read_one_after_the_other() {
    let read = scripted(
        |mut client: Client| async move {
            let mut read = Vec::new();
            while client.read(0).await.is_ok() {
                read.push(client.request.payload()[1..].to_vec());
            }
            read
        },
        |mut peer| {
            send(&mut peer, &[query(b"DO 1"), query(b"DO 2")].concat());
            send(&mut peer, &query(b"DO 3"));
            peer.shutdown(Shutdown::Write).expect("it is open");
        },
    );
    assert_eq!(read, [b"DO 1", b"DO 2", b"DO 3"]);
}

#[test]
fn a_right_scramble_is_told_in_front_of_the_next_answer_only() {
    scripted(
        |mut client: Client| async move {
            (client.sequence, client.fast_ok) = (2, true);
            for _ in 0..2 {
                client.ok(Status::AUTOCOMMIT).await.expect("the peer reads");
            }
        },
        |mut peer| {
            let told = receive(&mut peer);
            let payloads: Vec<&[u8]> = packet::payloads(&told).collect();
            assert_eq!(payloads[0], [1, auth::FAST_OK]);
            let is_ok = |payload: &&[u8]| payload.first() == Some(&0);
            assert!(payloads.len() == 3 && payloads[1..].iter().all(is_ok));
            assert_eq!([told[3], told[9]], [2, 3], "the packets' numbers");
        },
    );
}

#[test]
fn a_packet_out_of_order_is_refused() {
    let refused = scripted(
        |mut client: Client| async move { client.read(0).await.expect_err("it is the wrong packet") },
        |mut peer| {
            let mut frame = query(b"DO 1");
            frame[3] = 5;
            send(&mut peer, &frame);
        },
    );
    let ReadError::Refused(error) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.name, error::PACKETS_OUT_OF_ORDER.name);
}

#[test]
fn several_requests_in_the_place_of_one_command_have_one_reply() {
    scripted(
        |mut client: Client| async move {
            client.read(0).await.expect("a command comes");
            let interrupted = client.begin_series();
            client.play_next(Request::query(b"DO 1"), true);
            client.ok(Status::AUTOCOMMIT).await.expect("the peer reads");
            assert_eq!(client.request.payload(), b"\x03DO 1");
            client.play_next(Request::query(b"DO 2"), false);
            client.ok(Status::AUTOCOMMIT).await.expect("the peer reads");
            client.end_series(interrupted);
            client.request.payload().to_vec()
        },
        |mut peer| {
            send(&mut peer, &query(b"DO 1; DO 2"));
            let reply = receive(&mut peer);
            let (first, second) = reply.split_at(reply.len() / 2);
            assert_eq!(buffer::ok(first).2, Status::AUTOCOMMIT | Status::MORE_RESULTS);
            assert_eq!(buffer::ok(second).2, Status::AUTOCOMMIT);
            assert_eq!((first[3], second[3]), (1, 2), "the packets are numbered through");
        },
    );
}

#[test]
fn what_heddle_asks_meanwhile_does_not_reach_the_client() {
    let asked = scripted(
        |mut client: Client| async move {
            client.read(0).await.expect("a command comes");
            let interrupted = client.begin_heard(Request::query(b"SELECT 2"));
            assert_eq!(client.request.payload(), b"\x03SELECT 2");
            let rows = [vec![Some(b"2".to_vec())]];
            client.answer_rows(&["2"], &rows, Status::AUTOCOMMIT).await.expect("it is kept");
            let heard = client.end_heard(interrupted).heard(CAPABILITIES);
            client.error(&error::NOT_PREPARABLE, &[]).await.expect("the peer reads");
            let Heard::Rows(sheet) = heard else {
                panic!("rows were said");
            };
            (sheet.rows, client.request.payload().to_vec())
        },
        |mut peer| {
            send(&mut peer, &query(b"SELECT 1"));
            let (number, _) = buffer::refusal(&receive(&mut peer));
            assert_eq!(number, error::NOT_PREPARABLE.number);
        },
    );
    assert_eq!(asked, (vec![vec![Some(b"2".to_vec())]], b"\x03SELECT 1".to_vec()));
}

#[test]
fn commands_that_are_run_once_more_say_nothing() {
    scripted(
        |mut client: Client| async move {
            client.read(0).await.expect("a command comes");
            let interrupted = client.begin_play();
            client.play(Request::again(&query(b"DO 0")));
            client.ok(Status::AUTOCOMMIT).await.expect("nobody hears it");
            client.end_play(interrupted);
            client.ok(Status::IN_TRANS).await.expect("the peer reads");
        },
        |mut peer| {
            send(&mut peer, &query(b"DO 1"));
            let reply = receive(&mut peer);
            assert_eq!(buffer::ok(&reply).2, Status::IN_TRANS);
            assert_eq!(packet::payloads(&reply).count(), 1);
        },
    );
}

#[test]
fn nobody_sends_nothing_and_hears_what_is_kept_alone() {
    let mut client = Client::nobody(CAPABILITIES, &memory());
    assert!(!client.is_private() && !client.is_compressed());
    assert!(matches!(now(client.read(0)), Err(ReadError::Closed)));
    let (received, _) = now(client.receive(Vec::with_capacity(8)));
    assert!(matches!(received, Ok(0)), "a file has no bytes");
    let idle = client.begin_heard(Request::query(b"DO 1"));
    now(client.ok(Status::AUTOCOMMIT)).expect("it is kept");
    assert!(matches!(client.end_heard(idle).heard(CAPABILITIES), Heard::Ok { .. }));
    // A reply that nobody keeps has nowhere to go.
    assert!(now(client.ok(Status::AUTOCOMMIT)).is_err());
}
