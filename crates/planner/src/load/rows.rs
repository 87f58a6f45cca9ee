//! A file on its way: bytes come in as they are received, rows go out with their groups.

use std::ops::Range;

use farm::error;
use farm::shard::{Key, KeyType};
use routing::Refusal;
use routing::shard::{Literal, Nowhere, locate, stored};
use sqltext::Multibyte;

use super::file::{Field, More, Row};
use super::{Cut, IdAt, KeyAt, LoadPlan, no};
use crate::place::refusal;

/// A row may have so many bytes.
const ROW_BYTES_MAX: usize = 64 << 20;

/// Once so many bytes in front have gone on they are thrown away.
const GONE_BYTES_MAX: usize = 64 << 10;

/// What comes next of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More bytes are needed, or the word that there are none.
    More,
    /// Ids are needed, in [`Cutter::ids`].
    Ids,
    /// [`Cutter::write`] gives what goes to the group of this number in the plan, or to all.
    Row(Option<usize>),
    End,
}

/// Cuts one file.
pub struct Cutter<'p> {
    plan: &'p LoadPlan,
    cut: &'p Cut,
    /// Letters beyond ASCII mean what they mean in UTF-8.
    utf8: bool,
    bytes: Vec<u8>,
    /// Bytes in front that have gone on.
    gone: usize,
    /// With so few bytes behind them the next row was not whole.
    short: usize,
    over: bool,
    /// Lines that are still to be skipped.
    skip: u64,
    /// Rows so far.
    rows: u64,
    /// The greatest id that the rows brought along.
    pub chosen: u64,
    /// Ids that may be given out.
    pub ids: Range<u64>,
    /// What goes on next: bytes, and an id in place of some of them.
    piece: Range<usize>,
    id: Option<(Range<usize>, u64)>,
}

impl<'p> Cutter<'p> {
    /// A file in this character set, as the servers name it; `None` where the plan does not cut.
    ///
    /// # Errors
    /// Rows cannot be found in such a file.
    pub fn new(plan: &'p LoadPlan, charset: &str) -> Result<Option<Cutter<'p>>, Refusal> {
        let Some(cut) = &plan.cut else {
            return Ok(None);
        };
        let layout = Multibyte::of_charset(charset);
        if !matches!(layout, Multibyte::None | Multibyte::SingleByte) {
            return Err(no(format!(
                "a file in {charset} cannot be cut by shard: convert it to utf8mb4, and say CHARACTER SET utf8mb4"
            )));
        }
        let plain = |name: &str| charset.eq_ignore_ascii_case(name);
        let utf8 = charset.to_ascii_lowercase().starts_with("utf8");
        Ok(Some(Cutter {
            plan,
            cut,
            utf8: utf8 || plain("ascii") || plain("binary"),
            bytes: Vec::new(),
            gone: 0,
            short: 0,
            over: false,
            skip: cut.skip,
            rows: 0,
            chosen: 0,
            ids: 0..0,
            piece: 0..0,
            id: None,
        }))
    }

    /// Where the next bytes of the file go, at the end.
    pub fn room(&mut self) -> &mut Vec<u8> {
        if self.gone > GONE_BYTES_MAX || self.gone == self.bytes.len() {
            self.bytes.drain(..self.gone);
            self.gone = 0;
        }
        &mut self.bytes
    }

    /// No more bytes come.
    pub fn end(&mut self) {
        self.over = true;
    }

    /// Goes on to the next row.
    ///
    /// # Errors
    /// The row has no place on any group.
    pub fn step(&mut self) -> Result<Next, Refusal> {
        let left = &self.bytes[self.gone..];
        // A row that came in many pieces is not looked at again with each of them.
        if !self.over && (left.is_empty() || left.len() < self.short) {
            return Ok(Next::More);
        }
        if self.skip > 0 {
            return Ok(match self.cut.format.line(left, 0, self.over) {
                Ok(0) => Next::End,
                Ok(end) => {
                    self.skip -= 1;
                    self.take(end, None);
                    Next::Row(None)
                }
                Err(More) => return self.more(),
            });
        }
        let cut = self.cut;
        let wanted = [
            cut.key.as_ref().map(|key| key.place),
            cut.id.and_then(|id| id.place),
        ];
        let row = match cut.format.row(left, self.over, cut.count, wanted) {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(Next::End),
            Err(More) => return self.more(),
        };
        let id = match &cut.id {
            Some(id) => self.place_of_id(*id, &row)?,
            None => None,
        };
        if id.is_some() && self.ids.is_empty() {
            return Ok(Next::Ids);
        }
        let given = id.map(|place| (place, self.ids.start));
        let group = match &cut.key {
            Some(key) => Some(self.group(key, &row, given.as_ref())?),
            None => None,
        };
        if given.is_some() {
            self.ids.start += 1;
        }
        self.rows += 1;
        self.take(row.end, given);
        Ok(Next::Row(group))
    }

    fn more(&mut self) -> Result<Next, Refusal> {
        let have = self.bytes.len() - self.gone;
        if have > ROW_BYTES_MAX {
            return Err(no(format!(
                "row {} of the file is longer than 64 MB: see whether LINES TERMINATED BY is right",
                self.rows + 1
            )));
        }
        self.short = 2 * have;
        Ok(Next::More)
    }

    /// The first bytes that are left go on.
    fn take(&mut self, bytes: usize, id: Option<(Range<usize>, u64)>) {
        let from = self.gone;
        self.piece = from..from + bytes;
        self.id = id.map(|(at, id)| (from + at.start..from + at.end, id));
        self.gone += bytes;
        self.short = 0;
    }

    /// Writes the row that came last, as its group gets it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Some((at, id)) = &self.id else {
            out.extend_from_slice(&self.bytes[self.piece.clone()]);
            return;
        };
        out.extend_from_slice(&self.bytes[self.piece.start..at.start]);
        out.extend_from_slice(id.to_string().as_bytes());
        if self.cut.id.is_some_and(|id| id.place.is_none()) {
            out.extend_from_slice(self.cut.format.separator());
        }
        out.extend_from_slice(&self.bytes[at.end..self.piece.end]);
    }

    fn value(&self, field: &Field) -> Option<Option<Vec<u8>>> {
        self.cut.format.value(&self.bytes[self.gone..], field)
    }

    /// The bytes of a row, from its beginning, in whose place an id comes.
    fn place_of_id(&mut self, id: IdAt, row: &Row) -> Result<Option<Range<usize>>, Refusal> {
        if id.place.is_none() {
            return Ok(Some(row.values..row.values));
        }
        let Some(field) = &row.fields[1] else {
            return Err(no(format!(
                "row {} of the file ends in front of its AUTO_INCREMENT column",
                self.rows + 1
            )));
        };
        let wants = match self.value(field) {
            Some(None) => true,
            Some(Some(value)) => {
                let text = std::str::from_utf8(value.trim_ascii()).unwrap_or_default();
                self.chosen = self.chosen.max(text.parse().unwrap_or(0));
                wants_id(&value, id)
            }
            None => false,
        };
        Ok(wants.then(|| field.whole.clone()))
    }

    fn group(
        &self,
        key: &KeyAt,
        row: &Row,
        id: Option<&(Range<usize>, u64)>,
    ) -> Result<usize, Refusal> {
        let column = &*key.table.column;
        let number = self.rows + 1;
        let Some(field) = &row.fields[0] else {
            let text = format!("{column}, in row {number} of the file");
            return Err(refusal(error::SHARD_KEY_MISSING, text));
        };
        let value = match id {
            // The id is the shard key.
            Some((at, id)) if *at == field.whole => Some(Some(id.to_string().into_bytes())),
            _ => self.value(field),
        };
        let value = match value {
            Some(None) => {
                let text = format!("{column}, in row {number} of the file,");
                return Err(refusal(error::SHARD_KEY_NULL, text));
            }
            Some(Some(value)) => value,
            None => self.bytes[self.gone..][field.whole.clone()].to_vec(),
        };
        let shown = String::from_utf8_lossy(&value);
        let Some(stored) = self.stored(key, &value) else {
            let text = format!("{column}: {shown}, in row {number} of the file");
            return Err(refusal(error::SHARD_KEY_BAD, text));
        };
        let group = match locate(&key.map.map, &stored) {
            Ok(at) => &key.map.map.shard(at).group,
            Err(Nowhere::Disabled { shard }) => {
                return Err(refusal(error::SHARD_DISABLED, shard.to_string()));
            }
            Err(Nowhere::OutOfRange) => {
                let text = format!("{shown}, of row {number} of the file");
                return Err(refusal(error::SHARD_KEY_OUT_OF_RANGE, text));
            }
        };
        let at = self.plan.groups.iter().position(|it| it == group);
        at.ok_or_else(|| refusal(error::NO_GROUP, ""))
    }

    /// The key of a row with this value; `None` for what a server might store in another form.
    fn stored(&self, key: &KeyAt, value: &[u8]) -> Option<Key> {
        let value = match key.table.key {
            KeyType::Integer => value.trim_ascii(),
            KeyType::Text { .. } if !self.utf8 && !value.is_ascii() => return None,
            _ => value,
        };
        stored(Literal::Text(value), key.table.key).filter(|stored| key.fits.holds(stored))
    }
}

/// A column that takes an id for it: nothing, a zero, and what a server would read as zero.
fn wants_id(value: &[u8], id: IdAt) -> bool {
    let value = value.trim_ascii();
    let digits = value.strip_prefix(b"-").or(value.strip_prefix(b"+"));
    let digits = digits.unwrap_or(value);
    let end = digits.iter().position(|byte| !byte.is_ascii_digit());
    let (number, rest) = digits.split_at(end.unwrap_or(digits.len()));
    let zero = number.iter().all(|digit| *digit == b'0') && !rest.starts_with(b".");
    let plain = !number.is_empty() && rest.is_empty();
    zero && !id.zero_is_value && (plain || !id.strict)
}
