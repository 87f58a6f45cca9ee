//! The clients of a round, one thread each, spread over the routers of the farm. A client whose router
//! breaks its connection goes on with the next one, as a driver does that knows several addresses.
//!
//! - 16 writers: single statements by autocommit, as text and prepared, into `single` and `counter`;
//!   now and then they read back what they wrote (the level session).
//! - 8 tellers: transfers between accounts with reads in the transaction; some are rolled back.
//! - 8 readers: strong, session (never back in time), eventual (a sum that never changes), one that
//!   holds a lock and a temporary table, one whose results are long.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use fastrand::Rng;

use crate::client::{Client, Failure, Login, Reply, Rows, Statement, Value};

use super::ledger::{Kind, Ledger, Outcome, Write, now_us};
use super::rounds::number as number_of;
use super::stop::Stop;
use super::{reader, teller};

pub const WRITERS: u64 = 16;
pub const TELLERS: u64 = 8;
const READERS: u64 = 8;

pub const ACCOUNTS: u64 = 64;
pub const BALANCE: u64 = 1000;

/// Between two statements of a client: without it the clients of a small machine take the time that
/// its servers need, and pauses measure the queue.
///
/// `FAILOVER_THINK_MS` of the environment, 5 without: longer for rounds by the thousand, which are to be many
/// rather than loaded.
pub fn think_time() -> Duration {
    static TIME: OnceLock<Duration> = OnceLock::new();
    *TIME.get_or_init(|| Duration::from_millis(number_of("FAILOVER_THINK_MS").unwrap_or(5)))
}

/// The same while replicas are to catch up.
const EASED: Duration = Duration::from_millis(200);

/// After an error, so that a farm that refuses everything is not asked a million times.
const AFTER_ERROR: Duration = Duration::from_millis(20);

/// Where the round stands in an id, and the client.
const ROUND_SHIFT: u32 = 40;
const CLIENT_SHIFT: u32 = 28;

/// The first id of this round.
pub fn first_id(round: u64) -> u64 {
    round << ROUND_SHIFT
}

/// The tables of the proof, on the farm behind this address.
///
/// # Panics
/// When they cannot be made.
pub fn make_tables(client: &mut Client) {
    client.run("CREATE DATABASE proof");
    client.run(
        "CREATE TABLE proof.single (n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, \
         id BIGINT NOT NULL, KEY (id))",
    );
    client.run("CREATE TABLE proof.counter (writer BIGINT PRIMARY KEY, v BIGINT NOT NULL)");
    client.run("CREATE TABLE proof.account (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL)");
    client.run(
        "CREATE TABLE proof.transfer (n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, \
         id BIGINT NOT NULL, source BIGINT NOT NULL, target BIGINT NOT NULL, \
         amount BIGINT NOT NULL, KEY (id))",
    );
    client.run(
        "CREATE TABLE proof.rival (n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, \
         id BIGINT NOT NULL, KEY (id))",
    );
    for id in 0..WRITERS {
        client.run(&format!("INSERT INTO proof.counter VALUES ({id}, 0)"));
    }
    for id in 0..ACCOUNTS {
        client.run(&format!(
            "INSERT INTO proof.account VALUES ({id}, {BALANCE})"
        ));
    }
}

/// Numbers that look random and come again with the same seed.
#[derive(Clone, Debug)]
pub struct Dice(Rng);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Rng::with_seed(seed))
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }
}

/// What the threads of a round share.
#[derive(Debug)]
pub struct Stand {
    /// Where the routers listen.
    pub doors: Vec<SocketAddr>,
    /// Routers that are killed in this round: a connection to one breaks.
    pub killed: Vec<AtomicBool>,
    /// Clients work as with a pool that looks at a connection before it lends it: one that its router
    /// has closed in between is replaced, and that is no trouble.
    pub pooled: AtomicBool,
    /// Clients think for long between two writes: replicas of a busy machine are to catch up.
    pub eased: AtomicBool,
    pub round: u64,
    pub seed: u64,
    pub stop: Stop,
    /// Acknowledged writes of each writer and each teller so far.
    pub acknowledged: Vec<AtomicU64>,
    /// What each writer's counter surely is at least.
    pub counters: Vec<AtomicU64>,
}

impl Stand {
    /// What a client does between two writes.
    pub fn think(&self) {
        let pause = match self.eased.load(Ordering::SeqCst) {
            true => EASED,
            false => think_time(),
        };
        self.stop.rest(pause);
    }

    /// From now on what this router's clients see is its death.
    pub fn kills(&self, router: usize) {
        self.killed[router].store(true, Ordering::SeqCst);
    }

    /// It runs again and breaks nothing.
    pub fn runs_again(&self, router: usize) {
        self.killed[router].store(false, Ordering::SeqCst);
    }

    /// The fewest acknowledged writes that a client has had.
    pub fn fewest(&self) -> u64 {
        let counts = self
            .acknowledged
            .iter()
            .map(|one| one.load(Ordering::SeqCst));
        counts.min().unwrap_or(0)
    }

    /// The acknowledged writes of each client.
    pub fn each(&self) -> Vec<u64> {
        let counts = self.acknowledged.iter();
        counts.map(|one| one.load(Ordering::SeqCst)).collect()
    }
}

/// The running clients of a round.
pub struct Load {
    pub stand: Arc<Stand>,
    clients: Vec<JoinHandle<Ledger>>,
}

impl Load {
    /// Starts all clients; `counters` are the values of the writers' counters now.
    pub fn start(doors: Vec<SocketAddr>, round: u64, seed: u64, counters: &[u64]) -> Load {
        let clients = WRITERS + TELLERS;
        let stand = Arc::new(Stand {
            killed: doors.iter().map(|_| AtomicBool::new(false)).collect(),
            pooled: AtomicBool::new(false),
            eased: AtomicBool::new(false),
            doors,
            round,
            seed,
            stop: Stop::default(),
            acknowledged: (0..clients).map(|_| AtomicU64::new(0)).collect(),
            counters: counters.iter().map(|&v| AtomicU64::new(v)).collect(),
        });
        let start = |number: u64| {
            let stand = stand.clone();
            std::thread::spawn(move || Seat::new(stand, number).run())
        };
        let clients = (0..clients + READERS).map(start).collect();
        Load { stand, clients }
    }

    /// Ends all clients; gives the ledger of each, writers and tellers first.
    pub fn end(self) -> Vec<Ledger> {
        self.stand.stop.raise();
        let ended = self.clients.into_iter().map(JoinHandle::join);
        ended
            .map(|ledger| ledger.expect("a client does not panic"))
            .collect()
    }
}

/// One client: its connection, its statements, its ledger.
pub(super) struct Seat {
    pub stand: Arc<Stand>,
    /// Among writers, tellers and readers, in this order.
    pub number: u64,
    pub name: String,
    pub dice: Dice,
    pub ledger: Ledger,
    /// The router that it is connected to, or tries next.
    door: usize,
    sequence: u64,
}

impl Seat {
    fn new(stand: Arc<Stand>, number: u64) -> Seat {
        let name = match number {
            n if n < WRITERS => format!("writer {n}"),
            n if n < WRITERS + TELLERS => format!("teller {}", n - WRITERS),
            n => format!("reader {}", n - WRITERS - TELLERS),
        };
        let dice = Dice::new(stand.seed ^ (number << 32));
        let door = number as usize % stand.doors.len();
        Seat {
            door,
            stand,
            number,
            name,
            dice,
            ledger: Ledger::default(),
            sequence: 0,
        }
    }

    /// Works on one connection after the other until the end of the round. One that breaks is a
    /// trouble; one that cannot be opened is too, unless it only comes after such a break, its router
    /// was killed, or the next router takes it.
    fn run(mut self) -> Ledger {
        let doors = self.stand.doors.len();
        let mut forgiven = doors - 1;
        while !self.stand.stop.is_raised() {
            let login = Login {
                database: Some("proof"),
                ..Login::default()
            };
            match Client::login(self.stand.doors[self.door], &login) {
                Ok(mut client) => {
                    forgiven = doors - 1;
                    if self.work(&mut client).is_err() {
                        // Without another router the break itself is all there is to tell.
                        forgiven = if doors == 1 { usize::MAX } else { doors };
                        self.next_door();
                    }
                }
                Err(failure) => {
                    let killed = self.stand.killed[self.door].load(Ordering::SeqCst);
                    match forgiven.checked_sub(1) {
                        Some(left) => forgiven = left,
                        None if killed => {}
                        None => self.trouble("login", &failure),
                    }
                    self.next_door();
                    self.stand.stop.rest(AFTER_ERROR);
                }
            }
        }
        self.ledger
    }

    fn next_door(&mut self) {
        self.door = (self.door + 1) % self.stand.doors.len();
    }

    fn trouble(&mut self, what: &str, failure: &Failure) {
        let who = format!("{} at router {}", self.name, self.door);
        let killed = self.stand.killed[self.door].load(Ordering::SeqCst);
        self.ledger.trouble(&who, what, failure, killed);
    }

    /// Before a piece of work: the error is a connection that must be replaced first.
    pub fn borrow(&mut self, client: &mut Client) -> Result<(), Failure> {
        if self.stand.pooled.load(Ordering::SeqCst) {
            client.ping()?;
        }
        Ok(())
    }

    /// The error is a broken connection.
    fn work(&mut self, client: &mut Client) -> Result<(), Failure> {
        match self.number {
            n if n < WRITERS => self.write(client),
            n if n < WRITERS + TELLERS => teller::work(self, client),
            n => reader::work(self, client, n - WRITERS - TELLERS),
        }
    }

    /// An id that no other write of any round has.
    pub fn next_id(&mut self) -> u64 {
        self.sequence += 1;
        first_id(self.stand.round) | (self.number << CLIENT_SHIFT) | self.sequence
    }

    /// Notes a write whose fate is known or never will be; the error is a broken connection.
    pub fn note(
        &mut self,
        kind: Kind,
        id: u64,
        answer: Result<u64, (Outcome, Failure)>,
    ) -> Result<(), Failure> {
        let (outcome, insert_id) = match &answer {
            Ok(insert_id) => (Outcome::Acknowledged, *insert_id),
            // Clients repeat what ended with this error: it must not have happened.
            Err((_, failure)) if failure.number() == 1213 => (Outcome::Undone, 0),
            Err((outcome, _)) => (*outcome, 0),
        };
        let at_us = now_us();
        self.ledger.writes.push(Write {
            kind,
            id,
            insert_id,
            at_us,
            outcome,
        });
        match answer {
            Ok(_) => {
                let count = &self.stand.acknowledged[self.number as usize];
                count.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
            Err((_, failure)) => self.fail(&format!("{kind:?} {id:#x}"), failure),
        }
    }

    /// Notes a failed statement; the error is a broken connection, after which nothing can be said.
    pub fn fail(&mut self, what: &str, failure: Failure) -> Result<(), Failure> {
        self.trouble(what, &failure);
        match failure {
            Failure::Server { .. } => {
                self.stand.stop.rest(AFTER_ERROR);
                Ok(())
            }
            broken => Err(broken),
        }
    }

    fn write(&mut self, client: &mut Client) -> Result<(), Failure> {
        let insert = "INSERT INTO proof.single (id) VALUES (?)";
        let prepared = match client.prepare(insert) {
            Ok(prepared) => prepared,
            Err(failure) => return self.fail("PREPARE", failure),
        };
        while !self.stand.stop.is_raised() {
            self.stand.think();
            self.borrow(client)?;
            match self.dice.below(10) {
                0..=1 => self.bump(client)?,
                2..=5 => self.insert(client, None)?,
                _ => self.insert(client, Some(&prepared))?,
            }
        }
        Ok(())
    }

    fn insert(&mut self, client: &mut Client, by: Option<&Statement>) -> Result<(), Failure> {
        let id = self.next_id();
        let answer = match by {
            Some(prepared) => client.execute(prepared, &[Value::UInt(id)]),
            None => client.query(format!("INSERT INTO proof.single (id) VALUES ({id})")),
        };
        let answer = answer.map_err(|failure| (Outcome::Unanswered, failure));
        let kept = answer.is_ok();
        let told = answer.map(|replies| done(&replies));
        if let Ok((rows, _)) = told {
            let text = || format!("the OK of row {id:#x} tells of {rows} rows");
            self.ledger.promise(rows == 1, text);
        }
        self.note(Kind::Insert, id, told.map(|(_, insert_id)| insert_id))?;
        if kept && self.dice.below(4) == 0 {
            return self.read_back(client, id);
        }
        Ok(())
    }

    /// The level session: what this connection wrote is there.
    fn read_back(&mut self, client: &mut Client, id: u64) -> Result<(), Failure> {
        let sql = format!("SELECT COUNT(*) FROM proof.single WHERE id = {id}");
        match number(client, &sql) {
            Ok(count) => {
                let text = || format!("own row {id:#x} was read {count} times");
                self.ledger.promise(count == 1, text);
                Ok(())
            }
            Err(failure) => self.fail(&sql, failure),
        }
    }

    fn bump(&mut self, client: &mut Client) -> Result<(), Failure> {
        let writer = self.number;
        let sql = format!("UPDATE proof.counter SET v = v + 1 WHERE writer = {writer}");
        let answer = client.query(&sql);
        let answer = answer.map_err(|failure| (Outcome::Unanswered, failure));
        if let Ok(replies) = &answer {
            let rows = done(replies).0;
            let text = || format!("the OK of a bump tells of {rows} rows");
            self.ledger.promise(rows == 1, text);
            self.stand.counters[writer as usize].fetch_add(1, Ordering::SeqCst);
        }
        self.note(Kind::Bump, writer, answer.map(|_| 0))
    }
}

/// Affected rows and insert id of the last OK.
fn done(replies: &[Reply]) -> (u64, u64) {
    match replies.last() {
        Some(Reply::Done(done)) => (done.affected_rows, done.last_insert_id),
        _ => (u64::MAX, 0),
    }
}

/// The number that a query of one value gives; anything else is a failure.
pub(super) fn number(client: &mut Client, sql: &str) -> Result<u64, Failure> {
    let replies = client.query(sql)?;
    let value = match replies.as_slice() {
        [Reply::Rows(Rows { rows, .. })] => rows.first().and_then(|row| row.first()),
        _ => None,
    };
    let number = value
        .and_then(Value::text)
        .and_then(|text| text.parse().ok());
    // Wherever it comes from, a missing row is a wrong answer, not a broken connection.
    number.ok_or_else(|| Failure::Server {
        number: 0,
        sqlstate: String::new(),
        message: format!("no number in {replies:?}"),
    })
}
