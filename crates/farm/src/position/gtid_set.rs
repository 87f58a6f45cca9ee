//! Sets of MySQL's GTIDs: per source (a server's UUID, with a tag behind a colon if the transactions
//! have one) the numbers of transactions as intervals.
//!
//! Intervals are ascending, hold both of their ends, and neither overlap nor touch; every function here
//! wants them so and gives them so. What is read is what servers write, and what people write in other
//! forms only where it cannot be mistaken: to a server `010` is eight, so here it is nothing. A text
//! that was read and written again has no character that could end a literal of SQL.

use std::collections::BTreeMap;
use std::fmt;

/// Numbers of one source.
pub type Intervals = Vec<(u64, u64)>;

/// The sources of a set.
pub type Sources = BTreeMap<String, Intervals>;

/// The greatest number that a transaction can have.
const NUMBER_MAX: u64 = i64::MAX as u64 - 1;

const UUID_BYTES: usize = 36;
const TAG_BYTES_MAX: usize = 32;

/// Reads `UUID:1-5:7,UUID:1-3:TAG:4-5`. A tag holds for all intervals behind it, to the next tag or
/// comma. `None` when a server would not read the text, or would read it in another way.
pub(crate) fn parse(text: &str) -> Option<Sources> {
    let mut sources = Sources::new();
    let parts = text.split(',').map(str::trim);
    for part in parts.filter(|part| !part.is_empty()) {
        let mut words = part.split(':').map(str::trim);
        let uuid = words.next().and_then(uuid)?;
        let mut name = uuid.clone();
        for word in words {
            if word.starts_with(|c: char| c.is_ascii_digit()) {
                if let Some(interval) = interval(word)? {
                    sources.entry(name.clone()).or_default().push(interval);
                }
            } else {
                name = format!("{uuid}:{}", tag(word)?);
            }
        }
    }
    sources.values_mut().for_each(tidy);
    Some(sources)
}

/// As servers write it: a source's UUID stands once, before all of its tags.
pub(crate) fn write(sources: &Sources, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut before = "";
    for (name, intervals) in sources {
        let (uuid, tag) = name.split_once(':').unwrap_or((name, ""));
        if uuid != before {
            let comma = if before.is_empty() { "" } else { "," };
            write!(f, "{comma}{uuid}")?;
            before = uuid;
        }
        if !tag.is_empty() {
            write!(f, ":{tag}")?;
        }
        for (from, to) in intervals {
            match from == to {
                true => write!(f, ":{from}")?,
                false => write!(f, ":{from}-{to}")?,
            }
        }
    }
    Ok(())
}

/// In lower case, as servers compare it.
fn uuid(word: &str) -> Option<String> {
    let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    let fits = |(at, byte): (usize, u8)| match dash(at) {
        true => byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    let is_uuid = word.len() == UUID_BYTES && word.bytes().enumerate().all(fits);
    is_uuid.then(|| word.to_ascii_lowercase())
}

/// In lower case, as servers keep it.
fn tag(word: &str) -> Option<String> {
    let first = word.bytes().next()?;
    let all = word
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_tag = all && !first.is_ascii_digit() && word.len() <= TAG_BYTES_MAX;
    is_tag.then(|| word.to_ascii_lowercase())
}

/// `7` or `1-5`. An interval that ends before it begins is none: servers write no such thing, but
/// take it.
fn interval(word: &str) -> Option<Option<(u64, u64)>> {
    let (from, to) = match word.split_once('-') {
        Some((from, to)) => (number(from.trim())?, number(to.trim())?),
        None => (number(word)?, number(word)?),
    };
    Some((from <= to).then_some((from, to)))
}

fn number(word: &str) -> Option<u64> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit()) && !word.starts_with('0');
    let number = word.parse().ok().filter(|_| digits)?;
    (number <= NUMBER_MAX).then_some(number)
}

/// Puts intervals in order.
fn tidy(intervals: &mut Intervals) {
    intervals.sort_unstable();
    let mut kept = 0;
    for at in 1..intervals.len() {
        let (from, to) = intervals[at];
        if from <= intervals[kept].1.saturating_add(1) {
            intervals[kept].1 = intervals[kept].1.max(to);
        } else {
            kept += 1;
            intervals[kept] = (from, to);
        }
    }
    intervals.truncate(kept + 1);
}

/// True when all of `wanted` is in `have`.
pub(crate) fn covers(have: &Sources, wanted: &Sources) -> bool {
    wanted.iter().all(|(name, wanted)| {
        let have = have.get(name).map_or(&[][..], Vec::as_slice);
        wanted.iter().all(|&interval| holds(have, interval))
    })
}

/// True when one of the intervals has all of this one.
fn holds(intervals: &[(u64, u64)], (from, to): (u64, u64)) -> bool {
    let behind = intervals.partition_point(|&(start, _)| start <= from);
    behind > 0 && to <= intervals[behind - 1].1
}

/// Adds all of `more`, and nothing else.
pub(crate) fn join(sources: &mut Sources, more: &Sources) {
    for (name, more) in more {
        match sources.get_mut(name) {
            None => drop(sources.insert(name.clone(), more.clone())),
            Some(have) => {
                have.extend(more);
                tidy(have);
            }
        }
    }
}

/// What is in both.
pub(crate) fn meet(one: &Sources, other: &Sources) -> Sources {
    let both = one.iter().filter_map(|(name, mine)| {
        let both = common(mine, other.get(name)?);
        (!both.is_empty()).then(|| (name.clone(), both))
    });
    both.collect()
}

fn common(mine: &[(u64, u64)], theirs: &[(u64, u64)]) -> Intervals {
    let (mut at, mut beside) = (0, 0);
    let mut both = Intervals::new();
    while let (Some(&(start, end)), Some(&(from, to))) = (mine.get(at), theirs.get(beside)) {
        if start.max(from) <= end.min(to) {
            both.push((start.max(from), end.min(to)));
        }
        match end < to {
            true => at += 1,
            false => beside += 1,
        }
    }
    both
}

/// Fills the gaps between intervals of one source where `executed` has all of the gap.
pub(crate) fn close_gaps(sources: &mut Sources, executed: &Sources) {
    for (name, intervals) in sources {
        let Some(executed) = executed.get(name) else {
            continue;
        };
        let mut closed = Intervals::with_capacity(intervals.len());
        for &(from, to) in &*intervals {
            match closed.last_mut() {
                Some(last) if holds(executed, (last.1 + 1, from - 1)) => last.1 = to,
                _ => closed.push((from, to)),
            }
        }
        *intervals = closed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    struct Shown<'a>(&'a Sources);

    impl fmt::Display for Shown<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write(self.0, f)
        }
    }

    /// `$` stands for a UUID.
    fn read(text: &str) -> Option<String> {
        let sources = parse(&text.replace('$', A))?;
        Some(Shown(&sources).to_string().replace(A, "$"))
    }

    #[test]
    fn texts_are_read_and_written_as_servers_do() {
        for (text, written) in [
            ("$:1-5:6-9", "$:1-9"),
            ("$:1-5,\n$:6", "$:1-6"),
            (" $ : 1 - 5 : 7 , , $:6", "$:1-7"),
            ("$:1-5:1-3:3-9", "$:1-9"),
            ("$:5-3", ""),
            ("$", ""),
            (" , ", ""),
            ("$:1-9223372036854775806", "$:1-9223372036854775806"),
            ("$:tag:1-3", "$:tag:1-3"),
            ("$:Tag:4,$:1-2,$:_b:7", "$:1-2:_b:7:tag:4"),
            ("$:a:1:2:b:1:a:3", "$:a:1-3:b:1"),
            ("$:1:a:5-3", "$:1"),
        ] {
            assert_eq!(read(text).as_deref(), Some(written), "{text}");
        }
    }

    #[test]
    fn what_is_no_set_is_not_taken_for_an_empty_one() {
        let long = format!("$:{}:1", "t".repeat(33));
        for text in [
            "$:",
            "$:0",
            "$:0-5",
            "$:-1",
            "$:1-",
            "$:1x",
            "$:1 2",
            "$:1::2",
            "$::1",
            "$:010",
            "$:0x10",
            "$:+1",
            "$:9223372036854775807",
            "$:1-9223372036854775807",
            "$:1-5;",
            "x:1",
            "3e11fa4771ca11e19e33c80aa9429562:1",
            "{$}:1",
            "$:x-1",
            "$:a b:1",
            "$:t\u{e4}g:1",
            "$:x', SLEEP(9), ':1",
            "x'; DROP TABLE t; -- :1",
            &long,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn gaps_are_closed_by_what_was_executed_and_by_nothing_else() {
        let closed = |text: &str, executed: &str| {
            let set = |text: &str| parse(&text.replace('$', A)).expect("a set");
            let mut sources = set(text);
            close_gaps(&mut sources, &set(executed));
            Shown(&sources).to_string().replace(A, "$")
        };
        assert_eq!(closed("$:1:3:5:9", "$:1-6"), "$:1-5:9");
        assert_eq!(closed("$:1:3:5", "$:2:4"), "$:1-5");
        assert_eq!(closed("$:1:9", "$:2-4:6-8"), "$:1:9");
        assert_eq!(closed("$:1:3:t:1:3", "$:1-9"), "$:1-3:t:1:3");
        assert_eq!(closed("$:t:1:3", "$:t:2"), "$:t:1-3");
        assert_eq!(closed("$:1:3", ""), "$:1:3");
    }
}
