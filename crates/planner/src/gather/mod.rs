//! A SELECT over rows that are fetched first: each table that it names becomes a temporary table of
//! the scratch server, filled with the columns and rows that matter, and the statement runs there as
//! it is written but for the names.

mod conditions;
pub(crate) mod cost;
pub(crate) mod fetch;
mod filters;
mod keys;
pub(crate) mod labels;
mod order;
mod pull;
pub(crate) mod reduce;
pub(crate) mod references;
pub(crate) mod same;
mod semijoin;

use sqlparser::ast::Query;
use sqltext::{Dialect, Piece, PieceKind, pieces, spliced, ticked};

use crate::answer::{
    Answer, Asked, Finish, Fragment, Part, Reduced, Reduction, Scratch, Tier, Unanswered,
};
use crate::depth;
use crate::functions;
use crate::parse::{self, Traits};
use crate::text::Cut;
use crate::views;

use references::{Finder, Reference};

/// More tables are not gathered.
const TABLES_MAX: usize = 1000;

pub use cost::{asks_for_sizes, order_by_size};
pub(crate) use pull::{follows_table, locks_rows, pull};

/// Answers a query whose rows are changed afterwards, and which locks nothing by itself.
///
/// # Errors
/// As [`gather`]; or the text is not read.
pub fn to_change(text: &str, asked: &Asked<'_>) -> Result<Answer, Unanswered> {
    depth::fits(text).map_err(|reason| unknown(&reason))?;
    let text = views::expanded(text, asked)?;
    let query = parse::query(&text, asked.mode)
        .map_err(|reason| unknown(&format!("it is not read: {reason}")))?;
    gather(&text, &query, asked)
}

/// Answers a query that is read.
///
/// # Errors
/// A construct is there that is not known, or a shard is disabled.
pub(crate) fn gather(text: &str, query: &Query, asked: &Asked<'_>) -> Result<Answer, Unanswered> {
    let traits = Traits::of(query);
    let mut finder = Finder::new(text, asked, &traits);
    let lock = asked.changing.map(|_| "FOR UPDATE");
    finder
        .query(query, lock)
        .map_err(|what| unknown(&format!("{what} is not known over several groups")))?;
    if let Some(changing) = &asked.changing {
        for reference in &mut finder.found {
            let called = reference.called();
            let target = changing.targets.iter().any(|target| target == called);
            if reference.lock.is_none() || !target {
                reference.lock = changing.shares.then_some("LOCK IN SHARE MODE");
            }
        }
    }
    let Finder {
        found,
        reductions,
        met,
        ..
    } = finder;
    let by = reduce::reduce(&found, &reductions, asked);
    let met: Vec<(usize, usize)> = met.iter().map(|(span, _)| *span).collect();
    let told = Told {
        same: same::same(&found, &by, asked),
        by,
        found: &found,
        met: &met,
        query: Some(query),
    };
    put_together(text, asked, &told, &traits, Tier::Gather)
}

/// What is known of a text whose tables are fetched.
struct Told<'t> {
    found: &'t [Reference],
    /// What reduces each of them.
    by: Vec<Vec<Reduction>>,
    /// For each of them the first one that has the same rows.
    same: Vec<usize>,
    /// Conditions that all fetched rows meet.
    met: &'t [(usize, usize)],
    /// `None` when it is not read.
    query: Option<&'t Query>,
}

fn put_together(
    text: &str,
    asked: &Asked<'_>,
    told: &Told<'_>,
    traits: &Traits,
    tier: Tier,
) -> Result<Answer, Unanswered> {
    let found = told.found;
    if found.len() > TABLES_MAX {
        return Err(unknown(&format!("it names more than {TABLES_MAX} tables")));
    }
    let Some(all) = pieces(text.as_bytes(), asked.mode) else {
        return Err(unknown("the text's quotes are not sure to end"));
    };
    let variables = travels(text, &all)?;
    let met = Met::of(told.met);
    let words = Words {
        names: names(text, &all, &met, asked),
        all_columns: traits.all_columns,
        joined: traits,
        // MySQL looks at it to see what depends on what.
        groups: all.iter().any(|it| it.is(text.as_bytes(), "GROUP")),
        // MySQL cannot open a temporary table twice, as a CTE that is used twice may.
        kept: asked.mode.dialect == Dialect::MySql
            && all.iter().any(|it| it.is(text.as_bytes(), "WITH")),
    };
    let Fetches {
        fragments,
        tables,
        reduced,
        places,
        order,
    } = fetch_each(asked, told, &words)?;
    let names = found.iter().zip(&places);
    let renames = names.map(|(it, at)| renamed(text, &all, asked, it, &tables[*at].name));
    let mut cuts: Vec<Cut> = renames.flatten().collect();
    let every: Vec<&Reference> = found.iter().collect();
    cuts.extend(qualifiers(text, &all, asked, &every));
    cuts.retain(|(place, _)| !met.covers(*place));
    cuts.extend(met.0.iter().map(|place| (*place, "TRUE".to_owned())));
    if let Some(query) = told.query {
        let more = labels::labels(text, query, asked.mode, &cuts);
        cuts.extend(more);
    }
    Ok(Answer {
        tier,
        locks: found.iter().any(|it| it.lock.is_some()),
        clock: false,
        reasons: Vec::new(),
        sending: None,
        otherwise: None,
        fragments,
        finish: Finish::Scratch(Scratch {
            tables,
            text: spliced(text, cuts),
            variables,
            order,
            reduced,
        }),
    })
}

/// What is fetched.
struct Fetches {
    fragments: Vec<Fragment>,
    tables: Vec<Part>,
    reduced: Vec<Reduced>,
    /// For each reference which of these has its rows.
    places: Vec<usize>,
    order: Vec<usize>,
}

fn fetch_each(
    asked: &Asked<'_>,
    told: &Told<'_>,
    words: &Words<'_>,
) -> Result<Fetches, Unanswered> {
    let (mut fragments, mut tables, mut reduced) = (Vec::new(), Vec::new(), Vec::new());
    let (mut places, mut chosen): (Vec<usize>, Vec<&Reference>) = (Vec::new(), Vec::new());
    for (at, reference) in told.found.iter().enumerate() {
        if told.same[at] < at {
            places.push(places[told.same[at]]);
            continue;
        }
        let (fragment, part, spot) = fetch::fetched(asked, reference, words, at)?;
        places.push(fragments.len());
        chosen.push(reference);
        reduced.push(spot);
        fragments.push(fragment);
        tables.push(part);
    }
    for (at, by) in told
        .by
        .iter()
        .enumerate()
        .filter(|(at, _)| told.same[*at] == *at)
    {
        let column = |one: &Reduction| {
            let columns = fetch::chosen(asked, &told.found[one.by], words).ok()?;
            columns.iter().position(|it| ticked(&it.name) == one.from)
        };
        let placed = |one: &Reduction| Reduction {
            by: places[one.by],
            column: column(one),
            ..one.clone()
        };
        reduced[places[at]].by = by.iter().map(placed).collect();
    }
    let order = order::order(&chosen, &fragments, &reduced);
    Ok(Fetches {
        fragments,
        tables,
        reduced,
        places,
        order,
    })
}

fn unknown(reason: &str) -> Unanswered {
    Unanswered::Unknown(reason.to_owned())
}

/// Conditions that all fetched rows meet, as bytes of the text, in its order; no two overlap.
pub(crate) struct Met(pub Vec<(usize, usize)>);

impl Met {
    pub(crate) fn of(met: &[(usize, usize)]) -> Met {
        let mut all = met.to_vec();
        all.sort_unstable();
        all.dedup();
        Met(all)
    }

    /// The bytes are in one of them.
    pub(crate) fn covers(&self, (start, end): (usize, usize)) -> bool {
        let behind = self.0.partition_point(|(from, _)| *from <= start);
        behind.checked_sub(1).is_some_and(|at| end <= self.0[at].1)
    }
}

/// What the text says that every table must be looked at for.
pub(crate) struct Words<'t> {
    /// All names in it, in lower case.
    pub names: std::collections::HashSet<String>,
    pub all_columns: bool,
    pub joined: &'t Traits,
    pub groups: bool,
    pub kept: bool,
}

/// The user variables that are read.
///
/// # Errors
/// It does what only its own connection can do.
fn travels(text: &str, all: &[Piece]) -> Result<Vec<String>, Unanswered> {
    let bytes = text.as_bytes();
    let mut variables = Vec::new();
    for (at, piece) in all.iter().enumerate() {
        let called = all.get(at + 1).is_some_and(|it| it.kind == PieceKind::Open);
        let word = String::from_utf8_lossy(piece.span.of(bytes));
        match piece.kind {
            PieceKind::Operator if word == ":=" => {
                return Err(unknown(
                    "a user variable is set within a SELECT over several groups: set it by itself",
                ));
            }
            PieceKind::SystemVariable => {
                return Err(unknown(&format!(
                    "{word} is read within a SELECT over several groups: read it by itself"
                )));
            }
            PieceKind::UserVariable => {
                let name = word.trim_start_matches('@').to_owned();
                if !variables.contains(&name) {
                    variables.push(name);
                }
            }
            PieceKind::Word | PieceKind::Reserved
                if (called || word.eq_ignore_ascii_case("current_user"))
                    && functions::is_of_session(&word) =>
            {
                return Err(unknown(&format!(
                    "{word} within a SELECT over several groups: ask for it by itself"
                )));
            }
            _ if piece.is(bytes, "INTO") => {
                return Err(unknown(
                    "SELECT … INTO over several groups: fetch the rows and store them by themselves",
                ));
            }
            _ => {}
        }
    }
    Ok(variables)
}

/// Every name that stands in the text but for conditions that all rows meet, in lower case: a column that
/// is none of them is not meant.
pub(crate) fn names(
    text: &str,
    all: &[Piece],
    met: &Met,
    asked: &Asked<'_>,
) -> std::collections::HashSet<String> {
    let matters = |it: &&Piece| !met.covers((it.span.start as usize, it.span.end as usize));
    let bytes = text.as_bytes();
    let name = |piece: &Piece| match piece.kind {
        // Behind a dot even a word of the language is a name.
        PieceKind::Reserved => Some(piece.span.of(bytes).into()),
        _ => piece.name(bytes, asked.mode),
    };
    let names = all.iter().filter(matters).filter_map(name);
    names
        .map(|name| String::from_utf8_lossy(&name).to_lowercase())
        .collect()
}

/// The pieces from this byte on.
fn behind(all: &[Piece], byte: usize) -> &[Piece] {
    &all[all.partition_point(|piece| (piece.span.start as usize) < byte)..]
}

/// Puts the scratch table in place of the table, and takes its index hints away.
pub(crate) fn renamed(
    text: &str,
    all: &[Piece],
    asked: &Asked<'_>,
    reference: &Reference,
    name: &str,
) -> Vec<Cut> {
    let bytes = text.as_bytes();
    let alias = match &reference.alias {
        Some(_) => String::new(),
        None => format!(" AS {}", ticked(&reference.table)),
    };
    let mut cuts = vec![(reference.span, format!("{name}{alias}"))];
    let mut rest = behind(all, reference.span.1).iter().peekable();
    if let Some(alias) = &reference.alias {
        rest.next_if(|piece| piece.is(bytes, "AS"));
        rest.next_if(|piece| {
            piece
                .name(bytes, asked.mode)
                .is_some_and(|it| *it == *alias.as_bytes())
        });
    }
    while let Some(first) = rest.next_if(|piece| {
        ["USE", "FORCE", "IGNORE"]
            .iter()
            .any(|word| piece.is(bytes, word))
    }) {
        let last = rest.find(|piece| piece.kind == PieceKind::Close);
        let end = last.map_or(first.span.end, |last| last.span.end);
        cuts.push(((first.span.start as usize, end as usize), " ".to_owned()));
        rest.next_if(|piece| piece.kind == PieceKind::Comma);
    }
    cuts
}

/// `database.table.column` becomes `table.column`, since the scratch table is in another database.
pub(crate) fn qualifiers(
    text: &str,
    all: &[Piece],
    asked: &Asked<'_>,
    found: &[&Reference],
) -> Vec<Cut> {
    let bytes = text.as_bytes();
    let mut cuts = Vec::new();
    for window in all.windows(4) {
        let [database, dot, table, second] = window else {
            continue;
        };
        if dot.kind != PieceKind::Dot || second.kind != PieceKind::Dot {
            continue;
        }
        let name = |piece: &Piece| {
            let name = piece.name(bytes, asked.mode)?;
            Some(String::from_utf8_lossy(&name).into_owned())
        };
        let (Some(database_name), Some(table_name)) = (name(database), name(table)) else {
            continue;
        };
        let is = |it: &&Reference| it.database == database_name && it.called() == table_name;
        if found.iter().any(is) {
            let span = (database.span.start as usize, table.span.start as usize);
            cuts.push((span, String::new()));
        }
    }
    cuts
}
