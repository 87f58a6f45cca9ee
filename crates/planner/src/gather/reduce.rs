//! Which rows of a table cannot meet any row of another one that is there already: columns that a
//! statement compares so that rows without an equal are never seen.
//!
//! Values go from one server to another as literals, so they are only of types that mean the same
//! there: integers, dates, text of one collation.

use farm::sharding::{Column, Placed, TableSchema};
use sqlparser::ast::{BinaryOperator, Expr, SelectItem, SetExpr};
use sqltext::ticked;

use super::filters::called;
use super::references::{Block, Finder, Reference};
use super::semijoin::Semijoins;
use crate::answer::{Asked, Passed, Reduction};
use crate::columns::charset;
use crate::parse::conjuncts;

/// A reference, and a column of it.
pub(crate) type Side = (usize, String);

/// Equal columns.
type Pair = [Side; 2];

/// How the values of two columns pass; `None` when equal values may be written differently.
pub(super) fn passed(one: &Column, other: &Column) -> Option<Passed> {
    const WHOLE: [&str; 6] = [
        "tinyint",
        "smallint",
        "mediumint",
        "int",
        "integer",
        "bigint",
    ];
    let whole = |column: &Column| WHOLE.contains(&&*column.data_type);
    if whole(one) && whole(other) {
        return Some(Passed::Number);
    }
    let text = |column: &Column| matches!(&*column.data_type, "char" | "varchar");
    if text(one) && text(other) && one.collation == other.collation {
        return Some(Passed::Text(charset(one)?));
    }
    let dates = &*one.data_type == "date" && &*other.data_type == "date";
    dates.then_some(Passed::Date)
}

/// Tells what reduces each reference: `by` are places of references. Rows that are to be locked stay.
pub(crate) fn reduce(
    found: &[Reference],
    pairs: &[(Side, Side)],
    asked: &Asked<'_>,
) -> Vec<Vec<Reduction>> {
    let mut all = vec![Vec::new(); found.len()];
    let column = |at: usize, name: &str| {
        let (database, table) = (&found[at].database, &found[at].table);
        let schema = asked.sharding.schema(database, table)?;
        Some(&schema.columns[schema.column(name)?])
    };
    let semijoins = Semijoins::of(found, pairs, asked);
    for ((target, to), (by, from)) in pairs {
        let (target, by) = (*target, *by);
        let (Some(theirs), Some(own)) = (column(by, from), column(target, to)) else {
            continue;
        };
        // A write locks what it changes, and no more than it must.
        let may = found[target].lock.is_none() || asked.changing.is_some();
        let Some(passed) = passed(own, theirs).filter(|_| may) else {
            continue;
        };
        let reference = &found[target];
        let placed = asked.sharding.placed(&reference.database, &reference.table);
        let is_key =
            matches!(placed, Placed::Sharded(table) if table.column.eq_ignore_ascii_case(to));
        let reduction = Reduction {
            by,
            from: ticked(&theirs.name),
            column: None,
            to: format!("{}.{}", ticked(reference.called()), ticked(&own.name)),
            passed,
            is_key,
            there: semijoins.condition((target, to), (by, from)),
        };
        if !all[target].contains(&reduction) {
            all[target].push(reduction);
        }
    }
    all
}

impl Finder<'_> {
    /// Takes note of the equal columns that a condition demands. Not for one of an outer join: beside
    /// it rows came that one server does not give.
    pub(super) fn equals(&mut self, condition: &Expr) {
        for pair in self.demanded(condition) {
            self.pair(pair);
        }
    }

    /// The columns that are equal wherever a condition is true; of an OR, those that are so in each
    /// branch.
    fn demanded(&self, condition: &Expr) -> Vec<Pair> {
        use BinaryOperator::{And, Eq, Or};
        match condition {
            Expr::Nested(inner) => self.demanded(inner),
            Expr::BinaryOp { left, op, right } => match op {
                And => {
                    let mut all = self.demanded(left);
                    all.extend(self.demanded(right));
                    all
                }
                Or => {
                    let mut all = self.demanded(left);
                    if !all.is_empty() {
                        let others = self.demanded(right);
                        let same = |[one, other]: &Pair| {
                            others
                                .iter()
                                .any(|it| it[..] == [one.clone(), other.clone()])
                                || others
                                    .iter()
                                    .any(|it| it[..] == [other.clone(), one.clone()])
                        };
                        all.retain(same);
                    }
                    all
                }
                Eq => {
                    let both = self.meant(left).zip(self.meant(right));
                    both.map(|(left, right)| [left, right])
                        .into_iter()
                        .collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn pair(&mut self, pair: Pair) {
        let [(one, _), (other, _)] = &pair;
        if one == other {
            return;
        }
        // What a block around is compared with here does not choose its rows.
        let both = [self.is_here(*one), self.is_here(*other)];
        let [left, right] = pair;
        if both[0] {
            self.reductions.push((left.clone(), right.clone()));
        }
        if both[1] {
            self.reductions.push((right, left));
        }
    }

    /// It is a table of the innermost block.
    fn is_here(&self, at: usize) -> bool {
        let block = self.scopes.last().and_then(Option::as_ref);
        block.is_some_and(|block| block.own.iter().any(|(own, _)| *own == at))
    }

    /// `column IN (SELECT column FROM …)`: rows of the first matter only where the second has an equal.
    pub(super) fn within(&mut self, condition: &Expr) {
        for part in conjuncts(condition) {
            let Expr::InSubquery {
                expr,
                subquery,
                negated: false,
            } = part
            else {
                continue;
            };
            let (SetExpr::Select(select), None) = (&*subquery.body, &subquery.with) else {
                continue;
            };
            let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
                &select.projection[..]
            else {
                continue;
            };
            // The tables of the query inside have been found by now.
            let inner = self.blocks.get(&select.select_token.0.span.start);
            let inner = inner.and_then(|block| column_in(item, block, &self.found));
            if let (Some(left), Some(right)) = (self.meant(expr), inner)
                && self.is_here(left.0)
            {
                self.reductions.push((left, right));
            }
        }
    }

    /// JOIN … USING: columns of one name, of references from `first` on and from `right` on.
    pub(super) fn using(&mut self, column: &str, block: &Block<'_>, right: usize) {
        let has = |(at, schema): &(usize, Option<&TableSchema>)| {
            schema
                .is_none_or(|it| it.column(column).is_some())
                .then_some((*at, schema.is_some()))
        };
        let having: Vec<(usize, bool)> = block.own.iter().filter_map(has).collect();
        if let [(one, true), (other, true)] = having[..]
            && !block.others
            && (one < right) != (other < right)
        {
            let side = |at| (at, column.to_owned());
            self.pair([side(one), side(other)]);
        }
    }

    /// The column of a table that an expression is, of this block or of one around.
    fn meant(&self, expr: &Expr) -> Option<(usize, String)> {
        for scope in self.scopes.iter().rev() {
            let scope = scope.as_ref()?;
            match look_up(expr, scope, &self.found)? {
                Found::Here(found) => return Some(found),
                Found::NotHere => {}
            }
        }
        None
    }
}

enum Found {
    Here((usize, String)),
    NotHere,
}

/// The column among a block's; `None` when it is not sure.
fn look_up(expr: &Expr, block: &Block<'_>, found: &[Reference]) -> Option<Found> {
    match expr {
        Expr::Nested(inner) => look_up(inner, block, found),
        Expr::Identifier(column) => {
            if block.others {
                return None;
            }
            let mut having = Vec::new();
            for (at, schema) in &block.own {
                let schema: &TableSchema = (*schema)?;
                if schema.column(&column.value).is_some() {
                    having.push(*at);
                }
            }
            match having[..] {
                [] => Some(Found::NotHere),
                [at] => Some(Found::Here((at, column.value.clone()))),
                _ => None,
            }
        }
        Expr::CompoundIdentifier(path) => {
            let (column, table) = path.split_last()?;
            match called(found, block, table)[..] {
                [at] => Some(Found::Here((at, column.value.clone()))),
                [] if !block.others => Some(Found::NotHere),
                _ => None,
            }
        }
        _ => None,
    }
}

fn column_in(expr: &Expr, block: &Block<'_>, found: &[Reference]) -> Option<(usize, String)> {
    match look_up(expr, block, found)? {
        Found::Here(found) => Some(found),
        Found::NotHere => None,
    }
}
