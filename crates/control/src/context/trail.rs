//! Where primaries were, and when: from there their logs are read when a write's answer was lost.

use std::collections::{HashMap, VecDeque};

use farm::Position;

/// Positions that are kept of one server; then every second one of the older half is forgotten.
const KEPT_MAX: usize = 512;

/// Positions are kept no closer than this.
const STEP_US: u64 = 50_000;

/// The positions of all primaries.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    servers: HashMap<u32, VecDeque<(u64, Position)>>,
}

impl Trail {
    /// The server held at least this at this moment; moments come in order, but for late ones.
    pub(crate) fn note(&mut self, server: u32, now_us: u64, position: &Position) {
        let kept = self.servers.entry(server).or_default();
        let near = |last: &(u64, Position)| now_us < last.0 + STEP_US;
        if kept.back().is_some_and(near) {
            return;
        }
        if kept.len() >= KEPT_MAX {
            let mut at = 0;
            kept.retain(|_| {
                at += 1;
                at > KEPT_MAX / 2 || at % 2 == 0
            });
        }
        kept.push_back((now_us, position.clone()));
    }

    /// What the server held last before this moment.
    pub(crate) fn before(&self, server: u32, moment_us: u64) -> Option<Position> {
        let kept = self.servers.get(&server)?;
        let at = kept.partition_point(|(noted_us, _)| *noted_us <= moment_us);
        kept.get(at.checked_sub(1)?).map(|(_, p)| p.clone())
    }
}

#[cfg(test)]
mod tests {
    use farm::Engine;

    use super::*;

    fn at(sequence: u64) -> Position {
        Position::parse(Engine::MariaDb, &format!("0-1-{sequence}")).expect("a position")
    }

    #[test]
    fn what_a_server_held_before_a_moment() {
        let mut trail = Trail::default();
        for n in 1..=5000 {
            trail.note(1, n * STEP_US, &at(n));
            trail.note(1, n * STEP_US + 1, &at(n + 1));
        }
        assert_eq!(trail.before(1, 4999 * STEP_US + 7), Some(at(4999)));
        assert_eq!(trail.before(1, 0), None);
        assert_eq!(trail.before(2, u64::MAX), None);
        assert!(trail.servers[&1].len() <= KEPT_MAX);
        assert!(
            trail.before(1, 4500 * STEP_US).is_some(),
            "older ones are thinned"
        );
    }
}
