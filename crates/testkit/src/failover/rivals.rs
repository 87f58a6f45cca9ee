//! The check that at most one server acknowledges writes at any time: clients that try to write to
//! every server directly, past Heddle, all the time.
//!
//! An ordinary account tries every server and connects again whenever it has to. `root`, whom
//! read_only does not stop on MariaDB, tries the primary of the round's beginning on a connection
//! that it opened then, and never another: on a server that follows it would write what replication
//! does not know, which is an operator's own doing.

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::client::{Client, Failure, Login, Reply};

use super::ledger::now_us;
use super::load::first_id;
use super::stop::Stop;

/// The ordinary account.
const ACCOUNT: &str = "rival";

/// A rival that hears nothing for so long tries anew.
const PATIENCE: Duration = Duration::from_secs(1);

/// `root`, who does not try anew, outlasts a server that is stopped.
const ROOT_PATIENCE: Duration = Duration::from_secs(8);

/// Between two tries: the servers have clients to serve, too.
const PAUSE: Duration = Duration::from_millis(5);

/// Above the numbers of the clients of the load.
const FIRST_NUMBER: u64 = 100;

/// A write that a server acknowledged to a rival.
#[derive(Clone, Debug)]
pub struct Ack {
    /// Its place in the list of servers.
    pub server: usize,
    pub id: u64,
    pub sent_us: u64,
    pub acked_us: u64,
}

/// The account of the rivals.
pub fn make_account(client: &mut Client) {
    client.run(&format!("CREATE USER '{ACCOUNT}'@'%'"));
    client.run(&format!(
        "GRANT SELECT, INSERT ON proof.* TO '{ACCOUNT}'@'%'"
    ));
}

/// The running rivals of a round.
pub struct Rivals {
    stop: Stop,
    threads: Vec<JoinHandle<Vec<Ack>>>,
}

impl Rivals {
    /// Starts one for each server, and `root` at the primary.
    pub fn start(servers: &[SocketAddr], primary: usize, round: u64) -> Rivals {
        let stop = Stop::default();
        let mut threads = Vec::new();
        for (server, &address) in servers.iter().enumerate() {
            for root in [false, true] {
                if root && server != primary {
                    continue;
                }
                let number = FIRST_NUMBER + threads.len() as u64;
                let mut rival = Rival {
                    address,
                    server,
                    next: first_id(round) | (number << 28),
                    stop: stop.clone(),
                    acks: Vec::new(),
                };
                threads.push(std::thread::spawn(move || {
                    rival.run(root);
                    rival.acks
                }));
            }
        }
        Rivals { stop, threads }
    }

    /// Ends them; what was acknowledged, in the order of sending.
    pub fn end(self) -> Vec<Ack> {
        self.stop.raise();
        let ended = self.threads.into_iter().map(JoinHandle::join);
        let mut acks: Vec<Ack> = ended
            .flat_map(|acks| acks.expect("a rival does not panic"))
            .collect();
        acks.sort_by_key(|ack| ack.sent_us);
        acks
    }
}

struct Rival {
    address: SocketAddr,
    server: usize,
    next: u64,
    stop: Stop,
    acks: Vec<Ack>,
}

impl Rival {
    fn run(&mut self, root: bool) {
        let login = Login {
            user: if root { "root" } else { ACCOUNT },
            patience: if root { ROOT_PATIENCE } else { PATIENCE },
            ..Login::default()
        };
        while !self.stop.is_raised() {
            if let Ok(mut client) = Client::login(self.address, &login) {
                self.write(&mut client);
                // The next connection could be to a server that follows.
                if root {
                    return;
                }
            }
            self.stop.rest(PAUSE);
        }
    }

    /// Until the connection breaks.
    fn write(&mut self, client: &mut Client) {
        while !self.stop.is_raised() {
            self.next += 1;
            let (id, sent_us) = (self.next, now_us());
            match client.query(format!("INSERT INTO proof.rival (id) VALUES ({id})")) {
                Ok(replies) if matches!(replies.as_slice(), [Reply::Done(_)]) => {
                    self.acks.push(Ack {
                        server: self.server,
                        id,
                        sent_us,
                        acked_us: now_us(),
                    });
                }
                Err(Failure::Server { .. }) => {}
                _ => return,
            }
            self.stop.rest(PAUSE);
        }
    }
}

/// Writes that a server acknowledged while another one was in charge; `terms` are the servers that
/// were primary, in their order. An acknowledgement counts against a server only when its write was
/// sent after a later primary's acknowledgement had arrived, so that no slow answer is blamed.
pub fn overlaps(acks: &[Ack], terms: &[usize]) -> Vec<String> {
    let mut found = Vec::new();
    // The latest term that an acknowledgement proves, each with the time of its arrival.
    let mut proved: Vec<(u64, usize)> = Vec::new();
    for ack in acks {
        let arrived = proved.iter().filter(|(at_us, _)| *at_us < ack.sent_us);
        let reached = arrived.map(|(_, term)| *term).max().unwrap_or(0);
        let term = (reached..terms.len()).find(|&term| terms[term] == ack.server);
        match term {
            Some(term) => {
                let is_new = proved.iter().all(|(_, other)| *other != term);
                if is_new {
                    proved.push((ack.acked_us, term));
                }
            }
            None => found.push(format!(
                "server {} acknowledged a write sent at {} us, when server {} was primary",
                ack.server, ack.sent_us, terms[reached]
            )),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(server: usize, sent_us: u64, acked_us: u64) -> Ack {
        Ack {
            server,
            id: sent_us,
            sent_us,
            acked_us,
        }
    }

    #[test]
    fn a_server_that_acknowledges_after_its_successor_is_found() {
        let acks = [ack(0, 1, 2), ack(1, 10, 12), ack(0, 13, 14)];
        assert_eq!(overlaps(&acks, &[0, 1]).len(), 1);
        assert_eq!(
            overlaps(&acks, &[0, 1, 0]),
            [] as [String; 0],
            "it came back"
        );
    }

    #[test]
    fn an_answer_that_only_arrives_late_is_not_blamed() {
        let acks = [ack(0, 1, 20), ack(1, 10, 12), ack(0, 11, 30)];
        assert_eq!(overlaps(&acks, &[0, 1]), [] as [String; 0]);
    }

    #[test]
    fn a_server_that_was_never_primary_is_found() {
        assert_eq!(overlaps(&[ack(2, 1, 2)], &[0, 1]).len(), 1);
    }
}
