//! A SELECT that every shard runs whole: the original text with hidden columns behind those of the
//! client, and a merge of what the shards send.

mod alone;
mod derived;
mod grouping;
mod groups;
mod kinds;
mod lists;
mod names;
mod parted;
mod partial;
mod partition;
mod scale;
mod shape;
mod view;

use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value, Visit,
};
use sqltext::{Clauses, Span, clauses, ticked};

use crate::answer::{Answer, Asked, By, Finish, Fragment, Merging, Order, Tier, Unanswered};
use crate::merge::{Aggregate, Comparison};
use crate::parse::{self, Traits};
use crate::shards;
use crate::text::Lines;

use names::alike;
use partition::Partition;
use shape::{Travels, Uses};

pub(crate) use alone::answers_alone;
pub(crate) use view::sharded_view;

/// Derived tables of derived tables are merged so often.
const DERIVED_MAX: usize = 4;

/// Why a SELECT is not pushed.
pub(crate) enum Not {
    /// Another way may do.
    Known(String),
    /// No way will.
    Unanswered(Unanswered),
}

impl From<String> for Not {
    fn from(reason: String) -> Not {
        Not::Known(reason)
    }
}

/// A SELECT and what is known of it.
pub(super) struct Read<'a> {
    text: &'a str,
    clauses: &'a Clauses,
    select: &'a Select,
    partition: Partition<'a>,
    lines: Lines<'a>,
    /// The expressions of ORDER BY.
    ordered: &'a [&'a Expr],
}

/// What is put into the text. Nothing in it is found by a name that could be an item's and a column's:
/// see [`Read::ordered_by`].
#[derive(Default)]
pub(super) struct Additions {
    hidden: Vec<String>,
    /// How the hidden columns of groups are merged.
    parts: Vec<Aggregate>,
    /// What else to order by, behind what is there.
    orders: Vec<String>,
    /// They stand in place of those that are there.
    replaces_orders: bool,
    /// Groups are chosen by their wholes: shards leave none out.
    whole_groups: bool,
    /// Of the rows that a shard sends several may become one: its LIMIT would leave out too many.
    unlimited: bool,
    merging: Merging,
}

/// What rows are ordered or grouped by.
#[derive(Clone, Copy)]
pub(super) struct Sorted<'e> {
    expr: &'e Expr,
    text: &'e str,
    /// The item of the select list that it is.
    item: Option<usize>,
}

impl Additions {
    /// Rows that are equal for the client may differ in a hidden column.
    fn tells_equals_apart(&self) -> bool {
        let padded = |order: &Order| {
            order.comparison == Comparison::Padded && matches!(order.by, By::Hidden(_))
        };
        self.merging.order.iter().any(padded)
    }

    /// Takes up how the hidden columns are merged, behind the client's.
    fn finish_groups(&mut self) {
        self.merging.aggregates.append(&mut self.parts);
    }
}

/// Answers a query by pushing it, as it is written or with its derived table merged.
///
/// # Errors
/// Why not.
pub(crate) fn push(text: &str, query: &Query, asked: &Asked<'_>) -> Result<Answer, Not> {
    push_merged(text, query, asked, DERIVED_MAX)
}

/// `left`: so many derived tables more may be merged.
fn push_merged(text: &str, query: &Query, asked: &Asked<'_>, left: usize) -> Result<Answer, Not> {
    let pushed = push_written(text, query, asked);
    if left == 0 || !matches!(pushed, Err(Not::Known(_))) {
        return pushed;
    }
    let Some(text) = derived::merged(text, query, asked.mode) else {
        return pushed;
    };
    match parse::query(&text, asked.mode) {
        Ok(query) => push_merged(&text, &query, asked, left - 1),
        Err(_) => pushed,
    }
}

fn push_written(text: &str, query: &Query, asked: &Asked<'_>) -> Result<Answer, Not> {
    let clauses =
        clauses(text.as_bytes(), asked.mode).ok_or_else(|| "it is no plain SELECT".to_owned())?;
    let (SetExpr::Select(select), None) = (&*query.body, &query.with) else {
        return Err(Not::Known("it is no plain SELECT".to_owned()));
    };
    if Traits::of(query).binds_oddly {
        return Err(Not::Known("it has XOR or ||".to_owned()));
    }
    if parse::calls_apart(text, asked.mode) {
        let why = "a function's name stands apart from its parenthesis: it may be a stored one";
        return Err(Not::Known(why.to_owned()));
    }
    let travels = Travels::of(query);
    if let Some(reason) = travels.stays {
        return Err(Not::Known(reason));
    }
    let ordered = orders(query)?;
    let mut read = Read {
        ordered: &ordered,
        text,
        clauses: &clauses,
        select,
        partition: Partition::of(select, asked)?,
        lines: Lines::new(text),
    };
    let agreed = read.agree(query);
    let groups = shards::groups(text, asked).map_err(Not::Unanswered)?;
    let additions = match agreed.and_then(|()| read.additions(query)) {
        Ok(additions) => additions,
        Err(why) if groups.len() > 1 && !travels.clock && read.has_groups() => {
            let partial = read.partial(query, groups, asked, why.clone());
            return partial.map_err(|more| Not::Known(join(&why, &more)));
        }
        Err(why) => return Err(Not::Known(why)),
    };
    let (tier, text, merging) = match groups.len() {
        0 | 1 => (Tier::One, text.to_owned(), Merging::default()),
        _ => {
            let (text, merging) = read.made(additions)?;
            (Tier::Push, text, merging)
        }
    };
    let any = groups.is_empty();
    let groups = match any {
        // No row can be meant; one shard says it as well as all.
        true => read.partition.all_groups(),
        false => groups,
    };
    Ok(Answer {
        tier,
        fragments: vec![Fragment { text, groups, any }],
        finish: Finish::Merge(merging),
        locks: !query.locks.is_empty(),
        clock: travels.clock,
        reasons: Vec::new(),
        sending: None,
        otherwise: None,
    })
}

/// Two reasons, which may be the same.
fn join(why: &str, more: &str) -> String {
    match why == more {
        true => why.to_owned(),
        false => format!("{why}; {more}"),
    }
}

impl Read<'_> {
    /// Rows become groups.
    fn has_groups(&self) -> bool {
        !self.clauses.groups.is_empty() || Uses::of_block(self.select).aggregates
    }

    /// The parser and the tokenizer see the same clauses.
    fn agree(&mut self, query: &Query) -> Result<(), String> {
        let orders = orders(query)?;
        for order in &orders {
            let order: &Expr = order;
            let mut queries = parse::Inner::default();
            let _ = order.visit(&mut queries);
            for query in queries.found {
                self.partition.inner(None, &query)?;
            }
        }
        let agree = self.select.projection.len() == self.clauses.items.len()
            && orders.len() == self.clauses.orders.len()
            && self.groups()?.len() == self.clauses.groups.len();
        match agree {
            true => Ok(()),
            false => Err("its clauses are not sure".to_owned()),
        }
    }

    fn groups(&self) -> Result<&[Expr], String> {
        match &self.select.group_by {
            GroupByExpr::Expressions(groups, modifiers) if modifiers.is_empty() => Ok(groups),
            _ => Err("GROUP BY … WITH ROLLUP".to_owned()),
        }
    }

    fn additions(&self, query: &Query) -> Result<Additions, String> {
        let orders = orders(query)?;
        let uses = Uses::of_block(self.select);
        let sorted = Uses::of(&query.order_by);
        if uses.odd_windows || sorted.odd_windows || !self.select.named_window.is_empty() {
            return Err("it has named windows".to_owned());
        }
        let of_shard = |keys: &Vec<Expr>| keys.iter().any(|it| self.partition.is_live_key(it));
        if !uses.windows.iter().chain(&sorted.windows).all(of_shard) {
            return Err("a window is not divided by the shard key".to_owned());
        }
        let groups = self.groups()?;
        let grouped = !groups.is_empty() || uses.aggregates || sorted.aggregates;
        let mut by_key = false;
        for group in groups {
            by_key |= self.partition.is_live_key(self.meant_by_group(group)?.0);
        }
        let distinct = match &self.select.distinct {
            None | Some(Distinct::All) => false,
            Some(Distinct::Distinct) => true,
            Some(_) => return Err("a form of DISTINCT that is not known".to_owned()),
        };
        let has_key =
            |item: &SelectItem| expr_of(item).is_some_and(|it| self.partition.is_live_key(it));
        let distinct_by_key = self.select.projection.iter().any(has_key);
        let mut additions = match (grouped && !by_key, distinct) {
            (true, false) => self.merged_groups(groups, &orders)?,
            (false, true) if distinct_by_key => {
                let sorted = self.sorted(&orders, true);
                sorted.or_else(|_| self.merged_distinct(&orders))?
            }
            (false, true) => self.merged_distinct(&orders)?,
            (_, false) => self.sorted(&orders, false)?,
            (true, true) => return Err("DISTINCT over groups".to_owned()),
        };
        self.limited(&mut additions.merging)?;
        Ok(additions)
    }

    /// Rows as they are, in the statement's order.
    fn sorted(&self, orders: &[&Expr], distinct: bool) -> Result<Additions, String> {
        let mut additions = Additions::default();
        for (at, order) in orders.iter().enumerate() {
            let (span, descending) = self.clauses.orders[at];
            let sorted = match self.item_meant(order)? {
                Some(item) => self.sorted_item(item)?,
                None if distinct => {
                    return Err("DISTINCT is ordered by what is not selected".to_owned());
                }
                None => {
                    self.no_alias(order)?;
                    Sorted {
                        expr: order,
                        text: self.piece(span)?,
                        item: None,
                    }
                }
            };
            if !is_constant(sorted.expr) {
                self.order(&mut additions, sorted, descending)?;
            }
        }
        match distinct && additions.tells_equals_apart() {
            true => Err("equal texts have several weights".to_owned()),
            false => Ok(additions),
        }
    }

    /// An item of the select list, by which rows are ordered.
    fn sorted_item(&self, at: usize) -> Result<Sorted<'_>, String> {
        Ok(Sorted {
            expr: self.item(at)?,
            text: self.item_text(at)?,
            item: Some(at),
        })
    }

    /// Orders the merge by an expression: by the column that the client sees, where that tells its
    /// order, else by a hidden one.
    fn order(
        &self,
        additions: &mut Additions,
        sorted: Sorted<'_>,
        descending: bool,
    ) -> Result<(), String> {
        let Sorted { expr, text, item } = sorted;
        let kind = kinds::of(&self.partition.names, expr);
        let (column, comparison) = kind
            .and_then(|kind| kinds::key(kind, text))
            .ok_or_else(|| format!("how {text} is ordered is not known"))?;
        let by = match item.filter(|_| column == text && !self.is_wild()) {
            Some(item) => By::Shown(item),
            None => {
                additions.hidden.push(column);
                additions.parts.push(Aggregate::First);
                By::Hidden(additions.hidden.len() - 1)
            }
        };
        additions.merging.order.push(Order {
            by,
            comparison,
            descending,
        });
        Ok(())
    }

    /// What stands in ORDER BY for the last column of the merge's order. The number of an item is sure:
    /// a name may be another item's; of an expression written twice a server may lose rows (`SELECT
    /// DISTINCT IF(s > 'a', k, 0) … ORDER BY IF(s > 'a', k, 0)` does on MariaDB 10.11 and MySQL 8.0). A
    /// column that is no item stands with its table, so that an index can serve.
    fn ordered_by(&self, additions: &Additions, sorted: Sorted<'_>) -> String {
        let shown = self.select.projection.len();
        let named = || self.partition.names.qualified(sorted.expr);
        let last = additions.merging.order.last().map(|it| it.by.place(shown));
        match sorted.item {
            Some(item) => (item + 1).to_string(),
            None => named().unwrap_or_else(|| (last.unwrap_or_default() + 1).to_string()),
        }
    }

    /// A name that the client's text does not have.
    fn own_name(&self, at: usize) -> String {
        let mut name = "heddle ".to_owned();
        while self.text.contains(&name) {
            name.insert(0, '_');
        }
        ticked(&format!("{name}{at}"))
    }

    /// It selects `*`: where the columns behind it stand is not known here.
    fn is_wild(&self) -> bool {
        self.select
            .projection
            .iter()
            .any(|it| expr_of(it).is_none())
    }

    /// The item of the select list that an expression of ORDER BY means, by number or by name.
    fn item_meant(&self, order: &Expr) -> Result<Option<usize>, String> {
        let items = &self.select.projection;
        if let Expr::Value(value) = order
            && let Value::Number(digits, _) = &value.value
        {
            let at = digits
                .parse::<usize>()
                .ok()
                .and_then(|it| it.checked_sub(1));
            return match at.filter(|at| *at < items.len() && !self.is_wild()) {
                Some(at) => Ok(Some(at)),
                None => Err("it is ordered by a number that is not clear".to_owned()),
            };
        }
        let named = |item: &SelectItem| match (item, order) {
            (SelectItem::ExprWithAlias { alias, .. }, Expr::Identifier(name)) => {
                alike(&alias.value, &name.value)
            }
            (SelectItem::UnnamedExpr(expr), _) => self.same(expr, order),
            _ => false,
        };
        let mut meant = (0..items.len()).filter(|at| named(&items[*at]));
        let first = meant.next();
        let same = |at: usize| expr_of(&items[at]) == first.and_then(|it| expr_of(&items[it]));
        match meant.all(same) {
            true => Ok(first),
            false => Err("it is ordered by the name of several items".to_owned()),
        }
    }

    /// Both are the same expression, or the same column.
    fn same(&self, one: &Expr, other: &Expr) -> bool {
        let names = &self.partition.names;
        let column = |expr: &Expr| names.column(expr).map(|(at, it)| (at, it.name.clone()));
        let columns = (column(one), column(other));
        one == other || matches!(columns, (Some(one), Some(other)) if one == other)
    }

    fn item(&self, at: usize) -> Result<&Expr, String> {
        expr_of(&self.select.projection[at]).ok_or_else(|| "it is ordered by a *".to_owned())
    }

    /// An item's text without its alias.
    fn item_text(&self, at: usize) -> Result<&str, String> {
        let whole = self.piece(self.clauses.items[at])?;
        let SelectItem::ExprWithAlias { alias, .. } = &self.select.projection[at] else {
            return Ok(whole);
        };
        let start = self.clauses.items[at].start;
        let end = self
            .lines
            .byte(alias.span.start)
            .and_then(|it| it.checked_sub(start));
        let before = end.and_then(|end| whole.get(..end as usize));
        let text = before
            .ok_or_else(|| "an alias is not found".to_owned())?
            .trim_end();
        let cut = text
            .len()
            .checked_sub(2)
            .filter(|at| text.is_char_boundary(*at));
        let word = cut.map(|at| text.split_at(at));
        Ok(match word {
            Some((expr, word))
                if word.eq_ignore_ascii_case("AS")
                    && !expr.ends_with(|it: char| it.is_alphanumeric() || it == '_') =>
            {
                expr.trim_end()
            }
            _ => text,
        })
    }

    /// A stretch that can stand elsewhere.
    fn piece(&self, span: Span) -> Result<&str, String> {
        let text = &self.text[span.start as usize..span.end as usize];
        match ["--", "#", "/*"].iter().any(|it| text.contains(it)) {
            true => Err("it has a comment within an expression".to_owned()),
            false => Ok(text),
        }
    }

    /// No name in an expression of ORDER BY may mean an item of the select list.
    fn no_alias(&self, expr: &Expr) -> Result<(), String> {
        let aliases = self.select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(&alias.value),
            _ => None,
        });
        let aliases: Vec<&String> = aliases.collect();
        let named = sqlparser::ast::visit_expressions(expr, |it: &Expr| match it {
            Expr::Identifier(name) if aliases.iter().any(|alias| alike(alias, &name.value)) => {
                std::ops::ControlFlow::Break(())
            }
            _ => std::ops::ControlFlow::Continue(()),
        });
        match named.is_break() {
            true => Err("ORDER BY computes with a name of the select list".to_owned()),
            false => Ok(()),
        }
    }

    fn limited(&self, merging: &mut Merging) -> Result<(), String> {
        let Some(limit) = &self.clauses.limit else {
            return Ok(());
        };
        let number = |span: Span| {
            let text = &self.text[span.start as usize..span.end as usize];
            text.parse::<u64>()
                .map_err(|_| "its LIMIT is no number".to_owned())
        };
        merging.limit = Some(number(limit.count)?);
        merging.offset = limit.offset.map_or(Ok(0), number)?;
        Ok(())
    }

    /// The text with its additions.
    fn made(&self, additions: Additions) -> Result<(String, Merging), String> {
        let Additions {
            hidden,
            orders,
            replaces_orders,
            whole_groups,
            unlimited,
            mut merging,
            ..
        } = additions;
        merging.hidden = hidden.len();
        let items = self.clauses.items.last();
        let items = items.ok_or_else(|| "it selects nothing".to_owned())?.end as usize;
        let limit = self.clauses.limit.as_ref();
        let locks = self.clauses.locks.map(|it| it.start as usize);
        let end = self.clauses.end as usize;
        let tail = limit
            .map(|it| it.whole.start as usize)
            .or(locks)
            .unwrap_or(end);
        let first = self.clauses.orders.first();
        let before = match (first, replaces_orders) {
            (Some((span, _)), true) => span.start as usize,
            _ => tail,
        };
        let mut text = self.text[..items].to_owned();
        for (at, column) in hidden.iter().enumerate() {
            text.push_str(&format!(", {column} AS {}", self.own_name(at)));
        }
        match self.clauses.having.filter(|_| whole_groups) {
            None => text.push_str(&self.text[items..before]),
            Some(having) => {
                text.push_str(&self.text[items..having.start as usize]);
                text.push_str("TRUE");
                text.push_str(&self.text[having.end as usize..before]);
            }
        }
        if !orders.is_empty() {
            let word = match (first, replaces_orders) {
                (None, _) => " ORDER BY ",
                (Some(_), true) => "",
                (Some(_), false) => ", ",
            };
            // On a line of its own: a comment may stand in front of it.
            text.push_str(&format!("\n{word}{} ", orders.join(", ")));
        }
        let limit = limit.filter(|_| !(replaces_orders || whole_groups || unlimited));
        let tail = match (limit, &self.clauses.limit) {
            (None, Some(all)) => all.whole.end as usize,
            _ => tail,
        };
        match limit {
            None => text.push_str(&self.text[tail..]),
            Some(limit) => {
                let (count, offset) = (merging.limit.unwrap_or(u64::MAX), merging.offset);
                text.push_str(&format!("LIMIT {}", count.saturating_add(offset)));
                text.push_str(&self.text[limit.whole.end as usize..]);
            }
        }
        Ok((text, merging))
    }
}

fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(_))
}

/// The expressions of ORDER BY.
fn orders(query: &Query) -> Result<Vec<&Expr>, String> {
    match query.order_by.as_ref().map(|it| &it.kind) {
        None => Ok(Vec::new()),
        Some(OrderByKind::Expressions(all)) => Ok(all.iter().map(|it| &it.expr).collect()),
        Some(OrderByKind::All(_)) => Err("ORDER BY ALL".to_owned()),
    }
}
