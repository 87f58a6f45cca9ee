//! Whose turn it is among the servers that can serve a read, and which of them are out.
//!
//! [`Strategy::RoundRobin`] is smooth and weighted: every server earns its weight at each turn, and
//! the one that serves pays the sum of all weights. The richest one serves, of those that can serve
//! this read; the others keep what they have earned. So shares follow the weights, no server gets its
//! share in one burst, and a session that must stay with a server for a while is made up for by
//! others.
//!
//! A server that fails, or is far slower than the others, is out for a while that doubles with each
//! time in a row; then the next read tries it. It is never out when no other can serve.

use std::net::IpAddr;

use farm::{Server, ServerId};

/// How a server is chosen among several that would do. Weights count in all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    #[default]
    RoundRobin,
    Random,
    /// The fewest connections of this core in use.
    LeastConnections,
    /// The shortest answers lately; now and then another one, to see how it fares.
    Fastest,
    /// A session stays with its server for as long as that one will do.
    Sticky,
}

/// When a server is out for being slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slowness {
    /// Answers that take less on average are never slow. 0 switches this off.
    pub least_us: u64,
    /// So many times the average of the fastest other server.
    pub factor: u32,
}

/// Servers that reads prefer: a network, a host name, a name, `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Near {
    Network(IpAddr, u8),
    Name(Box<str>),
}

impl Near {
    /// Reads `10.1.0.0/16`, an address, or a name.
    pub fn parse(text: &str) -> Result<Near, String> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        match (address.parse::<IpAddr>(), bits) {
            (Ok(ip), bits) => {
                let most: u8 = if ip.is_ipv4() { 32 } else { 128 };
                let bits = bits.map_or(Ok(most), str::parse::<u8>);
                match bits {
                    Ok(bits) if bits <= most => Ok(Near::Network(ip, bits)),
                    _ => Err(format!("'{text}': a network has up to /{most}")),
                }
            }
            (Err(_), None) if !text.is_empty() => Ok(Near::Name(text.into())),
            _ => Err(format!("'{text}' is no address, network or name")),
        }
    }

    fn has(&self, server: &Server) -> bool {
        match self {
            Near::Name(name) => {
                **name == *server.name || **name == *server.host || **name == *server.address()
            }
            Near::Network(network, bits) => server
                .host
                .parse()
                .is_ok_and(|ip| within(ip, *network, *bits)),
        }
    }
}

fn within(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (ip.to_canonical(), network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            let differ = u32::from(ip) ^ u32::from(network);
            differ.checked_shr(32 - u32::from(bits)).unwrap_or(0) == 0
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => {
            let differ = u128::from(ip) ^ u128::from(network);
            differ.checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// What an operator decides about balance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preferences {
    pub strategy: Strategy,
    pub slowness: Slowness,
    pub near: Vec<Near>,
}

impl Default for Preferences {
    fn default() -> Preferences {
        Preferences {
            strategy: Strategy::RoundRobin,
            slowness: Slowness {
                least_us: 500_000,
                factor: 10,
            },
            near: Vec::new(),
        }
    }
}

/// One read's turn.
pub struct Turn<'a> {
    pub now_us: u64,
    /// The replica that served this session last.
    pub last: Option<ServerId>,
    /// Connections of this core to a server that are in use.
    pub in_use: &'a dyn Fn(ServerId) -> usize,
}

/// What one core knows of the servers' turns and answers. Cheap to rebuild, so nothing is shared.
#[derive(Debug)]
pub struct Balance {
    preferences: Preferences,
    seats: Vec<Seat>,
    /// What the last turn by credit cost.
    total: f64,
    turns: u64,
    random: u64,
}

#[derive(Clone, Copy, Debug)]
struct Seat {
    id: ServerId,
    credit: f64,
    /// Of the last answers, weighted; meaningful once there were enough.
    average_us: f64,
    answers: u32,
    /// Times in a row that it was put out.
    outs: u32,
    out_until_us: u64,
}

/// So many servers of a group take turns.
pub const SERVERS_MAX: usize = 128;

/// A set of servers by their places in the list.
#[derive(Clone, Copy)]
struct Chosen(u128);

impl Chosen {
    fn has(self, at: usize) -> bool {
        self.0 >> at & 1 == 1
    }

    fn of<'a>(
        self,
        servers: impl Iterator<Item = &'a Server> + Clone,
    ) -> impl Iterator<Item = &'a Server> + Clone {
        let numbered = servers.enumerate();
        numbered.filter_map(move |(at, server)| self.has(at).then_some(server))
    }
}

/// A server that could not serve for long is not made up for without end: its credit stays below
/// what so many turns earn, and its debt too.
const TURNS_MAX: f64 = 1024.0;

/// See [`Balance::overdrawn`].
const OVERDRAWN_TURNS: f64 = 32.0;

/// Answers before an average says anything.
const ANSWERS_MIN: u32 = 16;

/// The part of an answer in the average.
const NEW_PART: f64 = 1.0 / 16.0;

/// Out for so long at first, and for no longer than the second.
const OUT_US: u64 = 1_000_000;
const OUT_US_MAX: u64 = 30_000_000;

/// Under [`Strategy::Fastest`], one turn in so many is another server's.
const TRY_EVERY: u64 = 64;

impl Default for Balance {
    fn default() -> Balance {
        Balance::new(Preferences::default(), 1)
    }
}

impl Balance {
    /// Reads are spread by other preferences from now on; what was learnt of the servers stays.
    pub fn set_preferences(&mut self, preferences: Preferences) {
        self.preferences = preferences;
    }

    /// Nobody has had a turn. `seed` makes the random choices.
    pub fn new(preferences: Preferences, seed: u64) -> Balance {
        Balance {
            preferences,
            seats: Vec::new(),
            total: 0.0,
            turns: 0,
            random: seed | 1,
        }
    }

    /// Chooses among those of `servers` that are `fit` for this read, near ones first, those that
    /// are out last. `None` when none is fit; then nobody has earned anything. Of more than
    /// [`SERVERS_MAX`] servers the others have no turn.
    pub fn choose<'a, I>(
        &mut self,
        servers: I,
        fit: impl Fn(&Server) -> bool,
        turn: &Turn<'_>,
    ) -> Option<&'a Server>
    where
        I: Iterator<Item = &'a Server> + Clone,
    {
        // So it is where the group has no replicas.
        servers.clone().next()?;
        let servers = servers.take(SERVERS_MAX);
        let (mut all_fit, mut all_in, mut all_near) = (0u128, 0u128, 0u128);
        for (at, server) in servers.clone().enumerate() {
            let is_near = self.preferences.near.iter().any(|near| near.has(server));
            all_fit |= u128::from(fit(server)) << at;
            all_in |= u128::from(!self.is_out(server.id, turn.now_us)) << at;
            all_near |= u128::from(is_near) << at;
        }
        let best = [all_fit & all_in & all_near, all_fit & all_in, all_fit];
        let chosen = Chosen(best.into_iter().find(|set| *set != 0)?);
        self.turns = self.turns.wrapping_add(1);
        self.by_strategy(servers, chosen, turn)
    }

    fn by_strategy<'a>(
        &mut self,
        servers: impl Iterator<Item = &'a Server> + Clone,
        chosen: Chosen,
        turn: &Turn<'_>,
    ) -> Option<&'a Server> {
        match self.preferences.strategy {
            Strategy::RoundRobin => self.by_credit(servers, chosen),
            Strategy::Random => self.by_chance(chosen.of(servers)),
            Strategy::LeastConnections => {
                let load = |server: &Server| (turn.in_use)(server.id) as f64 / server.weight;
                let loads = chosen.of(servers.clone()).map(load);
                let least = loads.fold(f64::INFINITY, f64::min);
                let all = servers.clone().enumerate();
                let idle = all.filter(|(at, server)| chosen.has(*at) && load(server) <= least);
                let idle = idle.fold(0, |set, (at, _)| set | 1 << at);
                self.by_credit(servers, Chosen(idle))
            }
            Strategy::Fastest if self.turns.is_multiple_of(TRY_EVERY) => {
                self.by_credit(servers, chosen)
            }
            Strategy::Fastest => {
                let cost = |server: &Server| {
                    let known = self
                        .seat(server.id)
                        .filter(|seat| seat.answers >= ANSWERS_MIN);
                    known.map_or(0.0, |seat| seat.average_us / server.weight)
                };
                let best = chosen.of(servers);
                best.min_by(|a, b| cost(a).total_cmp(&cost(b)))
            }
            Strategy::Sticky => {
                let last = chosen.of(servers.clone()).find(|s| Some(s.id) == turn.last);
                last.or_else(|| self.by_credit(servers, chosen))
            }
        }
    }

    fn by_credit<'a>(
        &mut self,
        servers: impl Iterator<Item = &'a Server> + Clone,
        chosen: Chosen,
    ) -> Option<&'a Server> {
        let total: f64 = servers.clone().map(|server| server.weight).sum();
        let most = total * TURNS_MAX;
        self.total = total;
        let mut best: Option<(&'a Server, usize)> = None;
        for (index, server) in servers.enumerate() {
            let at = self.slot(server.id);
            let earned = (self.seats[at].credit + server.weight).min(most);
            self.seats[at].credit = earned;
            let richer = best.is_none_or(|(_, richest)| earned > self.seats[richest].credit);
            if richer && chosen.has(index) {
                best = Some((server, at));
            }
        }
        let (server, at) = best?;
        self.seats[at].credit = (self.seats[at].credit - total).max(-most);
        Some(server)
    }

    fn by_chance<'a>(
        &mut self,
        chosen: impl Iterator<Item = &'a Server> + Clone,
    ) -> Option<&'a Server> {
        // Xorshift: enough for an even share, and the same for the same seed.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let total: f64 = chosen.clone().map(|server| server.weight).sum();
        let mut at = (self.random >> 11) as f64 / (1u64 << 53) as f64 * total;
        let passed = |server: &&'a Server| {
            at -= server.weight;
            at < 0.0
        };
        chosen.clone().find(passed).or(chosen.last())
    }

    /// A server answered a read after so long.
    pub fn answered(&mut self, id: ServerId, took_us: u64, now_us: u64) {
        let at = self.slot(id);
        let seat = &mut self.seats[at];
        seat.answers = seat.answers.saturating_add(1);
        let part = (1.0 / f64::from(seat.answers)).max(NEW_PART);
        seat.average_us += (took_us as f64 - seat.average_us) * part;
        let average_us = seat.average_us;
        let Slowness { least_us, factor } = self.preferences.slowness;
        if least_us == 0 || average_us < least_us as f64 || seat.answers < ANSWERS_MIN {
            // A server that has answered well for a while starts anew.
            if seat.answers >= ANSWERS_MIN {
                seat.outs = 0;
            }
            return;
        }
        let others = self.seats.iter().filter(|seat| seat.id != id);
        let fastest = others
            .filter(|seat| seat.answers >= ANSWERS_MIN)
            .map(|seat| seat.average_us)
            .fold(f64::INFINITY, f64::min);
        if average_us > fastest * f64::from(factor) {
            self.put_out(at, now_us);
        }
    }

    /// A server could not be reached, or broke off.
    pub fn failed(&mut self, id: ServerId, now_us: u64) {
        let at = self.slot(id);
        self.put_out(at, now_us);
    }

    fn put_out(&mut self, at: usize, now_us: u64) {
        let seat = &mut self.seats[at];
        if seat.out_until_us > now_us {
            return;
        }
        let out_us = OUT_US.checked_shl(seat.outs).unwrap_or(OUT_US_MAX);
        seat.out_until_us = now_us + out_us.min(OUT_US_MAX);
        seat.outs = (seat.outs + 1).min(16);
        (seat.answers, seat.average_us) = (0, 0.0);
    }

    /// True for a server that has served so much more than its share that it is worth a question
    /// whether its sessions can go elsewhere, and for one that should serve no reads at all.
    pub fn overdrawn(&self, id: ServerId) -> bool {
        self.seat(id)
            .is_none_or(|seat| seat.credit < -self.total * OVERDRAWN_TURNS)
    }

    /// Whether this server is out now.
    pub fn is_out(&self, id: ServerId, now_us: u64) -> bool {
        self.seat(id).is_some_and(|seat| seat.out_until_us > now_us)
    }

    fn seat(&self, id: ServerId) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.id == id)
    }

    fn slot(&mut self, id: ServerId) -> usize {
        match self.seats.iter().position(|seat| seat.id == id) {
            Some(at) => at,
            None => {
                self.seats.push(Seat {
                    id,
                    credit: 0.0,
                    average_us: 0.0,
                    answers: 0,
                    outs: 0,
                    out_until_us: 0,
                });
                self.seats.len() - 1
            }
        }
    }
}
