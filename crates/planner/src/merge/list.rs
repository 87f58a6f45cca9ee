//! Lists that shards made of their rows become one: GROUP_CONCAT and JSON_ARRAYAGG.
//!
//! Without an order the values may stand in any, as one server's do. Where a list is ordered by its own
//! values, the values of all parts are merged; so what stands between two values must not be found within one.
//!
//! Servers cut lists that are longer than `group_concat_max_len`, and warn of it by the number of a row. Such
//! a list is not made here: [`List::whole`] says so.

use std::cmp::Ordering;

use super::{Comparison, Odd, compare_values};

/// A server leaves out a whole character where a list would be too long: a part that it cut lacks fewer bytes
/// than these of the most.
const CUT_BYTES: u64 = 4;

/// How the parts of a list become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// What stands between two values.
    pub separator: Vec<u8>,
    /// It stands in brackets.
    pub array: bool,
    /// How values are compared, and whether the greatest comes first; `None` where any order will do.
    pub order: Option<(Comparison, bool)>,
    /// The column that has the most bytes of a list; `None` where servers cut none.
    pub most: Option<usize>,
}

impl List {
    /// The list of all parts, of which there is one at least; `None` where a server might cut it. `most` is
    /// the value of the column of that name.
    ///
    /// # Errors
    /// A part cannot be what was asked for.
    pub(super) fn whole(
        &self,
        parts: &[Vec<u8>],
        most: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, Odd> {
        let Some(inner) = self.inner(parts) else {
            return Ok(None);
        };
        if self.most.is_some() && !self.fits(&inner, most)? {
            return Ok(None);
        }
        let values = match self.order {
            None => inner,
            Some((how, descending)) => {
                let mut all = Vec::new();
                for part in inner {
                    let values = split(part, &self.separator);
                    all = merged(all, ordered(values, how, descending)?, how, descending)?;
                }
                all
            }
        };
        let joined = values.join(&self.separator[..]);
        Ok(Some(match self.array {
            true => [b"[", &joined[..], b"]"].concat(),
            false => joined,
        }))
    }

    /// The parts without their brackets; `None` where one is cut.
    fn inner<'p>(&self, parts: &'p [Vec<u8>]) -> Option<Vec<&'p [u8]>> {
        let inner = |part: &'p Vec<u8>| match self.array {
            true => part.strip_prefix(b"[")?.strip_suffix(b"]"),
            false => Some(&part[..]),
        };
        parts.iter().map(inner).collect()
    }

    fn fits(&self, inner: &[&[u8]], most: Option<&[u8]>) -> Result<bool, Odd> {
        let most = most.and_then(|it| std::str::from_utf8(it).ok()?.parse::<u64>().ok());
        let most = most.ok_or_else(|| Odd("how long a list may be is not told".to_owned()))?;
        let between = self.separator.len() * inner.len().saturating_sub(1);
        let bytes = inner.iter().map(|part| part.len()).sum::<usize>() + between;
        Ok(bytes as u64 + CUT_BYTES <= most)
    }
}

/// The values of a part.
fn split<'p>(part: &'p [u8], separator: &[u8]) -> Vec<&'p [u8]> {
    let (mut values, mut from, mut at) = (Vec::new(), 0, 0);
    while at < part.len() {
        match part[at..].starts_with(separator) {
            true => {
                values.push(&part[from..at]);
                at += separator.len();
                from = at;
            }
            false => at += 1,
        }
    }
    values.push(&part[from..]);
    values
}

fn compare(how: Comparison, descending: bool, a: &[u8], b: &[u8]) -> Result<Ordering, Odd> {
    let order = compare_values(how, a, b)?;
    Ok(if descending { order.reverse() } else { order })
}

/// The same values, which are in order.
fn ordered(values: Vec<&[u8]>, how: Comparison, descending: bool) -> Result<Vec<&[u8]>, Odd> {
    for two in values.windows(2) {
        if compare(how, descending, two[0], two[1])?.is_gt() {
            return Err(Odd(
                "a server's list is not in the order that was asked for".to_owned(),
            ));
        }
    }
    Ok(values)
}

/// Both, in order.
fn merged<'p>(
    one: Vec<&'p [u8]>,
    other: Vec<&'p [u8]>,
    how: Comparison,
    descending: bool,
) -> Result<Vec<&'p [u8]>, Odd> {
    let mut all = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.into_iter().peekable(), other.into_iter().peekable());
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        all.extend(match compare(how, descending, a, b)?.is_gt() {
            true => other.next(),
            false => one.next(),
        });
    }
    all.extend(one);
    all.extend(other);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(list: &List, parts: &[&str], most: &str) -> Option<String> {
        let parts: Vec<Vec<u8>> = parts.iter().map(|it| it.as_bytes().to_vec()).collect();
        let whole = list.whole(&parts, Some(most.as_bytes()));
        whole
            .expect("parts of a list")
            .map(|it| String::from_utf8_lossy(&it).into_owned())
    }

    fn list(separator: &str, order: Option<(Comparison, bool)>) -> List {
        List {
            separator: separator.as_bytes().to_vec(),
            array: false,
            order,
            most: Some(1),
        }
    }

    #[test]
    fn lists_without_an_order_stand_one_behind_the_other() {
        let plain = list(", ", None);
        assert_eq!(
            whole(&plain, &["a, b", "", "c"], "99").as_deref(),
            Some("a, b, , c")
        );
        let array = List {
            array: true,
            most: None,
            ..plain
        };
        assert_eq!(
            whole(&array, &["[1, null]", "[[]]"], "").as_deref(),
            Some("[1, null, []]")
        );
        // What a server has cut ends in the middle of something.
        assert_eq!(whole(&array, &["[1, 2", "[3]"], ""), None);
    }

    #[test]
    fn lists_in_order_are_merged() {
        let up = list(",", Some((Comparison::Number, false)));
        assert_eq!(
            whole(&up, &["-2,9,10", "1,10,100", "9"], "99").as_deref(),
            Some("-2,1,9,9,10,10,100")
        );
        let down = list(" ; ", Some((Comparison::Bytes, true)));
        assert_eq!(
            whole(&down, &["2024-02-01 ; 1999-12-31", "2001-01-01"], "99").as_deref(),
            Some("2024-02-01 ; 2001-01-01 ; 1999-12-31")
        );
        let parts = [b"2,1".to_vec()];
        assert!(up.whole(&parts, Some(b"99")).is_err(), "out of order");
        let parts = [b"1".to_vec(), b"two".to_vec()];
        assert!(up.whole(&parts, Some(b"99")).is_err(), "no number");
        assert!(
            up.whole(&parts[..1], None).is_err(),
            "nobody says how long it may be"
        );
    }

    #[test]
    fn a_list_that_might_be_cut_is_not_made() {
        let plain = list(",", None);
        assert_eq!(
            whole(&plain, &["abc", "de"], "10").as_deref(),
            Some("abc,de")
        );
        assert_eq!(whole(&plain, &["abc", "de"], "9"), None);
        // A part that lacks its last character may have been cut.
        assert_eq!(whole(&plain, &["abcdefg"], "10"), None);
    }
}
