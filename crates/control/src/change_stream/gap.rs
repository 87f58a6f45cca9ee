//! What a group's servers have purged of what somebody was not told.

use std::fmt;

use engine::Link;
use engine::binlog::oldest;
use farm::Position;

use super::source::{Primary, Source};

/// Transactions that no server of a group has any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Those behind this position, which was told,
    pub from: Position,
    /// up to this one, behind which the binlogs begin.
    pub to: Position,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "behind {} up to {}", self.from, self.to)
    }
}

/// What is missing behind `told`, by what comes before the oldest transaction of each server's binlog; `None` where one of
/// them has everything, and where none is known.
pub(crate) fn gap(told: &Position, begins: &[Position]) -> Option<Gap> {
    if begins.iter().any(|begin| told.covers(begin)) {
        return None;
    }
    let is_first = |begin: &&Position| begins.iter().all(|other| other.covers(begin));
    let first = begins.iter().find(is_first).or(begins.first())?;
    Some(Gap {
        from: told.clone(),
        to: first.clone(),
    })
}

impl Source {
    /// What comes before the oldest transaction in the binlog of each server that can be read. One that cannot be asked is
    /// left out.
    pub(crate) async fn begins(&self, primary: &Primary) -> Vec<Position> {
        let others = self.others(primary).into_iter();
        let others = others.filter(|(_, follows, _)| *follows);
        let logins = others.map(|(.., login)| login);
        let mut begins = Vec::new();
        for login in [primary.login.clone()].into_iter().chain(logins) {
            let timeout_ms = self.timeout_ms();
            if let Ok(mut link) = Link::open(&login, timeout_ms).await
                && let Ok(begin) = oldest(&mut link, timeout_ms).await
            {
                begins.push(begin);
            }
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use farm::Engine;

    use super::*;

    fn at(text: &str) -> Position {
        Position::parse(Engine::MariaDb, text).expect("a position")
    }

    #[test]
    fn what_no_server_has_is_missing() {
        let begins = [at("0-1-20"), at("0-1-10")];
        assert_eq!(gap(&at("0-1-10"), &begins), None, "one has it");
        let missing = gap(&at("0-1-5"), &begins).expect("both lack it");
        assert_eq!((missing.from, missing.to), (at("0-1-5"), at("0-1-10")));
        assert_eq!(gap(&at("0-1-5"), &[]), None, "nobody could be asked");
        let other_domain = gap(&at("0-1-5"), &[at("0-1-3,1-1-2")]);
        assert!(other_domain.is_some(), "a domain of which nothing was told");
    }
}
