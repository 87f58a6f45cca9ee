//! Where a reader of the change stream goes on: for each group what it was told, to the single change.
//!
//! A token is a text in the alphabet of URLs. Inside it is, encoded, `1;FARM` and for each group
//! `;GROUP@TIMELINE=TOLD/FROM/OPEN/COUNT`: the position that was told whole, where the reading has to begin
//! (empty where that is the same), and the transaction of which so many changes were told (empty and 0
//! between transactions). While a snapshot of the group is read, `/UNREAD` follows: what of it is to come.
//! `;.` is the end, so that a token that was cut is none.
//!
//! A token of a stream in one order over all groups begins with `2`, and each group has `/UNREAD/CLOCK` in any
//! case: the number that its logical clock had. At most one group of it is within a transaction, whose count goes on
//! over the branches at other groups.

use std::fmt::{self, Write};
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use farm::token::{Token as Promises, TokenError};
use farm::{Engine, Position, Snapshot};

use crate::gtid::Gtid;
use crate::snapshot::Unread;

/// Longer texts are no tokens.
const BYTES_MAX: usize = 64 << 10;

const VERSION: &str = "1";
const VERSION_IN_ORDER: &str = "2";
const END: &str = ".";

/// How much of a group was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Every transaction that was told whole, or that there was nothing to tell of.
    pub told: Position,
    /// Where a reading begins that goes on, if that is before `told`.
    pub from: Option<Position>,
    /// The transaction of which so many changes were told.
    pub open: Option<(Gtid, u32)>,
}

impl Reached {
    /// Every transaction of which something was told.
    pub fn with_open(&self) -> Position {
        let mut all = self.told.clone();
        if let Some((gtid, _)) = &self.open {
            gtid.add_to(&mut all);
        }
        all
    }
}

/// A group's part of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub group: String,
    pub timeline: u32,
    pub reached: Reached,
    /// What has still to be read of the group's tables; `None` when a snapshot was not wanted, or is complete.
    pub unread: Option<Unread>,
    /// The number of its logical clock; `None` in a stream without an order over groups.
    pub clock: Option<u64>,
}

/// What a reader of several groups was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub farm: String,
    pub places: Vec<Place>,
}

impl Token {
    /// Reads a token for this farm.
    ///
    /// # Errors
    /// It is none, it is another farm's, or what it says was told has been lost since.
    pub fn parse(text: &str, snapshot: &Snapshot) -> Result<Token, TokenError> {
        let malformed = TokenError::Malformed;
        if text.len() > BYTES_MAX {
            return Err(malformed("it is too long"));
        }
        let bytes = BASE64.decode(text.trim());
        let bytes =
            bytes.map_err(|_| malformed("it has other characters than those of a token"))?;
        let inner = String::from_utf8(bytes).map_err(|_| malformed("it is no text"))?;
        let mut parts = inner.split(';');
        let in_order = match parts.next() {
            Some(VERSION) => false,
            Some(VERSION_IN_ORDER) => true,
            _ => return Err(malformed("it is of another version")),
        };
        let farm = parts.next().ok_or(malformed("it names no farm"))?;
        if parts.next_back() != Some(END) {
            return Err(malformed("its end is missing"));
        }
        let places = parts.map(|part| place(farm, part, in_order, snapshot));
        let token = Token {
            farm: farm.to_owned(),
            places: places.collect::<Result<_, _>>()?,
        };
        match token.places.is_empty() && farm != &*snapshot.farm_id {
            true => Err(TokenError::OtherFarm(farm.chars().take(64).collect())),
            false => Ok(token),
        }
    }

    /// It is of a stream in one order over all groups.
    pub fn is_in_order(&self) -> bool {
        self.places.iter().any(|place| place.clock.is_some())
    }

    /// The token as it goes on within the transaction of this group; `None` where none is open.
    pub fn counting(&self, group: &str) -> Option<Counting> {
        let (inner, count) = self.inner(Some(group));
        count.map(|count| Counting { inner, count })
    }

    /// What is encoded, and where the count of this group's open transaction stands in it.
    fn inner(&self, group: Option<&str>) -> (String, Option<Range<usize>>) {
        let version = match self.is_in_order() {
            true => VERSION_IN_ORDER,
            false => VERSION,
        };
        let (mut inner, mut found) = (format!("{version};{}", self.farm), None);
        for place in &self.places {
            let begin = inner.len();
            let count = place.put(&mut inner);
            if group == Some(&place.group) && place.reached.open.is_some() {
                found = Some(begin + count.start..begin + count.end);
            }
        }
        let _ = write!(inner, ";{END}");
        (inner, found)
    }
}

impl Place {
    /// Appends the group's part; gives where the count stands in it.
    fn put(&self, out: &mut String) -> Range<usize> {
        let begin = out.len();
        let Reached { told, from, open } = &self.reached;
        // Writing to a String never fails.
        let _ = write!(out, ";{}@{}={told}/", self.group, self.timeline);
        if let Some(from) = from {
            let _ = write!(out, "{from}");
        }
        out.push('/');
        if let Some((gtid, _)) = open {
            let _ = write!(out, "{gtid}");
        }
        out.push('/');
        let count = out.len() - begin;
        let _ = write!(out, "{}", open.as_ref().map_or(0, |(_, count)| *count));
        let count = count..out.len() - begin;
        if self.unread.is_some() || self.clock.is_some() {
            out.push('/');
        }
        if let Some(unread) = &self.unread {
            let _ = write!(out, "{unread}");
        }
        if let Some(clock) = self.clock {
            let _ = write!(out, "/{clock}");
        }
        count
    }
}

/// A token within a transaction of many changes: from one to the next only their count is another.
#[derive(Debug)]
pub struct Counting {
    inner: String,
    count: Range<usize>,
}

impl Counting {
    /// The token stands behind this number of changes from now on.
    pub fn set(&mut self, count: u32) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(count);
        self.inner.replace_range(self.count.clone(), digits);
        self.count.end = self.count.start + digits.len();
    }

    /// Appends the token.
    pub fn put(&self, out: &mut String) {
        BASE64.encode_string(&self.inner, out);
    }
}

/// How far a token is within a transaction or a snapshot of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Within {
    /// So many changes of the transaction were told.
    pub changes: u32,
    /// What is unread of the snapshot, as the token has it; empty without one.
    pub unread: String,
}

impl Within {
    /// Of a token of any farm, without asking whether the farm still has what was told; `None` for what is no token,
    /// or says nothing of the group.
    pub fn of(token: &str, group: &str) -> Option<Within> {
        let bytes = BASE64.decode(token.trim()).ok()?;
        let inner = std::str::from_utf8(&bytes).ok()?;
        let parts = inner.split(';').skip(2);
        let (mut found, mut open) = (None, 0);
        for part in parts {
            let Some((name, reached)) = part.rsplit_once('=') else {
                continue;
            };
            let mut pieces = reached.split('/').skip(3);
            let changes: u32 = pieces.next()?.parse().ok()?;
            open = open.max(changes);
            if name.rsplit_once('@')?.0 == group {
                let unread = pieces.next().unwrap_or_default().to_owned();
                found = Some(Within { changes, unread });
            }
        }
        let mut within = found?;
        if inner.starts_with(VERSION_IN_ORDER) {
            within.changes = open;
        }
        Some(within)
    }
}

fn place(farm: &str, part: &str, in_order: bool, snapshot: &Snapshot) -> Result<Place, TokenError> {
    let malformed = TokenError::Malformed("a group's part is none");
    let (name, reached) = part.rsplit_once('=').ok_or(malformed.clone())?;
    let pieces: Vec<&str> = reached.split('/').collect();
    let (told, from, open, count, unread, clock) = match (in_order, &pieces[..]) {
        (false, &[told, from, open, count]) => (told, from, open, count, "", None),
        (false, &[told, from, open, count, unread]) => (told, from, open, count, unread, None),
        (true, &[told, from, open, count, unread, clock]) => {
            let clock = clock.parse().map_err(|_| malformed.clone())?;
            (told, from, open, count, unread, Some(clock))
        }
        _ => return Err(malformed),
    };
    let unread = match unread {
        "" => None,
        unread => Some(Unread::parse(unread).ok_or(malformed.clone())?),
    };
    // Whether the group still has it is asked of the tokens that sessions have.
    let promised = Promises::parse(&format!("1;{farm};{name}={told}"), snapshot)?;
    let promise = promised
        .groups
        .into_iter()
        .next()
        .ok_or(malformed.clone())?;
    let engine = match promise.position {
        Position::MariaDb(_) => Engine::MariaDb,
        Position::MySql(_) => Engine::MySql,
    };
    let from = match from {
        "" => None,
        from => Some(Position::parse(engine, from).ok_or(malformed.clone())?),
    };
    let open = match open {
        "" => None,
        open => {
            let gtid = Gtid::parse(engine, open).ok_or(malformed.clone())?;
            Some((gtid, count.parse().map_err(|_| malformed)?))
        }
    };
    let reached = Reached {
        told: promise.position,
        from,
        open,
    };
    if reached.open.is_some() {
        // What was told in part counts, too.
        let all = reached.with_open();
        Promises::parse(&format!("1;{farm};{name}={all}"), snapshot)?;
    }
    Ok(Place {
        group: promise.group,
        timeline: promise.timeline,
        reached,
        unread,
        clock,
    })
}

/// As [`Token::parse`] reads it.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.inner(None).0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use farm::{Status, samples};

    use super::*;

    fn farm(forks: &[&str]) -> Snapshot {
        let fork = |text: &&str| Position::parse(Engine::MariaDb, text).expect("a position");
        let mut group = samples::group("g", vec![samples::server(1, "g", Status::Primary)]);
        group.forks = forks.iter().map(fork).collect();
        samples::snapshot("f", Instant::now(), vec![group])
    }

    fn token(from: Option<&str>, open: Option<(&str, u32)>) -> Token {
        let at = |text: &str| Position::parse(Engine::MariaDb, text).expect("a position");
        let gtid = |text: &str| Gtid::parse(Engine::MariaDb, text).expect("a GTID");
        Token {
            farm: "f".to_owned(),
            places: vec![Place {
                group: "g".to_owned(),
                timeline: 1,
                reached: Reached {
                    told: at("0-1-7,1-1-2"),
                    from: from.map(at),
                    open: open.map(|(text, count)| (gtid(text), count)),
                },
                unread: None,
                clock: None,
            }],
        }
    }

    fn in_order(mut token: Token) -> Token {
        token.places[0].clock = Some(12);
        token
    }

    fn unread(unread: Unread) -> Token {
        let mut token = token(Some("0-1-3"), None);
        token.places[0].unread = Some(unread);
        token
    }

    #[test]
    fn tokens_come_back_as_they_were_given() {
        for token in [
            token(None, None),
            token(Some("0-1-3"), None),
            token(None, Some(("0-2-8", 12))),
            unread(Unread::default()),
            unread(Unread::parse("64.74.37").expect("a table")),
            in_order(token(Some("0-1-3"), Some(("0-2-8", 12)))),
            in_order(unread(Unread::parse("64.74.37").expect("a table"))),
        ] {
            let text = token.to_string();
            let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            assert!(text.bytes().all(safe), "{text}");
            assert_eq!(Token::parse(&text, &farm(&[])), Ok(token));
        }
    }

    #[test]
    fn a_token_counts_on_within_a_transaction() {
        let mut one = in_order(token(Some("0-1-3"), Some(("0-2-8", 9))));
        let mut other = one.places[0].clone();
        other.group = "h".to_owned();
        other.reached.open = None;
        one.places.insert(0, other);
        let mut counting = one.counting("g").expect("a transaction is open");
        assert!(one.counting("h").is_none(), "none is open there");
        for count in [10, 7, 123_456] {
            let mut text = String::new();
            counting.set(count);
            counting.put(&mut text);
            one.places[1].reached.open.as_mut().expect("it is open").1 = count;
            assert_eq!(text, one.to_string());
        }
    }

    #[test]
    fn how_far_a_token_is_within_is_read_without_the_farm() {
        let of = |token: Token, group: &str| Within::of(&token.to_string(), group);
        let within = |changes: u32, unread: &str| {
            Some(Within {
                changes,
                unread: unread.to_owned(),
            })
        };
        assert_eq!(of(token(None, Some(("0-2-8", 12))), "g"), within(12, ""));
        assert_eq!(of(token(None, None), "g"), within(0, ""));
        let table = Unread::parse("64.74.37").expect("a table");
        assert_eq!(of(unread(table), "g"), within(0, "64.74.37"));
        assert_eq!(of(token(None, None), "other"), None);
        // In one order over all groups the count is the transaction's, whichever group it began in.
        let mut two = in_order(token(None, Some(("0-2-8", 12))));
        let mut other = two.places[0].clone();
        other.group = "h".to_owned();
        other.reached.open = None;
        two.places.push(other);
        assert_eq!(of(two, "h"), within(12, ""));
        assert_eq!(Within::of("no token", "g"), None);
    }

    #[test]
    fn what_was_lost_or_is_no_token_is_refused() {
        let text = token(None, None).to_string();
        let lost = Token::parse(&text, &farm(&["0-1-6,1-1-2"]));
        assert!(matches!(lost, Err(TokenError::Lost { .. })), "{lost:?}");
        assert!(Token::parse(&text, &farm(&["0-1-7,1-1-2"])).is_ok());
        let in_part = token(None, Some(("0-2-8", 12))).to_string();
        let lost = Token::parse(&in_part, &farm(&["0-1-7,1-1-2"]));
        assert!(matches!(lost, Err(TokenError::Lost { .. })), "{lost:?}");
        assert!(Token::parse(&in_part, &farm(&["0-2-8,1-1-2"])).is_ok());
        for cut in 0..text.len() {
            assert!(Token::parse(&text[..cut], &farm(&[])).is_err(), "{cut}");
        }
        let other = Token {
            farm: "x".to_owned(),
            places: Vec::new(),
        };
        let refused = Token::parse(&other.to_string(), &farm(&[]));
        assert_eq!(refused, Err(TokenError::OtherFarm("x".to_owned())));
    }
}
