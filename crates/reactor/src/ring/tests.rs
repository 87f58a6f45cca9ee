//! Sends that nobody waits for and the wait for the next event share one call to the kernel; receives of a core that
//! serves one session wait by epoll.

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use super::Ring;
use crate::cores::Io;
use crate::descriptor::RECEIVES_UNREGISTERED;
use crate::driver::IDLE_LOOKS;
use crate::runtime::Runtime;
use crate::sock::Sock;

const ROUNDS: usize = 50;

fn ring(runtime: &Runtime) -> &RefCell<Ring> {
    runtime.driver.ring.as_ref().expect("it was asked for")
}

fn pair() -> (Sock, UnixStream) {
    let (here, there) = UnixStream::pair().expect("a pair of sockets");
    (Sock::adopt(here).expect("a fresh socket"), there)
}

async fn receive(sock: &Sock) -> Vec<u8> {
    let (received, bytes) = sock.recv(Vec::with_capacity(64)).await;
    received.expect("the peer is there");
    bytes
}

async fn send(sock: &Sock, bytes: &[u8]) {
    let all = 0..bytes.len();
    sock.send(bytes.to_vec(), all)
        .await
        .0
        .expect("the peer is there");
}

/// Sends by calls of their own, and calls to the ring, of a task that sends to each of so many peers in turns and
/// receives an answer. Nothing else happens on the core.
fn in_turns(peers: usize) -> Option<(usize, usize)> {
    let runtime = Runtime::new(Io::IoUring).ok()?;
    let counted = Rc::new(Cell::new((0, 0)));
    let (of_main, of_runtime) = (counted.clone(), runtime.clone());
    runtime.run(async move {
        let ends: Vec<(Sock, UnixStream)> = (0..peers).map(|_| pair()).collect();
        let threads: Vec<_> = ends
            .iter()
            .map(|(_, there)| {
                let mut there = there.try_clone().expect("a second handle");
                std::thread::spawn(move || {
                    let mut bytes = [0; 4];
                    while there.read_exact(&mut bytes).is_ok() && there.write_all(&bytes).is_ok() {}
                })
            })
            .collect();
        for _ in 0..ROUNDS {
            for (here, _) in &ends {
                send(here, b"ping").await;
                assert_eq!(receive(here).await, b"ping");
            }
        }
        let ring = ring(&of_runtime).borrow();
        of_main.set((ring.direct, ring.enters));
        drop(ring);
        for (_, there) in &ends {
            let _ = there.shutdown(std::net::Shutdown::Both);
        }
        drop(ends);
        for thread in threads {
            let _ = thread.join();
        }
    });
    Some(counted.get())
}

/// Where one message comes at a time, whoever sends has a call of its own, and receives wait by epoll.
#[test]
fn calls_are_their_own_where_nothing_is_shared() {
    for peers in [2, 4] {
        let Some((direct, enters)) = in_turns(peers) else {
            return;
        };
        assert_eq!(direct, peers * ROUNDS);
        let first = peers * usize::from(RECEIVES_UNREGISTERED);
        assert!(enters <= first + 8, "{enters} calls to the ring");
    }
}

/// Two tasks answer each other, beside two that do the same: each turn has sends of two, and messages for two.
#[test]
fn a_turn_that_sends_asks_the_kernel_once() {
    let Ok(runtime) = Runtime::new(Io::IoUring) else {
        return;
    };
    let counted = Rc::new(Cell::new((0, 0)));
    let (of_main, of_runtime) = (counted.clone(), runtime.clone());
    runtime.run(async move {
        let pairs = [(); 2].map(|()| {
            let (one, other) = UnixStream::pair().expect("a pair of sockets");
            [one, other].map(|end| Sock::adopt(end).expect("a fresh socket"))
        });
        let before = ring(&of_runtime).borrow().enters;
        let tasks = pairs.map(|[one, other]| {
            let answers = crate::spawn(async move {
                for _ in 0..ROUNDS {
                    let bytes = receive(&other).await;
                    send(&other, &bytes).await;
                }
            });
            let asks = crate::spawn(async move {
                for _ in 0..ROUNDS {
                    send(&one, b"ping").await;
                    assert_eq!(receive(&one).await, b"ping");
                }
            });
            [answers, asks]
        });
        for task in tasks.into_iter().flatten() {
            task.join().await.expect("it ends");
        }
        let ring = ring(&of_runtime).borrow();
        of_main.set((ring.direct, ring.enters - before));
    });
    let (direct, enters) = counted.get();
    // It takes some turns to show.
    assert!(
        direct <= 2 * ROUNDS,
        "{direct} sends had calls of their own"
    );
    // A round of all is two turns: one in which both ask, and one in which both are answered. A call for the sends
    // of each turn alone would make it four.
    let most = 2 * ROUNDS + ROUNDS / 2;
    assert!(enters <= most, "{enters} calls in {ROUNDS} rounds");
}

/// The wait must not be for a completion too many: a task that sends twice waits for its first send.
#[test]
fn who_sends_again_is_not_kept_waiting() {
    let Ok(runtime) = Runtime::new(Io::IoUring) else {
        return;
    };
    runtime.run(async {
        let ((one, peer), (two, _other)) = (pair(), pair());
        let beside = crate::spawn(async move {
            for _ in 0..ROUNDS {
                send(&two, b"x").await;
                send(&two, b"y").await;
            }
        });
        let task = crate::spawn(async move {
            for _ in 0..ROUNDS {
                send(&one, b"first").await;
                send(&one, b"second").await;
            }
        });
        let limit = Duration::from_secs(60);
        crate::timeout(limit, task.join())
            .await
            .expect("nothing keeps it")
            .expect("it ends");
        crate::timeout(limit, beside.join())
            .await
            .expect("nothing keeps it")
            .expect("it ends");
        drop(peer);
    });
}

/// A peer that does not read keeps its own sender waiting, and nobody else.
#[test]
fn a_full_peer_keeps_nobody_else_waiting() {
    let Ok(runtime) = Runtime::new(Io::IoUring) else {
        return;
    };
    runtime.run(async {
        let (full, silent) = pair();
        let fills = crate::spawn(async move {
            loop {
                send(&full, &[7; 16_000]).await;
            }
        });
        let pairs = [(); 2].map(|()| {
            let (one, other) = UnixStream::pair().expect("a pair of sockets");
            [one, other].map(|end| Sock::adopt(end).expect("a fresh socket"))
        });
        let tasks = pairs.map(|[one, other]| {
            crate::spawn(async move {
                for _ in 0..ROUNDS {
                    send(&one, b"ping").await;
                    assert_eq!(receive(&other).await, b"ping");
                }
            })
        });
        for task in tasks {
            let ended = crate::timeout(Duration::from_secs(60), task.join()).await;
            ended.expect("nothing keeps it").expect("it ends");
        }
        drop((fills, silent));
    });
}

/// Receives until the end, each time into as much room, and counts the receives.
async fn hear_all(sock: Sock, begun: Rc<Cell<usize>>) -> Vec<u8> {
    let mut heard = Vec::new();
    let mut buffer = Vec::with_capacity(1000);
    loop {
        begun.set(begun.get() + 1);
        let (received, mut back) = sock.recv(buffer).await;
        if received.expect("the peer is there") == 0 {
            return heard;
        }
        assert!(back.capacity() >= 1000);
        heard.append(&mut back);
        buffer = back;
    }
}

/// A receive that waits for long has no buffer, and then gets what comes as any other, into as much room.
fn an_idle_receive_holds_no_buffer_and_loses_nothing(io: Io, several: bool) {
    let Ok(runtime) = Runtime::new(io) else {
        return;
    };
    let of_runtime = runtime.clone();
    runtime.run(async move {
        let begun = Rc::new(Cell::new(0));
        let driver = &of_runtime.driver;
        let look = async || {
            if let Some(ring) = &driver.ring {
                ring.borrow_mut()
                    .pretend_that_messages_come_together(several);
            }
            crate::recall_idle_receives();
            crate::sleep(Duration::from_millis(1)).await;
        };
        let room = || {
            let ring = driver.ring.as_ref();
            let by_ring = ring.map_or(0, |ring| ring.borrow().receives_with_room());
            by_ring + driver.epoll.borrow().receives_with_room()
        };
        look().await;
        let (idle, mut there) = pair();
        let (part, mut other) = pair();
        for _ in 0..RECEIVES_UNREGISTERED {
            for (sock, peer) in [(&idle, &mut there), (&part, &mut other)] {
                peer.write_all(b"x").expect("it is open");
                assert_eq!(receive(sock).await, b"x");
            }
        }
        look().await;
        let idle = crate::spawn(hear_all(idle, begun.clone()));
        // A part of something has come: it is not idle.
        let part = crate::spawn(async move {
            let mut buffer = Vec::with_capacity(1000);
            buffer.push(b'a');
            part.recv(buffer).await.1
        });
        // On a busy machine a receiver may run behind this task.
        let both_wait = async |receives| {
            while begun.get() < receives || room() < 2 {
                crate::sleep(Duration::from_millis(1)).await;
            }
        };
        let one_is_idle = async || {
            let mut looks = 0_u32;
            while room() > 1 {
                look().await;
                looks += 1;
            }
            assert!(looks >= u32::from(IDLE_LOOKS), "after {looks}");
            while room() != 1 {
                crate::sleep(Duration::from_millis(1)).await;
            }
        };
        both_wait(1).await;
        one_is_idle().await;
        for (receives, word) in (2..).zip([&b"ping"[..], b"pong"]) {
            there.write_all(word).expect("somebody waits");
            both_wait(receives).await;
            one_is_idle().await;
        }
        drop(there);
        assert_eq!(idle.join().await.expect("no panic"), b"pingpong");
        other.write_all(b"b").expect("somebody waits");
        assert_eq!(part.join().await.expect("no panic"), b"ab");
    });
}

#[test]
fn an_idle_receive_of_several_holds_no_buffer() {
    an_idle_receive_holds_no_buffer_and_loses_nothing(Io::IoUring, true);
}

#[test]
fn an_idle_receive_by_epoll_beside_a_ring_holds_no_buffer() {
    an_idle_receive_holds_no_buffer_and_loses_nothing(Io::IoUring, false);
}

#[test]
fn an_idle_receive_by_epoll_alone_holds_no_buffer() {
    an_idle_receive_holds_no_buffer_and_loses_nothing(Io::Epoll, false);
}
