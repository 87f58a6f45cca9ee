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
    /// A router dies and another one takes up what it recorded.
    RouterDies { router: usize, for_us: u64 },
    /// A router stands still.
    RouterStalls { router: usize, for_us: u64 },
    /// The state store answers nobody.
    StoreDown { for_us: u64 },
    /// An operator asks for a switch-over.
    Promote { server: usize },
    /// A server's applier is slow from now on: microseconds per transaction.
    Lag { server: usize, apply_us: u64 },
}

/// The leader stands still just before it sends a step.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// Which one of all that leaders send.
    pub step: u32,
    pub for_us: u64,
    /// Meanwhile no other router reaches the server.
    pub apart: bool,
}

/// Everything that a seed decides before a history begins.
#[derive(Clone, Debug)]
pub struct Plan {
    pub servers: usize,
    /// With one there is no state store beside it.
    pub routers: usize,
    /// A hook can stop any server for sure.
    pub fence: bool,
    /// Clients also write past the router, so that it does not know all that was acknowledged.
    pub direct: bool,
    /// For so long replicas that receive from a primary protect it.
    pub veto_max_us: u64,
    pub nemeses: Vec<(u64, Nemesis)>,
    pub pause: Option<Pause>,
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
            routers: 1,
            fence: chance.permille(500),
            direct: chance.permille(500),
            veto_max_us: [0, 300_000, 1_000_000][chance.pick(3)],
            nemeses,
            pause: None,
            calm_us: at_us + [300_000, 600_000, 2_500_000][chance.pick(3)],
        }
    }
}

impl Plan {
    /// One replica has what clients were told, and the leader cannot hear that one; the other one,
    /// which it can hear, lacks the last of it.
    pub fn of_a_narrow_miss(chance: &mut Chance) -> Plan {
        let (servers, routers) = (3, 3);
        let (store, leader) = (servers + routers, servers + routers + 1);
        let at_us = 4_000_000;
        let near_us = |chance: &mut Chance| at_us + chance.between(0, 15_000);
        let cut = |from, to, for_us| Nemesis::Cut {
            from,
            to,
            both: true,
            for_us,
        };
        let long_us = chance.between(2_000_000, 6_000_000);
        let mut nemeses = vec![
            (at_us, cut(0, 1, long_us)),
            (near_us(chance), cut(leader, 2, long_us)),
        ];
        let router = chance.pick(routers);
        match chance.pick(3) {
            0 => nemeses.push((at_us - 2_500_000, cut(servers + router, store, 5_000_000))),
            1 => {
                let for_us = chance.between(500_000, 5_000_000);
                nemeses.push((near_us(chance), Nemesis::RouterDies { router, for_us }));
            }
            _ => {}
        }
        let (server, for_us) = (0, 8_000_000);
        match chance.pick(3) {
            0 => nemeses.push((near_us(chance), cut(leader, 0, long_us))),
            _ => nemeses.push((near_us(chance) + 2_000, Nemesis::Kill { server, for_us })),
        }
        nemeses.sort_by_key(|(at_us, _)| *at_us);
        Plan {
            servers,
            routers,
            fence: chance.permille(700),
            direct: false,
            veto_max_us: 0,
            nemeses,
            pause: None,
            calm_us: at_us + 7_000_000,
        }
    }

    /// Several routers, a state store beside them, and everything goes wrong between all of them.
    pub fn of_several(chance: &mut Chance) -> Plan {
        let routers = [2, 3, 3, 3][chance.pick(4)];
        let servers = [1, 2, 3, 3, 3, 3, 3, 4][chance.pick(8)];
        let mut nemeses = Vec::new();
        let mut at_us = chance.between(300_000, 600_000);
        for _ in 0..chance.between(1, 6) {
            nemeses.push((at_us, nemesis_of_several(chance, servers, routers)));
            at_us += match chance.pick(4) {
                0..=1 => chance.between(0, 15_000),
                2 => chance.between(5_000, 400_000),
                _ => chance.between(100_000, 3_000_000),
            };
        }
        Plan {
            servers,
            routers,
            fence: chance.permille(500),
            direct: chance.permille(300),
            veto_max_us: [0, 300_000, 1_000_000][chance.pick(3)],
            nemeses,
            pause: chance.permille(400).then(|| Pause {
                step: chance.between(1, 25) as u32,
                for_us: chance.between(1_500_000, 5_000_000),
                apart: chance.permille(400),
            }),
            calm_us: at_us + [300_000, 600_000, 2_500_000, 5_000_000][chance.pick(4)],
        }
    }
}

fn nemesis_of_several(chance: &mut Chance, servers: usize, routers: usize) -> Nemesis {
    let for_us = match chance.pick(3) {
        0 => chance.between(1_000, 100_000),
        1 => chance.between(50_000, 2_500_000),
        _ => chance.between(2_000_000, 6_000_000),
    };
    // The leader is hit most: it stands behind the last one.
    let router = match chance.pick(2) {
        0 => routers,
        _ => chance.pick(routers),
    };
    match chance.pick(12) {
        0..=3 => nemesis(chance, servers),
        4..=5 => Nemesis::RouterDies { router, for_us },
        6..=7 => Nemesis::RouterStalls { router, for_us },
        8 => Nemesis::StoreDown { for_us },
        _ => {
            let places = servers + routers + 1;
            let from = chance.pick(places);
            let to = match chance.pick(2) {
                0 => places - 1,
                _ => chance.pick(places),
            };
            let both = chance.permille(600);
            Nemesis::Cut {
                from,
                to,
                both,
                for_us,
            }
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
            router: 0,
            for_us: for_us.min(500_000),
        },
        16 => Nemesis::RouterStalls {
            router: 0,
            for_us: for_us.min(500_000),
        },
        17 => Nemesis::Promote { server },
        _ => Nemesis::Lag {
            server: chance.pick(servers),
            apply_us: chance.between(500, 40_000),
        },
    }
}
