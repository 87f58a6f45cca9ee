//! How a statement over several groups is carried out, as a tree: what runs where, with what it is thought
//! to cost and, where it was run, what it took. As lines for people, and as JSON.
//!
//! Pure: who asks the servers and runs the statement is not known here.

use std::time::Duration;

use planner::{Answer as Planned, Estimate, Finish, Sending};
use serde_json::{Map, Value};

/// A step and those in front of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Node {
    /// Where: groups, the scratch server, the router.
    pub place: String,
    pub does: String,
    /// What is sent there.
    pub sql: Option<String>,
    /// So much it is thought to give.
    pub expected: Option<Estimate>,
    pub took: Option<Took>,
    /// Why nothing better will do.
    pub reason: Option<String>,
    /// What would help, each by itself.
    pub cures: Vec<String>,
    /// What else to know.
    pub note: Option<String>,
    pub before: Vec<Node>,
}

/// What a step took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Took {
    pub rows: u64,
    /// Of the rows.
    pub bytes: u64,
    pub time: Option<Duration>,
}

/// A row of the table that EXPLAIN answers with.
pub type Row = [String; 5];

/// What is known of a statement besides how it is carried out.
#[derive(Clone, Default)]
pub(crate) struct Facts {
    /// What each row of the table is thought to give.
    pub expected: Vec<Option<Estimate>>,
    pub cures: Vec<String>,
    pub note: Option<String>,
    pub ran: Option<Ran>,
}

/// What each group took, by its name.
pub(crate) type TookByGroup = Vec<(String, Took)>;

/// What a run took.
#[derive(Clone, Default)]
pub(crate) struct Ran {
    pub whole: Took,
    /// By the places of the fragments, those of tables that are sent first: what each group of them took, and the
    /// time of all.
    pub fetches: Vec<(usize, TookByGroup, Duration)>,
    /// The groups that sent rows of a statement that is not gathered.
    pub parts: TookByGroup,
}

/// The tree of a statement with these rows.
pub(crate) fn tree(rows: &[Row], planned: Option<&Planned>, facts: &Facts) -> Node {
    let sending = planned.and_then(|planned| planned.sending.as_deref());
    let sent = sending.map_or(0, |it| it.fragments.len()).min(rows.len());
    let (first, rest) = rows.split_at(sent);
    let of_rest = facts.behind(sent);
    let mut root = match planned.map(|planned| (planned, &planned.finish)) {
        Some((planned, Finish::Scratch(_))) => gathered(rest, planned, &of_rest),
        _ => plain(rest, &of_rest),
    };
    if let Some(sending) = sending {
        let mut steps = broadcasts(first, sending, facts);
        let mut at = &mut root;
        // The step that the groups do, below those of the router and the scratch server.
        while at.before.first().is_some_and(|it| it.sql.is_some()) {
            at = &mut at.before[0];
        }
        steps.append(&mut at.before);
        at.before = steps;
        if matches!(planned.map(|it| &it.finish), Some(Finish::Merge(_))) {
            root.cures.clone_from(&facts.cures);
        }
    }
    root.note.clone_from(&facts.note);
    root.took = facts.ran.as_ref().map(|ran| ran.whole);
    root
}

impl Facts {
    /// Those of what comes behind so many fragments.
    fn behind(&self, count: usize) -> Facts {
        let mut rest = self.clone();
        rest.expected.drain(..count.min(rest.expected.len()));
        if let Some(ran) = &mut rest.ran {
            ran.fetches.retain(|(of, ..)| *of >= count);
            ran.fetches.iter_mut().for_each(|(of, ..)| *of -= count);
        }
        rest
    }

    /// What a fragment took, of all groups and of each.
    fn fetched(&self, fragment: usize) -> (Option<Took>, Vec<Node>) {
        let ran = self.ran.as_ref();
        let fetch = ran.and_then(|ran| ran.fetches.iter().find(|(of, ..)| *of == fragment));
        let took = fetch.map(|(_, parts, time)| Took {
            time: Some(*time),
            ..sum(parts)
        });
        let several = fetch.filter(|(_, parts, _)| parts.len() > 1);
        (took, several.map_or(Vec::new(), |(_, parts, _)| parts.iter().map(part).collect()))
    }
}

/// The tables that are sent to the groups first.
fn broadcasts(rows: &[Row], sending: &Sending, facts: &Facts) -> Vec<Node> {
    let step = |(at, [way, groups, sql, then, _]): (usize, &Row)| {
        let (took, before) = facts.fetched(at);
        Node {
            place: place(groups),
            does: format!("{way} {}: {then}", at + 1),
            sql: Some(sql.clone()),
            expected: sending.expected.get(at).copied(),
            took,
            before,
            ..Node::default()
        }
    };
    rows.iter().enumerate().map(step).collect()
}

/// Every row is a part of the whole.
fn plain(rows: &[Row], facts: &Facts) -> Node {
    let [tier, _, _, then, reason] = rows.first().cloned().unwrap_or_default();
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    if tier == "refused" {
        return Node {
            place: "router".to_owned(),
            does: "refuses the statement".to_owned(),
            reason: some(reason),
            ..Node::default()
        };
    }
    let step = |(at, [tier, groups, sql, ..]): (usize, &Row)| Node {
        place: place(groups),
        does: match &**tier {
            "one group" | "pushed" => "the whole statement",
            "several steps" => "the statement, step by step",
            _ => "its part of the statement",
        }
        .to_owned(),
        sql: Some(sql.clone()),
        expected: facts.expected.get(at).copied().flatten(),
        before: match facts.ran.as_ref().filter(|_| rows.len() == 1) {
            Some(ran) => ran.parts.iter().map(part).collect(),
            None => Vec::new(),
        },
        ..Node::default()
    };
    Node {
        place: "router".to_owned(),
        does: then,
        reason: some(reason),
        before: rows.iter().enumerate().map(step).collect(),
        ..Node::default()
    }
}

fn gathered(rows: &[Row], planned: &Planned, facts: &Facts) -> Node {
    let Finish::Scratch(scratch) = &planned.finish else {
        return plain(rows, facts);
    };
    let fetch = |(place_of, &at): (usize, &usize)| {
        let [_, groups, sql, ..] = rows.get(at).cloned().unwrap_or_default();
        let (took, before) = facts.fetched(at);
        Node {
            place: place(&groups),
            does: match (facts.ran.is_some(), took.is_some()) {
                (true, false) => {
                    format!("fetch {}: nothing, no row of it could matter", place_of + 1)
                }
                _ => format!("fetch {}, into {}", place_of + 1, scratch.tables[at].name),
            },
            sql: Some(sql),
            expected: facts.expected.get(at).copied().flatten(),
            took,
            before,
            ..Node::default()
        }
    };
    let then = rows.first().map(|row| row[3].clone()).unwrap_or_default();
    let count = scratch.tables.len();
    let time = facts.ran.as_ref().and_then(|ran| {
        let fetching: Duration = ran.fetches.iter().map(|(.., time)| *time).sum();
        Some(ran.whole.time?.saturating_sub(fetching))
    });
    let reason = planned.reasons.join("; ");
    let work = Node {
        place: "scratch server".to_owned(),
        does: format!("the statement over {count} temporary tables"),
        sql: Some(scratch.text.clone()),
        took: facts.ran.as_ref().map(|ran| Took { time, ..ran.whole }),
        reason: Some(reason).filter(|reason| !reason.is_empty()),
        cures: facts.cures.clone(),
        before: scratch.order.iter().enumerate().map(fetch).collect(),
        ..Node::default()
    };
    Node {
        place: "router".to_owned(),
        does: match then == scratch.text {
            true => "the rows are passed on".to_owned(),
            false => then,
        },
        before: vec![work],
        ..Node::default()
    }
}

fn part((group, took): &(String, Took)) -> Node {
    Node {
        place: group.clone(),
        does: "its rows".to_owned(),
        took: Some(*took),
        ..Node::default()
    }
}

fn sum(parts: &[(String, Took)]) -> Took {
    parts.iter().fold(Took::default(), |all, (_, one)| Took {
        rows: all.rows + one.rows,
        bytes: all.bytes + one.bytes,
        time: None,
    })
}

fn place(groups: &str) -> String {
    match groups {
        "" => "router".to_owned(),
        groups => groups.replace(',', ", "),
    }
}

/// The tree in lines, each step below the one that it is done for.
pub(crate) fn lines(root: &Node) -> Vec<String> {
    let mut lines = Vec::new();
    put_lines(root, 0, &mut lines);
    lines
}

fn put_lines(node: &Node, depth: usize, lines: &mut Vec<String>) {
    let margin = "    ".repeat(depth);
    let mut first = format!("{margin}-> {}: {}", node.place, node.does);
    if let Some(Estimate {
        rows,
        bytes,
        source,
    }) = node.expected
    {
        let bytes = bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes"));
        first += &format!("  (about {rows} rows{bytes}, {source})");
    }
    if let Some(took) = node.took {
        first += &format!("  (actual rows={} bytes={}", took.rows, took.bytes);
        if let Some(time) = took.time {
            first += &format!(" time={:.3} ms", time.as_secs_f64() * 1000.0);
        }
        first.push(')');
    }
    lines.push(first);
    let mut more = |name: &str, text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        lines.push(format!("{margin}   {name}{text}"));
    };
    if let Some(sql) = node.sql.as_deref().filter(|sql| !sql.is_empty()) {
        more("", sql);
    }
    if let Some(reason) = &node.reason {
        more("reason: ", reason);
    }
    if !node.cures.is_empty() {
        more("cure: ", &node.cures.join(", or "));
    }
    if let Some(note) = &node.note {
        more("note: ", note);
    }
    for one in &node.before {
        put_lines(one, depth + 1, lines);
    }
}

/// The tree as a JSON object.
pub(crate) fn json(root: &Node) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    put("place", root.place.as_str().into());
    put("does", root.does.as_str().into());
    if let Some(sql) = &root.sql {
        put("sql", sql.as_str().into());
    }
    if let Some(expected) = root.expected {
        put("rows", expected.rows.into());
        if let Some(bytes) = expected.bytes {
            put("bytes", bytes.into());
        }
        put("rows_from", expected.source.to_string().into());
    }
    if let Some(took) = root.took {
        put("actual_rows", took.rows.into());
        put("actual_bytes", took.bytes.into());
        if let Some(time) = took.time {
            put("actual_ms", (time.as_secs_f64() * 1000.0).into());
        }
    }
    if let Some(reason) = &root.reason {
        put("reason", reason.as_str().into());
    }
    if !root.cures.is_empty() {
        put("cures", root.cures.clone().into());
    }
    if let Some(note) = &root.note {
        put("note", note.as_str().into());
    }
    if !root.before.is_empty() {
        put("steps", root.before.iter().map(json).collect());
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use planner::Source;

    fn row(cells: [&str; 5]) -> Row {
        cells.map(str::to_owned)
    }

    #[test]
    fn what_is_pushed_shows_each_group() {
        let rows = [row([
            "pushed",
            "g1,g2",
            "SELECT  1\nFROM t",
            "rows are appended",
            "",
        ])];
        let took = |rows| Took {
            rows,
            bytes: rows * 2,
            time: None,
        };
        let mut facts = Facts {
            expected: vec![Some(Estimate {
                rows: 9,
                bytes: None,
                source: Source::Statistics,
            })],
            note: Some("a note".to_owned()),
            ..Facts::default()
        };
        let text = lines(&tree(&rows, None, &facts));
        let expected = [
            "-> router: rows are appended",
            "   note: a note",
            "    -> g1, g2: the whole statement  (about 9 rows, statistics)",
            "       SELECT 1 FROM t",
        ];
        assert_eq!(text, expected);
        facts.ran = Some(Ran {
            whole: Took {
                time: Some(Duration::from_micros(1500)),
                ..took(5)
            },
            parts: vec![("g1".to_owned(), took(2)), ("g2".to_owned(), took(3))],
            ..Ran::default()
        });
        let tree = tree(&rows, None, &facts);
        let text = lines(&tree);
        assert_eq!(text[0], "-> router: rows are appended  (actual rows=5 bytes=10 time=1.500 ms)");
        assert_eq!(text[5], "        -> g2: its rows  (actual rows=3 bytes=6)");
        let json = json(&tree);
        assert_eq!(json["steps"][0]["steps"][0]["actual_rows"], 2);
        assert_eq!(json["steps"][0]["rows"], 9);
        assert_eq!(json["steps"][0]["rows_from"], "statistics");
        assert_eq!(json["actual_ms"], 1.5);
    }

    #[test]
    fn what_is_refused_says_why() {
        let rows = [row(["refused", "", "", "", "it cannot be"])];
        let text = lines(&tree(&rows, None, &Facts::default()));
        assert_eq!(
            text,
            [
                "-> router: refuses the statement",
                "   reason: it cannot be"
            ]
        );
    }
}
