//! Both interfaces under what real loads do to them at their worst: dropped futures, panics, the end
//! of a core in the middle of everything, slow peers, crowds, no descriptors left.

#[path = "stress/ground.rs"]
mod ground;
#[path = "stress/talkers.rs"]
mod talkers;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use reactor::{Inbox, Reactor, Sock, sleep, spawn, timeout};

use ground::{BOTH, Random, alone, descriptors, elsewhere, listener, on_both, on_core, pair};

/// Sends `bytes` bytes of a pattern in pieces, some of them large.
async fn send_pattern(sock: &mut Sock, bytes: usize, random: &Random) -> bool {
    let mut at = 0;
    while at < bytes {
        let piece = (1 + random.below(90_000) as usize).min(bytes - at);
        let lead = random.below(5) as usize;
        let mut buffer = vec![0xee; lead];
        buffer.extend((at..at + piece).map(|i| (i % 251) as u8));
        let (sent, back) = sock.send(buffer, lead..lead + piece).await;
        assert_eq!(back.len(), lead + piece);
        if sent.is_err() {
            return false;
        }
        at += piece;
    }
    true
}

/// Receives until the end and checks the pattern.
async fn receive_pattern(sock: &mut Sock, random: &Random) -> usize {
    let mut at = 0;
    loop {
        let mut buffer = Vec::with_capacity(4 + random.below(40_000) as usize);
        buffer.extend_from_slice(&[7; 3]);
        let (received, buffer) = sock.recv(buffer).await;
        let Ok(bytes @ 1..) = received else {
            return at;
        };
        assert_eq!(buffer.len(), 3 + bytes);
        assert_eq!(buffer[..3], [7; 3]);
        for (i, byte) in buffer[3..].iter().enumerate() {
            assert_eq!(*byte, ((at + i) % 251) as u8, "at {}", at + i);
        }
        at += bytes;
        if random.below(4) == 0 {
            sleep(Duration::from_millis(random.below(3))).await;
        }
    }
}

#[test]
fn bytes_come_whole_and_in_order() {
    on_both(3, |random| async move {
        let listener = listener();
        let mut tasks = FuturesUnordered::new();
        for _ in 0..20 {
            let (mut near, mut far) = pair(&listener).await;
            let bytes = random.below(1_500_000) as usize;
            let (of_sender, of_receiver) = (random.clone(), random.clone());
            let sender = spawn(async move {
                assert!(send_pattern(&mut near, bytes, &of_sender).await);
                // The last piece must go out although its socket is dropped.
            });
            let receiver = spawn(async move { receive_pattern(&mut far, &of_receiver).await });
            tasks.push(async move {
                sender.join().await.expect("the sender is well");
                (receiver.join().await.expect("the receiver is well"), bytes)
            });
        }
        while let Some((received, sent)) = tasks.next().await {
            assert_eq!(received, sent);
        }
    });
}

/// One pair with futures that are dropped at any time and in any way.
async fn torment(random: Random) {
    // Another one's connection could be taken at a listener of all.
    let listener = listener();
    for _ in 0..random.below(6) {
        let (near, far) = pair(&listener).await;
        let limit = Duration::from_millis(random.below(4));
        let closer = near.closer();
        match random.below(7) {
            0 => {
                let _ = timeout(limit, near.recv(Vec::with_capacity(100_000))).await;
                let _ = near.send(vec![1; 10], 0..10).await;
            }
            1 => {
                let bytes = random.below(9_000_000) as usize;
                let _ = timeout(limit, near.send(vec![1; bytes], 0..bytes)).await;
            }
            2 => {
                let task = spawn(async move { near.recv(Vec::with_capacity(10)).await.0 });
                sleep(limit).await;
                drop(task);
            }
            3 => {
                let task = spawn(async move {
                    let _ = near.recv(Vec::with_capacity(10)).await;
                    panic!("as a test wants it");
                });
                let _ = far.send(vec![1; 5], 0..5).await;
                assert!(task.join().await.is_none());
            }
            4 => {
                let task = spawn(async move { near.recv(Vec::with_capacity(10)).await.0 });
                sleep(limit).await;
                closer.close();
                let ended = task.join().await.expect("it does not panic");
                assert!(matches!(ended, Ok(0)), "{ended:?}");
            }
            5 => {
                // Polled once, by a waker that is not the task's own, and dropped.
                let both = futures_util::future::join(
                    near.recv(Vec::with_capacity(10)),
                    far.recv(Vec::with_capacity(10)),
                );
                assert!(timeout(limit, both).await.is_none());
            }
            _ => {
                drop(near.recv(Vec::with_capacity(10)));
                let sent = near.send(vec![9; 300], 10..200).await.0;
                assert!(sent.is_ok());
                drop((near, closer));
                let mut all = Vec::with_capacity(1000);
                loop {
                    let (received, back) = far.recv(all).await;
                    all = back;
                    if !matches!(received, Ok(1..)) {
                        break;
                    }
                }
                assert_eq!(all, vec![9; 190]);
            }
        }
    }
}

#[test]
fn dropped_futures_leave_nothing_behind() {
    on_both(5, |random| async move {
        let tasks: Vec<_> = (0..60).map(|_| spawn(torment(random.clone()))).collect();
        for task in tasks {
            task.join().await.expect("no assertion fails");
        }
    });
}

#[test]
fn a_core_ends_in_the_middle_of_everything() {
    let _alone = alone();
    let before = descriptors();
    for io in BOTH {
        for seed in 1..=5 {
            let dropped = Arc::new(AtomicUsize::new(0));
            let count = dropped.clone();
            on_core(io, move || {
                let count = count.clone();
                async move {
                    let random = Random::new(seed);
                    let listener = listener();
                    let kept = Rc::new(RefCell::new(Vec::new()));
                    for i in 0..40 {
                        let (near, far) = pair(&listener).await;
                        kept.borrow_mut().push(near.closer());
                        let (tally, kept) = (Tally(count.clone()), kept.clone());
                        spawn(async move {
                            let _tally = tally;
                            let _kept = kept;
                            let _ = near.recv(Vec::with_capacity(1000)).await;
                        })
                        .detach();
                        let tally = Tally(count.clone());
                        spawn(async move {
                            let _tally = tally;
                            if i % 2 == 0 {
                                let bytes = 9_000_000;
                                let _ = far.send(vec![0; bytes], 0..bytes).await;
                            }
                            sleep(Duration::from_secs(3600)).await;
                        })
                        .detach();
                    }
                    sleep(Duration::from_millis(random.below(5))).await;
                }
            });
            assert_eq!(dropped.load(Ordering::SeqCst), 80, "{io:?}");
        }
    }
    assert_eq!(descriptors(), before);
}

/// Counts its own end, and starts a task at it: which must do no harm.
struct Tally(Arc<AtomicUsize>);

impl Drop for Tally {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        spawn(async {}).detach();
    }
}

#[test]
fn a_panic_ends_its_task_and_nothing_else() {
    let _alone = alone();
    struct WakesAsItFalls(Option<futures_channel::oneshot::Sender<()>>);
    impl Drop for WakesAsItFalls {
        fn drop(&mut self) {
            if let Some(sender) = self.0.take() {
                let _ = sender.send(());
            }
        }
    }
    for io in BOTH {
        on_core(io, || async {
            let (wake, woken) = futures_channel::oneshot::channel();
            let other = spawn(woken);
            let falls = WakesAsItFalls(Some(wake));
            let task = spawn(async move {
                let _falls = falls;
                sleep(Duration::from_millis(1)).await;
                panic!("as a test wants it");
            });
            assert!(other.join().await.expect("goes on").is_ok());
            assert!(task.join().await.is_none());
            // A panic on another thread, that wakes a task of this core while it unwinds.
            let (wake, woken) = futures_channel::oneshot::channel();
            let falls = WakesAsItFalls(Some(wake));
            let thread = std::thread::spawn(move || {
                let _falls = falls;
                panic!("as a test wants it");
            });
            assert!(woken.await.is_ok());
            assert!(thread.join().is_err());
        });
    }
}

#[test]
fn messages_arrive_while_the_core_sleeps_and_while_it_works() {
    let _alone = alone();
    for io in BOTH {
        let (tell, told) = channel();
        let tell = Mutex::new(tell);
        let reactor = Reactor::start(2, io, move |_, mut inbox: Inbox<u64>| {
            let tell = tell.lock().unwrap_or_else(PoisonError::into_inner).clone();
            async move {
                spawn(async {
                    loop {
                        sleep(Duration::from_millis(1)).await;
                    }
                })
                .detach();
                while let Some(number) = inbox.next().await {
                    tell.send(number).expect("the test listens");
                }
            }
        })
        .expect("cores start");
        let dealer = reactor.dealer();
        let mut sum = 0;
        for number in 0..3_000 {
            assert!(dealer.deal(number));
            if number % 10 == 0 {
                // Until the answer is here, the core has been asleep and woken.
                sum += told
                    .recv_timeout(Duration::from_secs(60))
                    .expect("a message");
            }
        }
        for _ in 0..2_700 {
            sum += told
                .recv_timeout(Duration::from_secs(60))
                .expect("a message");
        }
        assert_eq!(sum, (0..3_000).sum());
        drop(dealer);
        reactor.join();
    }
}

#[test]
fn time_is_never_short() {
    let _alone = alone();
    for io in BOTH {
        on_core(io, || async {
            for millis in [0, 1, 2, 5, 70] {
                let limit = Duration::from_millis(millis);
                let start = std::time::Instant::now();
                sleep(limit).await;
                assert!(start.elapsed() >= limit);
                let start = std::time::Instant::now();
                let never = std::future::pending::<()>();
                assert!(timeout(limit, never).await.is_none());
                assert!(start.elapsed() >= limit);
            }
            assert_eq!(timeout(Duration::ZERO, async { 7 }).await, Some(7));
            assert_eq!(
                timeout(Duration::MAX, sleep(Duration::ZERO)).await,
                Some(())
            );
            // A timer that is moved from one task to another wakes the one that has it now.
            let mut moved = Box::pin(sleep(Duration::from_millis(20)));
            let once = timeout(Duration::from_millis(2), &mut moved).await;
            assert!(once.is_none());
            let task = spawn(moved);
            assert!(task.join().await.is_some());
        });
    }
}

#[test]
fn a_fast_peer_does_not_starve_the_others() {
    let _alone = alone();
    for io in BOTH {
        on_core(io, || async {
            let listener = listener();
            let address: SocketAddr = listener.local_addr().expect("bound");
            let thread = std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address).expect("listens");
                let block = vec![0; 1 << 20];
                while stream.write_all(&block).is_ok() {}
            });
            let (stream, _) = listener.accept().expect("connects");
            let sock = Sock::adopt(stream).expect("a fresh socket");
            let flood = spawn(async move {
                let mut buffer = Vec::with_capacity(1000);
                while let (Ok(1..), back) = sock.recv(buffer).await {
                    buffer = back;
                    buffer.clear();
                }
            });
            for _ in 0..20 {
                sleep(Duration::from_millis(1)).await;
            }
            drop(flood);
            sleep(Duration::from_millis(1)).await;
            let ended = elsewhere(move || thread.join().is_ok()).await;
            assert!(ended, "the peer is refused in the end");
        });
    }
}

#[test]
fn a_slow_reader_holds_up_its_sender_only() {
    let _alone = alone();
    for io in BOTH {
        on_core(io, || async {
            let listener = listener();
            let address = listener.local_addr().expect("bound");
            let mut client = TcpStream::connect(address).expect("listens");
            let (stream, _) = listener.accept().expect("connects");
            let sock = Sock::adopt(stream).expect("a fresh socket");
            let bytes = 20_000_000;
            let sending = spawn(async move {
                let mut left = bytes;
                while left > 0 {
                    let piece = left.min(16_384);
                    let (sent, _) = sock.send(vec![3; piece], 0..piece).await;
                    sent.expect("the reader is there");
                    left -= piece;
                }
            });
            // Small sends fill the socket and then wait; the core goes on.
            let still = timeout(Duration::from_millis(30), std::future::pending::<()>()).await;
            assert!(still.is_none());
            let reader = std::thread::spawn(move || {
                let mut all = Vec::new();
                client.read_to_end(&mut all).expect("whole");
                assert!(all.iter().all(|byte| *byte == 3));
                all.len()
            });
            sending.join().await.expect("all is sent");
            let read = elsewhere(move || reader.join().expect("the reader is well")).await;
            assert_eq!(read, bytes);
        });
    }
}

#[test]
fn a_broken_peer_is_an_error_and_not_a_wait() {
    let _alone = alone();
    for io in BOTH {
        on_core(io, || async {
            for _ in 0..20 {
                let listener = listener();
                let (near, far) = pair(&listener).await;
                let far = far;
                let _ = far.send(vec![1; 5], 0..5).await;
                sleep(Duration::from_millis(1)).await;
                // Unread bytes make its close a reset.
                let _ = near.send(vec![2; 5], 0..5).await;
                drop(far);
                let mut errors = 0;
                for _ in 0..1000 {
                    let (sent, _) = near.send(vec![2; 5], 0..5).await;
                    let (received, _) = near.recv(Vec::with_capacity(10)).await;
                    if sent.is_err() || !matches!(received, Ok(1..)) {
                        errors += 1;
                        break;
                    }
                }
                assert_eq!(errors, 1);
            }
            let gone = listener();
            let port = gone.local_addr().expect("bound").port();
            drop(gone);
            let refused = Sock::connect("127.0.0.1", port).await.map(|_| ());
            let kind = refused.expect_err("nobody listens").kind();
            assert_eq!(kind, std::io::ErrorKind::ConnectionRefused);
            assert!(Sock::connect("no such host.invalid", 1).await.is_err());
            let listener = listener();
            let port = listener.local_addr().expect("bound").port();
            let by_name = Sock::connect("localhost", port).await;
            assert_eq!(
                by_name.expect("by name").peer().expect("known").port(),
                port
            );
        });
    }
}

#[test]
fn a_half_closed_peer_still_gets_its_answer() {
    let _alone = alone();
    for io in BOTH {
        on_core(io, || async {
            let listener = listener();
            let address = listener.local_addr().expect("bound");
            let mut client = TcpStream::connect(address).expect("listens");
            let (stream, _) = listener.accept().expect("connects");
            let sock = Sock::adopt(stream).expect("a fresh socket");
            client.write_all(b"question").expect("sends");
            client.shutdown(Shutdown::Write).expect("half closed");
            let mut all = Vec::with_capacity(4);
            loop {
                let (received, back) = sock.recv(all).await;
                all = back;
                if received.expect("no error") == 0 {
                    break;
                }
                all.reserve(2);
            }
            assert_eq!(all, b"question");
            sock.send(b"answer".to_vec(), 0..6).await.0.expect("sends");
            drop(sock);
            let text = elsewhere(move || {
                let mut text = String::new();
                client.read_to_string(&mut text).map(|_| text)
            });
            assert_eq!(text.await.expect("whole"), "answer");
        });
    }
}

#[test]
fn a_core_goes_on_without_descriptors() {
    let _alone = alone();
    for io in BOTH {
        on_core(io, || async {
            let listener = listener();
            let port = listener.local_addr().expect("bound").port();
            let (near, far) = pair(&listener).await;
            let mut hoard = Vec::new();
            while let Ok(file) = std::fs::File::open("/dev/null") {
                hoard.push(file);
                if hoard.len() > 1_100_000 {
                    break;
                }
            }
            let refused = Sock::connect("127.0.0.1", port).await;
            assert!(refused.is_err());
            let _ = near.send(vec![1; 5], 0..5).await;
            let (received, _) = far.recv(Vec::with_capacity(10)).await;
            assert_eq!(received.expect("it lives"), 5);
            drop(hoard);
            assert!(Sock::connect("127.0.0.1", port).await.is_ok());
        });
    }
}

#[test]
fn ten_thousand_sockets() {
    let _alone = alone();
    let before = descriptors();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let pairs = (limit.current.unwrap_or(1 << 20) as usize / 4).min(5_000);
    for io in BOTH {
        on_core(io, move || async move {
            let listener = listener();
            let mut far_ends = Vec::new();
            let mut tasks = Vec::new();
            for _ in 0..pairs {
                let (near, far) = pair(&listener).await;
                far_ends.push(far);
                let near = near;
                tasks.push(spawn(async move {
                    let mut buffer = Vec::with_capacity(100);
                    for _ in 0..3 {
                        let (received, back) = near.recv(buffer).await;
                        let bytes = received.expect("a message");
                        let (sent, back) = near.send(back, 0..bytes).await;
                        sent.expect("the peer is there");
                        buffer = back;
                        buffer.clear();
                    }
                }));
            }
            for round in 0..3 {
                for far in &mut far_ends {
                    far.send(vec![round; 10], 0..10).await.0.expect("sends");
                }
                for far in &mut far_ends {
                    let (received, back) = far.recv(Vec::with_capacity(20)).await;
                    assert_eq!(received.expect("an answer"), 10);
                    assert_eq!(back, [round; 10]);
                }
            }
            for task in tasks {
                task.join().await.expect("it is well");
            }
        });
    }
    assert_eq!(descriptors(), before);
}
