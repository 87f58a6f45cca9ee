//! Gets of many clients as one SELECT.

use std::rc::Rc;

use session::{Heard, Internal, Lost, Param};
use sqltext::KeyedMap;

use crate::columns::{Alike, Columns};
use crate::item::Row;
use crate::op::Refusal;
use crate::recall::Filling;

/// Rows by the keys that clients asked for.
pub(crate) type Rows = KeyedMap<Box<[u8]>, Row>;

/// An internal session that reads, and the statements that it has prepared.
pub(crate) struct Reader<'l> {
    pub internal: &'l mut Internal,
    pub prepared: &'l mut Prepared,
    pub columns: &'l Rc<Columns>,
    /// Where what was read goes, too.
    pub filling: Option<&'l Filling>,
}

/// Statements that read, by their number of keys.
#[derive(Default)]
pub(crate) struct Prepared {
    /// Whose they are.
    of: Option<Rc<Columns>>,
    ids: Vec<(usize, u32)>,
    /// The servers take none.
    refused: bool,
}

/// The number of parameters of the statement that reads so many keys: with one for each number of
/// keys the servers would have to keep hundreds. The last key fills up what is too much, at most one
/// in five.
fn params(keys: usize) -> usize {
    let step = (keys.next_power_of_two() / 8).max(1);
    keys.next_multiple_of(step)
}

impl Reader<'_> {
    /// Reads the rows of these keys, each of which is there once; a key without a row is left out.
    ///
    /// # Errors
    /// What the servers said, or the loss of the internal session.
    pub async fn read(&mut self, keys: &[&[u8]]) -> Result<Result<Rows, Refusal>, Lost> {
        let mut rows = Rows::default();
        let found = match self.select(keys).await? {
            Ok(found) => {
                if let Some(filling) = self.filling {
                    filling.put(self.internal.served_by(), self.columns, keys, &found);
                }
                found
            }
            // More than an internal session takes at a time.
            Err(_) if keys.len() > 1 => {
                let (one, other) = keys.split_at(keys.len() / 2);
                for half in [one, other] {
                    match Box::pin(self.read(half)).await? {
                        Ok(some) => rows.extend(some),
                        Err(why) => return Ok(Err(why)),
                    }
                }
                return Ok(Ok(rows));
            }
            Err(refused) => return Ok(Err(refused.for_client())),
        };
        let open = assign(self.columns.alike, keys, found, &mut rows);
        for key in open {
            match self.select(&[key]).await? {
                Ok(mut found) => {
                    if let Some(filling) = self.filling {
                        filling.put(self.internal.served_by(), self.columns, &[key], &found);
                    }
                    if let Some((_, row)) = found.pop() {
                        rows.insert(key.into(), row);
                    }
                }
                Err(refused) => return Ok(Err(refused.for_client())),
            }
        }
        Ok(Ok(rows))
    }

    async fn select(&mut self, keys: &[&[u8]]) -> Result<Result<Found, Refused>, Lost> {
        let Some(mut values) = self.values(keys) else {
            return select(self.internal, self.columns, keys, false).await;
        };
        let Some(id) = self.statement(values.len()).await? else {
            return select(self.internal, self.columns, keys, false).await;
        };
        let filled = params(values.len());
        if let Some(&last) = values.last() {
            values.resize(filled, last);
        }
        let heard = self.internal.execute(id, &values).await?;
        Ok(found(heard, self.columns))
    }

    fn values<'k>(&self, keys: &[&'k [u8]]) -> Option<Vec<Param<'k>>> {
        let mut values = Vec::with_capacity(params(keys.len()));
        for key in keys {
            values.push(self.columns.param(key)?);
        }
        Some(values)
    }

    /// The statement for so many keys; `None` where a text has to do.
    async fn statement(&mut self, keys: usize) -> Result<Option<u32>, Lost> {
        let prepared = &mut *self.prepared;
        let same = |of: &Rc<Columns>| Rc::ptr_eq(of, self.columns);
        if !prepared.of.as_ref().is_some_and(same) {
            for (_, id) in prepared.ids.drain(..) {
                self.internal.close(id).await?;
            }
            (prepared.of, prepared.refused) = (Some(self.columns.clone()), false);
        }
        let count = params(keys);
        let known = prepared.ids.iter().find(|(params, _)| *params == count);
        if prepared.refused || known.is_some() {
            return Ok(known.map(|(_, id)| *id));
        }
        let Some(text) = self.columns.prepared(count) else {
            prepared.refused = true;
            return Ok(None);
        };
        match self.internal.prepare(&text).await? {
            Ok(id) => {
                prepared.ids.push((count, id));
                Ok(Some(id))
            }
            // A text tells why, or does.
            Err(_) => {
                prepared.refused = true;
                Ok(None)
            }
        }
    }
}

/// A server's error.
pub(crate) struct Refused {
    pub number: u16,
    pub message: String,
}

impl Refused {
    /// What a client hears that cannot mend it.
    pub fn for_client(&self) -> Refusal {
        Refusal::server(format!("{} ({})", one_line(&self.message), self.number))
    }
}

/// Without what would end a line of the protocol.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// What a statement did.
pub(crate) async fn run(internal: &mut Internal, text: &[u8]) -> Result<Result<(), Refused>, Lost> {
    Ok(match internal.ask(text).await? {
        Heard::Ok { .. } | Heard::Rows(_) => Ok(()),
        Heard::Refused(refusal) => Err(Refused {
            number: refusal.number,
            message: String::from_utf8_lossy(&refusal.message).into_owned(),
        }),
    })
}

/// Rows with their keys.
type Found = Vec<(Vec<u8>, Row)>;

/// The rows of these keys, as their table has them.
pub(crate) async fn select(
    internal: &mut Internal,
    columns: &Columns,
    keys: &[&[u8]],
    locked: bool,
) -> Result<Result<Found, Refused>, Lost> {
    let text = columns.select(keys.iter().copied(), locked);
    Ok(found(internal.ask(&text).await?, columns))
}

fn found(heard: Heard, columns: &Columns) -> Result<Found, Refused> {
    match heard {
        Heard::Rows(sheet) => {
            let rows = sheet.rows.into_iter().map(|cells| columns.read(cells));
            rows.collect::<Option<_>>().ok_or_else(|| Refused {
                number: 1105,
                message: "rows of another form than the container's".to_owned(),
            })
        }
        Heard::Ok { .. } => Ok(Vec::new()),
        Heard::Refused(refusal) => Err(Refused {
            number: refusal.number,
            message: String::from_utf8_lossy(&refusal.message).into_owned(),
        }),
    }
}

/// Gives the rows to the keys that asked for them. A key that may have a row all the same, since only
/// the collation knows whether it is equal to one, is told.
pub(crate) fn assign<'k>(
    alike: Alike,
    keys: &[&'k [u8]],
    found: Vec<(Vec<u8>, Row)>,
    rows: &mut Rows,
) -> Vec<&'k [u8]> {
    // A single key has whatever came.
    if let ([key], 1) = (keys, found.len()) {
        rows.extend(found.into_iter().map(|(_, row)| (Box::from(*key), row)));
        return Vec::new();
    }
    if alike == Alike::Bytes {
        rows.extend(found.into_iter().map(|(key, row)| (key.into(), row)));
        return Vec::new();
    }
    let clear = alike == Alike::NoCase
        && found
            .iter()
            .all(|(key, _)| key.is_ascii() && !key.iter().any(u8::is_ascii_control))
        && keys.iter().all(|key| key.is_ascii());
    let mut by_fold: KeyedMap<Vec<u8>, Row> = KeyedMap::default();
    let mut by_bytes: KeyedMap<Vec<u8>, Row> = KeyedMap::default();
    let none_left = found.is_empty();
    for (key, row) in found {
        by_fold.insert(folded(&key), row.clone());
        by_bytes.insert(key, row);
    }
    let mut open = Vec::new();
    for &key in keys {
        match (by_bytes.get(key), clear) {
            (Some(row), _) => drop(rows.insert(key.into(), row.clone())),
            (None, true) => {
                if let Some(row) = by_fold.get(&folded(key)) {
                    rows.insert(key.into(), row.clone());
                }
            }
            // Without any row there is none for this key either.
            (None, false) if none_left => {}
            (None, false) => open.push(key),
        }
    }
    open
}

/// Blanks at the end do not count under most collations.
fn folded(key: &[u8]) -> Vec<u8> {
    let mut key = key.to_ascii_lowercase();
    while key.last() == Some(&b' ') {
        key.pop();
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(keys: &[&str]) -> Vec<(Vec<u8>, Row)> {
        let row = |key: &&str| Row {
            parts: vec![Some(key.as_bytes().to_vec())],
            ..Row::default()
        };
        keys.iter()
            .map(|key| (key.as_bytes().to_vec(), row(key)))
            .collect()
    }

    /// Which key gets which row, and which keys are open.
    fn given(alike: Alike, keys: &[&str], rows: &[&str]) -> (Vec<String>, Vec<String>) {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let mut all = Rows::default();
        let open = assign(alike, &keys, found(rows), &mut all);
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut pairs: Vec<String> = all
            .iter()
            .map(|(key, row)| {
                let value = row.parts[0].as_deref().unwrap_or_default();
                format!("{}={}", shown(key), shown(value))
            })
            .collect();
        pairs.sort();
        (pairs, open.into_iter().map(shown).collect())
    }

    #[test]
    fn few_statements_read_any_number_of_keys() {
        let counts = [1, 2, 3, 4, 5, 7, 9, 12, 13, 48, 50, 65, 200, 256].map(params);
        assert_eq!(counts, [1, 2, 3, 4, 5, 7, 10, 12, 14, 48, 56, 80, 224, 256]);
        let all: std::collections::BTreeSet<usize> = (1..=256).map(params).collect();
        assert_eq!(all.len(), 28);
    }

    #[test]
    fn rows_go_to_the_keys_that_asked_for_them() {
        let none: Vec<String> = Vec::new();
        let exact = given(Alike::Bytes, &["a", "b"], &["b"]);
        assert_eq!(exact, (vec!["b=b".to_owned()], none.clone()));
        let folded = given(Alike::NoCase, &["a", "A", "c"], &["A "]);
        assert_eq!(
            folded,
            (vec!["A=A ".to_owned(), "a=A ".to_owned()], none.clone())
        );
        let single = given(Alike::Collation, &["e"], &["é"]);
        assert_eq!(single, (vec!["e=é".to_owned()], none.clone()));
        let accents = given(Alike::NoCase, &["e", "é"], &["é"]);
        assert_eq!(accents, (vec!["é=é".to_owned()], vec!["e".to_owned()]));
        let cased = given(Alike::Collation, &["a", "A"], &["a"]);
        assert_eq!(cased, (vec!["a=a".to_owned()], vec!["A".to_owned()]));
        let nothing = given(Alike::Collation, &["a", "A"], &[]);
        assert_eq!(nothing, (none.clone(), none));
    }
}
