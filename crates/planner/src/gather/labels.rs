//! Names of columns as the client wrote them. An expression without an alias is called by its text, and
//! the text that runs on the scratch server has other names of tables in it.

use sqlparser::ast::{Expr, Query, SelectItem, SetExpr};
use sqltext::{Mode, clauses, ticked};

use crate::text::{Cut, follows_comment};

/// Servers refuse longer aliases.
const LABEL_BYTES_MAX: usize = 200;

/// Aliases for the items of a plain SELECT whose text these cuts change.
pub(crate) fn labels(text: &str, query: &Query, mode: &Mode, cuts: &[Cut]) -> Vec<Cut> {
    let (SetExpr::Select(select), Some(clauses)) = (&*query.body, clauses(text.as_bytes(), mode))
    else {
        return Vec::new();
    };
    if select.projection.len() != clauses.items.len() {
        return Vec::new();
    }
    let label = |(item, span): (&SelectItem, &sqltext::Span)| {
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
        let fits = name.len() <= LABEL_BYTES_MAX && !commented;
        (plain && changes && fits).then(|| ((end, end), format!(" AS {}", ticked(name))))
    };
    let all = select.projection.iter().zip(&clauses.items);
    all.filter_map(label).collect()
}
