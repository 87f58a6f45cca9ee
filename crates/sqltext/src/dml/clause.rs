//! Where the clauses of a plain SELECT stand, so that text can be put between them.
//!
//! Only the outermost level is looked at: what stands in parentheses belongs to the expression around
//! it. A SELECT with anything that is not named here (INTO, UNION, WINDOW, …) has no clauses.

use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Token};
use crate::scan::Span;

/// A SELECT of one query block. Spans hold no white space at their ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clauses {
    /// SELECT DISTINCT, or DISTINCTROW.
    pub distinct: bool,
    /// The items of the select list, with their aliases; at least one.
    pub items: Vec<Span>,
    /// What follows FROM; `None` without a FROM.
    pub from: Option<Span>,
    pub filter: Option<Span>,
    /// The expressions of GROUP BY, without directions.
    pub groups: Vec<Span>,
    /// GROUP BY has WITH ROLLUP.
    pub rollup: bool,
    pub having: Option<Span>,
    /// Each expression of ORDER BY, and whether it is descending.
    pub orders: Vec<(Span, bool)>,
    pub limit: Option<Limit>,
    /// FOR UPDATE, LOCK IN SHARE MODE, …: from there to the end.
    pub locks: Option<Span>,
    /// Where the statement ends, in front of a semicolon or white space.
    pub end: u32,
}

/// `LIMIT offset, count` in any of its forms. Both are literals or parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// From LIMIT to its last number.
    pub whole: Span,
    pub count: Span,
    pub offset: Option<Span>,
}

/// The clauses of a text that is one plain SELECT; `None` for everything else.
pub fn clauses(text: &[u8], mode: &Mode) -> Option<Clauses> {
    let mut lexer = Lexer::new(text, mode);
    let first = lexer.next();
    if first.kw != Kw::SELECT {
        return None;
    }
    let mut reader = Reader {
        text,
        found: Clauses::default(),
        clause: Clause::Modifiers,
        depth: 0,
        part: None,
        descending: false,
        limit: Vec::new(),
        comma: false,
        limit_from: 0,
        wants_by: false,
        past: Kw::SELECT,
    };
    loop {
        let token = lexer.next();
        if token.kind == Kind::End || token.kind == Kind::Semicolon {
            let ended = token.kind == Kind::End || lexer.next().kind == Kind::End;
            let sure = ended && !lexer.doubtful() && reader.depth == 0;
            return reader.finish().filter(|_| sure);
        }
        reader.see(&token)?;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clause {
    /// Between SELECT and the first item.
    Modifiers,
    Items,
    From,
    Filter,
    Groups,
    Having,
    Orders,
    Limit,
    Locks,
}

struct Reader<'a> {
    text: &'a [u8],
    found: Clauses,
    clause: Clause,
    depth: usize,
    /// The item or expression at hand.
    part: Option<(u32, u32)>,
    descending: bool,
    limit: Vec<Span>,
    /// LIMIT a, b.
    comma: bool,
    limit_from: u32,
    /// GROUP or ORDER went by.
    wants_by: bool,
    /// The keyword of the token before.
    past: Kw,
}

impl Reader<'_> {
    fn see(&mut self, token: &Token) -> Option<()> {
        let kw = token.kw;
        self.found.end = token.end;
        if self.depth == 0 && kw != Kw::NONE && self.clause_begins(token)? {
            self.past = kw;
            return Some(());
        }
        match token.kind {
            Kind::Open => self.depth += 1,
            Kind::Close => self.depth = self.depth.checked_sub(1)?,
            Kind::Comma if self.depth == 0 && self.clause != Clause::From => {
                self.comma = self.clause == Clause::Limit;
                self.end_part()?;
                self.past = kw;
                return Some(());
            }
            _ => {}
        }
        if self.depth == 0 && !self.belongs(token)? {
            self.past = kw;
            return Some(());
        }
        let (start, _) = *self.part.get_or_insert((token.start, token.end));
        self.part = Some((start, token.end));
        self.past = kw;
        Some(())
    }

    /// True when the token leads to another clause; `None` when to one that is not known.
    fn clause_begins(&mut self, token: &Token) -> Option<bool> {
        let next = match token.kw {
            Kw::FROM => Clause::From,
            Kw::WHERE => Clause::Filter,
            Kw::HAVING => Clause::Having,
            Kw::LIMIT => Clause::Limit,
            Kw::GROUP => Clause::Groups,
            Kw::ORDER => Clause::Orders,
            Kw::LOCK => Clause::Locks,
            // Index hints are FOR JOIN, FOR ORDER BY, FOR GROUP BY; they stand in parentheses' stead.
            Kw::FOR if self.clause == Clause::From && self.in_index_hint() => return None,
            Kw::FOR => Clause::Locks,
            Kw::INTO | Kw::UNION | Kw::PROCEDURE | Kw::FETCH => return None,
            _ => return Some(false),
        };
        if self.clause == Clause::Locks {
            return Some(false);
        }
        // FROM and LIMIT in front of an item: a function's own word would stand in parentheses.
        if next < self.clause || self.clause == Clause::Modifiers {
            return None;
        }
        self.part_ends_here()?;
        self.clause = next;
        self.wants_by = matches!(next, Clause::Groups | Clause::Orders);
        match next {
            Clause::Limit => self.limit_from = token.start,
            Clause::Locks => self.part = Some((token.start, token.end)),
            _ => {}
        }
        Some(true)
    }

    fn in_index_hint(&self) -> bool {
        matches!(self.past, Kw::INDEX | Kw::KEY)
    }

    fn part_ends_here(&mut self) -> Option<()> {
        if self.part.is_some() || !matches!(self.clause, Clause::Limit | Clause::Modifiers) {
            self.end_part()?;
        }
        Some(())
    }

    /// Whether the token is a part of the expression at hand, and not a word of the clause.
    fn belongs(&mut self, token: &Token) -> Option<bool> {
        let word = token.bytes(self.text);
        if std::mem::take(&mut self.wants_by) {
            return (token.kw == Kw::BY).then_some(false);
        }
        let is =
            |name: &str| token.kind == Kind::Word && word.eq_ignore_ascii_case(name.as_bytes());
        match self.clause {
            Clause::Modifiers => {
                if matches!(token.kw, Kw::DISTINCT | Kw::DISTINCTROW) {
                    self.found.distinct = true;
                } else if token.kw == Kw::SQL_CALC_FOUND_ROWS {
                    return None;
                } else if !(matches!(
                    token.kw,
                    Kw::ALL
                        | Kw::HIGH_PRIORITY
                        | Kw::STRAIGHT_JOIN
                        | Kw::SQL_SMALL_RESULT
                        | Kw::SQL_BIG_RESULT
                ) || is("SQL_BUFFER_RESULT")
                    || is("SQL_CACHE")
                    || is("SQL_NO_CACHE"))
                {
                    self.clause = Clause::Items;
                    return Some(true);
                }
                Some(false)
            }
            Clause::Groups | Clause::Orders if token.kw == Kw::ASC => Some(false),
            Clause::Orders if token.kw == Kw::DESC => {
                self.descending = true;
                Some(false)
            }
            // MySQL 5.7's GROUP BY a DESC orders, too.
            Clause::Groups if token.kw == Kw::DESC => None,
            Clause::Groups if token.kw == Kw::WITH => Some(false),
            Clause::Groups if self.past == Kw::WITH && is("ROLLUP") => {
                self.found.rollup = true;
                Some(false)
            }
            Clause::Limit if is("OFFSET") => {
                self.end_part()?;
                Some(false)
            }
            Clause::Limit if is("ROWS") => None,
            Clause::From | Clause::Having if is("WINDOW") || is("EXCEPT") || is("INTERSECT") => {
                None
            }
            Clause::Filter if is("WINDOW") || is("EXCEPT") || is("INTERSECT") => None,
            _ => Some(true),
        }
    }

    fn end_part(&mut self) -> Option<()> {
        let (start, end) = self.part.take()?;
        let span = Span { start, end };
        let found = &mut self.found;
        match self.clause {
            Clause::Modifiers => return None,
            Clause::Items => found.items.push(span),
            Clause::From => found.from = Some(span),
            Clause::Filter => found.filter = Some(span),
            Clause::Groups => found.groups.push(span),
            Clause::Having => found.having = Some(span),
            Clause::Orders => {
                let descending = std::mem::take(&mut self.descending);
                found.orders.push((span, descending));
            }
            Clause::Limit => self.limit.push(span),
            Clause::Locks => found.locks = Some(span),
        }
        Some(())
    }

    fn finish(mut self) -> Option<Clauses> {
        self.end_part()?;
        let end = |span: Span| Span {
            start: self.limit_from,
            end: span.end,
        };
        self.found.limit = match self.limit[..] {
            [] => None,
            [count] => Some(Limit {
                whole: end(count),
                count,
                offset: None,
            }),
            [offset, count] if self.comma => Some(Limit {
                whole: end(count),
                count,
                offset: Some(offset),
            }),
            [count, offset] => Some(Limit {
                whole: end(offset),
                count,
                offset: Some(offset),
            }),
            _ => return None,
        };
        Some(self.found)
    }
}

impl PartialOrd for Clause {
    fn partial_cmp(&self, other: &Clause) -> Option<std::cmp::Ordering> {
        (*self as u8).partial_cmp(&(*other as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let Some(found) = clauses(
            text.as_bytes(),
            &Mode::new(crate::lexer::mode::Dialect::MariaDb, 101_100),
        ) else {
            return "none".to_owned();
        };
        let of = |span: Span| text[span.start as usize..span.end as usize].to_owned();
        let all = |spans: &[Span]| {
            spans
                .iter()
                .map(|it| of(*it))
                .collect::<Vec<_>>()
                .join("; ")
        };
        let mut parts = vec![all(&found.items)];
        let mut push = |name: &str, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                parts.push(format!("{name}[{value}]"));
            }
        };
        push("distinct", found.distinct.then(|| "yes".to_owned()));
        push("from", found.from.map(of));
        push("where", found.filter.map(of));
        push("group", Some(all(&found.groups)));
        push("rollup", found.rollup.then(|| "yes".to_owned()));
        push("having", found.having.map(of));
        let orders = found.orders.iter().map(|(span, descending)| {
            format!("{}{}", of(*span), if *descending { " down" } else { "" })
        });
        push("order", Some(orders.collect::<Vec<_>>().join("; ")));
        push(
            "limit",
            found.limit.map(|limit| {
                format!(
                    "{}: {} from {:?}",
                    of(limit.whole),
                    of(limit.count),
                    limit.offset.map(of)
                )
            }),
        );
        push("locks", found.locks.map(of));
        parts.join(" ")
    }

    #[test]
    fn clauses_are_found() {
        for (text, expected) in [
            ("SELECT 1", "1"),
            (
                "select a, f(b, (c)) x , 'd,e' from t",
                "a; f(b, (c)) x; 'd,e' from[t]",
            ),
            (
                "SELECT DISTINCT SQL_NO_CACHE a FROM t, u JOIN v ON (u.x = v.x) WHERE a = 1 AND b IN (1, 2);",
                "a distinct[yes] from[t, u JOIN v ON (u.x = v.x)] where[a = 1 AND b IN (1, 2)]",
            ),
            (
                "SELECT a, COUNT(*) FROM t GROUP BY a ASC, f(b) WITH ROLLUP HAVING COUNT(*) > 1 ORDER BY 2 DESC, a LIMIT 5",
                "a; COUNT(*) from[t] group[a; f(b)] rollup[yes] having[COUNT(*) > 1] order[2 down; a] limit[LIMIT 5: 5 from None]",
            ),
            (
                "SELECT a FROM t LIMIT 5, 6",
                "a from[t] limit[LIMIT 5, 6: 6 from Some(\"5\")]",
            ),
            (
                "SELECT a FROM t LIMIT 6 OFFSET 5 ",
                "a from[t] limit[LIMIT 6 OFFSET 5: 6 from Some(\"5\")]",
            ),
            (
                "SELECT a FROM t ORDER BY (SELECT b FROM u LIMIT 1) LIMIT ? FOR UPDATE",
                "a from[t] order[(SELECT b FROM u LIMIT 1)] limit[LIMIT ?: ? from None] locks[FOR UPDATE]",
            ),
            (
                "SELECT a FROM t LOCK IN SHARE MODE",
                "a from[t] locks[LOCK IN SHARE MODE]",
            ),
            (
                "SELECT /* a, b */ `from`, t.`order` FROM `group`",
                "`from`; t.`order` from[`group`]",
            ),
            (
                "SELECT TRIM(LEADING 'x' FROM a) FROM t",
                "TRIM(LEADING 'x' FROM a) from[t]",
            ),
            ("SELECT a -- , b\n FROM t # , c", "a from[t]"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn the_last_word_belongs_to_the_statement() {
        for text in [
            "SELECT a FROM t ORDER BY a DESC",
            "SELECT a FROM t GROUP BY a WITH ROLLUP",
            "SELECT a FROM t LIMIT 3",
            "SELECT a FROM t FOR UPDATE",
        ] {
            let mode = Mode::new(crate::lexer::mode::Dialect::MariaDb, 101_100);
            let end = |text: &str| clauses(text.as_bytes(), &mode).map(|it| it.end as usize);
            assert_eq!(end(text), Some(text.len()), "{text}");
            assert_eq!(end(&format!("{text} ;")), Some(text.len()), "{text}");
        }
    }

    #[test]
    fn what_is_no_plain_select_has_none() {
        for text in [
            "",
            "SELECT",
            "SELECT FROM t",
            "SELECT a,",
            "SELECT a FROM t WHERE",
            "SELECT a FROM t UNION SELECT b FROM u",
            "SELECT a FROM t EXCEPT SELECT b FROM u",
            "SELECT a INTO @x FROM t",
            "SELECT SQL_CALC_FOUND_ROWS a FROM t",
            "SELECT a FROM t LIMIT 1, 2, 3",
            "SELECT a FROM t LIMIT 5 ROWS EXAMINED 10",
            "SELECT a FROM t WINDOW w AS (ORDER BY b)",
            "SELECT a FROM t; SELECT b FROM u",
            "SELECT (a FROM t",
            "SELECT a) FROM t",
            "SELECT 'a FROM t",
            "SELECT a FROM t ORDER a",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "(SELECT 1)",
        ] {
            assert_eq!(shown(text), "none", "{text}");
        }
    }
}
