//! What an UPDATE changed of a document, where the log has no more (`binlog_row_value_options=PARTIAL_JSON`), and the
//! document that comes of it.
//!
//! A change that does not fit the document is refused, as the servers' own appliers refuse it.

use std::borrow::Cow;

use super::{DEPTH_MAX, Members, Printer, VALUES_MIN, root};
use crate::table::Bytes;

mod operation {
    pub const REPLACE: u64 = 0;
    pub const INSERT: u64 = 1;
    pub const REMOVE: u64 = 2;
}

/// The document as text behind the changes, which stand one after the other in `diffs`; `None` where they cannot be read, or
/// are none of this document.
pub(crate) fn changed(raw: &[u8], diffs: &[u8]) -> Option<String> {
    let bytes = raw.len() + diffs.len();
    let mut document = Document {
        root: Node::of(raw),
        nodes_left: bytes + VALUES_MIN,
    };
    let mut rest = Bytes(diffs);
    while !rest.0.is_empty() {
        let operation = rest.number(1)?;
        let legs = legs(std::str::from_utf8(rest.text()?).ok()?)?;
        let value = match operation {
            operation::REMOVE => None,
            _ => Some(Node::of(rest.text()?)),
        };
        document.change(operation, &legs, value)?;
    }
    let mut printer = Printer::for_bytes(bytes);
    document.root.print(&mut printer, DEPTH_MAX)?;
    Some(printer.out)
}

/// A step from a container to what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Leg {
    Member(String),
    Cell(usize),
    /// So many in front of the last one.
    FromEnd(usize),
}

/// The legs of a path as servers write it: `$.name."other name"[3]`.
fn legs(path: &str) -> Option<Vec<Leg>> {
    let mut rest = path.strip_prefix('$')?;
    let mut legs = Vec::new();
    while !rest.is_empty() {
        if legs.len() == DEPTH_MAX {
            return None;
        }
        let leg = match rest.strip_prefix('[') {
            Some(inner) => {
                let (place, behind) = inner.split_once(']')?;
                rest = behind;
                cell(place)?
            }
            None => {
                let (name, behind) = member(rest.strip_prefix('.')?)?;
                rest = behind;
                Leg::Member(name)
            }
        };
        legs.push(leg);
    }
    Some(legs)
}

fn cell(place: &str) -> Option<Leg> {
    match place.strip_prefix("last") {
        Some("") => Some(Leg::FromEnd(0)),
        Some(before) => Some(Leg::FromEnd(before.strip_prefix('-')?.parse().ok()?)),
        None => Some(Leg::Cell(place.parse().ok()?)),
    }
}

/// A name, and what stands behind it.
fn member(path: &str) -> Option<(String, &str)> {
    if !path.starts_with('"') {
        let end = path.find(['.', '[']).unwrap_or(path.len());
        let (name, behind) = path.split_at(end);
        // Names that need a quote or an escape stand in quotes.
        let is_bare = !name.is_empty() && !name.contains(['"', '\\', '*', ' ']);
        return is_bare.then(|| (name.to_owned(), behind));
    }
    let mut is_escaped = false;
    let end = path.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })?;
    // Both quotes are one byte.
    let (name, behind) = path.split_at(end + 2);
    Some((serde_json::from_str(name).ok()?, behind))
}

/// A document of which the changed parts are taken apart.
struct Document<'a> {
    root: Node<'a>,
    /// So many members may still be taken out of containers: more than the bytes are worth there are none.
    nodes_left: usize,
}

enum Node<'a> {
    /// As it stands in the log: its kind and its bytes.
    Stored(u8, &'a [u8]),
    /// In the servers' order: short keys first, those of the same length by their bytes.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
    Array(Vec<Node<'a>>),
}

/// Where a key stands among others, or would.
fn place_of(members: &[(Cow<'_, str>, Node<'_>)], name: &str) -> Result<usize, usize> {
    members.binary_search_by(|(key, _)| (key.len(), &**key).cmp(&(name.len(), name)))
}

impl<'a> Document<'a> {
    fn change(&mut self, operation: u64, legs: &[Leg], value: Option<Node<'a>>) -> Option<()> {
        let (last, way) = legs.split_last()?;
        let left = &mut self.nodes_left;
        let mut node = &mut self.root;
        for leg in way {
            node = node.opened(left)?.child(leg)?;
        }
        let parent = node.opened(left)?;
        match (operation, value) {
            (operation::REPLACE, Some(value)) => *parent.child(last)? = value,
            (operation::INSERT, Some(value)) => parent.insert(last, value)?,
            (operation::REMOVE, None) => parent.remove(last)?,
            _ => return None,
        }
        Some(())
    }
}

impl<'a> Node<'a> {
    fn of(raw: &'a [u8]) -> Node<'a> {
        let (kind, body) = root(raw);
        Node::Stored(kind, body)
    }

    /// Taken apart, one level deep; `None` for what is no container, or none that can be read.
    fn opened(&mut self, left: &mut usize) -> Option<&mut Node<'a>> {
        let Node::Stored(kind, body) = *self else {
            return Some(self);
        };
        let mut members = Members::of(kind, body)??;
        *left = left.checked_sub(members.count)?;
        let mut all = Vec::with_capacity(members.count);
        for _ in 0..members.count {
            let (key, kind, body) = members.next()?;
            all.push((
                Cow::Borrowed(key.unwrap_or_default()),
                Node::Stored(kind, body),
            ));
        }
        *self = match members.is_object {
            true => Node::Object(all),
            false => Node::Array(all.into_iter().map(|(_, node)| node).collect()),
        };
        Some(self)
    }

    fn child(&mut self, leg: &Leg) -> Option<&mut Node<'a>> {
        match (self, leg) {
            (Node::Object(members), Leg::Member(name)) => {
                let at = place_of(members, name).ok()?;
                members.get_mut(at).map(|(_, node)| node)
            }
            (Node::Array(cells), leg) => {
                let at = place_in(cells.len(), leg)?;
                cells.get_mut(at)
            }
            _ => None,
        }
    }

    fn insert(&mut self, leg: &Leg, value: Node<'a>) -> Option<()> {
        match (self, leg) {
            (Node::Object(members), Leg::Member(name)) => {
                let at = place_of(members, name).err()?;
                members.insert(at, (Cow::Owned(name.clone()), value));
            }
            (Node::Array(cells), leg) => {
                let at = match leg {
                    Leg::Cell(at) => *at.min(&cells.len()),
                    Leg::FromEnd(_) => place_in(cells.len(), leg).unwrap_or(0),
                    Leg::Member(_) => return None,
                };
                cells.insert(at, value);
            }
            _ => return None,
        }
        Some(())
    }

    fn remove(&mut self, leg: &Leg) -> Option<()> {
        match (self, leg) {
            (Node::Object(members), Leg::Member(name)) => {
                let at = place_of(members, name).ok()?;
                members.remove(at);
            }
            (Node::Array(cells), leg) => {
                let at = place_in(cells.len(), leg)?;
                cells.remove(at);
            }
            _ => return None,
        }
        Some(())
    }

    fn print(&self, to: &mut Printer, depth: usize) -> Option<()> {
        let mut depth = depth;
        if !matches!(self, Node::Stored(..)) {
            to.count()?;
            depth = depth.checked_sub(1)?;
        }
        match self {
            Node::Stored(kind, body) => to.value(*kind, body, depth)?,
            Node::Object(members) => {
                to.out.push('{');
                for (at, (key, node)) in members.iter().enumerate() {
                    to.between(at, Some(key));
                    node.print(to, depth)?;
                }
                to.out.push('}');
            }
            Node::Array(cells) => {
                to.out.push('[');
                for (at, node) in cells.iter().enumerate() {
                    to.between(at, None);
                    node.print(to, depth)?;
                }
                to.out.push(']');
            }
        }
        Some(())
    }
}

/// The place of one of so many cells that are there.
fn place_in(cells: usize, leg: &Leg) -> Option<usize> {
    let at = match leg {
        Leg::Cell(at) => *at,
        Leg::FromEnd(before) => cells.checked_sub(1)?.checked_sub(*before)?,
        Leg::Member(_) => return None,
    };
    (at < cells).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonb::tests::DOCUMENT;

    /// Changes of the document `{"a": [1, true], "bc": "x"}`.
    fn after(diffs: &[(u64, &str, Option<&[u8]>)]) -> Option<String> {
        changed(&DOCUMENT, &written(diffs))
    }

    fn written(diffs: &[(u64, &str, Option<&[u8]>)]) -> Vec<u8> {
        let mut raw = Vec::new();
        for (operation, path, value) in diffs {
            raw.push(u8::try_from(*operation).expect("a byte"));
            for part in [Some(path.as_bytes()), *value].into_iter().flatten() {
                raw.push(u8::try_from(part.len()).expect("short"));
                raw.extend(part);
            }
        }
        raw
    }

    const SEVEN: Option<&[u8]> = Some(&[5, 7, 0]);
    const EMPTY: Option<&[u8]> = Some(&[0, 0, 0, 4, 0]);

    #[test]
    fn documents_change_where_the_log_says() {
        use operation::{INSERT, REMOVE, REPLACE};
        for (diffs, expected) in [
            (&[][..], r#"{"a": [1, true], "bc": "x"}"#),
            (&[(REPLACE, "$.a", SEVEN)], r#"{"a": 7, "bc": "x"}"#),
            (&[(REPLACE, "$.a[1]", SEVEN)], r#"{"a": [1, 7], "bc": "x"}"#),
            (
                &[(REPLACE, "$.a[last-1]", SEVEN)],
                r#"{"a": [7, true], "bc": "x"}"#,
            ),
            (
                &[(INSERT, "$.a[1]", SEVEN)],
                r#"{"a": [1, 7, true], "bc": "x"}"#,
            ),
            (
                &[(INSERT, "$.a[9]", SEVEN)],
                r#"{"a": [1, true, 7], "bc": "x"}"#,
            ),
            (
                &[(INSERT, "$.b", SEVEN)],
                r#"{"a": [1, true], "b": 7, "bc": "x"}"#,
            ),
            (
                &[(INSERT, "$.\"q\\\"q\"", SEVEN)],
                r#"{"a": [1, true], "bc": "x", "q\"q": 7}"#,
            ),
            (&[(REMOVE, "$.a[0]", None)], r#"{"a": [true], "bc": "x"}"#),
            (&[(REMOVE, "$.bc", None), (REMOVE, "$.a", None)], "{}"),
            (
                &[
                    (INSERT, "$.d", EMPTY),
                    (INSERT, "$.d.e", EMPTY),
                    (INSERT, "$.d.e.f", SEVEN),
                ],
                r#"{"a": [1, true], "d": {"e": {"f": 7}}, "bc": "x"}"#,
            ),
        ] {
            assert_eq!(after(diffs).as_deref(), Some(expected), "{diffs:?}");
        }
    }

    #[test]
    fn changes_that_do_not_fit_are_refused() {
        use operation::{INSERT, REMOVE, REPLACE};
        for diff in [
            (REPLACE, "$", SEVEN),
            (REPLACE, "$.z", SEVEN),
            (REPLACE, "$.a.b", SEVEN),
            (REPLACE, "$.a[2]", SEVEN),
            (REPLACE, "$[0]", SEVEN),
            (INSERT, "$.a", SEVEN),
            (INSERT, "$.bc.d", SEVEN),
            (REMOVE, "$.b", None),
            (REMOVE, "$.a[last-2]", None),
            (REMOVE, "$.a", SEVEN),
            (REPLACE, "$.a", None),
            (3, "$.a", SEVEN),
            (REPLACE, ".a", SEVEN),
            (REPLACE, "$.\"a", SEVEN),
            (REPLACE, "$.", SEVEN),
            (REPLACE, "$.a[", SEVEN),
            (REPLACE, "$.a[x]", SEVEN),
            (REPLACE, "$**.a", SEVEN),
        ] {
            assert_eq!(after(&[diff]), None, "{diff:?}");
        }
        let whole = written(&[(REPLACE, "$.a", SEVEN)]);
        for end in 1..whole.len() {
            assert_eq!(changed(&DOCUMENT, &whole[..end]), None, "{end}");
        }
        assert_eq!(changed(&[], &whole), None, "null has no members");
    }

    #[test]
    fn parts_that_are_taken_apart_again_and_again_are_refused() {
        // An array whose members are all itself.
        let mut document = vec![2, 40, 0, 124, 0];
        document.extend([2, 0, 0].repeat(40));
        let mut paths = Vec::new();
        for first in 0..40 {
            for second in 0..40 {
                paths.push(format!("$[{first}][{second}][0]"));
            }
        }
        let all = paths
            .iter()
            .map(|it| (operation::REPLACE, it.as_str(), SEVEN));
        let diffs = written(&all.clone().take(3).collect::<Vec<_>>());
        assert_eq!(changed(&document, &diffs), None);
        // Neither by changes that are many themselves.
        let diffs = written(&all.collect::<Vec<_>>());
        assert_eq!(changed(&document, &diffs), None);
    }

    #[test]
    fn paths_have_a_depth() {
        let deep = "[0]".repeat(DEPTH_MAX);
        assert_eq!(
            legs(&format!("${deep}")).map(|it| it.len()),
            Some(DEPTH_MAX)
        );
        assert_eq!(legs(&format!("${deep}[0]")), None);
        let names = legs("$.ab.\"c d\\n\".é[3][last]").expect("a path");
        let member = |name: &str| Leg::Member(name.to_owned());
        let expected = [
            member("ab"),
            member("c d\n"),
            member("é"),
            Leg::Cell(3),
            Leg::FromEnd(0),
        ];
        assert_eq!(names, expected);
    }
}
