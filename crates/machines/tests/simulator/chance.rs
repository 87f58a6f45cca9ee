//! Random numbers from a seed, and what a seed makes of a history.

/// The same seed gives the same numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From `low`, below `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low).max(1)
    }

    /// True in so many of a thousand cases.
    pub fn permille(&mut self, of: u64) -> bool {
        self.next() % 1000 < of
    }

    pub fn pick(&mut self, of: usize) -> usize {
        (self.next() % of.max(1) as u64) as usize
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nemesis {
    /// kill -9; the server is started again so long afterwards.
    Kill { server: usize, for_us: u64 },
    /// SIGSTOP, and SIGCONT so long afterwards.
    Stop { server: usize, for_us: u64 },
    /// Nothing gets from one place to the other for so long; both ways if `both`.
    Cut {
        from: usize,
        to: usize,
        both: bool,
        for_us: u64,
    },
    /// The router dies and another one takes up what it recorded.
    RouterDies { for_us: u64 },
    /// The router stands still.
    RouterStalls { for_us: u64 },
    /// An operator asks for a switch-over.
    Promote { server: usize },
    /// A server's applier is slow from now on: microseconds per transaction.
    Lag { server: usize, apply_us: u64 },
}

/// Everything that a seed decides before a history begins.
#[derive(Clone, Debug)]
pub struct Plan {
    pub servers: usize,
    /// A hook can stop any server for sure.
    pub fence: bool,
    /// Clients also write past the router, so that it does not know all that was acknowledged.
    pub direct: bool,
    /// For so long replicas that receive from a primary protect it.
    pub veto_max_us: u64,
    pub nemeses: Vec<(u64, Nemesis)>,
    /// When everything is mended.
    pub calm_us: u64,
}

impl Plan {
    pub fn of(chance: &mut Chance) -> Plan {
        let servers = match chance.pick(10) {
            0 => 1,
            1..=2 => 2,
            3..=8 => 3,
            _ => 4,
        };
        let mut nemeses = Vec::new();
        // Faults that follow each other closely find more than faults far apart.
        let mut at_us = chance.between(20_000, 300_000);
        for _ in 0..chance.between(1, 5) {
            nemeses.push((at_us, nemesis(chance, servers)));
            at_us += match chance.pick(3) {
                0 => chance.between(0, 15_000),
                1 => chance.between(5_000, 400_000),
                _ => chance.between(100_000, 1_500_000),
            };
        }
        Plan {
            servers,
            fence: chance.permille(500),
            direct: chance.permille(500),
            veto_max_us: [0, 300_000, 1_000_000][chance.pick(3)],
            nemeses,
            calm_us: at_us + [300_000, 600_000, 2_500_000][chance.pick(3)],
        }
    }
}

fn nemesis(chance: &mut Chance, servers: usize) -> Nemesis {
    // The first server is the primary at the beginning: it is hit most.
    let server = match chance.pick(2) {
        0 => 0,
        _ => chance.pick(servers),
    };
    let for_us = match chance.pick(3) {
        0 => chance.between(1_000, 100_000),
        1 => chance.between(50_000, 1_000_000),
        _ => chance.between(500_000, 5_000_000),
    };
    match chance.pick(20) {
        0..=6 => Nemesis::Kill { server, for_us },
        7..=9 => Nemesis::Stop { server, for_us },
        10..=12 => {
            let from = match chance.pick(2) {
                0 => servers,
                _ => chance.pick(servers),
            };
            let (from, to) = if chance.permille(500) {
                (from, server)
            } else {
                (server, from)
            };
            let both = chance.permille(500);
            Nemesis::Cut {
                from,
                to,
                both,
                for_us,
            }
        }
        13..=15 => Nemesis::RouterDies {
            for_us: for_us.min(500_000),
        },
        16 => Nemesis::RouterStalls {
            for_us: for_us.min(500_000),
        },
        17 => Nemesis::Promote { server },
        _ => Nemesis::Lag {
            server: chance.pick(servers),
            apply_us: chance.between(500, 40_000),
        },
    }
}
