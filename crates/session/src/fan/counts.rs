//! Counts of several OKs, added up.

use mysql_wire::relay::Outcome;

use super::feed::Event;
use super::feeds::Feeds;
use super::rows::Trouble;

/// What one OK says of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub affected_rows: u64,
    /// The first part's that has one.
    pub insert_id: u64,
    pub warnings: u16,
    pub info: Vec<u8>,
}

impl Counts {
    /// Adds one OK.
    pub fn add(&mut self, outcome: &Outcome, info: &[u8]) {
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
        };
        assert_eq!(counts, sum);
    }
}
