//! Lists that shards made of their rows become one: GROUP_CONCAT, JSON_ARRAYAGG and JSON_OBJECTAGG.
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

/// What stands around a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    Nothing,
    Brackets,
    Braces,
    /// The same, and the members stand in the order of MySQL's objects: shorter names first, equally long ones by their
    /// bytes. Names are numbers, and no two parts have the same.
    SortedBraces,
}

impl Around {
    fn ends(self) -> [&'static [u8]; 2] {
        match self {
            Around::Nothing => [b"", b""],
            Around::Brackets => [b"[", b"]"],
            Around::Braces | Around::SortedBraces => [b"{", b"}"],
        }
    }
}

/// How the parts of a list become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// What stands between two values.
    pub separator: Vec<u8>,
    pub around: Around,
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
            None if self.around == Around::SortedBraces => sorted_members(&inner),
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
        let [first, last] = self.around.ends();
        Ok(Some([first, &joined[..], last].concat()))
    }

    /// The parts without what stands around them; `None` where one is cut.
    fn inner<'p>(&self, parts: &'p [Vec<u8>]) -> Option<Vec<&'p [u8]>> {
        let [first, last] = self.around.ends();
        let inner = |part: &'p Vec<u8>| part.strip_prefix(first)?.strip_suffix(last);
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

/// The members of all objects, in the order of their names, which have the quotation mark for their first and last letter.
fn sorted_members<'p>(objects: &[&'p [u8]]) -> Vec<&'p [u8]> {
    let mut all: Vec<&[u8]> = objects.iter().flat_map(|it| members(it)).collect();
    let name = |member: &'p [u8]| {
        let end = member.iter().skip(1).position(|byte| *byte == b'"');
        &member[..end.map_or(member.len(), |end| end + 2)]
    };
    all.sort_by_key(|member| (name(member).len(), name(member)));
    all
}

/// The members of an object, without what stands between them.
fn members(object: &[u8]) -> Vec<&[u8]> {
    let (mut all, mut from, mut depth) = (Vec::new(), 0, 0usize);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in object.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                all.push(object[from..at].trim_ascii());
                from = at + 1;
            }
            _ => {}
        }
    }
    let last = object[from..].trim_ascii();
    if !last.is_empty() {
        all.push(last);
    }
    all
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
            around: Around::Nothing,
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
            around: Around::Brackets,
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
    fn members_of_objects_stand_in_one() {
        let plain = List {
            around: Around::Braces,
            most: None,
            ..list(", ", None)
        };
        assert_eq!(
            whole(&plain, &[r#"{"a":1, "a":2}"#, r#"{"a":"}, {"}"#], "").as_deref(),
            Some(r#"{"a":1, "a":2, "a":"}, {"}"#)
        );
        let sorted = List {
            around: Around::SortedBraces,
            ..plain
        };
        let parts = [
            r#"{"7": 1, "12": [1, {"a": 2}], "100": "a\", \"b"}"#,
            r#"{"-3": null, "11": {"c": [3, 4], "d": "}"}}"#,
            "{}",
        ];
        assert_eq!(
            whole(&sorted, &parts, "").as_deref(),
            Some(
                r#"{"7": 1, "-3": null, "11": {"c": [3, 4], "d": "}"}, "12": [1, {"a": 2}], "100": "a\", \"b"}"#
            )
        );
        assert_eq!(whole(&sorted, &[r#"{"7": 1"#], ""), None);
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
