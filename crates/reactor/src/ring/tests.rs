//! Sends that nobody waits for and the wait for the next event share one call to the kernel.

use std::cell::Cell;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use super::idle::LOOKS;
use crate::cores::Io;
use crate::runtime::{Driver, Runtime};
use crate::sock::Sock;

const ROUNDS: usize = 50;

fn enters(runtime: &Runtime) -> usize {
    match &runtime.driver {
        Driver::Ring(ring) => ring.borrow().enters,
        Driver::Epoll(_) => 0,
    }
}

/// Sends that had a call of their own.
fn direct(runtime: &Runtime) -> usize {
    match &runtime.driver {
        Driver::Ring(ring) => ring.borrow().direct,
        Driver::Epoll(_) => 0,
    }
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

/// Calls to the kernel of a task that sends to each of so many peers in turns and receives an answer. Nothing else
/// happens on the core.
fn in_turns(peers: usize) -> Option<usize> {
    let runtime = Runtime::new(Io::IoUring).ok()?;
    let counted = Rc::new(Cell::new(0));
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
        of_main.set(direct(&of_runtime));
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

/// One session sends by calls of its own; where several work, what they send goes with the wait.
#[test]
fn sends_share_the_wait_where_several_sessions_work() {
    let Some(alone) = in_turns(2) else { return };
    assert_eq!(alone, 2 * ROUNDS, "a client and its server");
    let several = in_turns(4).expect("as before");
    assert!(several <= 8, "{several} sends had a call of their own");
}

/// Two tasks answer each other over two connections, beside one that does the same, so that none is alone: each
/// turn has sends of two.
#[test]
fn a_turn_that_sends_asks_the_kernel_once() {
    let Ok(runtime) = Runtime::new(Io::IoUring) else {
        return;
    };
    let counted = Rc::new(Cell::new(0));
    let (of_main, of_runtime) = (counted.clone(), runtime.clone());
    runtime.run(async move {
        let pairs = [(); 2].map(|()| {
            let (one, other) = UnixStream::pair().expect("a pair of sockets");
            [one, other].map(|end| Sock::adopt(end).expect("a fresh socket"))
        });
        let before = enters(&of_runtime);
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
        of_main.set(enters(&of_runtime) - before);
    });
    // A round of all is two turns: one in which both ask, and one in which both are answered. A call for the sends
    // of each turn alone would make it four.
    let most = 2 * ROUNDS + ROUNDS / 2;
    assert!(
        counted.get() <= most,
        "{} calls in {ROUNDS} rounds",
        counted.get()
    );
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

/// A receive that waits for long has no buffer, and then gets what comes as any other, into as much room.
#[test]
fn an_idle_receive_holds_no_buffer_and_loses_nothing() {
    let Ok(runtime) = Runtime::new(Io::IoUring) else {
        return;
    };
    let of_runtime = runtime.clone();
    runtime.run(async move {
        let Driver::Ring(ring) = &of_runtime.driver else {
            unreachable!("it was asked for");
        };
        let room = || ring.borrow().receive_room();
        let look = async || {
            ring.borrow_mut().recall_idle();
            crate::sleep(Duration::from_millis(1)).await;
        };
        // On a busy machine the receiver may run behind this task.
        let both_wait = async || {
            while room() < 2000 {
                crate::sleep(Duration::from_millis(1)).await;
            }
        };
        let one_is_idle = async || {
            let mut looks = 0_u32;
            while room() > 1000 {
                look().await;
                looks += 1;
            }
            assert!(looks >= u32::from(LOOKS), "after {looks}");
        };
        let (idle, mut there) = pair();
        let (part, mut other) = pair();
        let idle = crate::spawn(async move {
            let mut heard = Vec::new();
            let mut buffer = Vec::with_capacity(1000);
            loop {
                let (received, mut back) = idle.recv(buffer).await;
                if received.expect("the peer is there") == 0 {
                    return heard;
                }
                assert!(back.capacity() >= 1000);
                heard.append(&mut back);
                buffer = back;
            }
        });
        // A part of something has come: it is not idle.
        let part = crate::spawn(async move {
            let mut buffer = Vec::with_capacity(1000);
            buffer.push(b'a');
            part.recv(buffer).await.1
        });
        both_wait().await;
        one_is_idle().await;
        assert_eq!(room(), 1000, "that of the other one");
        for word in [&b"ping"[..], b"pong"] {
            there.write_all(word).expect("somebody waits");
            both_wait().await;
            one_is_idle().await;
            assert_eq!(room(), 1000);
        }
        drop(there);
        assert_eq!(idle.join().await.expect("no panic"), b"pingpong");
        other.write_all(b"b").expect("somebody waits");
        assert_eq!(part.join().await.expect("no panic"), b"ab");
    });
}
