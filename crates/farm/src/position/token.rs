//! A token: what a session was promised, in a form that another connection, another router or
//! another service can take up.
//!
//! Its text is `1;FARM;GROUP@TIMELINE=POSITION;…`: the form's version, the farm's id, and for each
//! group its timeline and the GTID position that reads must have. It holds no blank and no quote, so
//! that it fits into headers and cookies; a group's name keeps its other characters.

use std::fmt;

use crate::position::Position;
use crate::snapshot::{Group, Snapshot};

/// The only form there is.
const VERSION: &str = "1";

/// Longer texts are no tokens.
pub const TOKEN_BYTES_MAX: usize = 16_384;

/// A promise, group by group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub farm: String,
    pub groups: Vec<Promise>,
}

/// What reads in one group must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    pub group: String,
    pub timeline: u32,
    pub position: Position,
}

/// Why a text cannot be taken up as a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// It is none; what is wrong with it.
    Malformed(&'static str),
    /// It was given away by the farm of this id.
    OtherFarm(String),
    UnknownGroup(String),
    /// The group has never been on this timeline.
    UnknownTimeline {
        group: String,
        timeline: u32,
    },
    /// What it promises was lost when the group's primary died.
    Lost {
        group: String,
        timeline: u32,
    },
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenError::Malformed(what) => write!(f, "it is not a token: {what}"),
            TokenError::OtherFarm(farm) => write!(f, "it belongs to another farm ({farm})"),
            TokenError::UnknownGroup(group) => write!(f, "this farm has no group '{group}'"),
            TokenError::UnknownTimeline { group, timeline } => {
                write!(f, "group '{group}' has never been on timeline {timeline}")
            }
            TokenError::Lost { group, timeline } => write!(
                f,
                "what it promises in group '{group}' was lost at the end of timeline {timeline}"
            ),
        }
    }
}

impl std::error::Error for TokenError {}

/// As [`Token::parse`] reads it.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION};{}", self.farm)?;
        for promise in &self.groups {
            let Promise {
                group,
                timeline,
                position,
            } = promise;
            write!(f, ";{group}@{timeline}={position}")?;
        }
        Ok(())
    }
}

impl Token {
    /// Reads a token for this farm: it must be the farm's own, name groups that it has, and promise
    /// nothing that was lost with a timeline.
    pub fn parse(text: &str, snapshot: &Snapshot) -> Result<Token, TokenError> {
        let malformed = TokenError::Malformed;
        if text.len() > TOKEN_BYTES_MAX {
            return Err(malformed("it is too long"));
        }
        let mut parts = text.trim().split(';');
        if parts.next() != Some(VERSION) {
            return Err(malformed("it does not begin with '1;'"));
        }
        let farm = parts.next().ok_or(malformed("it names no farm"))?;
        if farm != &*snapshot.farm_id {
            let printable = farm.chars().filter(|c| c.is_ascii_graphic()).take(64);
            return Err(TokenError::OtherFarm(printable.collect()));
        }
        let groups = parts.map(|part| promise(part, snapshot));
        Ok(Token {
            farm: farm.to_owned(),
            groups: groups.collect::<Result<_, _>>()?,
        })
    }
}

fn promise(part: &str, snapshot: &Snapshot) -> Result<Promise, TokenError> {
    let malformed = TokenError::Malformed;
    let (place, position) = part.rsplit_once('=').ok_or(malformed("a '=' is missing"))?;
    let (name, timeline) = place
        .rsplit_once('@')
        .ok_or(malformed("a '@' is missing"))?;
    let timeline = timeline
        .parse()
        .map_err(|_| malformed("a timeline is no number"))?;
    let group = snapshot
        .group(name)
        .ok_or_else(|| TokenError::UnknownGroup(name.chars().take(64).collect()))?;
    let engine = group.primary().or(group.servers.first()).map(|s| s.engine);
    let engine = engine.ok_or_else(|| TokenError::UnknownGroup(name.to_owned()))?;
    let position = Position::parse(engine, position).ok_or(malformed("a position is none"))?;
    on_timeline(group, timeline, &position)?;
    Ok(Promise {
        group: name.to_owned(),
        timeline,
        position,
    })
}

/// Whether the group's present timeline still has what was promised on this one.
fn on_timeline(group: &Group, timeline: u32, position: &Position) -> Result<(), TokenError> {
    let name = || group.name.to_string();
    if timeline == 0 || timeline > group.timeline() {
        return Err(TokenError::UnknownTimeline {
            group: name(),
            timeline,
        });
    }
    // Each fork since then kept what was before it, and nothing else.
    let later = group.forks.get(timeline as usize - 1..).unwrap_or_default();
    if later.iter().all(|fork| fork.covers(position)) {
        return Ok(());
    }
    Err(TokenError::Lost {
        group: name(),
        timeline,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::samples;
    use crate::server::{Engine, Status};

    fn farm(forks: &[&str]) -> Snapshot {
        let fork = |text: &&str| Position::parse(Engine::MariaDb, text).expect("a position");
        let mut group = samples::group("g@1", vec![samples::server(1, "g@1", Status::Primary)]);
        group.forks = forks.iter().map(fork).collect();
        samples::snapshot("farm-1", Instant::now(), vec![group])
    }

    #[test]
    fn a_token_comes_back_as_it_was_given() {
        for text in [
            "1;farm-1",
            "1;farm-1;g@1@1=0-1-5",
            "1;farm-1;g@1@1=0-1-5,2-1-7",
        ] {
            let token = Token::parse(text, &farm(&[])).expect("a token");
            assert_eq!(token.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_token_of_this_farm_is_refused_with_its_reason() {
        let refusal = |text: &str, forks: &[&str]| {
            let read = Token::parse(text, &farm(forks));
            read.expect_err("it is no token").to_string()
        };
        for (text, why) in [
            ("", "it is not a token: it does not begin with '1;'"),
            ("2;farm-1", "it is not a token: it does not begin with '1;'"),
            ("1", "it is not a token: it names no farm"),
            ("1;farm-2", "it belongs to another farm (farm-2)"),
            ("1;farm-1;g", "it is not a token: a '=' is missing"),
            ("1;farm-1;g=0-1-5", "it is not a token: a '@' is missing"),
            (
                "1;farm-1;g@x=0-1-5",
                "it is not a token: a timeline is no number",
            ),
            ("1;farm-1;g@1=0-1-5", "this farm has no group 'g'"),
            (
                "1;farm-1;g@1@1=0-1",
                "it is not a token: a position is none",
            ),
            (
                "1;farm-1;g@1@2=0-1-5",
                "group 'g@1' has never been on timeline 2",
            ),
            (
                "1;farm-1;g@1@0=0-1-5",
                "group 'g@1' has never been on timeline 0",
            ),
        ] {
            assert_eq!(refusal(text, &[]), why, "{text}");
        }
        let lost = "what it promises in group 'g@1' was lost at the end of timeline 1";
        assert_eq!(refusal("1;farm-1;g@1@1=0-1-5", &["0-1-4"]), lost);
        assert_eq!(refusal("1;farm-1;g@1@1=0-1-5", &["0-1-9", "0-1-4"]), lost);
        let kept = Token::parse("1;farm-1;g@1@2=0-1-5", &farm(&["0-1-4", "0-1-5"]));
        assert!(
            kept.is_ok(),
            "promised behind the first fork, before the second"
        );
    }
}
