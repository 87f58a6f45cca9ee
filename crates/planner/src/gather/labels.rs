//! Names of columns as the client wrote them. An expression without an alias is called by its text, and
//! the text that runs on the scratch server has other names of tables in it.
//!
//! Names show of the outermost query, and of the queries whose rows stand in FROM: of a UNION those of its
//! first SELECT. Nobody sees the names of a query within an expression.

use sqlparser::ast::{Expr, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins};
use sqltext::{Mode, PieceKind, Span, clauses, pieces, ticked};

use crate::text::{Cut, Lines, follows_comment};

/// Servers refuse longer aliases of what the client sees.
const LABEL_BYTES_MAX: usize = 200;

/// The same of columns of a table.
const COLUMN_BYTES_MAX: usize = 60;

/// Where the rows of a SELECT go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Client,
    Table,
}

/// Aliases for the items whose text these cuts change.
pub(crate) fn labels(text: &str, query: &Query, mode: &Mode, cuts: &[Cut]) -> Vec<Cut> {
    let mut shown = Vec::new();
    shown_of(query, To::Client, &mut shown);
    let lines = Lines::new(text);
    let each = shown.into_iter().flat_map(|(select, to)| {
        let items = items(text, select, mode, &lines).unwrap_or_default();
        let all = select.projection.iter().zip(items);
        let all = all.filter_map(|(item, span)| label(text, item, span, to, cuts));
        all.collect::<Vec<Cut>>()
    });
    each.collect()
}

/// The SELECTs of which names show.
fn shown_of<'q>(query: &'q Query, to: To, shown: &mut Vec<(&'q Select, To)>) {
    for table in query.with.iter().flat_map(|with| &with.cte_tables) {
        shown_of(&table.query, To::Table, shown);
    }
    shown_of_body(&query.body, to, true, shown);
}

/// `first`: it gives the names.
fn shown_of_body<'q>(body: &'q SetExpr, to: To, first: bool, shown: &mut Vec<(&'q Select, To)>) {
    match body {
        SetExpr::Select(select) => {
            if first {
                shown.push((select, to));
            }
            select
                .from
                .iter()
                .for_each(|from| shown_of_from(from, shown));
        }
        SetExpr::Query(query) if first => shown_of(query, to, shown),
        SetExpr::SetOperation { left, right, .. } => {
            shown_of_body(left, to, first, shown);
            shown_of_body(right, to, false, shown);
        }
        _ => {}
    }
}

fn shown_of_from<'q>(from: &'q TableWithJoins, shown: &mut Vec<(&'q Select, To)>) {
    let joined = from.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&from.relation).chain(joined) {
        match factor {
            TableFactor::Derived { subquery, .. } => shown_of(subquery, To::Table, shown),
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => shown_of_from(table_with_joins, shown),
            _ => {}
        }
    }
}

/// Where the items of a SELECT stand; `None` where that is not sure.
fn items(text: &str, select: &Select, mode: &Mode, lines: &Lines<'_>) -> Option<Vec<Span>> {
    let start = lines.byte(select.select_token.0.span.start)?;
    let end = end_of(text, start, mode)?;
    let block = &text[start as usize..end as usize];
    let clauses = clauses(block.as_bytes(), mode)?;
    let spans = clauses.items.into_iter().map(|span| Span {
        start: span.start + start,
        end: span.end + start,
    });
    let spans: Vec<Span> = spans.collect();
    (spans.len() == select.projection.len()).then_some(spans)
}

/// Where the SELECT that begins at `start` ends: at the parenthesis around it, or at the next SELECT of a UNION.
fn end_of(text: &str, start: u32, mode: &Mode) -> Option<u32> {
    let all = pieces(text.as_bytes(), mode)?;
    let mut depth = 0usize;
    for piece in all.iter().skip_while(|it| it.span.start < start) {
        let ends = ["UNION", "EXCEPT", "INTERSECT", "MINUS"];
        match piece.kind {
            PieceKind::Open => depth += 1,
            PieceKind::Close if depth == 0 => return Some(piece.span.start),
            PieceKind::Close => depth -= 1,
            _ if depth == 0 && ends.iter().any(|it| piece.is(text.as_bytes(), it)) => {
                return Some(piece.span.start);
            }
            _ => {}
        }
    }
    u32::try_from(text.len()).ok()
}

fn label(text: &str, item: &SelectItem, span: Span, to: To, cuts: &[Cut]) -> Option<Cut> {
    let (start, end) = (span.start as usize, span.end as usize);
    let name = &text[start..end];
    let plain = match item {
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => false,
        SelectItem::UnnamedExpr(_) => true,
        _ => false,
    };
    let changes = cuts
        .iter()
        .any(|((from, to), _)| start <= *from && *to <= end);
    let commented =
        follows_comment(&text[..start]) || ["--", "#", "/*"].iter().any(|it| name.contains(it));
    let most = match to {
        To::Client => LABEL_BYTES_MAX,
        To::Table => COLUMN_BYTES_MAX,
    };
    let fits = name.len() <= most && !commented;
    (plain && changes && fits).then(|| ((end, end), format!(" AS {}", ticked(name))))
}
