//! Counts of several OKs, added up.

use mysql_wire::relay::Outcome;
use sqltext::Verb;

use super::Part;
use super::feed::Event;
use super::feeds::Feeds;
use super::rows::Trouble;

/// IGNORE stands within so many bytes of a text.
const HEAD_BYTES: usize = 64;

/// The number of warnings is the last one of an OK's words.
const WARNINGS: &[u8] = b"Warnings: ";

/// What one OK says of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub affected_rows: u64,
    /// The first part's that has one.
    pub insert_id: u64,
    pub warnings: u16,
    pub info: Vec<u8>,
    /// The parts are those of one INSERT or REPLACE of several rows.
    pub inserts: Option<Inserts>,
}

/// What a server does not say of an INSERT of one row, and says of one with several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inserts {
    /// INSERT IGNORE.
    ignores: bool,
}

impl Inserts {
    /// `None` for other statements, and for those that are not in parts.
    pub fn of(verb: Verb, parts: &[Part]) -> Option<Inserts> {
        let inserts = parts.len() > 1 && matches!(verb, Verb::Insert | Verb::Replace);
        let head = |part: &Part| part.text[..part.text.len().min(HEAD_BYTES)].to_ascii_lowercase();
        let ignores = |part: &Part| {
            let head = head(part);
            let mut words = head.split(|byte| !byte.is_ascii_alphanumeric());
            words.any(|word| word == b"ignore")
        };
        inserts.then(|| Inserts {
            ignores: parts.first().is_some_and(ignores),
        })
    }

    /// The words for one row of which so many were counted as affected.
    fn info(self, affected_rows: u64, warnings: u16) -> Vec<u8> {
        let duplicate = match affected_rows {
            0 => self.ignores,
            // With IGNORE a row that ON DUPLICATE KEY has changed is no duplicate.
            rows => rows > 1 && !self.ignores,
        };
        let duplicates = u8::from(duplicate);
        format!("Records: 1  Duplicates: {duplicates}  Warnings: {warnings}").into_bytes()
    }
}

impl Counts {
    /// Adds one OK.
    pub fn add(&mut self, outcome: &Outcome, info: &[u8]) {
        let one_row = match self.inserts {
            Some(inserts) if info.is_empty() => {
                inserts.info(outcome.affected_rows, outcome.warnings)
            }
            _ => Vec::new(),
        };
        let info = if info.is_empty() { &one_row } else { info };
        self.affected_rows += outcome.affected_rows;
        if self.insert_id == 0 {
            self.insert_id = outcome.last_insert_id;
        }
        self.warnings = self.warnings.saturating_add(outcome.warnings);
        self.info = match self.info.is_empty() {
            true => info.to_vec(),
            false => sum_of(&self.info, info),
        };
    }
}

impl Counts {
    /// Takes out warnings that were counted for several groups, and are one.
    pub fn say_once(&mut self, repeated: u16) {
        if repeated == 0 {
            return;
        }
        self.warnings = self.warnings.saturating_sub(repeated);
        self.tell_warnings();
    }

    /// Takes in what other groups did, of whose warnings so many are known.
    pub fn take_in(&mut self, others: &Counts, repeated: u16) {
        self.affected_rows += others.affected_rows;
        self.info = sum_of(&self.info, &others.info);
        let more = others.warnings.saturating_sub(repeated);
        self.warnings = self.warnings.saturating_add(more);
        self.tell_warnings();
    }

    fn tell_warnings(&mut self) {
        let digits = self.info.iter().rev().take_while(|b| b.is_ascii_digit());
        let words = self.info.len() - digits.count();
        if self.info[..words].ends_with(WARNINGS) {
            self.info.truncate(words);
            self.info.extend(self.warnings.to_string().into_bytes());
        }
    }
}

/// `Records: 3  Duplicates: 0  Warnings: 0` and another of the same words: each number is the sum.
fn sum_of(one: &[u8], other: &[u8]) -> Vec<u8> {
    let mut others = numbers(other);
    let (mut sum, mut at) = (Vec::new(), 0);
    while at < one.len() {
        let digits = one[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            sum.push(one[at]);
            at += 1;
            continue;
        }
        let number = number(&one[at..at + digits]).saturating_add(others.next().unwrap_or(0));
        sum.extend_from_slice(number.to_string().as_bytes());
        at += digits;
    }
    sum
}

fn numbers(text: &[u8]) -> impl Iterator<Item = u64> {
    let words = text.split(|byte| !byte.is_ascii_digit());
    words.filter(|word| !word.is_empty()).map(number)
}

fn number(digits: &[u8]) -> u64 {
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    digits.parse().unwrap_or(0)
}

impl Feeds {
    /// Waits for the OKs of all parts and adds them up, or takes the first one's where all did the
    /// same.
    pub async fn count(&mut self, counts: &mut Counts, same: bool) -> Result<(), Trouble> {
        loop {
            for feed in &mut self.all {
                if matches!(feed.step(), Event::Columns | Event::Row) {
                    let text = "rows came where none were expected";
                    return Err(Trouble::Odd(text.to_owned()));
                }
            }
            if let Some(trouble) = self.trouble() {
                return Err(trouble);
            }
            if self.all.iter().all(|feed| feed.is_done()) {
                break;
            }
            self.any().await;
        }
        let counted = if same {
            1.min(self.all.len())
        } else {
            self.all.len()
        };
        for feed in &self.all[..counted] {
            counts.add(&feed.outcome, &feed.info);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_up() {
        let mut counts = Counts::default();
        let of = |affected_rows, last_insert_id, warnings| Outcome {
            affected_rows,
            last_insert_id,
            warnings,
            ..Outcome::default()
        };
        counts.add(&of(2, 0, 1), b"Rows matched: 3  Changed: 2  Warnings: 1");
        counts.add(&of(9, 7, 0), b"Rows matched: 9  Changed: 9  Warnings: 0");
        counts.add(&of(0, 8, 2), b"");
        let sum = Counts {
            affected_rows: 11,
            insert_id: 7,
            warnings: 3,
            info: b"Rows matched: 12  Changed: 11  Warnings: 1".to_vec(),
            inserts: None,
        };
        assert_eq!(counts, sum);
    }

    #[test]
    fn what_several_groups_said_is_counted_once() {
        let mut counts = Counts {
            warnings: 5,
            info: b"Records: 8  Duplicates: 2  Warnings: 5".to_vec(),
            ..Counts::default()
        };
        counts.say_once(2);
        assert_eq!(counts.warnings, 3);
        assert_eq!(counts.info, b"Records: 8  Duplicates: 2  Warnings: 3");
        counts.info.clear();
        counts.say_once(9);
        assert_eq!((counts.warnings, &*counts.info), (0, &b""[..]));
    }

    #[test]
    fn a_part_with_one_row_counts_as_one_record() {
        let part = |text: &str| Part {
            group: "g".into(),
            text: text.as_bytes().to_vec(),
        };
        let parts = [part("INSERT IGNORE INTO t VALUES (1)"), part("")];
        let inserts = Inserts::of(Verb::Insert, &parts);
        assert_eq!(inserts, Some(Inserts { ignores: true }));
        assert_eq!(Inserts::of(Verb::Update, &parts), None);
        let mut counts = Counts {
            inserts,
            ..Counts::default()
        };
        let of = |affected_rows| Outcome {
            affected_rows,
            ..Outcome::default()
        };
        counts.add(&of(1), b"");
        counts.add(&of(5), b"Records: 6  Duplicates: 1  Warnings: 0");
        counts.add(&of(0), b"");
        assert_eq!(counts.info, b"Records: 8  Duplicates: 2  Warnings: 0");
    }
}
