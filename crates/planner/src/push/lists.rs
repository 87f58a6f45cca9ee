//! Lists of a group's values, of which every shard has a part: what of GROUP_CONCAT, JSON_ARRAYAGG and JSON_OBJECTAGG
//! the merge can put together; and why other aggregates have no parts.
//!
//! The order of a list is open where the statement does not give it. Where it does, the list is ordered by the
//! very numbers or days that it has, so that they are found and compared in its text.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, OrderByExpr, OrderBySort, Value,
};
use sqltext::Dialect;

use super::kinds::{self, Kind, arguments};
use super::shape::Uses;
use super::{Additions, Read};
use crate::merge::{Aggregate, Around, Comparison, List};

/// The most bytes of a list, as its text arrives: a character has four bytes on the server at most.
const MOST: &str = "@@group_concat_max_len DIV 4";

/// The same of digits, which have as many bytes as the session's character set gives them.
const MOST_DIGITS: &str = "@@group_concat_max_len DIV LENGTH(CONCAT(1))";

impl Read<'_> {
    /// GROUP_CONCAT, JSON_ARRAYAGG and JSON_OBJECTAGG: how their parts become one, in the plan's lists.
    ///
    /// # Errors
    /// Why they do not.
    pub(super) fn list(
        &self,
        additions: &mut Additions,
        function: &Function,
    ) -> Result<Aggregate, String> {
        let name = function.name.to_string().to_ascii_lowercase();
        let not = |why: &str| format!("{}: {why}", name.to_ascii_uppercase());
        let FunctionArguments::List(list) = &function.args else {
            return Err(unparted(&name));
        };
        if list.duplicate_treatment.is_some() || Uses::of(&list.args).aggregates {
            return Err(unparted(&name));
        }
        let dialect = self.partition.asked.mode.dialect;
        let around = self.around(&name, function)?;
        let array = around == Around::Brackets;
        let plain = around == Around::Nothing;
        if plain && dialect == Dialect::MySql && self.sorts_again(additions) {
            return Err(not("its type depends on how groups are sorted"));
        }
        let mut made = List {
            separator: match (array, dialect) {
                (true, Dialect::MySql) => b", ".to_vec(),
                (false, _) if !plain => b", ".to_vec(),
                _ => b",".to_vec(),
            },
            around,
            order: None,
            most: None,
        };
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::Separator(value) if plain => {
                    let separator = separator_of(&value.value);
                    made.separator = separator
                        .ok_or_else(|| not("its separator is not sure"))?
                        .to_vec();
                }
                FunctionArgumentClause::OrderBy(orders) if plain => {
                    let order = self.order_of_list(list, orders);
                    made.order =
                        Some(order.ok_or_else(|| {
                            not("it is ordered by other than its own number or day")
                        })?);
                }
                _ => return Err(unparted(&name)),
            }
        }
        if made.order.is_some() && !stands_out(&made.separator) {
            return Err(not("its separator may be a part of its values"));
        }
        // Servers cut no objects, and MySQL no arrays.
        if plain || array && dialect == Dialect::MariaDb {
            let most = match made.order {
                Some(_) => MOST_DIGITS,
                None => MOST,
            };
            made.most = Some(self.hidden_once(additions, most));
        }
        additions.merging.lists.push(made);
        Ok(Aggregate::List(additions.merging.lists.len() - 1))
    }

    /// What stands around the lists of an aggregate.
    ///
    /// # Errors
    /// Parts of it do not become one.
    fn around(&self, name: &str, function: &Function) -> Result<Around, String> {
        match (name, self.partition.asked.mode.dialect) {
            ("json_arrayagg", _) => Ok(Around::Brackets),
            ("json_objectagg", Dialect::MariaDb) => Ok(Around::Braces),
            ("json_objectagg", Dialect::MySql) => {
                // Of a name that is there twice the last value counts.
                let first = arguments(function).into_iter().next();
                let is_name = |it: &Expr| {
                    self.partition.is_live_key(it)
                        && kinds::of(&self.partition.names, it) == Some(Kind::Exact)
                };
                match first.is_some_and(is_name) {
                    true => Ok(Around::SortedBraces),
                    false => Err(unparted(name)),
                }
            }
            _ => Ok(Around::Nothing),
        }
    }

    /// Groups are sorted otherwise than they are made: MySQL then has them in a temporary table, and calls a
    /// list a TEXT that it calls a LONGTEXT else. Shards sort them in another way.
    fn sorts_again(&self, additions: &Additions) -> bool {
        let several = self.clauses.groups.len() > 1 || self.ordered.len() > 1;
        !self.ordered.is_empty() && (additions.replaces_orders || several)
    }

    /// The place of a hidden column that is the same in all rows.
    fn hidden_once(&self, additions: &mut Additions, text: &str) -> usize {
        let at = additions.hidden.iter().position(|it| it == text);
        let at = at.unwrap_or_else(|| {
            additions.hidden.push(text.to_owned());
            additions.parts.push(Aggregate::First);
            additions.hidden.len() - 1
        });
        self.select.projection.len() + at
    }

    /// How a list's values are compared: it has one, and is ordered by it first; what is equal in that is the
    /// same.
    fn order_of_list(
        &self,
        list: &FunctionArgumentList,
        orders: &[OrderByExpr],
    ) -> Option<(Comparison, bool)> {
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = &list.args[..] else {
            return None;
        };
        let first = orders.first()?;
        let names = &self.partition.names;
        let (table, column) = names.column(value)?;
        if !self.same(value, &first.expr) || names.entries[table].derived {
            return None;
        }
        let how = match kinds::of_column(column)? {
            Kind::Exact => Comparison::Number,
            Kind::Day => Comparison::Bytes,
            _ => return None,
        };
        let descending = match &first.options.sort {
            None | Some(OrderBySort::Asc) => false,
            Some(OrderBySort::Desc) => true,
            Some(OrderBySort::Using(_)) => return None,
        };
        Some((how, descending))
    }

    /// ANY_VALUE of a group: any part's value is one. It makes no groups by itself, so there must be some; of
    /// those of a ROLLUP some have NULL for what they are grouped by.
    pub(super) fn is_any_value(&self, function: &Function) -> bool {
        let name = function.name.to_string();
        let plain = matches!(&arguments(function)[..], [one] if !Uses::of(*one).aggregates);
        name.eq_ignore_ascii_case("any_value")
            && self.partition.asked.mode.dialect == Dialect::MySql
            && function.over.is_none()
            && self.groups().is_ok_and(|it| !it.is_empty())
            && plain
    }
}

/// A separator in plain quotes and ASCII letters, which every character set has.
fn separator_of(value: &Value) -> Option<&[u8]> {
    match value {
        Value::SingleQuotedString(text) if text.is_ascii() && !text.contains(['\\', '\'']) => {
            Some(text.as_bytes())
        }
        _ => None,
    }
}

/// It cannot be found in numbers and days, nor across the ends of two.
fn stands_out(separator: &[u8]) -> bool {
    let own = |byte: &u8| byte.is_ascii_digit() || b".-:".contains(byte);
    !separator.iter().any(own) && separator.iter().any(|byte| *byte != b' ')
}

/// Why parts of an aggregate do not become one.
pub(super) fn unparted(name: &str) -> String {
    let shown = name.to_ascii_uppercase();
    match name {
        "std" | "stddev" | "stddev_pop" | "stddev_samp" | "variance" | "var_pop" | "var_samp" => {
            format!(
                "{shown} adds floating-point numbers in the order of the rows: made of parts its last digits \
                 would differ"
            )
        }
        "json_objectagg" => {
            format!(
                "{shown} keeps the last value of a name, and parts do not tell which it is where the name is no shard \
                 key of integers"
            )
        }
        _ => format!("{name} of parts is not known"),
    }
}

/// The same of a sum.
pub(super) fn unsummed(name: &str, kind: Option<Kind<'_>>) -> String {
    match kind {
        Some(Kind::Double | Kind::Single) => format!(
            "{} of floating-point numbers depends on their order: made of parts its last digits would differ",
            name.to_ascii_uppercase()
        ),
        _ => unparted(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_that_no_number_has() {
        for text in [",", ", ", " | ", "a", ";;"] {
            assert!(stands_out(text.as_bytes()), "{text}");
        }
        for text in ["", " ", "-", "0", ":", ", 1", "."] {
            assert!(!stands_out(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn reasons_say_why() {
        assert!(unparted("stddev_pop").starts_with("STDDEV_POP adds floating-point numbers"));
        assert!(unsummed("sum", Some(Kind::Double)).starts_with("SUM of floating-point numbers"));
        assert_eq!(
            unsummed("avg", Some(Kind::Bytes)),
            "avg of parts is not known"
        );
    }
}
