//! Receives wait in one way where one message comes at a time, and in another where several do.

use reactor::spawn;

use crate::ground::{listener, on_both, pair};

/// A core goes from one session to several and back, in the middle of what each has sent.
#[test]
fn bytes_come_whole_however_many_talk() {
    on_both(5, |random| async move {
        let listener = listener();
        let mut asking = Vec::new();
        for _ in 0..5 {
            let (near, far) = pair(&listener).await;
            let random = random.clone();
            let answers = spawn(async move {
                // Less room than has come: the rest is received by whichever way is next.
                let mut room = Vec::with_capacity(1 + random.below(7) as usize);
                loop {
                    let (received, mut bytes) = far.recv(room).await;
                    if !matches!(received, Ok(1..)) {
                        return;
                    }
                    let all = 0..bytes.len();
                    let (sent, back) = far.send(bytes, all).await;
                    if sent.is_err() {
                        return;
                    }
                    bytes = back;
                    bytes.clear();
                    room = bytes;
                }
            });
            asking.push((near, answers));
        }
        for phase in 0..60 {
            let several = 1 + (phase % 2) * (1 + random.below(4) as usize);
            for round in 0..1 + random.below(60) as usize {
                let mut all_sent = Vec::new();
                for (near, _) in &asking[..several] {
                    let bytes = 1 + random.below(40) as usize;
                    let sent: Vec<u8> = (0..bytes).map(|i| (i + round) as u8).collect();
                    near.send(sent.clone(), 0..bytes).await.0.expect("open");
                    all_sent.push(sent);
                }
                for ((near, _), sent) in asking.iter().zip(all_sent) {
                    let mut heard = Vec::new();
                    while heard.len() < sent.len() {
                        let room = Vec::with_capacity(1 + random.below(9) as usize);
                        let (received, mut part) = near.recv(room).await;
                        assert!(received.expect("open") > 0);
                        heard.append(&mut part);
                    }
                    assert_eq!(heard, sent);
                }
            }
        }
        for (near, answers) in asking {
            drop(near);
            answers.join().await.expect("it does not panic");
        }
    });
}
